"""What is clicked is what was aimed at, though the page goes on meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.engine.loop import builders
from tests.web import chromium
from tests.web.dashboard_server import Cluster, serve

pytestmark = [pytest.mark.xdist_group("dashboard"), pytest.mark.asyncio(loop_scope="module")]

FIRST = "document.querySelector('#pending button')"
ROWS = "[...document.querySelectorAll('#pending .what')].map((one) => one.title).join(' ')"
HELD = "document.getElementById('pending-held').textContent"
TITLE = "document.getElementById('panel-title').textContent"
CELLS = "document.querySelector('.cells')"
POINTED_S = 60.0
IS_TOLD = "document.getElementById('clock').dataset.atS && document.querySelector('.figure b').textContent"


@contextlib.asynccontextmanager
async def watched(tab: chromium.Page) -> AsyncIterator[Cluster]:
    """A cluster whose page is open, with everything where it stays."""
    cluster = Cluster()
    cluster.go_round()
    async with serve(cluster) as url:
        await tab.open(url)
        await tab.wait(f"{FIRST} !== null && {CELLS}?.clientHeight > 1 && {IS_TOLD}")
        yield cluster


async def point_at(tab: chromium.Page, element: str) -> tuple[float, float]:
    """Near its upper left corner, wherever that is once everything is laid out."""
    async with asyncio.timeout(POINTED_S):
        while True:
            await tab.ask(f"{element}.scrollIntoView({{ block: 'nearest' }})")
            box = await tab.ask(f"{element}.getBoundingClientRect().toJSON()")
            await tab.point(box["x"] + 5, box["y"] + 5)
            if await tab.ask(f"{element}.matches(':hover')"):
                return box["x"] + 5, box["y"] + 5
            await asyncio.sleep(0.05)


async def test_a_list_waits_while_somebody_points_at_it(tab: chromium.Page) -> None:
    async with watched(tab) as cluster:
        at = await point_at(tab, FIRST)
        cluster.pods.append(builders.pending("older", 9001, age_s=600.0))  # who waits longest is first
        cluster.go_round()
        await tab.wait(f"{HELD} === 'waits while you look · 1 new'")
        await tab.click_there(*at)
        await tab.wait(f"{TITLE} === 'default/large'")
        await tab.press("Escape")
        await tab.point(5, 5)
        await tab.press("n")
        await tab.wait(f"{ROWS} === 'default/older default/large'")
        await tab.wait(f"{HELD} === ''")


async def test_a_row_that_has_the_focus_stays_until_it_is_left(tab: chromium.Page) -> None:
    async with watched(tab) as cluster:
        await tab.press("p")
        cluster.pods = [builders.pending("other", 9001)]
        cluster.go_round()
        await tab.wait(f"{HELD} === 'waits while you look · 1 new'")
        assert await tab.ask("document.activeElement.closest('.gone') !== null")
        assert await tab.ask(ROWS) == "default/large"
        await tab.press("n")
        await tab.wait(f"{ROWS} === 'default/other'")


async def test_a_click_explains_the_node_that_the_tip_names(tab: chromium.Page) -> None:
    async with watched(tab) as cluster:
        at = await point_at(tab, CELLS)
        await tab.wait("document.querySelector('#tip b')?.textContent === 'a-0'")
        cluster.nodes = cluster.nodes[1:]
        cluster.go_round()
        await tab.wait(f"{CELLS}.ariaLabel.startsWith('2 nodes')")
        await tab.click_there(*at)
        assert await tab.ask(TITLE) == "a-0"
        assert "gone" in await tab.ask("document.getElementById('panel-facts').textContent")


async def test_enter_explains_the_node_that_was_said(tab: chromium.Page) -> None:
    async with watched(tab) as cluster:
        await tab.press("n")
        await tab.press("ArrowRight")
        await tab.wait("document.getElementById('say').textContent.startsWith('a-1,')")
        cluster.nodes = [node for node in cluster.nodes if node.name != "a-1"]
        cluster.go_round()
        await tab.wait(f"{CELLS}.ariaLabel.startsWith('2 nodes')")
        await tab.press("Enter")
        assert await tab.ask(TITLE) == "a-1"
