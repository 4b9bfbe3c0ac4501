"""The dashboard: what publishing costs a loop at 15,000 nodes, and how the page does in a real browser.

`unwatched_seconds` is added to a loop of `loop-15k`'s cluster while nobody watches, `watched_seconds` while somebody
does; `whole_bytes` is what a reader gets first, `change_bytes` after a loop in which one node changed;
`history_seconds` is one sample of the history, which is taken every 30 s at most.

Then the page: the story of tests/web/town.yaml, two thousand nodes, is played for its hour at 60 times real time while
people click nodes and pods and press keys. `interaction_ms` is the time from a click or key to the next picture, and
`over_100_ms` what happened in those that took longer (`dashboard_waits`). `stolen_percent` is what the host gave of the
machine's cores to others, `heap_mib` what the page holds after a garbage collection, every ten simulated minutes.

`python -m benchmarks.dashboard pictures` writes the pictures of docs/pictures instead.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import dashboard_waits as waits
from benchmarks import loop_15k, loops
from tests.web import chromium
from tests.web.dashboard_process import play
from windlass.cli import scenario_input
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.explain.decision_view import DecisionView
from windlass.observability import history, status_builder, status_model
from windlass.observability.status_publisher import StatusPublisher
from windlass.simulator import autoscaler_run
from windlass.simulator.report import page as report_page

ROOT = Path(__file__).parents[1]
TOWN = ROOT / "tests" / "web" / "town.yaml"
PICTURES = ROOT / "docs" / "pictures"
SPEED, HOUR_S, LOOKS = 60.0, 3600.0, 6
ROUNDS = 10

CLOCK_S = "document.getElementById('clock').dataset.atS"
_EVENTFUL = """document.querySelectorAll("#timeline li").length > 12 && [...document.querySelectorAll(".states")]
  .some((line) => /[0-9]+ (booting|requested|draining)/.test(line.textContent))"""


def run() -> dict[str, Any]:
    found = asyncio.run(measure_publishing())
    binary = chromium.find()
    if binary is None:
        return {**found, "page": "not measured: there is no chromium here"}
    return {**found, **asyncio.run(measure_page(binary))}


async def measure_publishing() -> dict[str, Any]:
    """Within an event loop, because watchers live in one."""
    cluster = loop_15k.Cluster(loop_15k.NODES)
    decision = decide(cluster.seen, LoopMemory(), loop_15k.settings(), loops.NOW_S)
    view, past = DecisionView(decision), history.HistoryBuffer(0.0)
    figures = [status_builder.measure_cluster(view.observation, loops.NOW_S + second) for second in range(ROUNDS)]
    sampled = [_time(lambda figure=figure: past.note(view, figure)) for figure in figures]
    published = StatusPublisher(lambda: loops.NOW_S)
    published.on_decision(DecisionView(decision), loops.NOW_S)  # the decision itself is told once
    unwatched = [_time(lambda: published.on_decision(DecisionView(decision), loops.NOW_S)) for _ in range(ROUNDS)]
    with published.watch() as watcher:
        watched = [_time(lambda: published.on_decision(DecisionView(decision), loops.NOW_S)) for _ in range(ROUNDS)]
        (whole,) = published.take_messages(watcher)
    before = published.status
    assert before is not None
    other = msgspec.structs.replace(before.nodes[7], cpu=0.123)
    after = msgspec.structs.replace(before, nodes=(*before.nodes[:7], other, *before.nodes[8:]))
    return {
        "seconds": statistics.median(unwatched),
        "unwatched_seconds": statistics.median(unwatched),
        "watched_seconds": statistics.median(watched),
        "history_seconds": statistics.median(sampled),
        "whole_bytes": len(whole.data),
        "change_bytes": len(msgspec.json.encode(status_model.diff_status(before, after))),
    }


def _time(act: Any) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


async def measure_page(binary: str) -> dict[str, Any]:
    with play(TOWN, SPEED) as stage:
        async with chromium.browse(binary) as page:
            await page.resize(1440, 900)
            await page.open(stage.url)
            await page.wait("document.querySelectorAll('.card').length >= 6", 120)
            await page.wait(f"{CLOCK_S} !== undefined", 60)  # what comes first is shown in pieces
            heaps, began_s = [await page.heap_bytes()], await _now_s(page)
            await waits.begin(page)
            with waits.watch() as machine:
                for look in range(1, LOOKS + 1):
                    while not await _is_over(page) and await _now_s(page) - began_s < look * HOUR_S / LOOKS - 60:
                        await interact(page)
                    heaps.append(await page.heap_bytes())
            waited = await waits.report(page, machine)
            status = await page.ask("fetch('published').then((answer) => answer.json())")
            leaks = [url for url in page.requests if not url.startswith(stage.url)]
    return {
        **waited,
        **mib(heaps),
        "simulated_seconds": round(float(status["cluster"]["at_s"]) - began_s),
        "nodes": status["cluster"]["nodes"],
        "requests_elsewhere": len(leaks),
    }


def mib(heaps: list[int]) -> dict[str, Any]:
    return {"heap_mib": [round(item / 2**20, 1) for item in heaps]}


async def _now_s(page: chromium.Page) -> float:
    """By the story's clock."""
    return float(await page.ask(CLOCK_S))


