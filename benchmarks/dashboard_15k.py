"""The page with 15,000 nodes and 450,000 pods, in a real browser, while the autoscaler beside it decides.

A process of its own has `loop-15k`'s cluster: every two seconds 450 of its pods are replaced by others elsewhere, a
loop is decided and published, and questions are answered in between. `whole_ms` is the time from opening the page until
every node is drawn; the rest is as in `dashboard`.

`python -m benchmarks.dashboard_15k serve` is that process; `… picture` writes docs/pictures/dashboard-15k.png.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from benchmarks import dashboard, loop_15k, loops
from benchmarks import dashboard_waits as waits
from tests.web import chromium
from tests.web.dashboard_process import Stage
from windlass import errors
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context
from windlass.explain.decision_view import DecisionView
from windlass.observability.options import DashboardOptions
from windlass.observability.status_publisher import StatusPublisher
from windlass.web import dashboard as web_dashboard

T = TypeVar("T")
EVERY_S, WATCHED_S = 2.0, 60.0
REPLACED = 0.001
"""Of all pods, in every loop."""
_DRAWN = """[...document.querySelectorAll(".size")].reduce((sum, one) => sum + (+one.textContent || 0), 0) >= 15000
  && [...document.querySelectorAll(".cells:not([hidden])")].every((canvas) => canvas.height > 1)"""


class Autoscaler:
    """Decides, publishes, and can be asked in between."""

    past_choices: Mapping[str, explain_context.PastChoice] = {}
    set_aside: tuple[errors.InvalidObject, ...] = ()

    def __init__(self) -> None:
        self._cluster = loop_15k.Cluster(loop_15k.NODES)
        self._memory, self._settings, self._now_s = LoopMemory(), loop_15k.settings(), loops.NOW_S
        self._turn = asyncio.Lock()
        self.published = StatusPublisher(lambda: self._now_s)

    async def run(self) -> None:
        while True:
            async with self._turn:
                await asyncio.to_thread(self._go_round)
            await asyncio.sleep(EVERY_S)

    def _go_round(self) -> None:
        self._now_s += loop_15k.INTERVAL_S
        self._cluster.replace_pods(REPLACED)
        observation = self._cluster.seen
        decision = decide(observation, self._memory, self._settings, self._now_s)
        self._memory = decision.memory
        self.published.on_decision(DecisionView(decision), self._now_s)
        self._cluster.execute(decision.plan)

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(question, self._cluster.seen, self._memory, self._settings, self._now_s)


async def serve() -> None:
    autoscaler = Autoscaler()
    async with web_dashboard.serve_dashboard(DashboardOptions("127.0.0.1:0"), autoscaler.published, autoscaler) as url:
        print(f"dashboard: {url}", file=sys.stderr, flush=True)
        await autoscaler.run()


def stage() -> Stage:
    return Stage("-m", "benchmarks.dashboard_15k", "serve")


def run() -> dict[str, Any]:
    binary = chromium.find()
    if binary is None:
        return {"page": "not measured: there is no chromium here"}
    return asyncio.run(measure(binary))


async def measure(binary: str) -> dict[str, Any]:
    with stage() as served:
        async with chromium.browse(binary) as page:
            await page.resize(1440, 900)
            began_s = time.monotonic()
            await page.open(served.url)
            await page.wait(_DRAWN, 120)
            whole_s = time.monotonic() - began_s
            await waits.begin(page)
            heaps, ends_s = [await page.heap_bytes()], time.monotonic() + WATCHED_S
            with waits.watch() as machine:
                while time.monotonic() < ends_s:
                    await dashboard.interact(page)
            heaps.append(await page.heap_bytes())
            return {"whole_ms": round(whole_s * 1000), **await waits.report(page, machine), **dashboard.mib(heaps)}


async def take_picture(binary: str) -> None:
    with stage() as served:
        async with chromium.browse(binary) as page:
            await page.resize(1440, 900)
            await page.prefer("dark")
            await page.open(served.url)
            await page.wait(_DRAWN, 120)
            await asyncio.sleep(3 * EVERY_S)
            await dashboard.take(page, "dashboard-15k")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    elif sys.argv[1:] == ["picture"] and (found := chromium.find()):
        asyncio.run(take_picture(found))
