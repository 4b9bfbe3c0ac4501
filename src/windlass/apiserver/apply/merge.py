"""What a live object and an applied configuration become together: nothing is removed, the configuration wins.

Items of associative lists keep the live order unless the configuration orders them otherwise.
"""

from typing import Any

from windlass.apiserver.apply import fieldset
from windlass.apiserver.apply.compare import ABSENT
from windlass.apiserver.types import model


def merge(live: model.Json, applied: model.Json, type_: model.Type) -> model.Json:
    """The merged object. Parts of either may be shared with the result."""
    merged = _merge(live, applied, type_)
    return {} if merged is ABSENT else merged


def _merge(live: Any, applied: Any, type_: model.Type) -> Any:
    if applied is ABSENT:
        return live
    value = applied if applied is not None else live
    if isinstance(value, dict) and type_.map is not None:
        return _merge_maps(live, applied, type_.map)
    if isinstance(value, list) and type_.list is not None:
        return _merge_lists(live, applied, type_.list)
    return applied


def _merge_maps(live: Any, applied: Any, shape: model.Map) -> Any:
    left = live if isinstance(live, dict) else {}
    right = applied if isinstance(applied, dict) else {}
    if shape.is_atomic or not (left or right):
        return applied
    merged = {}
    for name in [*left, *(name for name in right if name not in left)]:
        below = shape.field(name) or model.DEDUCED
        value = _merge(left.get(name, ABSENT), right.get(name, ABSENT), below)
        if value is not ABSENT:
            merged[name] = value
    return merged or ABSENT


def _merge_lists(live: Any, applied: Any, shape: model.List) -> Any:
    left = live if isinstance(live, list) else []
    right = applied if isinstance(applied, list) else []
    if not shape.is_associative or not (left or right):
        return applied
    return _Interleaving(left, right, shape).run() or ABSENT


class _Interleaving:
    """Two lists taken together: walks both, live items in their place, applied ones in theirs."""

    def __init__(self, left: list[Any], right: list[Any], shape: model.List) -> None:
        self._shape = shape
        self._left, self._right = left, right
        self._left_elements = [fieldset.item_element(shape, item) for item in left]
        self._right_elements = [fieldset.item_element(shape, item) for item in right]
        self._live: dict[str, Any] = {}
        for element, item in zip(self._left_elements, left, strict=True):
            # Several live items of one key are not merged with anything.
            self._live[element] = None if element in self._live else item
        self._applied = dict(zip(self._right_elements, right, strict=True))
        self._shared = [element for element in self._right_elements if element in self._live]
        self._merged: list[Any] = []
        self._done: set[str] = set()

    def run(self) -> list[Any]:
        i = j = 0
        while i < len(self._left) or j < len(self._right):
            if i < len(self._left) and j < len(self._right):
                element = self._left_elements[i]
                if element == self._right_elements[j]:
                    self._take(element)
                    self._shared = self._shared[1:]
                    i, j = i + 1, j + 1
                    continue
                if element in self._applied and self._shared and self._shared[0] != element:
                    i += 1  # shared, but its turn comes later
                    continue
            if i < len(self._left):
                element = self._left_elements[i]
                if element not in self._applied:
                    self._add(_merge(self._left[i], ABSENT, self._shape.element))
                    i += 1
                    continue
                if element in self._done:
                    i += 1
            if j < len(self._right):
                element = self._right_elements[j]
                self._take(element)
                if self._shared and self._shared[0] == element:
                    self._shared = self._shared[1:]
                j += 1
        return self._merged

    def _take(self, element: str) -> None:
        self._done.add(element)
        self._add(_merge(self._live.get(element, ABSENT), self._applied[element], self._shape.element))

    def _add(self, value: Any) -> None:
        if value is not ABSENT:
            self._merged.append(value)
