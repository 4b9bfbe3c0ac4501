"""Lenient decoding: the valid part of an object that cannot be decoded as a whole.

All functions are iterative, so that no nesting overflows the stack.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from windlass.kube.models import meta

T = TypeVar("T")

MAX_DEPTH = 100
"""Maximum kept depth. Used fields are at most some twenty levels deep; decoders fail at a thousand."""
_MOST_FIELDS = 100
"""Maximum invalid fields that are removed from one object."""
_LONGEST_NUMBER = 40
_LONGEST_KEPT = 512
"""Maximum length of a name or other identifying text."""

_SHALLOW = 3
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_PATH = re.compile(r".* - at `(?P<path>[^`]*)`", re.DOTALL)
_STEP = re.compile(r"\[\.\.\.\]|\[(\d+)\]|\.?([^.\[\]]+)")
_IDENTITY = {b'"name"': "name", b'"namespace"': "namespace", b'"uid"': "uid", b'"resourceVersion"': "resourceVersion"}


def repair_json(text: bytes) -> bytes:
    """Repair JSON: lone surrogates become U+FFFD, and values below the maximum depth become null."""
    return _cut_depth(_replace_surrogates(text.decode(errors="replace").encode()))


def repair_spec(spec: msgspec.Raw) -> msgspec.Raw:
    """Repair a part of an object that is decoded later."""
    return msgspec.Raw(repair_json(bytes(spec)))


def _replace_surrogates(text: bytes) -> bytes:
    if b"\\u" not in text:
        return text
    parts: list[bytes] = []
    end, high = 0, None
    for match in _ESCAPE.finditer(text):
        code = int(match[1], 16) if match[1] else 0
        follows = high is not None and match.start() == end
        if high is not None and not (follows and 0xDC00 <= code <= 0xDFFF):
            parts[-1] = b"\\ufffd"  # a high surrogate without its low one
        parts += (text[end : match.start()], match[0])
        if 0xDC00 <= code <= 0xDFFF and not follows:
            parts[-1] = b"\\ufffd"
        high = code if 0xD800 <= code <= 0xDBFF else None
        end = match.end()
    if high is not None:
        parts[-1] = b"\\ufffd"
    return b"".join((*parts, text[end:]))


def _cut_depth(text: bytes) -> bytes:
    """Replace arrays and objects below the maximum depth by null."""
    parts: list[bytes] = []
    depth, end, cut_from = 0, 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _OPENING:
            depth += 1
            if depth == MAX_DEPTH + 1:
                cut_from = match.start()
        elif token in _CLOSING:
            if depth == MAX_DEPTH + 1:
                parts += (text[end:cut_from], b"null")
                end = match.end()
            depth -= 1
    return b"".join((*parts, text[end:])) if parts else text


def split_list(text: bytes) -> tuple[bytes, list[bytes]]:
    """The text of a list without its items, and the text of each item. ValueError if it has no items."""
    items: list[bytes] = []
    depth, begun, ended, start = 0, -1, -1, 0
    key = previous = b""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _OPENING:
            depth += 1
            if depth == 2 and token == b"[" and key == b'"items"' and begun < 0:
                begun = start = match.end()
        elif token in _CLOSING:
            depth -= 1
            if depth == 1 and begun >= 0 > ended:
                ended = match.start()
                items.append(text[start:ended])
        elif token == b"," and depth == 2 and begun >= 0 > ended:
            items.append(text[start : match.start()])
            start = match.end()
        elif token == b":" and depth == 1:
            key = previous
        previous = token
    if ended < 0:
        raise ValueError("no items")
    return text[:begun] + text[ended:], [item for item in items if item.strip()]


def read_identity(text: bytes, within: tuple[bytes, ...] = ()) -> meta.ObjectMeta:
    """Identity of an object from its text; `within` are enclosing keys, as in a watch event."""
    found: dict[str, str] = {}
    for around, key, token in _texts(text):
        if key in _IDENTITY and around == (*within, b'"metadata"'):
            found.setdefault(_IDENTITY[key], _read_text(token))
    return msgspec.convert(found, meta.ObjectMeta)


def read_event_type(text: bytes) -> str:
    """The type of a watch event; empty if the text has none."""
    return next((_read_text(token) for around, key, token in _texts(text) if not around and key == b'"type"'), "")


def _texts(text: bytes) -> Iterator[tuple[tuple[bytes, ...], bytes, bytes]]:
    """(enclosing keys, key, value) of each string, down to the depth of a watch event's metadata."""
    around: list[bytes] = []
    depth, key, previous = 0, b"", b""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _OPENING:
            depth += 1
            around[min(depth, _SHALLOW + 1) - 1 :] = [key]
            key = b""
        elif token in _CLOSING:
            depth -= 1
            key = b""
        elif token == b":":
            key = previous
        elif token == b",":
            key = b""
        elif key and token[:1] == b'"' and depth <= _SHALLOW:
            yield tuple(around[1:depth]), key, token
        previous = token


def _read_text(token: bytes) -> str:
    try:
        text = msgspec.json.decode(_replace_surrogates(token), type=str)
    except msgspec.MsgspecError:
        text = token.strip(b'"').decode(errors="replace")
    return text[:_LONGEST_KEPT]


def decode_partial(decoder: "msgspec.json.Decoder[T]", text: bytes) -> T | None:
    """Decode the object without its invalid fields; None if nothing is left."""
    try:
        text = repair_json(text)
        for _ in range(_MOST_FIELDS):
            try:
                return decoder.decode(text)
            except msgspec.ValidationError as error:
                complaint = _PATH.fullmatch(str(error))
                tree = json.loads(text, parse_int=_read_int, parse_float=_read_float)
                if complaint is None or not _null_path(tree, complaint["path"]):
                    return None
                before, text = text, json.dumps(tree).encode()
                if text == before:
                    return None
    except (ValueError, LookupError, TypeError, RecursionError, MemoryError):
        pass
    return None


def _read_int(text: str) -> int | str:
    """Decode an integer; one that exceeds every model is removed like other invalid fields."""
    return int(text) if len(text) <= _LONGEST_NUMBER else text[:_LONGEST_NUMBER]


def _read_float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text[:_LONGEST_NUMBER]


def _null_path(tree: Any, path: str) -> bool:
    """Set the value at a path to null; without a map key, the whole map. False if the path does not exist."""
    steps: list[str | int] = []
    for match in _STEP.finditer(path.removeprefix("$")):
        if match[0] == "[...]":
            break
        steps.append(int(match[1]) if match[1] else match[2])
    while steps:
        parent = tree
        for step in steps[:-1]:
            parent = parent[step]
        last = steps.pop()
        if isinstance(parent, list) and isinstance(last, int):
            del parent[last]
            return True
        if parent[last] is not None or not steps:  # null is invalid too: remove the parent
            parent[last] = None
            return True
    return False
