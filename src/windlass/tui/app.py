"""The `windlass top` application: redraws when a status arrives, unless paused; and its widgets.

The widgets are a scrolling list of rows that draws only what is visible, and the answer dialog.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, Input, Static

from windlass import errors, formatting
from windlass.tui import status_rows
from windlass.tui.status_rows import StatusRow
from windlass.tui.status_stream import StatusCallback, StatusUpdate

_MARKED = Style(reverse=True)


class Lines(ScrollView, can_focus=True):
    """Rows with a cursor, which stays on the same object when rows change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
        Binding("enter", "choose", "Explain"),
    ]

    class Chosen(Message):
        """Message: a row was selected for details."""

        def __init__(self, row: StatusRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, title: str, id: str, *, is_newest_first: bool = False) -> None:
        super().__init__(id=id)
        self._title, self._rows = title, list[StatusRow]()
        self._marked, self._is_newest_first = 0, is_newest_first
        self.border_title = title

    def show(self, rows: Sequence[StatusRow], note: str = "") -> None:
        """Replace the rows."""
        before = self._rows[self._marked] if self._rows else None
        at_newest = self._is_newest_first and self._marked == 0
        self._rows = list(rows)
        names = {(row.kind, row.name): number for number, row in enumerate(rows)}
        if before is not None and not at_newest:
            self._marked = names.get((before.kind, before.name), self._marked)
        self._marked = max(min(self._marked, len(rows) - 1), 0)
        self.border_title = f"{self._title}{note}"
        self.virtual_size = Size(max((row.text.cell_len for row in rows), default=0), len(rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        width, number = self.scrollable_content_region.width, y + top
        if number >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        strip = Strip(self._rows[number].text.render(self.app.console)).crop_extend(left, left + width, self.rich_style)
        strip = strip.apply_style(self.rich_style)
        return strip.apply_style(_MARKED) if self.has_focus and number == self._marked else strip

    def action_move(self, by: int) -> None:
        if self._rows:
            self._marked = max(min(self._marked + by, len(self._rows) - 1), 0)
            self.scroll_to_region(Region(int(self.scroll_offset.x), self._marked, 1, 1), animate=False)
            self.refresh()

    def action_choose(self) -> None:
        if self._rows:
            self.post_message(self.Chosen(self._rows[self._marked]))


class Answer(ModalScreen[None]):
    """A dialog with scrolling text."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "Close")]
    CSS = """
    Answer { align: center middle; }
    Answer > VerticalScroll { width: 90%; height: 80%; border: round $accent; padding: 1 2; background: $surface; }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = self._title
            box.border_subtitle = "Esc closes"
            yield Static(Text(self._text), id="answer")


ExplainCallback = Callable[[status_rows.RowKind, str], str]
"""The explanation of a group, node or pod. WindlassError if the server does not answer. May take seconds."""
FollowStatus = Callable[[StatusCallback], Coroutine[Any, Any, None]]
_STALE_S = 60.0
"""Age by the server's clock from which a status is marked as old."""


class TopApp(App[None]):
    """`windlass top`."""

    TITLE = "windlass top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("p,space", "pause", "Pause"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "unfilter", "All", show=False),
        Binding("tab", "app.focus_next", "Next", show=False),
    ]
    CSS = """
    #head { height: 1; padding: 0 1; background: $panel; }
    #trends { height: 3; padding: 0 1; }
    Lines { border: round $panel-lighten-2; padding: 0 1; }
    Lines:focus { border: round $accent; }
    #nodes { height: 2fr; }
    #pending, #decisions { height: 1fr; min-height: 4; }
    #filter { display: none; dock: bottom; }
    """

    def __init__(self, follow: FollowStatus, explain: ExplainCallback) -> None:
        super().__init__()
        self._follow, self._explain = follow, explain
        self._heard, self._shown = StatusUpdate(trouble="nothing update yet"), StatusUpdate()
        self._sort: status_rows.SortKey = "name"
        self._filter_text = ""
        self._is_paused = False

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="trends")
        yield Lines("Nodes", "nodes")
        yield Lines("Pending pods", "pending")
        yield Lines("Decisions", "decisions", is_newest_first=True)
        yield Input(placeholder="filter by text; Enter keeps the filter, Esc clears it", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#nodes").focus()
        self.run_worker(self._follow(self.receive_status), exit_on_error=True)
        self._draw()

    # ── Status ───────────────────────────────────────────────────────────────────────────────────────────────────

    def receive_status(self, update: StatusUpdate) -> None:
        """Store the status, and show it unless paused."""
        self._heard = update
        if not self._is_paused:
            self._draw()
        else:
            self._draw_head()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if not self._is_paused:
            self._shown = self._heard
        self._draw_head()
        status = self._shown.status
        if status is None:
            return
        only = f", with “{self._filter_text}”" if self._filter_text else ""
        self.query_one("#trends", Static).update(status_rows.trend_lines(status, self.size.width - 2))
        nodes = self.query_one("#nodes", Lines)
        nodes.show(status_rows.node_rows(status, self._sort, self._filter_text), f" by {self._sort}{only}")
        self.query_one("#pending", Lines).show(status_rows.pending_rows(status, self._filter_text), only)
        self.query_one("#decisions", Lines).show(status_rows.decision_rows(status, self._filter_text), only)

    def _draw_head(self) -> None:
        status, update = self._shown.status, self._heard
        text = status_rows.summary_line(status) if status is not None else Text("windlass top", "bold")
        if self._is_paused:
            text.append("  paused", "bold yellow")
        if update.trouble:
            text.append(f"  {update.trouble}", "bold red")
        elif status is not None and status.cluster.is_over and status.cluster.mode != "recorded":
            text.append("  ended", "bold")
        elif status is not None and update.now_s - status.cluster.at_s > _STALE_S and not self._is_paused:
            text.append(f"  {formatting.format_padded_duration(update.now_s - status.cluster.at_s)} old", "bold red")
        self.query_one("#head", Static).update(text)

    # ── Actions ──────────────────────────────────────────────────────────────────────────────────────────────────

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self._draw()

    def action_sort(self) -> None:
        self._sort = status_rows.SORT_KEYS[(status_rows.SORT_KEYS.index(self._sort) + 1) % len(status_rows.SORT_KEYS)]
        self._draw()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.styles.display = "block"
        field.focus()

    def action_unfilter(self) -> None:
        self.query_one("#filter", Input).value = ""
        self._leave_filter()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter_text = event.value.strip()
        self._draw()

    def on_input_submitted(self) -> None:
        self._leave_filter()

    def _leave_filter(self) -> None:
        self.query_one("#filter", Input).styles.display = "none"
        self.query_one("#nodes").focus()

    async def on_lines_chosen(self, event: Lines.Chosen) -> None:
        self.run_worker(self._show_answer(event.row), group="answer", exclusive=True)

    async def _show_answer(self, row: status_rows.StatusRow) -> None:
        if row.kind == "decision":
            said = status_rows.describe_decision(self._shown.status, row.name) if self._shown.status else ""
        else:
            try:
                said = await asyncio.to_thread(self._explain, row.kind, row.name)
            except errors.WindlassError as error:
                said = str(error)
        self.push_screen(Answer(f"{row.kind} {row.name}", said))
