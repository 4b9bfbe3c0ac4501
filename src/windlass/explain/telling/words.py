"""Words: times, amounts and lists as people read them; tones, where a terminal has colours."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass.explain import amounts
from windlass.kube import times

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
"""With their lengths in seconds."""


class Tones(Protocol):
    """How parts of a text are set off. They add no width: pad first."""

    def good(self, text: str) -> str: ...

    def bad(self, text: str) -> str: ...

    def note(self, text: str) -> str: ...

    def strong(self, text: str) -> str: ...

    def faint(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Plain:
    """No tones at all."""

    def good(self, text: str) -> str:
        return text

    bad = note = strong = faint = good


PLAIN = Plain()


def lasting(seconds: float) -> str:
    """Two units at most: `45s`, `3m20s`, `2h5m`, `3d4h`. A second is the least that is told."""
    whole = round(max(seconds, 0.0))
    for (unit, size), (lesser, part) in itertools.pairwise(_UNITS):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit}{f'{rest}{lesser}' if rest else ''}"
    return f"{whole}s"


def clock(at_s: float) -> str:
    """The time of day: `02:31:23 UTC`."""
    return f"{times.spell(at_s)[11:19]} UTC"


def since(then_s: float, now_s: float) -> str:
    return f"for {lasting(now_s - then_s)}, since {clock(then_s)}"


def until(then_s: float, now_s: float) -> str:
    return f"until {clock(then_s)}, in {lasting(then_s - now_s)}" if then_s > now_s else f"until {clock(then_s)}, now"


def ago(then_s: float, now_s: float) -> str:
    return f"{lasting(now_s - then_s)} ago"


def count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def share(fraction: float) -> str:
    return f"{fraction:.1%}"


def list_up(names: Sequence[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def requests(asked: Mapping[str, int]) -> str:
    spelled = amounts.spell_all(tuple(asked.items()))
    return ", ".join(f"{resource} {amount}" for resource, amount in spelled.items()) or "nothing"


def widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], tones: Tones) -> list[str]:
    """Columns as wide as their widest entry; the last may be as long as it likes."""
    widths = [widest((head[i], *(row[i] for row in rows))) for i in range(len(head))]
    lines = [tones.faint(_line(head, widths))]
    return lines + [_line(row, widths) for row in rows]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{cell:{width}}" for cell, width in zip(cells[:-1], widths[:-1], strict=True)]
    return "  ".join((*padded, cells[-1])).rstrip()
