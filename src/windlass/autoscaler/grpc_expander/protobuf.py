"""Protobuf wire format: encodes mappings by tables of field numbers, and decodes fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
_VARINT_BYTES = 10
_INT64 = 1 << 64
_SMALL = [bytes([number]) for number in range(0x80)]
_LARGEST_NUMBER = (1 << 29) - 1


class NotProtobuf(ValueError):
    """Bytes that are not a valid message."""


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field: its number, the message type that it holds, if any, and whether it is a map."""

    number: int
    message: "ProtoMessage | None" = None
    is_map: bool = False


ProtoMessage = Mapping[str, ProtoField]
"""Fields by name."""


def encode_message(message: ProtoMessage, value: Mapping[str, Any]) -> bytes:
    """Encode a message from strings, bytes, numbers, bools, lists and mappings."""
    written = bytearray()
    for name, each in value.items():
        field = message[name]
        if each is None or each == "":
            continue
        if field.is_map:
            for key, of_key in each.items():
                entry = encode_delimited(1, key.encode()) + _encode_value(ProtoField(2, field.message), of_key)
                written += encode_delimited(field.number, entry)
        elif isinstance(each, list | tuple):
            for item in each:
                written += _encode_value(field, item)
        else:
            written += _encode_value(field, each)
    return bytes(written)


def _encode_value(field: ProtoField, value: Any) -> bytes:
    if field.message is not None:
        return encode_delimited(field.number, encode_message(field.message, value))
    if isinstance(value, str):
        return encode_delimited(field.number, value.encode())
    if isinstance(value, bytes):
        return encode_delimited(field.number, value)
    return encode_varint(field.number << 3 | VARINT) + encode_varint(value)


def encode_delimited(number: int, content: bytes) -> bytes:
    """Encode a length-delimited field: a string, bytes, or a message."""
    return encode_varint(number << 3 | BYTES) + encode_varint(len(content)) + content


def encode_varint(number: int) -> bytes:
    """Encode a varint; a negative number as int64."""
    if 0 <= number <= 0x7F:
        return _SMALL[number]
    left = number % _INT64 if number < 0 else number
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def read_fields(content: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield (number, wire type, value) of each field, in order. NotProtobuf for invalid bytes."""
    at, end = 0, len(content)
    while at < end:
        tag, at = (content[at], at + 1) if content[at] < 0x80 else _read_varint(content, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number <= _LARGEST_NUMBER:
            raise NotProtobuf(f"byte {at}: found field number {number}, expected 1 to {_LARGEST_NUMBER}")
        if kind == VARINT:
            value, at = _read_varint(content, at)
            yield number, kind, value
            continue
        if kind == BYTES and at < end:
            size, at = (content[at], at + 1) if content[at] < 0x80 else _read_varint(content, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise NotProtobuf(f"byte {at}: found wire type {kind}, expected 0, 1, 2 or 5 and a value")
        if size > end - at:
            raise NotProtobuf(f"byte {at}: found {end - at} bytes, expected {size} more")
        yield number, kind, content[at : at + size]
        at += size


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(content[at : at + _VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if number >= _INT64:
                break
            return number, at + place + 1
    raise NotProtobuf(f"byte {at}: found no whole number of at most 64 bits")
