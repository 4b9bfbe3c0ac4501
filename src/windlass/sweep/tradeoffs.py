"""The best trade-offs between what nodes cost and how long pods wait, and which settings to take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.sweep.comparing import COST, NODE_HOURS, PENDING, Row

_NO_MORE = 0.05
"""A share of the current value: what is worse by no more than this is as good."""
_WORTH = 0.01
"""The same: what is better by less than this is not worth a change, however sure it is."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Settings that are better in a way, beyond chance."""

    title: str
    row: Row


def choose_cost(rows: Sequence[Row]) -> str:
    """What is paid for: money, or nodes where nothing has a price."""
    return COST if any(row.estimates and row.mean(COST) for row in rows) else NODE_HOURS


def find_front(rows: Sequence[Row]) -> list[Row]:
    """Sound settings of which no other is better in one and as good in the other; cheapest first."""
    cost = choose_cost(rows)
    front: list[Row] = []
    for row in sorted((one for one in rows if one.is_sound), key=lambda one: (one.mean(cost), one.mean(PENDING))):
        if not front or row.mean(PENDING) < front[-1].mean(PENDING):
            front.append(row)
    return front


def advise(rows: Sequence[Row]) -> list[Advice]:
    """At most one of each kind, each settings once; none where no difference is beyond chance."""
    given: dict[int, Advice] = {}
    for one in _advise(rows):
        given.setdefault(one.row.number, one)
    return list(given.values())


def _advise(rows: Sequence[Row]) -> Iterator[Advice]:
    cost, current = choose_cost(rows), rows[0]
    others = [row for row in rows[1:] if row.is_sound and row.differences]
    saves = "costs less" if cost == COST else "takes fewer node-hours"
    kinds = (
        (cost, PENDING, f"{saves}, and pods wait no longer"),
        (PENDING, cost, f"pods wait less, and it {'costs' if cost == COST else 'takes'} no more"),
        (cost, None, f"{saves}, and pods wait longer"),
        (PENDING, None, f"pods wait less, and it {'costs' if cost == COST else 'takes'} more"),
    )
    for gained, kept, title in kinds:
        better = [row for row in others if _is_gain(row, current, gained)]
        if kept is not None:
            better = [row for row in better if _is_no_more(row, current, kept)]
        if better:
            yield Advice(title, min(better, key=lambda row: (row.mean(gained), row.mean(kept or COST), row.number)))


def _is_gain(row: Row, current: Row, measure: str) -> bool:
    found = row.differences[measure]
    return found.is_less and -found.mean >= current.mean(measure) * _WORTH


def _is_no_more(row: Row, current: Row, measure: str) -> bool:
    """On the mean, not only not beyond chance: with few seeds that would let a great deal pass."""
    return row.mean(measure) <= current.mean(measure) * (1 + _NO_MORE)
