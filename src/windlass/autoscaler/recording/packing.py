"""Packing: plain values as msgpack, of whatever size their numbers are, and back within a bound of memory.

msgpack ends at 64 bits. An amount of Kubernetes does not (`1e5000` is one), so a larger number goes as an extension
with its bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

_LARGE_INT = 1
"""The code of the extension."""

_encode = msgspec.msgpack.Encoder().encode


def pack(value: Any) -> bytes:
    try:
        return _encode(value)
    except OverflowError:
        return _encode(_wrap(value))


def _wrap(value: Any) -> Any:
    """The same with the numbers wrapped that msgpack cannot spell."""
    if isinstance(value, bool | str | bytes | float) or value is None:
        return value
    if isinstance(value, int):
        if -(2**63) <= value < 2**64:
            return value
        return msgspec.msgpack.Ext(_LARGE_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, Mapping):
        return {_wrap(key): _wrap(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_wrap(each) for each in value]
    return value


def _unwrap(code: int, data: memoryview) -> Any:
    if code != _LARGE_INT:
        raise ValueError(f"found extension {code}, expected {_LARGE_INT}")
    return int.from_bytes(data, "big", signed=True)


unpack = msgspec.msgpack.Decoder(ext_hook=_unwrap).decode
"""A value again. `msgspec.DecodeError`, RecursionError or ValueError for what `pack` did not write."""


def estimate_bytes(packed: bytes) -> int:
    """At most so much memory the value takes, nearly: by how often each byte is there that may begin a value.

    A byte of text costs as much as the place of a small value in a list, so this is never far too little.
    """
    counts = np.bincount(np.frombuffer(packed, np.uint8), minlength=256)
    return int(counts @ _COSTS)


def _find_costs() -> Any:
    costs = np.full(256, 8, np.int64)  # a place in a list, with a value that exists already: nil, true, a small number
    costs[0x80] = 64 + 8  # an empty map
    costs[0x81:0x90] = 232
    costs[0x90:0xA0] = 56 + 8
    costs[0xA1:0xC0] = 49 + 8  # a short text
    costs[0xC4:0xE0] = 56 + 8  # all else that is not one byte
    costs[0xE0:] = 28 + 8  # small negative numbers, of which five exist already
    return costs


_COSTS = _find_costs()
