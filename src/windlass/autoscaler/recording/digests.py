"""Digests: short names of large values, the same for the same value in any process.

Sets have no order and hashes differ from process to process, so both are brought into one first; so are whole numbers
that are floats in one place and ints in another.
"""

import dataclasses
import enum
import hashlib
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from windlass.autoscaler.recording import packing
from windlass.engine import shapes, story

_ATOMS = frozenset({str, int, bool, bytes, type(None)})
_BYTES = 12
_PASSED_OVER: Mapping[type[Any], frozenset[str]] = {
    shapes.Shape: frozenset({"id", "profile_id"}),  # when it was met for the first time, not what it is
    story.Story: frozenset({"nodes", "templates"}),  # large, and what they come to is in its other fields
}
"""Fields that tell nothing that must be compared."""
_pack = packing.pack


def digest(value: object) -> bytes:
    """The name of a value made of dataclasses, mappings, sequences, sets, arrays, texts and numbers."""
    return hashlib.blake2b(_pack(_flatten(value)), digest_size=_BYTES).digest()


def _flatten(value: Any) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    way = _WAYS.get(kind)
    if way is None:
        way = _WAYS[kind] = _find_way(kind)
    return way(value)


def _find_way(kind: type[Any]) -> Callable[[Any], Any]:
    """How values of a type are flattened. Asked once for each: a story has ten thousands of them."""
    if dataclasses.is_dataclass(kind):
        take = _take(kind)
        return lambda value: [_flatten(each) for each in take(value)]
    if issubclass(kind, enum.Enum):
        values = {each: _flatten(each.value) for each in kind}
        return values.__getitem__
    for known, way in _KNOWN:
        if issubclass(kind, known):
            return way
    return lambda value: kind.__name__  # what is no value tells nothing that could be compared


def _flatten_float(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _flatten_sequence(value: Sequence[Any]) -> Any:
    return value if _ATOMS.issuperset(map(type, value)) else [_flatten(each) for each in value]


def _flatten_mapping(value: Mapping[Any, Any]) -> Any:
    return [_flatten_sequence(list(value)), _flatten_sequence(list(value.values()))]


_KNOWN: tuple[tuple[type[Any], Callable[[Any], Any]], ...] = (
    (float, _flatten_float),
    (tuple, _flatten_sequence),
    (list, _flatten_sequence),
    (Mapping, _flatten_mapping),
    (frozenset, lambda value: sorted((_flatten(each) for each in value), key=_pack)),
    (set, lambda value: sorted((_flatten(each) for each in value), key=_pack)),
    (np.ndarray, lambda value: [str(value.dtype), value.shape, value.tobytes()]),
    (np.generic, lambda value: _flatten(value.item())),
    (range, lambda value: [value.start, value.stop, value.step]),
)
_WAYS: dict[type[Any], Callable[[Any], Any]] = {}


def _take(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    passed_over = _PASSED_OVER.get(kind, frozenset())
    names = [field.name for field in dataclasses.fields(kind) if field.init and field.name not in passed_over]
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)
