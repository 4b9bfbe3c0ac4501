"""Manifest input: API objects from files and standard input, in all formats of Kubernetes' own tools.

One JSON document (`kubectl get -o json`), several (JSON lines, or one after the other), a JSON array, or YAML with any
number of documents. Large clusters come as JSON, so JSON is never parsed as YAML.
"""

import codecs
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from windlass import errors, input_files
from windlass.kube import scheme, yaml_documents

STANDARD_INPUT = "-"

EXPECTED_OBJECTS = "objects such as `kubectl get nodes,pods -A -o json` prints"
_FIRST_BYTE = re.compile(rb"\s*(\S?)")
_NON_BLANK = re.compile(r"\S")
_BYTE_POSITION = re.compile(r"(.*) \(byte (\d+)\)")


def read_documents(sources: Sequence[str]) -> list[scheme.Raw]:
    """The documents of all sources, in order; `-` is standard input. InvalidInput for an unreadable source."""
    return [document for source in sources for document in _read_source(source)]


def _read_source(source: str) -> Iterator[scheme.Raw]:
    text = _load(source)
    first = _first_byte(text)
    if not first:
        raise errors.InvalidInput(f"{source}: it is empty, expected {EXPECTED_OBJECTS}")
    is_json = first in b"{["
    try:
        if is_json and source.endswith((".yaml", ".yml")):
            is_json = _is_json(text)  # YAML may begin with a brace, too
        yield from _read_json(text, source) if is_json else _read_yaml(text, source)
    except RecursionError as error:
        raise errors.InvalidInput(f"{source}: it is nested deeper than can be read") from error


def _first_byte(text: bytes) -> bytes:
    """The first byte that is not blank; empty if there is none."""
    first = _FIRST_BYTE.match(text)
    return first[1] if first else b""


def _load(source: str) -> bytes:
    """All bytes of a source, as UTF-8."""
    try:
        is_piped = source == STANDARD_INPUT
        text = input_files.read_stream(sys.stdin.buffer) if is_piped else input_files.read_bytes(Path(source))
    except OSError as error:
        raise errors.InvalidInput(f"{source}: {(error.strerror or str(error)).lower()}") from error
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # some shells write a byte order mark into files
        return text.decode("utf-16", errors="replace").encode()
    return text.removeprefix(codecs.BOM_UTF8)


# JSON


def _read_json(text: bytes, source: str) -> Iterator[scheme.Raw]:
    try:
        yield from _open_array(_compact(text))
    except msgspec.DecodeError as error:
        if "trailing characters" not in str(error):
            raise errors.InvalidInput(f"{source}: {_describe_error(error, text)}") from error
        for document in _split(text, source):
            yield from _open_array(document)


def _compact(text: bytes) -> bytes:
    """The document without blanks, as an API server writes it: equal templates then have equal bytes."""
    return msgspec.json.format(text, indent=-1)


def _open_array(text: bytes) -> Iterator[scheme.Raw]:
    if text.startswith(b"["):
        yield from msgspec.json.decode(text, type=list[msgspec.Raw])
    else:
        yield text


def _split(text: bytes, source: str) -> list[bytes]:
    """Split a stream of documents. One document per line is the fast path."""
    try:
        return [_compact(line) for line in text.splitlines() if line.strip()]
    except msgspec.DecodeError:
        return [_compact(document.encode()) for document in _scan(text.decode(errors="replace"), source)]


def _scan(text: str, source: str) -> Iterator[str]:
    decoder = json.JSONDecoder()
    start = 0
    while match := _NON_BLANK.search(text, start):
        start = match.start()
        try:
            _, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            where = _format_position(error.lineno, error.colno)
            raise errors.InvalidInput(f"{source}: {where}: not JSON: {error.msg.lower()}") from error
        yield text[start:end]
        start = end


def _is_json(text: bytes) -> bool:
    try:
        _compact(text)
    except msgspec.DecodeError as error:
        return "trailing characters" in str(error)
    return True


def _describe_error(error: msgspec.DecodeError, text: bytes) -> str:
    known = _BYTE_POSITION.fullmatch(str(error))
    what, end = (known[1], int(known[2])) if known else (str(error), len(text))
    line, start = text.count(b"\n", 0, end) + 1, text.rfind(b"\n", 0, end)
    return f"{_format_position(line, end - start)}: not JSON: {what.removeprefix('JSON is malformed: ').lower()}"


def _format_position(line: int, column: int) -> str:
    return f"line {line}, column {column}"


# YAML


def _read_yaml(text: bytes, source: str) -> Iterator[scheme.Raw]:
    for number, document in enumerate(yaml_documents.read_documents(text, source), start=1):
        for item in document if isinstance(document, list) else [document]:
            if not isinstance(item, dict):
                raise errors.InvalidInput(
                    f"{source}: document {number}: found {_shorten(item)}, expected {EXPECTED_OBJECTS}"
                )
            yield _encode(item)


def _encode(document: dict[str, object]) -> scheme.Raw:
    try:
        return scheme.as_json(document)
    except errors.InvalidObject:
        return document  # the reader of the object reports it as unreadable


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
