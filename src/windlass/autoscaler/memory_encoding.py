"""Memory encoding: compresses and restores the durable memory.

Unneeded-since times are packed as columns and node names share prefixes, so that large memories fit few ConfigMaps of
1 MiB each. Decoding is bounded in size and raises InvalidInput for anything else.
"""

import base64
import binascii
import json
import struct
import zlib
from typing import Any

from windlass import errors
from windlass.engine.model import durable_memory

MAGIC = b"windlass-memory 2\n"

_MIN_COLUMN_LENGTH = 16
"""Minimum number of times worth packing into a column."""
_MAX_DECODED_BYTES = 2**28
"""Maximum decoded size in bytes; larger data was not written here."""
_LENGTH = struct.Struct("<I")
_COLUMN, _NAMES, _AS = "$column", "$names", "$as"


def encode_memory(durable: durable_memory.DurableMemory) -> bytes:
    plain = durable_memory.to_plain(durable)
    _drop_previous_unneeded(plain["durable"])
    times: list[float] = []
    columned = _extract_columns(plain, times)
    spelled = json.dumps(columned, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
    packed = _LENGTH.pack(len(spelled)) + spelled + struct.pack(f"<{len(times)}d", *times)
    return MAGIC + zlib.compress(packed)


def decode_memory(found: bytes | str) -> durable_memory.DurableMemory:
    """Decode a memory. `errors.InvalidInput` if it cannot be read."""
    if isinstance(found, str):
        return durable_memory.from_plain(_read_text(found))
    try:
        return durable_memory.from_plain(_unpack(found))
    except (zlib.error, ValueError, LookupError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise errors.InvalidInput(f"memory: found {len(found)} bytes that cannot be read: {error}") from error


# ── Columns ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _drop_previous_unneeded(durable: durable_memory.Plain) -> None:
    """Drop previously unneeded nodes that have a timer, as nearly all do."""
    looked = durable.get("scale_down", {})
    if looked.get("previous") and looked["previous"] == sorted(looked.get("since", ())):
        looked["previous"] = {_AS: "since"}


def _extract_columns(plain: Any, times: list[float]) -> Any:
    if not isinstance(plain, dict):
        return plain
    if len(plain) >= _MIN_COLUMN_LENGTH and all(type(item) is float for item in plain.values()):
        names = sorted(plain)
        if not any("\n" in name for name in names):
            times += [plain[name] for name in names]
            return {_COLUMN: len(names), _NAMES: _compress_prefixes(names)}
    return {key: _extract_columns(plain[key], times) for key in sorted(plain)}


def _restore_columns(plain: Any, times: "list[float]") -> Any:
    """Restore packed times. `times` is reversed: it is consumed from its end in the order of extraction."""
    if not isinstance(plain, dict):
        return plain
    if _COLUMN in plain:
        return {name: times.pop() for name in _expand_prefixes(plain[_NAMES])}
    return {key: _restore_columns(plain[key], times) for key in sorted(plain)}


def _compress_prefixes(names: list[str]) -> str:
    before, shortened = "", []
    for name in names:
        shared = _common_prefix_length(before, name)
        shortened.append(f"{shared} {name[shared:]}")
        before = name
    return "\n".join(shortened)


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _expand_prefixes(shortened: str) -> list[str]:
    before, names = "", []
    for line in shortened.split("\n"):
        shared, _, rest = line.partition(" ")
        before = before[: int(shared)] + rest
        names.append(before)
    return names


def _unpack(found: bytes) -> Any:
    if not found.startswith(MAGIC):
        raise ValueError(f"it begins with {found[: len(MAGIC)]!r}, expected {MAGIC!r}")
    packed = _expand_columns(found[len(MAGIC) :])
    (length,) = _LENGTH.unpack_from(packed)
    begin = _LENGTH.size + length
    times = struct.unpack(f"<{(len(packed) - begin) // 8}d", packed[begin:])
    plain = _restore_columns(json.loads(packed[_LENGTH.size : begin]), list(reversed(times)))
    looked = plain["durable"].get("scale_down", {})
    if isinstance(looked.get("previous"), dict):
        looked["previous"] = sorted(looked[looked["previous"][_AS]])
    return plain


# ── Formats of earlier versions ────────────────────────────────────────────────────────────────────────────────


def _read_text(text: str) -> Any:
    try:
        compressed = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeError) as error:
        raise errors.InvalidInput(f"memory: found {text!r:.60}, expected base64: {error}") from error
    try:
        return json.loads(_expand_columns(compressed))
    except (zlib.error, ValueError, RecursionError) as error:
        raise errors.InvalidInput(
            f"memory: found {len(compressed)} bytes, expected compressed JSON: {error}"
        ) from error


def _expand_columns(compressed: bytes) -> bytes:
    unfolding = zlib.decompressobj()
    plain = unfolding.decompress(compressed, _MAX_DECODED_BYTES)
    if not unfolding.eof:
        raise ValueError("it is cut off, or too long")
    return plain
