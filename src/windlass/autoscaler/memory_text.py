"""Memory as bytes: small enough for a few ConfigMaps, each of which holds 1 MiB in all.

Most of a large memory are timers: times by node name. These are written as columns: names in order, each with the
length of what it shares with the one before it, and times as doubles, exactly as they are. The rest is JSON. Equal
memories give equal bytes.

    windlass-memory 2 ⏎ zlib( length of the JSON · JSON · columns of times )

What earlier versions wrote as text (base64 of compressed JSON) is read as well.
"""

import base64
import binascii
import json
import struct
import zlib
from typing import Any

from windlass import errors
from windlass.engine import memory, memory_codec

MAGIC = b"windlass-memory 2\n"

_LEAST_IN_COLUMN = 16
"""Fewer times are as well off where they are."""
_MAX_PLAIN_BYTES = 2**28
"""What unfolds into more was not written here."""
_LENGTH = struct.Struct("<I")
_COLUMN, _NAMES, _AS = "$column", "$names", "$as"


def write(durable: memory.Durable) -> bytes:
    plain = memory_codec.to_plain(durable)
    _leave_out_previous(plain["durable"])
    times: list[float] = []
    columned = _take_out_columns(plain, times)
    spelled = json.dumps(columned, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
    packed = _LENGTH.pack(len(spelled)) + spelled + struct.pack(f"<{len(times)}d", *times)
    return MAGIC + zlib.compress(packed)


def read(found: bytes | str) -> memory.Durable:
    """The memory that was written. `errors.InvalidInput` says what is wrong with what cannot be read."""
    if isinstance(found, str):
        return memory_codec.from_plain(_read_text(found))
    try:
        return memory_codec.from_plain(_unpack(found))
    except (zlib.error, ValueError, LookupError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise errors.InvalidInput(f"memory: found {len(found)} bytes that cannot be read: {error}") from error


# ── Columns ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _leave_out_previous(durable: memory_codec.Plain) -> None:
    """Nodes that were unneeded when last looked at are nearly always those with a timer."""
    looked = durable.get("scale_down", {})
    if looked.get("previous") and looked["previous"] == sorted(looked.get("since", ())):
        looked["previous"] = {_AS: "since"}


def _take_out_columns(plain: Any, times: list[float]) -> Any:
    if not isinstance(plain, dict):
        return plain
    if len(plain) >= _LEAST_IN_COLUMN and all(type(each) is float for each in plain.values()):
        names = sorted(plain)
        if not any("\n" in name for name in names):
            times += [plain[name] for name in names]
            return {_COLUMN: len(names), _NAMES: _shorten(names)}
    return {key: _take_out_columns(plain[key], times) for key in sorted(plain)}


def _put_columns_back(plain: Any, times: "list[float]") -> Any:
    """`times` are in the order in which they were taken out, and are taken from its end: it is given reversed."""
    if not isinstance(plain, dict):
        return plain
    if _COLUMN in plain:
        return {name: times.pop() for name in _lengthen(plain[_NAMES])}
    return {key: _put_columns_back(plain[key], times) for key in sorted(plain)}


def _shorten(names: list[str]) -> str:
    before, shortened = "", []
    for name in names:
        shared = _count_shared(before, name)
        shortened.append(f"{shared} {name[shared:]}")
        before = name
    return "\n".join(shortened)


def _count_shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _lengthen(shortened: str) -> list[str]:
    before, names = "", []
    for line in shortened.split("\n"):
        shared, _, rest = line.partition(" ")
        before = before[: int(shared)] + rest
        names.append(before)
    return names


def _unpack(found: bytes) -> Any:
    if not found.startswith(MAGIC):
        raise ValueError(f"it begins with {found[: len(MAGIC)]!r}, expected {MAGIC!r}")
    packed = _unfold(found[len(MAGIC) :])
    (length,) = _LENGTH.unpack_from(packed)
    begin = _LENGTH.size + length
    times = struct.unpack(f"<{(len(packed) - begin) // 8}d", packed[begin:])
    plain = _put_columns_back(json.loads(packed[_LENGTH.size : begin]), list(reversed(times)))
    looked = plain["durable"].get("scale_down", {})
    if isinstance(looked.get("previous"), dict):
        looked["previous"] = sorted(looked[looked["previous"][_AS]])
    return plain


# ── What earlier versions wrote ──────────────────────────────────────────────────────────────────────────────────


def _read_text(text: str) -> Any:
    try:
        compressed = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeError) as error:
        raise errors.InvalidInput(f"memory: found {text!r:.60}, expected base64: {error}") from error
    try:
        return json.loads(_unfold(compressed))
    except (zlib.error, ValueError, RecursionError) as error:
        raise errors.InvalidInput(
            f"memory: found {len(compressed)} bytes, expected compressed JSON: {error}"
        ) from error


def _unfold(compressed: bytes) -> bytes:
    unfolding = zlib.decompressobj()
    plain = unfolding.decompress(compressed, _MAX_PLAIN_BYTES)
    if not unfolding.eof:
        raise ValueError("it is cut off, or too long")
    return plain
