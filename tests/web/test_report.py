"""A report in a real browser: one file, whose history is that of the dashboard: axis, filters, links, details."""

import json
import re
from pathlib import Path

import pytest

from tests.web import chromium
from tests.web.test_history import LINES, PERIOD, VIEW, drag
from windlass.cli import scenario_input
from windlass.simulator import autoscaler_run
from windlass.simulator.report import page
from windlass.simulator.simulation import ScenarioRun

pytestmark = [pytest.mark.xdist_group("dashboard"), pytest.mark.asyncio(loop_scope="module")]

ROWS = "[...document.querySelectorAll('.h-row')].map((row) => row.textContent)"
ANSWER = "document.querySelector('.h-detail .answer').textContent"
OPEN = "!document.querySelector('.h-detail').hidden"
REPORT_VIEW = VIEW.replace("document.getElementById('panel-title')", "document.getElementById('detail-title')").replace(
    "document.getElementById('panel')", "document.querySelector('.h-detail')"
)


@pytest.fixture(scope="module")
def run() -> ScenarioRun:
    """With a currency and a name."""
    (scenario,) = scenario_input.read_scenarios(["stock-out"], ["flags.currency=$", "flags.cluster-name=prod"], None)
    return autoscaler_run.run_scenario("as written", scenario, None, lambda _: None)


@pytest.fixture(scope="module")
def report(run: ScenarioRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "report.html"
    place.write_text(page.render_report([run]))
    return place


async def begin(tab: chromium.Page, report: Path, link: str = "") -> None:
    await tab.open("about:blank")
    tab.complaints.clear()
    tab.requests.clear()
    await tab.resize(1440, 1200)
    await tab.open(f"{report.as_uri()}{link}")
    await tab.wait(f"{LINES} !== '' && {ROWS}.length > 0")


async def test_a_report_asks_for_nothing_and_has_one_count_of_decisions(tab: chromium.Page, report: Path) -> None:
    await begin(tab, report)
    rows = await tab.ask(ROWS)
    assert await tab.ask("document.querySelector('.h-title').textContent") == f"Decisions {len(rows)}"
    text = await tab.ask("document.body.innerText")
    (counted,) = re.findall(r"^decisions\t(\d+)", text, re.MULTILINE)
    assert int(counted) == len(rows)
    assert "prod · " in text
    assert "$" in text
    assert [url for url in tab.requests if not url.startswith("file://")] == []
    assert tab.complaints == []


async def test_a_link_to_a_report_shows_the_same_view(tab: chromium.Page, report: Path) -> None:
    await begin(tab, report)
    await drag(tab, 0.1, 0.3)
    await tab.ask(
        "((select) => { select.value = [...select.options].find((one) => one.text === 'cheap').value;"
        " select.dispatchEvent(new Event('change')); })(document.querySelector('[aria-label=\"Node group\"]'))"
    )
    await tab.wait(f"{ROWS}.length === 3 && {ROWS}.every((row) => row.includes('cheap'))")
    await tab.ask("document.querySelector('.h-row.kind-up').click()")
    await tab.wait(f"{OPEN} && location.hash.includes('open=')")
    link, view, lines = await tab.ask("location.hash"), await tab.ask(REPORT_VIEW), await tab.ask(LINES)
    await begin(tab, report, link)
    await tab.wait(OPEN)
    assert await tab.ask(REPORT_VIEW) == view
    assert await tab.ask(LINES) == lines


async def test_a_decision_of_a_report_tells_what_followed(tab: chromium.Page, report: Path) -> None:
    await begin(tab, report)
    await tab.ask("document.querySelector('.h-row.kind-up').click()")
    answer = await tab.ask(ANSWER)
    for part in ("dropped by least-waste", "chosen", "$", "7 nodes of cheap failed: timeout", "--at 2026-01-05T00:45:"):
        assert part in answer
    await tab.press("Escape")
    assert not await tab.ask(OPEN)
    await tab.ask("[...document.querySelectorAll('.h-row.kind-up')].at(-1).click()")
    assert "nodes (dear-" in (await tab.ask(ANSWER)).split("What followed")[1]


async def test_a_report_is_operated_by_keys(tab: chromium.Page, report: Path) -> None:
    await begin(tab, report)
    whole = await tab.ask(PERIOD)
    await tab.ask("document.querySelector('[role=slider]').focus()")
    for key in ("[", "[", "Enter"):
        await tab.press(key)
    assert await tab.ask(OPEN)
    assert await tab.ask("document.activeElement.id") == "detail-title"
    await tab.press("Escape")
    assert await tab.ask("document.activeElement.getAttribute('role')") == "slider"
    await tab.press("1")
    await tab.wait(f"{PERIOD} !== {whole!r}")


async def test_several_runs_share_the_axis(tab: chromium.Page, run: ScenarioRun, tmp_path: Path) -> None:
    place = tmp_path / "report.html"
    place.write_text(page.render_report([run, run]))
    await begin(tab, place)
    whole = await tab.ask(PERIOD)
    await drag(tab, 0.1, 0.5)
    await tab.wait(f"{PERIOD} !== {whole!r}")
    periods = "[...document.querySelectorAll('.h-period')].map((one) => one.textContent)"
    await tab.wait(f"new Set({periods}.filter(Boolean)).size === 1")
    assert "05:00:00" not in await tab.ask(PERIOD)
    assert tab.complaints == []


async def test_the_data_of_a_report_is_that_of_the_run(report: Path) -> None:
    (data,) = re.findall(r'class="data">(.*?)</script>', report.read_text())
    found = json.loads(data)
    assert found["count"] == len(found["decisions"]) == 5
    assert [one["number"] for one in found["decisions"]] == list(range(5))
    for sample in found["samples"]:
        nodes, groups = sample[1], sample[6]
        assert nodes == sum(groups[::6])
        assert sample[5] == pytest.approx(sum(groups[5::6]))
        assert sum(sample[7]) == sample[2]
