"""Interning: any hashable value ↔ a small dense number, so that columns hold numbers and each value is judged once."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Index(Generic[T]):
    """Values in order of first appearance. A value's number never changes and is never given to another."""

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
