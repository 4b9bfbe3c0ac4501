"""axe-core, from npm where Node is present, finds no serious issue on any page, light and dark, wide and narrow."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweep import test_comparison
from tests.web import chromium
from tests.web.test_history import LINES, watched
from tests.web.test_report import begin, report, run
from windlass.sweep import sweep_report

pytestmark = [pytest.mark.xdist_group("dashboard"), pytest.mark.asyncio(loop_scope="module")]

__all__ = ["report", "run"]
PACKAGE = "axe-core@4"
INSTALL_S = 120
SEEN = "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations"
SERIOUS = (
    f"{SEEN}.filter((one) => ['serious', 'critical'].includes(one.impact))"
    ".map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`))"
)
SCHEMES = ("light", "dark")


def _install(home: Path) -> str | None:
    """The text of axe-core; None where it cannot be had."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return None
    words = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home), PACKAGE]
    try:
        subprocess.run(words, check=True, capture_output=True, timeout=INSTALL_S, cwd=home)
    except (subprocess.SubprocessError, OSError):
        return None
    return (home / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    text = _install(tmp_path_factory.mktemp("npm"))
    if text is None:
        said = "NO AXE-CORE HERE: THE ACCESSIBILITY OF THE PAGES IS NOT TESTED (it needs node, npm and a package index)"
        print(f"\n{said}", file=sys.__stderr__)
        pytest.skip(said)
    return text


async def check(tab: chromium.Page, axe: str, scheme: str) -> None:
    await tab.prefer(scheme)
    await tab.wait("document.getAnimations().length === 0")
    assert await find_serious(tab, axe) == []


async def find_serious(tab: chromium.Page, axe: str) -> list[str]:
    if not await tab.ask("typeof axe === 'object'"):
        await tab.ask(f"{axe};0")
    found: list[str] = await tab.ask(SERIOUS)
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_the_dashboard_has_no_serious_issue(tab: chromium.Page, axe: str, scheme: str) -> None:
    async with watched(tab):
        await check(tab, axe, scheme)
        await tab.ask("document.querySelector('#timeline .kind-up').click()")
        await tab.wait("document.getElementById('panel-answer').textContent.includes('Options')")
        await check(tab, axe, scheme)
        await tab.press("Escape")
        await tab.ask("document.querySelector('.card .title').click()")
        await tab.wait("document.querySelector('#panel-answer pre') !== null")
        await check(tab, axe, scheme)
        await tab.press("Escape")
        await tab.press("?")
        await check(tab, axe, scheme)
        await tab.press("Escape")
        await tab.resize(390, 844, is_phone=True)
        await check(tab, axe, scheme)


async def test_what_is_wrong_is_found(tab: chromium.Page, axe: str) -> None:
    async with watched(tab):
        await tab.ask("(document.querySelector('main').append(document.createElement('button')), 0)")
        (found,) = await find_serious(tab, axe)
        assert found.startswith("button-name: <button>")


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_report_has_no_serious_issue(tab: chromium.Page, axe: str, report: Path, scheme: str) -> None:
    await begin(tab, report)
    await tab.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    await check(tab, axe, scheme)
    await tab.ask("document.querySelector('.h-row.kind-up').click()")
    await check(tab, axe, scheme)
    await tab.resize(390, 844, is_phone=True)
    await check(tab, axe, scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_sweep_has_no_serious_issue(tab: chromium.Page, axe: str, tmp_path: Path, scheme: str) -> None:
    costs = ((100, 60), (80, 61), (50, 600), (300, 10))
    rows = test_comparison.rows_of(*([test_comparison.outcome(*one)] * 3 for one in costs))
    place = tmp_path / "sweep.html"
    place.write_text(sweep_report.render_page(test_comparison.plan_of(4, 3), rows))
    await tab.resize(1440, 900)
    await tab.open(place.as_uri())
    await check(tab, axe, scheme)


async def test_every_line_of_the_history_is_told_in_words(tab: chromium.Page) -> None:
    """The names of the pictures are summaries, and the slider tells the values at its time."""
    async with watched(tab):
        await tab.wait(f"{LINES} !== ''")
        tree = await tab.call("Accessibility.getFullAXTree")
        named = {
            node["role"]["value"]: node.get("name", {}).get("value", "")
            for node in tree["nodes"]
            if not node.get("ignored") and node["role"]["value"] in ("image", "slider")
        }
        names = [
            node.get("name", {}).get("value", "")
            for node in tree["nodes"]
            if not node.get("ignored") and node["role"]["value"] in ("image", "img", "SvgRoot")
        ]
        for title in ("Nodes: a ", "Pending pods: pending ", "Utilization: cpu ", "Cost per hour: cost "):
            assert any(name.startswith(title) for name in names)
        assert named["slider"] == "Time"
