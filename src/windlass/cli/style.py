"""Style: colour where a person looks at it, plain text everywhere else."""

import os
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Style:
    """Colours a text, or leaves it as it is. Colour has no width: pad first, then colour."""

    colour: bool = False

    def good(self, text: str) -> str:
        return self._wrap(text, "32;1")

    def bad(self, text: str) -> str:
        return self._wrap(text, "31;1")

    def note(self, text: str) -> str:
        return self._wrap(text, "33")

    def strong(self, text: str) -> str:
        return self._wrap(text, "1")

    def faint(self, text: str) -> str:
        return self._wrap(text, "2")

    def _wrap(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colour and text else text


def of_stream(stream: TextIO) -> Style:
    """Colour on a terminal, unless NO_COLOR is set (https://no-color.org) or the terminal is a dumb one."""
    return Style(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")
