"""Interning: any hashable value ↔ a small dense number, so that columns hold numbers and each value is judged once."""

import itertools
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import numpy as np

from windlass.engine import dtypes

T = TypeVar("T", bound=Hashable)


def number_anew(used: dtypes.Mask) -> dtypes.Ids:
    """Int32 (n,): the new numbers of values of which only those in use are kept, in their order; -1 for the others."""
    return np.where(used, np.cumsum(used) - 1, dtypes.ABSENT).astype(dtypes.ID)


class Index(Generic[T]):
    """Values in order of first appearance. A value's number changes only where others are forgotten (`keep`)."""

    __slots__ = ("_ids", "values")

    def __init__(self) -> None:
        self.values: list[T] = []
        self._ids: dict[T, int] = {}

    def intern(self, value: T) -> int:
        """The value's number, a new one if it was never seen."""
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self.values)
            self.values.append(value)
        return number

    def keep(self, used: dtypes.Mask) -> dtypes.Ids:
        """Forget all values but these, and number those anew: int32 (n), -1 where a value was forgotten."""
        self.values = list(itertools.compress(self.values, used.tolist()))
        self._ids = {value: number for number, value in enumerate(self.values)}
        return number_anew(used)

    def find(self, value: T) -> int:
        """The value's number, or -1 if it was never seen."""
        return self._ids.get(value, -1)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, number: int) -> T:
        return self.values[number]

    def __iter__(self) -> Iterator[T]:
        return iter(self.values)

    def __contains__(self, value: object) -> bool:
        return value in self._ids
