"""What is told of settings, in the words that the table and the page share."""

from collections.abc import Iterator, Sequence

from windlass.sweep import tradeoffs
from windlass.sweep.comparing import BY_NAME, PENDING, Difference, Measure, Row

NO_ADVICE = "No settings are better than the current ones beyond what chance does between seeds. Keep them."
_HELD = ("evictions", "churn")
"""What else is told of settings that are better, wherever it differs: they may not be worth it."""

_NOTHING = ("0", "0s", "$0.00", "0.00")


def order(rows: Sequence[Row]) -> list[Row]:
    """The current settings, the best trade-offs, the other sound ones, the rest; each from the cheapest on."""
    cost = tradeoffs.choose_cost(rows)
    best = {row.number for row in tradeoffs.find_front(rows)}

    def rank(row: Row) -> tuple[int, float, float, int]:
        if not row.estimates:
            return 4, 0.0, 0.0, row.number
        kind = 0 if row.number == 0 else 1 if row.number in best else 2 if row.is_sound else 3
        return kind, row.mean(cost), row.mean(PENDING), row.number

    return sorted(rows, key=rank)


def tell_estimate(row: Row, name: str) -> tuple[str, str]:
    """The mean, and its spread over seeds where there is one."""
    if name not in row.estimates:
        return "–", ""
    found, measure = row.estimates[name], BY_NAME[name]
    spread = measure.spell(found.spread)
    return measure.spell(found.mean), "" if spread in _NOTHING else f"±{spread}"


def tell_differences(row: Row, current: Row) -> Iterator[str]:
    """A line for each of what is paid, how long pods wait, and what it does to them."""
    names = [tradeoffs.choose_cost([row, current]), PENDING]
    names += [name for name in _HELD if row.differences[name].mean]
    for name in names:
        measure, now, found = BY_NAME[name], current.mean(name), row.differences[name]
        # What speaks against settings is not played down as chance.
        is_clear = name not in _HELD or found.is_less or found.is_more
        change = f", {_tell_change(measure, found, now)}" if is_clear else ""
        yield f"{measure.title}: {measure.spell(now)} → {measure.spell(row.mean(name))}{change}"


def _tell_change(measure: Measure, found: Difference, now: float) -> str:
    if not found.mean:
        return "the same"
    sign = "+" if found.mean > 0 else "−"
    share = f" ({sign}{abs(found.mean) / now:.1%})" if now else ""
    if found.is_less or found.is_more:
        return f"{sign}{measure.spell(abs(found.mean))} ± {measure.spell(found.margin)}{share}"
    return f"{sign}{measure.spell(abs(found.mean))}{share}, which may be chance"


def tell_trouble(row: Row) -> list[str]:
    """Why not to take these settings."""
    told = [f"{row.violations} breaches of checks"] if row.violations else []
    told += [f"{len(row.missed)} expectations missed ({row.missed[0]})"] if row.missed else []
    told += [f"{len(row.failed)} runs failed ({row.failed[0]})"] if row.failed else []
    return told
