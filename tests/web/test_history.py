"""The history in a real browser: one time axis, filters, links, keys, and the detail of a decision."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.engine.loop import builders
from tests.web import chromium
from tests.web.dashboard_server import Cluster, serve
from windlass import formatting
from windlass.engine.observation import Observation

pytestmark = [pytest.mark.xdist_group("dashboard"), pytest.mark.asyncio(loop_scope="module")]

PERIOD = "document.querySelector('.h-period').textContent"
SLIDER = "document.querySelector('[role=slider]')"
SPOKEN = f"{SLIDER}.getAttribute('aria-valuetext')"
DECISIONS = "[...document.querySelectorAll('#timeline .what')].map((one) => one.textContent).join('; ')"
TITLE = "document.getElementById('panel-title').textContent"
ANSWER = "document.getElementById('panel-answer').textContent"
LINK = "location.hash"
KNOWN = "document.querySelectorAll('#timeline button').length"
LINES = (
    "[...document.querySelectorAll('.h-figure :is(path.h-area, path.h-line)')]"
    ".map((one) => one.getAttribute('d')).join()"
)
VIEW = (
    "({ period: document.querySelector('.h-period').textContent,"
    " title: document.getElementById('panel-title').textContent,"
    " isOpen: !document.getElementById('panel').hidden, rows: [...document.querySelectorAll('#timeline .what')].length,"
    " group: document.querySelector('[aria-label=\"Node group\"]').value,"
    " kinds: [...document.querySelectorAll('.h-kind input:checked')].map((one) => one.value).join(),"
    " cursor: document.querySelector('.h-cursor').hidden ? '' : document.querySelector('.h-cursor span').textContent })"
)
WORK_ROUNDS = 40


class Growing(Cluster):
    """Two groups. Every tenth loop a pod needs a node of the first one, which comes a loop later."""

    def __init__(self) -> None:
        super().__init__()
        self.pods = []
        self.others = builders.nodes("b", 2)

    @property
    def seen(self) -> Observation:
        groups = [builders.group("a", self.nodes), builders.group("b", self.others, max_size=2)]
        return builders.observe(groups, [*self.nodes, *self.others], self.pods)

    def work(self) -> None:
        for number in range(WORK_ROUNDS):
            busy = [builders.running(f"busy-{node.name}", node.name, 3500) for node in (*self.nodes, *self.others)]
            self.pods = busy
            if number % 10 == 5:
                self.pods = [*busy, builders.pending(f"job-{number}", 3000), builders.pending("giant", 90_000)]
            elif number % 10 == 6:
                self.nodes = builders.nodes("a", len(self.nodes) + 1)
            self.go_round()


@contextlib.asynccontextmanager
async def watched(tab: chromium.Page) -> AsyncIterator[tuple[Growing, str]]:
    cluster = Growing()
    cluster.work()
    async with serve(cluster) as url:
        tab.complaints.clear()
        await tab.resize(1440, 900)
        await tab.open(url)
        await tab.wait(f"{KNOWN} > 3 && {LINES} !== ''")
        yield cluster, url
        await tab.open("about:blank")  # before the server is gone, which the page would complain about


async def drag(tab: chromium.Page, from_share: float, to_share: float) -> None:
    """Over the panels, from one share of the axis to another."""
    await tab.ask("document.querySelector('.h-panels').scrollIntoView({ block: 'center' })")
    box = await tab.ask("document.querySelector('.h-overlay').getBoundingClientRect().toJSON()")
    y = box["y"] + 100
    for kind, share in (("mousePressed", from_share), ("mouseMoved", to_share), ("mouseReleased", to_share)):
        x = box["x"] + box["width"] * share
        await tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)


async def test_the_cursor_tells_the_time_with_date_and_zone(tab: chromium.Page) -> None:
    async with watched(tab):
        box = await tab.ask("document.querySelector('.h-overlay').getBoundingClientRect().toJSON()")
        await tab.point(box["x"] + box["width"] / 2, box["y"] + 100)
        told = await tab.ask("document.querySelector('.h-cursor span').textContent")
        assert told.endswith(" UTC")
        assert told.split()[1] in await tab.ask(PERIOD)
        values = await tab.ask("[...document.querySelectorAll('.h-keys b')].map((one) => one.textContent).join()")
        assert values.count(",") >= 5
        assert "" not in values.split(",")


async def test_a_link_that_is_opened_elsewhere_shows_the_same_view(tab: chromium.Page) -> None:
    async with watched(tab) as (_, url):
        await drag(tab, 0.1, 0.8)
        await tab.ask("document.querySelector('.h-kind.kind-up input').click()")
        await tab.ask(
            "((select) => { select.value = [...select.options].find((one) => one.text === 'a').value;"
            " select.dispatchEvent(new Event('change')); })(document.querySelector('[aria-label=\"Node group\"]'))"
        )
        await tab.wait(f"{DECISIONS}.split('; ').every((said) => said.startsWith('scale up a '))")
        await tab.ask("document.querySelector('#timeline button').click()")
        box = await tab.ask("document.querySelector('.h-overlay').getBoundingClientRect().toJSON()")
        await tab.press("Escape")
        await tab.click(box["x"] + 200, box["y"] + 100)
        await tab.ask("document.querySelector('#timeline button').click()")
        await tab.wait(f"{ANSWER}.includes('Options') && {LINK}.includes('at=') && {LINK}.includes('open=decision')")
        link, view = await tab.ask(LINK), await tab.ask(VIEW)
        binary = chromium.find()
        assert binary is not None
        async with chromium.browse(binary) as other:
            await other.resize(1440, 900)
            await other.open(f"{url}/{link}")
            await other.wait(f"{ANSWER}.includes('Options')")
            await other.wait(f"{KNOWN} === {view['rows']}")
            assert await other.ask(VIEW) == view
            assert await other.ask(LINES) == await tab.ask(LINES)
            assert other.complaints == []


async def test_a_drag_zooms_and_a_button_shows_all_again(tab: chromium.Page) -> None:
    async with watched(tab):
        whole = await tab.ask(PERIOD)
        await drag(tab, 0.25, 0.5)
        await tab.wait(f"{PERIOD} !== {whole!r}")
        zoomed = await tab.ask(LINES)
        await tab.ask("document.querySelector('[aria-label=Later]').click()")
        await tab.wait(f"{LINES} !== {zoomed!r}")
        await tab.ask("[...document.querySelectorAll('.h-button')].find((one) => one.textContent === 'all').click()")
        await tab.wait(f"{PERIOD} === {whole!r}")


async def test_everything_can_be_done_with_keys(tab: chromium.Page) -> None:
    async with watched(tab):
        whole = await tab.ask(PERIOD)
        await tab.press("h")
        assert await tab.ask("document.activeElement.getAttribute('role')") == "slider"
        for key in ("ArrowLeft", "ArrowLeft"):
            await tab.press(key)
        assert "Nodes: " in await tab.ask(SPOKEN)
        assert "Pending pods: " in await tab.ask(SPOKEN)
        await tab.press("+")
        await tab.wait(f"{PERIOD} !== {whole!r}")
        await tab.press("0")
        await tab.wait(f"{PERIOD} === {whole!r}")
        await tab.press("[")
        await tab.press("Enter")
        await tab.wait("!document.getElementById('panel').hidden")
        assert await tab.ask(TITLE) in await tab.ask(SPOKEN)
        await tab.press("Escape")
        assert await tab.ask("document.activeElement.getAttribute('role')") == "slider"


async def test_nothing_moves_when_the_values_under_the_cursor_are_shown(tab: chromium.Page) -> None:
    places = (
        "JSON.stringify([...document.querySelectorAll('.h-figure, .h-lane, .h-name-of, #groups, #timeline')]"
        ".map((one) => one.getBoundingClientRect()).map((box) => [box.left, box.top]))"
    )
    values = "[...document.querySelectorAll('.h-keys b')].map((one) => one.textContent).join('')"
    async with watched(tab):
        for width in (1440, 390):
            await tab.resize(width, 900)
            await tab.ask("document.querySelector('.h-panels').scrollIntoView()")
            await tab.point(1, 1)
            await tab.wait(f"{values} === ''")
            before = await tab.ask(places)
            box = await tab.ask("document.querySelector('.h-overlay').getBoundingClientRect().toJSON()")
            await tab.point(box["x"] + box["width"] / 2, box["y"] + 120)
            await tab.wait(f"{values} !== ''")
            assert await tab.ask(places) == before


async def test_a_filter_touches_every_panel(tab: chromium.Page) -> None:
    async with watched(tab):
        before = await tab.ask(LINES)
        await tab.ask(
            "((select) => { select.value = [...select.options].find((one) => one.text === 'b').value;"
            " select.dispatchEvent(new Event('change')); })(document.querySelector('[aria-label=\"Node group\"]'))"
        )
        await tab.wait("document.querySelectorAll('.card').length === 1")
        await tab.wait(f"{LINES} !== {before!r}")
        assert "scale up a" not in await tab.ask(DECISIONS)
        names = await tab.ask(
            "[...document.querySelectorAll('.h-figure.h-stacked .h-keys > span')].map((one) => one.textContent)"
        )
        assert [name.split()[0] for name in names] == ["b"]
        assert await tab.ask("document.querySelector('[aria-label=\"Clear all filters\"]').disabled") is False
        await tab.ask("document.querySelector('[aria-label=\"Clear all filters\"]').click()")
        await tab.wait(f"{LINES} === {before!r} && document.querySelectorAll('.card').length === 2")


async def test_a_decision_tells_options_pods_refusals_and_what_followed(tab: chromium.Page) -> None:
    async with watched(tab):
        await tab.ask("document.querySelector('.h-kind.kind-up input').click()")
        await tab.wait(f"{DECISIONS}.split('; ').every((said) => said.startsWith('scale up'))")
        await tab.ask("document.querySelector('#timeline li:last-child button').click()")
        await tab.wait(f"{ANSWER}.includes('Options')")
        answer = await tab.ask(ANSWER)
        for part in ("Sizes", "chosen", "default/job-", "Groups that do not fit", "Insufficient cpu", "What followed"):
            assert part in answer
        assert "ready" in answer.split("What followed")[1].split("Look further")[0]
        assert "windlass explain pod default/job-" in answer
        assert "--recording FILE --at 1970-01-" in answer
        assert "triggeredscaleup" in answer


async def test_a_link_to_a_decision_that_is_not_kept_says_so(tab: chromium.Page) -> None:
    async with watched(tab):
        await tab.ask("(location.hash = '#open=decision/99@2020-01-01T00:00:00Z', 0)")
        await tab.wait(f"{ANSWER}.includes('no longer kept')")


async def test_the_past_is_shown_though_nobody_watched(tab: chromium.Page) -> None:
    """What was decided before the page was opened comes from the process."""
    async with watched(tab) as (cluster, _):
        assert await tab.ask(f"{KNOWN}") >= WORK_ROUNDS // 10
        count = await tab.ask("document.getElementById('timeline-count').textContent")
        cluster.pods = [*cluster.pods, builders.pending("late", 3100)]
        cluster.go_round()
        await tab.wait(f"document.getElementById('timeline-count').textContent !== {count!r}")
        assert tab.complaints == []


NAMES = "[...document.querySelectorAll('.nodes tbody th')].map((one) => one.textContent)"
CPU = "[...document.querySelectorAll('.nodes tbody .cpu')].map((one) => parseInt(one.textContent))"


async def test_the_table_of_nodes_sorts_filters_and_is_in_the_link(tab: chromium.Page) -> None:
    async with watched(tab) as (cluster, url):
        cluster.pods = [builders.running("one", "a-1", 900), builders.running("two", "b-0", 2100)]
        cluster.go_round()
        await tab.press("m")
        await tab.wait(f"{NAMES}.length === {len(cluster.nodes) + len(cluster.others)}")
        assert await tab.ask(NAMES) == sorted(await tab.ask(NAMES))
        await tab.ask("[...document.querySelectorAll('.sort')].find((one) => one.textContent === 'cpu').click()")
        await tab.wait(f"{NAMES}[0] === 'b-0' && {NAMES}[1] === 'a-1'")
        assert await tab.ask(CPU) == sorted(await tab.ask(CPU), reverse=True)
        assert await tab.ask("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "descending"
        await tab.press("/")
        await tab.press("b")
        await tab.press("-")
        await tab.wait(f"{NAMES}.join() === 'b-0,b-1'")
        link = await tab.ask(LINK)
        await tab.open("about:blank")
        await tab.open(f"{url}/{link}")
        await tab.wait(f"{NAMES}.join() === 'b-0,b-1'")
        await tab.ask("document.querySelector('.nodes tbody button').click()")
        await tab.wait(f"{TITLE} === 'b-0'")
        assert tab.complaints == []


async def test_rows_of_the_table_stay_under_the_pointer(tab: chromium.Page) -> None:
    """The history is asked for again after each loop, which must not sort the rows anew."""
    async with watched(tab) as (cluster, url):
        cluster.pods = [builders.running("one", "a-1", 900)]
        cluster.go_round()
        await tab.open("about:blank")
        await tab.open(f"{url}/#view=table&sort=-cpu")
        await tab.wait(f"{NAMES}[0] === 'a-1'")
        box = await tab.ask("document.querySelector('.nodes tbody tr').getBoundingClientRect().toJSON()")
        await tab.point(box["x"] + 40, box["y"] + 5)
        count = await tab.ask("document.getElementById('timeline-count').textContent")
        cluster.pods = [*cluster.pods, builders.running("two", "b-0", 2100), builders.pending("late", 90_000)]
        cluster.go_round()
        await tab.wait(f"document.getElementById('timeline-count').textContent !== {count!r}")
        assert (await tab.ask(NAMES))[0] == "a-1"
        await tab.point(1, 1)
        await tab.wait(f"{NAMES}[0] === 'b-0'")


async def test_a_cost_is_written_as_on_the_command_line(tab: chromium.Page) -> None:
    async with watched(tab):
        amounts = (0.0, 0.0052, 0.03, 0.3, 1.0, 12.344, 999.999, 1234.6, 1_234_567.0)
        for currency in ("", "$", "EUR"):
            for is_price in (False, True):
                written = await tab.ask(
                    "import('./format.js').then((format) => {"
                    f" format.setCurrency({currency!r});"
                    f" return {list(amounts)}.map((amount) => format.money(amount, {str(is_price).lower()})); }})"
                )
                assert written == [formatting.format_money(amount, currency, is_price=is_price) for amount in amounts]