async def _is_over(page: chromium.Page) -> bool:
    return bool(await page.ask("document.getElementById('link').textContent === 'over'"))


async def interact(page: chromium.Page) -> None:
    """What a person does: look at a node by mouse and by keys, at a pod, close it, look for another colour."""
    box = await page.ask("document.querySelector('.cells').getBoundingClientRect().toJSON()")
    await page.click(box["x"] + 30, box["y"] + 20)
    await asyncio.sleep(0.3)
    await page.press("Escape")
    for key in ("n", "ArrowRight", "ArrowDown", "Enter"):
        await page.press(key)
    await asyncio.sleep(0.3)
    for key in ("Escape", "p", "Enter"):
        await page.press(key)
    await asyncio.sleep(0.3)
    for key in ("Escape", "c"):
        await page.press(key)
    await asyncio.sleep(0.5)


async def take_pictures(binary: str) -> None:
    """As the documents show them: light and dark, a node, a pod and a decision, a phone, a report."""
    PICTURES.mkdir(exist_ok=True)
    with play(TOWN, SPEED) as stage:
        async with chromium.browse(binary) as page:
            await page.resize(1440, 900)
            await page.prefer("light")
            await page.open(stage.url)
            await page.wait("document.querySelector('.states') !== null", 120)
            # Until enough happened: nodes are unneeded, some leave, some were asked for and never came.
            await page.wait(_EVENTFUL, 300)
            await take(page, "dashboard-light")
            await page.prefer("dark")
            await take(page, "dashboard-dark")
            for key in ("n", "ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
                await page.press(key)
            await page.wait("document.querySelector('#panel-answer pre') !== null")
            await take(page, "dashboard-node")
            for key in ("Escape", "p", "Enter"):
                await page.press(key)
            await page.wait("document.querySelector('#panel-answer pre') !== null")
            await page.prefer("light")
            await take(page, "dashboard-pod")
            await page.press("Escape")
            await page.ask("document.querySelector('.h-kind.kind-up input').click()")
            await page.wait("document.querySelector('#timeline .kind-up') !== null")
            await page.ask("[...document.querySelectorAll('#timeline .kind-up')].at(-1).click()")
            await page.wait("document.getElementById('panel-answer').textContent.includes('Options')")
            await take(page, "dashboard-decision")
            await page.press("Escape")
            await page.ask("document.querySelector('.h-kind.kind-up input').click()")
            await page.resize(390, 844, scale=1.5, is_phone=True)
            await take(page, "dashboard-phone")
            await take_report(page)


async def take_report(page: chromium.Page) -> None:
    """Of the scenario that the quick start plays."""
    (scenario,) = scenario_input.read_scenarios(["stock-out"], [], None)
    with tempfile.TemporaryDirectory() as home:
        place = Path(home) / "report.html"
        # In a thread: a simulation has an event loop of its own.
        run = await asyncio.to_thread(autoscaler_run.run_scenario, "as written", scenario, None, lambda _: None)
        place.write_text(report_page.render_report([run]))
        await page.resize(1200, 1000)
        await page.open(place.as_uri())
        await page.wait("document.querySelectorAll('.h-row').length > 0")
        await take(page, "report")


async def take(page: chromium.Page, name: str) -> None:
    await asyncio.sleep(0.5)
    (PICTURES / f"{name}.png").write_bytes(await page.picture())


if __name__ == "__main__" and sys.argv[1:] == ["pictures"]:
    found = chromium.find()
    if found is None:
        sys.exit("there is no chromium here: apt-get install chromium")
    asyncio.run(take_pictures(found))
