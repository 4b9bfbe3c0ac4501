"""Tables of Markdown, and the line that says where a page comes from."""

from collections.abc import Iterable, Iterator, Sequence

MADE = "<!-- Made by `python -m tools` (`make reference`): change the code that it is read from, not this page. -->"


def begin(title: str, *paragraphs: str) -> list[str]:
    """The head of a page."""
    lines = [f"# {title}", "", MADE, ""]
    for paragraph in paragraphs:
        lines += [paragraph, ""]
    return lines


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, and an empty one behind it."""
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from (_row(row) for row in rows)
    yield ""


def code(text: object) -> str:
    """As code; nothing where there is nothing."""
    return f"`{text}`" if str(text) else ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
