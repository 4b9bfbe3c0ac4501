"""An expression as words: numbers, strings, names and signs."""

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
            raise values.CompileError(f"unexpected {expression[at]!r} at position {at + 1}")
        kind, text = str(match.lastgroup), match.group()
        if kind != "blank":
            yield Word(kind, text, _value(kind, text, at), at)
        at = match.end()
    yield Word("end", "the end", None, at)


def _value(kind: str, text: str, at: int) -> int | float | str | bytes | None:
    match kind:
        case "int":
            number = int(text.rstrip("uU"), 0 if text[:2] in ("0x", "0X") else 10)
            if number > values.INT64[-1] + 1:
                raise values.CompileError(f"the number {text} at position {at + 1} is too large")
            return number
        case "float":
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
    if "r" not in prefix:
        content = _ESCAPE.sub(lambda found: _unescape(found, at), content)
    return content.encode("latin-1" if "\\x" in text else "utf-8") if "b" in prefix else content


def _unescape(found: re.Match[str], at: int) -> str:
    *codes, octal, letter = found.groups()
    for code in codes:
        if code is not None:
            return chr(int(code, 16))
    if octal is not None:
        return chr(int(octal, 8))
    if letter not in _ESCAPES:
        raise values.CompileError(f"unknown escape \\{letter} in the string at position {at + 1}")
    return _ESCAPES[letter]
