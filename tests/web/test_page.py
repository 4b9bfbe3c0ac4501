"""The page in a real browser, on a simulation of two thousand nodes that goes on meanwhile."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.web import chromium
from tests.web.dashboard_process import Stage, play
from tests.web.dashboard_server import TOKEN, Cluster, serve
from windlass.web import dashboard

TOWN = Path(__file__).with_name("town.yaml")
BROWSER = chromium.find()
NODES = 2000
REACHED_S = 60.0

if BROWSER is None:
    said = "NO CHROMIUM HERE: THE DASHBOARD'S PAGE IS NOT TESTED IN A BROWSER (apt-get install chromium)"
    print(f"\n{said}", file=sys.__stderr__)

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="NO CHROMIUM HERE: the dashboard's page is not tested in a browser"),
    pytest.mark.xdist_group("dashboard"),
    pytest.mark.asyncio(loop_scope="module"),
]

GIANT = "[...document.querySelectorAll('#pending .help-nowhere')].find((one) => one.textContent.includes('giant'))"
LOGIN = "document.querySelector('#login-form button').click()"
PENDING = "document.querySelector('#pending button')"
TITLE = "document.getElementById('panel-title').textContent"
ANSWER = "document.getElementById('panel-answer').textContent"
ANSWERED = (
    "document.getElementById('panel-answer').getAttribute('aria-busy') === 'false'"
    " && document.querySelector('#panel-answer pre') !== null"
)
IS_OPEN = "!document.getElementById('panel').hidden"
CLOCK = "document.getElementById('clock').textContent"
AT_REST = "document.getAnimations().length === 0"


@pytest.fixture(scope="module")
def town() -> Iterator[Stage]:
    with play(TOWN, speed=20.0) as stage:
        yield stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab() -> AsyncIterator[chromium.Page]:
    assert BROWSER is not None
    async with chromium.browse(BROWSER) as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(tab: chromium.Page, town: Stage) -> chromium.Page:
    """The page of the town, with everything on it."""
    await tab.resize(1440, 900)
    await tab.prefer("light")
    tab.requests.clear()
    tab.complaints.clear()
    await tab.open(town.url)
    await tab.wait(
        "document.querySelectorAll('.card').length >= 6 && document.querySelector('#pending button') !== null", 120
    )
    return tab


async def focus(page: chromium.Page) -> str:
    """What has the focus, in a word."""
    found = await page.ask(
        "(document.activeElement.id || document.activeElement.className || document.activeElement.tagName)"
    )
    return str(found)


async def reach(page: chromium.Page, attempt: Callable[[], Awaitable[bool]]) -> None:
    """Until it is what one reached for: the story goes on, so a row may be gone or another in its place by then.

    What was opened instead is closed first, for it lies over the lists.
    """
    async with asyncio.timeout(REACHED_S):
        while not await attempt():
            await page.press("Escape")


async def cell_of(page: chromium.Page, state: str) -> dict[str, Any] | None:
    """Where a node in this state is drawn, and its name: cells are 11 pixels wide, with one between."""
    found: dict[str, Any] | None = await page.ask(_FIND_CELL % state)
    return found


async def test_two_thousand_nodes_are_shown_and_go_on(page: chromium.Page) -> None:
    # Figures and cells are drawn some frames after a card is there.
    shown = "[...document.querySelectorAll('.size')].reduce((sum, size) => sum + (+size.textContent || 0), 0)"
    await page.wait(f"{shown} >= {NODES * 0.9}")
    before = await page.ask(CLOCK)
    await page.wait(f"{CLOCK} !== {before!r}")
    await page.wait(
        """[...document.querySelectorAll('.cells')].every((canvas) => {
          const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          return data.some((value, at) => at % 4 === 3 && value > 0);
        })"""
    )
    assert page.complaints == []


async def test_no_request_leaves_the_host(page: chromium.Page, town: Stage) -> None:
    assert page.requests
    assert [url for url in page.requests if not url.startswith(town.url)] == []


async def test_clicking_a_pending_pod_shows_its_reasons(page: chromium.Page) -> None:
    await page.wait(f"{GIANT} !== undefined")

    async def click() -> bool:
        aim = await page.ask(_AIM % GIANT)
        if aim is None:
            return False
        pod, x, y = aim
        await page.click(x, y)
        return bool(await page.ask(f"{IS_OPEN} && {TITLE} === {pod!r}"))

    await reach(page, click)
    await page.wait(ANSWERED)
    facts = await page.ask("document.getElementById('panel-facts').textContent")
    assert "general-a: Insufficient cpu" in facts
    assert "refuses it" in await page.ask(ANSWER)


async def test_clicking_a_node_that_could_go_shows_where_its_pods_would(page: chromium.Page) -> None:
    answer = ""
    for _ in range(600):
        found = await cell_of(page, "unneeded")
        if found:
            await page.click(found["x"], found["y"])
            if await page.ask(IS_OPEN):  # the story goes on: there may be no node by now
                await page.wait(ANSWERED)
                answer = await page.ask(ANSWER)
                if "moves" in answer:
                    break
                await page.press("Escape")
        await asyncio.sleep(0.1)
    assert "Its pods, if it went" in answer
    links = await page.ask("[...document.querySelectorAll('#panel-answer .name')].map((one) => one.textContent)")
    assert any(f"to {link}" in answer for link in links)


async def test_everything_can_be_done_with_keys(page: chromium.Page) -> None:
    async def open_a_node() -> bool:
        await page.press("n")
        assert await focus(page) == "cells"
        for key in ("ArrowRight", "ArrowDown", "End", "ArrowLeft"):
            await page.press(key)
        said = await page.ask("document.getElementById('say').textContent")
        await page.press("Enter")
        return bool(await page.ask(IS_OPEN) and said.startswith(await page.ask(TITLE)))

    async def open_a_pod() -> bool:
        await page.press("p")
        first = await focus(page)
        await page.press("Enter")
        return first.startswith("row help-") and await page.ask(IS_OPEN) and "/" in await page.ask(TITLE)

    await reach(page, open_a_node)
    assert await focus(page) == "panel-title"
    await page.press("Escape")
    assert not await page.ask(IS_OPEN)
    assert await focus(page) == "cells"
    await reach(page, open_a_pod)
    await page.press("Escape")
    await page.press("?")
    assert await page.ask("document.getElementById('help').open")
    await page.press("Escape")
    assert not await page.ask("document.getElementById('help').open")


async def test_tab_reaches_every_part_and_shows_where_it_is(page: chromium.Page) -> None:
    await page.ask("document.activeElement.blur()")
    reached = set()
    for _ in range(60):
        await page.press("Tab")
        reached.add((await focus(page)).split()[0])
        outline = await page.ask("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or await page.ask("document.activeElement.matches('input[type=radio], body')")
    assert {"skip", "find", "theme", "help-open", "title", "cells", "row"} <= reached


async def test_find_goes_to_a_group(page: chromium.Page) -> None:
    await page.press("/")
    for letter in "gpu":
        await page.press(letter)
    await page.press("Enter")
    await page.wait(ANSWERED)
    assert await page.ask(TITLE) == "gpu"
    await page.press("Escape")


async def test_light_and_dark(page: chromium.Page) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = await page.ask(paper)
    await page.prefer("dark")
    await page.wait(f"{paper} !== {light!r}")
    await page.press("d")
    await page.wait(f"{paper} === {light!r}")  # chosen by the user, whatever the system prefers
    await page.press("d")
    assert await page.ask(paper) != light
    await page.press("d")


async def test_every_text_stands_out_from_what_it_is_on(page: chromium.Page) -> None:
    for scheme in ("light", "dark"):
        await page.prefer(scheme)
        await page.wait(f"document.documentElement.dataset.theme === '{scheme}' && {AT_REST}")
        faint = await page.ask(_CONTRAST)
        assert faint == [], f"{scheme}: contrast below 4.5"


async def test_a_phone_shows_everything_below_each_other(page: chromium.Page) -> None:
    await page.resize(390, 844, is_phone=True)
    await page.wait(f"innerWidth < 1000 && document.documentElement.scrollWidth <= innerWidth && {AT_REST}")
    await page.wait(f"({PENDING}?.click(), {IS_OPEN})")  # as soon as one is there
    assert await page.ask("document.getElementById('panel').getBoundingClientRect().width <= innerWidth")


async def test_roles_and_names_for_those_who_do_not_see(page: chromium.Page) -> None:
    tree = await page.call("Accessibility.getFullAXTree")
    nameless = [
        node["role"]["value"]
        for node in tree["nodes"]
        if not node.get("ignored")
        and node["role"]["value"] in ("button", "searchbox", "radio", "application", "dialog", "main", "heading")
        and node["role"]["value"] != "main"
        and not node.get("name", {}).get("value")
    ]
    assert nameless == []
    levels = await page.ask("[...document.querySelectorAll('[aria-live], [role=status], [role=alert]')].length")
    assert levels >= 3


async def test_a_token_is_asked_for_and_a_restart_is_survived(tab: chromium.Page) -> None:
    cluster = Cluster()
    cluster.go_round()
    async with serve(cluster, dashboard.TokenAccess(given=TOKEN)) as url:
        await tab.open(url)
        await tab.wait("document.getElementById('login').open")
        await tab.ask(f"(document.getElementById('token').value = 'wrong', {LOGIN})")
        await tab.wait("document.getElementById('login-said').textContent !== ''")
        assert await tab.ask("document.querySelectorAll('.card').length") == 0
        await tab.ask(f"(document.getElementById('token').value = {TOKEN!r}, {LOGIN})")
        await tab.wait("document.querySelectorAll('.card').length === 1")
        assert await tab.ask("document.cookie") == ""
        port = int(url.rpartition(":")[2])
    await tab.wait("document.getElementById('link').dataset.state === 'lost'")
    assert await tab.ask("document.querySelectorAll('.card').length") == 1, "what was known stays to be seen"
    again = Cluster()
    again.nodes = again.nodes[:2]
    again.go_round()
    async with serve(again, dashboard.TokenAccess(given=TOKEN), port):
        await tab.wait("document.getElementById('link').dataset.state === 'live'")
        await tab.wait("document.querySelector('.figure b').textContent === '2'")


_AIM = """((row) => {
  if (!row) return null;
  row.scrollIntoView();
  const box = row.getBoundingClientRect();
  return [row.querySelector('.what').title, box.x + 40, box.y + 10];
})(%s)"""
"""Where to click a row, and what it is of: read at once, so that they belong together."""

_FIND_CELL = """fetch('published').then((answer) => answer.json()).then((status) => {
  for (const card of document.querySelectorAll('.card')) {
    const canvas = card.querySelector('canvas');
    const members = status.nodes.filter((node) => (node.group ?? '-') === card.dataset.key);
    const at = members.findIndex((node) => (node.state ?? 'ready') === %r);
    if (at < 0) continue;
    canvas.scrollIntoView({ block: 'center' });
    const box = canvas.getBoundingClientRect(), step = 12, columns = Math.floor((canvas.clientWidth + 1) / step);
    const [column, row] = [at %% columns, Math.floor(at / columns)];
    return { name: members[at].name, x: box.left + column * step + 5, y: box.top + row * step + 5 };
  }
  return null;
})"""

_CONTRAST = """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (value) => value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const paper = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const element of document.querySelectorAll('body *')) {
    if (![...element.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim())) continue;
    if (!element.checkVisibility() || element.closest('.unseen, .skip, .tip, .bar')) continue;
    const one = luminance(parse(getComputedStyle(element).color)), other = luminance(paper(element));
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.add(`${element.className || element.tagName} ${ratio.toFixed(2)}`);
  }
  return [...found];
})()"""
