"""Formatting for people: quantities as Kubernetes writes them, counts, shares, money, durations, times, lists, tables.

Texts of explanations, reports, the CLI and the terminal UI. Formats of the API and of flags are elsewhere: see
`kube.time_formats` and `quantity`.
"""

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass import quantity
from windlass.engine.model import facts
from windlass.kube import time_formats

_BYTES = (facts.MEMORY, facts.EPHEMERAL_STORAGE)

_FIRST = (facts.CPU, facts.MEMORY)

_SHORT = 7
"""Characters of a quantity that is not shortened."""


def format_quantity(resource: str, amount: int) -> str:
    """An amount in the resource's unit (millicores, bytes, pieces) as an exact quantity: `2500m`, `8Gi`, `3`."""
    if resource == facts.CPU:
        return str(quantity.Quantity(amount * quantity.MILLI))
    return str(quantity.Quantity(amount * quantity.NANO, "binary" if _is_bytes(resource) else "decimal"))


def format_short_quantity(resource: str, amount: int, *, up: bool = False) -> str:
    """The amount in two to five digits, rounded down unless `up`, so that free amounts are never overstated."""
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


_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
"""With their lengths in seconds."""


class TextStyle(Protocol):
    """Colours for parts of a text. They add no width: pad first."""

    def good(self, text: str) -> str: ...

    def bad(self, text: str) -> str: ...

    def note(self, text: str) -> str: ...

    def strong(self, text: str) -> str: ...

    def faint(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True)
class PlainStyle:
    """Text without colours."""

    def good(self, text: str) -> str:
        return text

    bad = note = strong = faint = good


PLAIN_STYLE = PlainStyle()


def format_duration(seconds: float) -> str:
    """Two units at most, in whole seconds: `45s`, `3m20s`, `2h5m`, `3d4h`."""
    whole = round(max(seconds, 0.0))
    for (unit, size), (lesser, part) in itertools.pairwise(_UNITS):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit}{f'{rest}{lesser}' if rest else ''}"
    return f"{whole}s"


def format_padded_duration(seconds: float) -> str:
    """For columns of figures, with a padded second unit: `0s`, `4.2s`, `42s`, `3m10s`, `2h05m`, `4d02h`."""
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{seconds:.1f}s" if 0 < seconds < 10 and seconds != whole else f"{whole}s"
    if whole < _HOUR_S:
        return f"{whole // 60}m{whole % 60:02d}s" if whole % 60 else f"{whole // 60}m"
    if whole < 2 * _DAY_S:
        return f"{whole // _HOUR_S}h{whole % _HOUR_S // 60:02d}m"
    return f"{whole // _DAY_S}d{whole % _DAY_S // _HOUR_S:02d}h"


def format_hours(seconds: float) -> str:
    """Hours and minutes: `04:05 h`, `3d 04:05`."""
    days, rest = divmod(round(seconds), _DAY_S)
    hours = f"{rest // _HOUR_S:02d}:{rest % _HOUR_S // 60:02d}"
    return f"{days}d {hours}" if days else f"{hours} h"


def format_scenario_time(at_s: float, lasts_s: float) -> str:
    """A time since the beginning of a scenario: `13:30`, or `day 2 13:30` in a scenario of more than a day."""
    day, rest = divmod(round(at_s), _DAY_S)
    text = f"{rest // _HOUR_S:02d}:{rest % _HOUR_S // 60:02d}"
    return f"day {day + 1} {text}" if lasts_s > _DAY_S else text


def format_time_of_day(at_s: float) -> str:
    """The time of day in UTC: `02:31:23`."""
    return time_formats.format_time(at_s)[11:19]


def format_clock(at_s: float) -> str:
    """The time of day with its zone: `02:31:23 UTC`."""
    return f"{format_time_of_day(at_s)} UTC"


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


def format_count(number: float, thing: str, *, thousands: str = "") -> str:
    """`1 pod`, `12 pods`; `thousands` separates groups of digits."""
    return f"{number:{thousands}.0f} {thing}" if number == 1 else f"{number:{thousands}.0f} {thing}s"


def format_letter(number: int) -> str:
    """The letter of a run in a comparison: `A` for 0."""
    return chr(ord("A") + number % 26)


def format_number(value: float) -> str:
    """About three figures, without decimals where the value is whole or large."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def format_percent(fraction: float) -> str:
    return f"{fraction:.0%}"


def format_share(fraction: float) -> str:
    """A percentage with one decimal."""
    return f"{fraction:.1%}"


CURRENCY_VARIABLE = "WINDLASS_CURRENCY"
"""Environment variable with the currency of prices, such as `$` or `EUR`. Prices have none by default."""


def find_currency(given: str = "") -> str:
    """The currency that is given, otherwise that of the environment; empty: costs have no unit."""
    return (given or os.environ.get(CURRENCY_VARIABLE, "")).strip()


def format_money(value: float, currency: str = "", *, is_price: bool = False) -> str:
    """The one way to write a cost: `1,235`, `12.50`, `0.0052`. Small amounts, and the price of one node (`is_price`),
    have up to four decimals. `currency`: by default that of the environment.
    """
    if abs(value) >= 1000:
        return _add_currency(f"{value:,.0f}", currency)
    if not is_price and abs(value) >= 0.1:
        return _add_currency(f"{value:,.2f}", currency)
    whole, _, decimals = f"{value:.4f}".partition(".")
    return _add_currency(f"{whole}.{decimals[:2]}{decimals[2:].rstrip('0')}", currency)


def format_money_per_hour(value: float, currency: str = "", *, is_price: bool = False) -> str:
    return f"{format_money(value, currency, is_price=is_price)}/h"


def _add_currency(amount: str, currency: str) -> str:
    """A symbol goes before the amount, a code after it."""
    currency = find_currency(currency)
    return f"{amount} {currency}" if currency[:1].isalpha() else f"{currency}{amount}"


def format_list(names: Sequence[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def format_requests(asked: Mapping[str, int]) -> str:
    quantities = format_quantities(tuple(asked.items()))
    return ", ".join(f"{resource} {amount}" for resource, amount in quantities.items()) or "nothing"


def max_width(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], tones: TextStyle) -> list[str]:
    """Columns as wide as their widest entry; the last column is not padded."""
    widths = [max_width((head[i], *(row[i] for row in rows))) for i in range(len(head))]
    lines = [tones.faint(_format_line(head, widths))]
    return lines + [_format_line(row, widths) for row in rows]


def _format_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{cell:{width}}" for cell, width in zip(cells[:-1], widths[:-1], strict=True)]
    return "  ".join((*padded, cells[-1])).rstrip()
