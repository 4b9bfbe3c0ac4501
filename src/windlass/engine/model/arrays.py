"""NumPy dtypes of the engine's columns, and interning of hashable values as dense ids.

RESOURCE_DTYPE  int64: bytes of memory overflow anything smaller, and sums must be exact (no floats for resources)
COUNT_DTYPE     int32: pods per node or domain; a cluster has well under 2^31 pods
ID_DTYPE        int32: positions in an `Index`; -1 (`ABSENT`) means absent
"""

import itertools
from collections.abc import Hashable, Iterator
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

RESOURCE_DTYPE = np.int64

COUNT_DTYPE = np.int32

ID_DTYPE = np.int32

ABSENT = -1

Mask: TypeAlias = npt.NDArray[np.bool_]

Amounts: TypeAlias = npt.NDArray[np.int64]

Counts: TypeAlias = npt.NDArray[np.int32]

Ids: TypeAlias = npt.NDArray[np.int32]

Rows: TypeAlias = npt.NDArray[np.intp]

Interned = TypeVar("Interned", bound=Hashable)


def renumber_used(used: Mask) -> Ids:
    """Int32 (n,): new ids of the values in use, in their order; -1 for values that are dropped."""
    return np.where(used, np.cumsum(used) - 1, ABSENT).astype(ID_DTYPE)


class Index(Generic[Interned]):
    """Values in order of first appearance; a value's id is its position. Only `keep` changes ids."""

    __slots__ = ("_ids", "values")

    def __init__(self) -> None:
        self.values: list[Interned] = []
        self._ids: dict[Interned, int] = {}

    def intern(self, value: Interned) -> int:
        """The value's id; a new one if the value is not in the index."""
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self.values)
            self.values.append(value)
        return number

    def keep(self, used: Mask) -> Ids:
        """Drop all other values and renumber. Returns int32 (n,): new id by old id, -1 where a value was dropped."""
        self.values = list(itertools.compress(self.values, used.tolist()))
        self._ids = {value: number for number, value in enumerate(self.values)}
        return renumber_used(used)

    def find(self, value: Interned) -> int:
        """The value's id, or -1 if it is not in the index."""
        return self._ids.get(value, -1)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, number: int) -> Interned:
        return self.values[number]

    def __iter__(self) -> Iterator[Interned]:
        return iter(self.values)

    def __contains__(self, value: object) -> bool:
        return value in self._ids
