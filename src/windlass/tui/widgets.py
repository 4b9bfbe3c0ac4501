"""Widgets of the terminal UI: a scrolling list of rows that draws only what is visible, and the answer dialog."""

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from windlass.tui.status_rows import StatusRow

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
