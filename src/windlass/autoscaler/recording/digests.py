"""Digests: short names of large values, the same for the same value in any process.

Sets have no order and hashes differ from process to process, so both are brought into one first; so are whole numbers
that are floats in one place and ints in another.
"""

import dataclasses
import enum
import hashlib
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec
import numpy as np

_ATOMS = frozenset({str, int, bool, bytes, type(None)})
_BYTES = 12
_pack = msgspec.msgpack.Encoder().encode


def digest(value: object) -> bytes:
    """The name of a value made of dataclasses, mappings, sequences, sets, arrays, texts and numbers."""
    return hashlib.blake2b(_pack(_flatten(value)), digest_size=_BYTES).digest()


def _flatten(value: Any) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is float:
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if kind is tuple or kind is list:
        return [_flatten(each) for each in value]
    if dataclasses.is_dataclass(kind):
        return [_flatten(each) for each in _take(kind)(value)]
    if isinstance(value, Mapping):
        return [[_flatten(key), _flatten(each)] for key, each in value.items()]
    if isinstance(value, frozenset | set):
        return sorted((_flatten(each) for each in value), key=_pack)
    return _flatten_rare(value)


def _flatten_rare(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), value.tobytes()]
    if isinstance(value, np.generic):
        return _flatten(value.item())
    if isinstance(value, range):
        return [value.start, value.stop, value.step]
    return type(value).__name__  # what is no value tells nothing that could be compared


@cache
def _take(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)
