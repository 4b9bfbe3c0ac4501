"""Formatting: quantities as Kubernetes writes them, durations, counts, lists and tables for terminals."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass import quantity
from windlass.engine.model import facts
from windlass.kube import time_formats

_BYTES = (facts.MEMORY, facts.EPHEMERAL_STORAGE)

_FIRST = (facts.CPU, facts.MEMORY)

_SHORT = 7
"""Characters that are easily read."""


def format_quantity(resource: str, amount: int) -> str:
    """An amount in the resource's unit (millicores, bytes, pieces) as an exact quantity: `2500m`, `8Gi`, `3`."""
    if resource == facts.CPU:
        return str(quantity.Quantity(amount * quantity.MILLI))
    return str(quantity.Quantity(amount * quantity.NANO, "binary" if _is_bytes(resource) else "decimal"))


def format_short_quantity(resource: str, amount: int, *, up: bool = False) -> str:
    """The amount in at most a few digits, rounded down unless `up`: what is free is never overstated."""
    exact = format_quantity(resource, amount)
    if len(exact) <= _SHORT or not _is_bytes(resource) or amount < 0:
        return exact
    unit = 1 << 10 * ((amount.bit_length() - 7) // 10)  # two to five digits are left
    return format_quantity(resource, -(-amount // unit) * unit if up else amount // unit * unit)


def format_quantities(resources: facts.Resources) -> dict[str, str]:
    """Exact quantities by resource; CPU and memory come first."""
    ordered = sorted(resources, key=lambda pair: (_FIRST.index(pair[0]) if pair[0] in _FIRST else len(_FIRST), pair[0]))
    return {resource: format_quantity(resource, amount) for resource, amount in ordered}


def _is_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")


_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
"""With their lengths in seconds."""


class TextStyle(Protocol):
    """How parts of a text are set off. They add no width: pad first."""

    def good(self, text: str) -> str: ...

    def bad(self, text: str) -> str: ...

    def note(self, text: str) -> str: ...

    def strong(self, text: str) -> str: ...

    def faint(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True)
class PlainStyle:
    """No tones at all."""

    def good(self, text: str) -> str:
        return text

    bad = note = strong = faint = good


PLAIN_STYLE = PlainStyle()


def format_duration(seconds: float) -> str:
    """Two units at most: `45s`, `3m20s`, `2h5m`, `3d4h`. A second is the least that is told."""
    whole = round(max(seconds, 0.0))
    for (unit, size), (lesser, part) in itertools.pairwise(_UNITS):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit}{f'{rest}{lesser}' if rest else ''}"
    return f"{whole}s"


def format_clock(at_s: float) -> str:
    """The time of day: `02:31:23 UTC`."""
    return f"{time_formats.format_time(at_s)[11:19]} UTC"


def format_since(then_s: float, now_s: float) -> str:
    return f"for {format_duration(now_s - then_s)}, since {format_clock(then_s)}"


def format_until(then_s: float, now_s: float) -> str:
    return (
        f"until {format_clock(then_s)}, in {format_duration(then_s - now_s)}"
        if then_s > now_s
        else f"until {format_clock(then_s)}, now"
    )


def format_ago(then_s: float, now_s: float) -> str:
    return f"{format_duration(now_s - then_s)} ago"


def format_count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def format_share(fraction: float) -> str:
    return f"{fraction:.1%}"


def format_list(names: Sequence[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def format_requests(asked: Mapping[str, int]) -> str:
    spelled = format_quantities(tuple(asked.items()))
    return ", ".join(f"{resource} {amount}" for resource, amount in spelled.items()) or "nothing"


def max_width(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], tones: TextStyle) -> list[str]:
    """Columns as wide as their widest entry; the last may be as long as it likes."""
    widths = [max_width((head[i], *(row[i] for row in rows))) for i in range(len(head))]
    lines = [tones.faint(_format_line(head, widths))]
    return lines + [_format_line(row, widths) for row in rows]


def _format_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{cell:{width}}" for cell, width in zip(cells[:-1], widths[:-1], strict=True)]
    return "  ".join((*padded, cells[-1])).rstrip()
