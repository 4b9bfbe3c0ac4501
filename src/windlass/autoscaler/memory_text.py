"""Memory as text: small enough for one ConfigMap, whose values must be UTF-8 and which holds 1 MiB in all.

Node names and times repeat, so compressing pays: JSON, then zlib, then base64. Equal memories give equal texts.
"""

import base64
import binascii
import json
import zlib

from windlass import errors
from windlass.engine import memory, memory_codec

MAX_BYTES = 2**20
"""What a ConfigMap holds, its keys included; the API server refuses more."""

_MAX_PLAIN_BYTES = 2**28
"""A text that unfolds into more was not written here."""


def write(durable: memory.Durable) -> str:
    """The memory as ASCII text."""
    plain = json.dumps(memory_codec.to_plain(durable), separators=(",", ":"), sort_keys=True, allow_nan=False)
    return base64.b64encode(zlib.compress(plain.encode())).decode()


def read(text: str) -> memory.Durable:
    """The memory that was written. `errors.InvalidInput` says what is wrong with a text that cannot be read."""
    try:
        compressed = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeError) as error:
        raise errors.InvalidInput(f"memory: found {text!r:.60}, expected base64: {error}") from error
    try:
        plain = json.loads(_unfold(compressed))
    except (zlib.error, ValueError, RecursionError) as error:
        raise errors.InvalidInput(
            f"memory: found {len(compressed)} bytes, expected compressed JSON: {error}"
        ) from error
    return memory_codec.from_plain(plain)


def _unfold(compressed: bytes) -> bytes:
    unfolding = zlib.decompressobj()
    plain = unfolding.decompress(compressed, _MAX_PLAIN_BYTES)
    if not unfolding.eof:
        raise ValueError("it is cut off, or too long")
    return plain
