"""Rebasing: what is remembered, after the clock by which it was noted turned out to be wrong.

All numbers of the durable memory are moments, but for the few that say how long something lasts. When the wall clock
is set, moments move with it, so that nothing is over too early and nothing lasts too long.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from windlass.engine import memory

T = TypeVar("T")

LASTING = frozenset({"duration_s", "shortest_s", "delays"})
"""Fields that hold no moments."""
AHEAD = frozenset({"until_s", "expected_by_s", "rechecks"})
"""Fields whose moments may be still to come."""


def rebase(durable: memory.Durable, by_s: float) -> memory.Durable:
    """The same, as if every moment had been so much later."""
    return move(durable, by_s) if by_s else durable


def latest_s(durable: memory.Durable) -> float:
    """The last moment of which is remembered that something was so. Before all time if there is none."""
    return max(_moments(durable), default=float("-inf"))


def move(value: T, by_s: float) -> T:
    """The value, as if every moment in it had been so much later."""
    if isinstance(value, float):
        return value + by_s  # type: ignore[return-value]
    if isinstance(value, Mapping):
        return {key: move(each, by_s) for key, each in value.items()}  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(move(each, by_s) for each in value)  # type: ignore[return-value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        moved = {name: move(each, by_s) for name, each in _parts(value) if name not in LASTING}
        return dataclasses.replace(value, **moved)
    return value


def _moments(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _moments(each)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name, each in _parts(value):
            if name not in LASTING | AHEAD:
                yield from _moments(each)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
