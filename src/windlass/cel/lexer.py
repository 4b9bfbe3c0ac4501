"""An expression as words: numbers, strings, names and signs."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.cel import values

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'",
            '"': '"', "`": "`", "?": "?"}  # fmt: skip
_WORD = re.compile(
    r"""(?P<blank>[ \t\r\n\f]+|//[^\n]*)
      | (?P<float>(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?))
      | (?P<int>0[xX][0-9a-fA-F]+[uU]?|[0-9]+[uU]?)
      | (?P<text>(?:[bB][rR]?|[rR][bB]?)?(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''
          |\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))
      | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
      | (?P<quoted>`[a-zA-Z0-9_.\-/ ]+`)
      | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%!?:.,()\[\]{}<>])""",
    re.VERBOSE | re.DOTALL,
)
_SURROGATES = range(0xD800, 0xE000)
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of an expression, and where it begins."""

    kind: str
    """`int`, `float`, `text`, `name`, `quoted`, `sign` or `end`."""
    text: str
    value: int | float | str | bytes | None
    at: int


def split(expression: str) -> Iterator[Word]:
    """The words of an expression and one that marks its end. CompileError at what is none."""
    at = 0
    while at < len(expression):
        match = _WORD.match(expression, at)
        if match is None:
            raise values.CompileError(f"Syntax error: token recognition error at: '{expression[at]}'", at)
        kind, text = str(match.lastgroup), match.group()
        if kind != "blank":
            yield Word(kind, text, _value(kind, text, at), at)
        at = match.end()
    yield Word("end", "the end", None, at)


def _value(kind: str, text: str, at: int) -> int | float | str | bytes | None:
    match kind:
        case "int":
            digits = text.rstrip("uU").lower().removeprefix("0x").lstrip("0")
            number = int(digits or "0", 16 if text[:2] in ("0x", "0X") else 10) if len(digits) <= 20 else 2**64
            if text[-1] in "uU" and number in values.UINT64:
                return values.Uint(number)
            if number > values.INT64[-1] + 1:
                raise values.CompileError(f"invalid {'uint' if text[-1] in 'uU' else 'int'} literal", at)
            return number
        case "float":
            if math.isinf(float(text)):
                raise values.CompileError("invalid double literal", at)
            return float(text)
        case "text":
            return _read_text(text, at)
        case _:
            return None


def _read_text(text: str, at: int) -> str | bytes:
    prefix = text[: min(text.index(quote) for quote in "'\"" if quote in text)].lower()
    body = text[len(prefix) :]
    width = 3 if len(body) >= 6 and body[:3] in ('"""', "'''") else 1
    content = body[width:-width]
    if "b" in prefix:
        return _read_bytes(content, "r" in prefix, at)
    return content if "r" in prefix else _ESCAPE.sub(lambda found: _unescape(found, at), content)


def _read_bytes(content: str, is_raw: bool, at: int) -> bytes:
    """Characters in UTF-8; an escaped number is one byte."""
    made, end = b"", 0
    for found in () if is_raw else _ESCAPE.finditer(content):
        if found[2] is not None or found[3] is not None:
            raise values.CompileError("unable to unescape string", at)
        made += content[end : found.start()].encode() + _unescape(found, at).encode("latin-1")
        end = found.end()
    return made + content[end:].encode()


def _unescape(found: re.Match[str], at: int) -> str:
    *codes, octal, letter = found.groups()
    for code in codes:
        if code is not None:
            if not 0 <= (number := int(code, 16)) <= 0x10FFFF or number in _SURROGATES:
                raise values.CompileError("invalid unicode code point", at)
            return chr(number)
    if octal is not None:
        return chr(int(octal, 8))
    if letter not in _ESCAPES:
        raise values.CompileError(f"Syntax error: token recognition error at the escape \\{letter}", at)
    return _ESCAPES[letter]
