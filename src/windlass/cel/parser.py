"""Lexer, syntax tree and parser of CEL.

The nodes of the tree carry the position of their first character (`at`) for error messages. Each grammar rule is one
method of the parser, from the loosest binding to the tightest; rules are generators, so that nesting takes no
recursion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from windlass.cel import values


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, `true`, `false` or `null`."""

    value: bool | int | float | str | bytes | None
    at: int


@dataclass(frozen=True, slots=True)
class Identifier:
    """A variable."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, or `operand.?field`."""

    operand: Node
    field: str
    at: int
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """`operand[key]`, or `operand[?key]`."""

    operand: Node
    key: Node
    at: int
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function, or a method where there is a target. Operators are calls of functions named like them."""

    function: str
    arguments: tuple[Node, ...]
    at: int
    target: Node | None = None


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[item, ?item]`"""

    items: tuple[Node, ...]
    at: int
    optional: frozenset[int] = frozenset()
    """Positions of items written `?item`, which are omitted if they have no value."""


@dataclass(frozen=True, slots=True)
class MapLiteral:
    """`{key: value, ?key: value}`"""

    entries: tuple[tuple[Node, Node], ...]
    at: int
    optional: frozenset[int] = frozenset()


Node: TypeAlias = Literal | Identifier | Select | Index | Call | ListLiteral | MapLiteral

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'",
            '"': '"', "`": "`", "?": "?"}  # fmt: skip

_TOKEN = re.compile(
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
class Token:
    """One token of an expression, and its position."""

    kind: str
    """`int`, `float`, `text`, `name`, `quoted`, `sign` or `end`."""
    text: str
    value: int | float | str | bytes | None
    at: int


def tokenize(expression: str) -> Iterator[Token]:
    """The tokens of an expression and an end marker. CompileError at an invalid token."""
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise values.CompileError(f"Syntax error: token recognition error at: '{expression[at]}'", at)
        kind, text = str(match.lastgroup), match.group()
        if kind != "blank":
            yield Token(kind, text, _token_value(kind, text, at), at)
        at = match.end()
    yield Token("end", "the end", None, at)


def _token_value(kind: str, text: str, at: int) -> int | float | str | bytes | None:
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
    for escape in () if is_raw else _ESCAPE.finditer(content):
        if escape[2] is not None or escape[3] is not None:
            raise values.CompileError("unable to unescape string", at)
        made += content[end : escape.start()].encode() + _unescape(escape, at).encode("latin-1")
        end = escape.end()
    return made + content[end:].encode()


def _unescape(escape: re.Match[str], at: int) -> str:
    *codes, octal, letter = escape.groups()
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


_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in")

_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}

_RESERVED = frozenset(
    ("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
     "namespace", "return", "var", "void", "while", "in")
)  # fmt: skip

_LEVELS = {"||": 1, "&&": 2, **dict.fromkeys(_RELATIONS, 3), "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
"""Binary operators, from the loosest to the tightest."""

_VALUE_TOKENS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
"""Tokens that may begin a value, as ANTLR prints them."""

_MAX_DEPTH = 250
"""Maximum depth of nesting: the limit of Kubernetes' own parser."""

Rule: TypeAlias = Generator["Rule", Node, Node]
"""Yields the rules within it, is sent their nodes, and returns its own: so nesting takes no recursion."""


def parse(expression: str) -> Node:
    """The tree of an expression. CompileError with the position of a syntax error."""
    parser = _Parser(list(tokenize(expression)))
    tree = _run(parser.expression())
    parser.expect_end()
    return tree


def _run(rule: Rule) -> Node:
    stack = [rule]
    node: Node | None = None
    while True:
        try:
            stack.append(next(stack[-1]) if node is None else stack[-1].send(node))
            node = None
        except StopIteration as done:
            node = done.value
            assert node is not None
            stack.pop()
            if not stack:
                return node


class _Parser:
    def __init__(self, words: list[Token]) -> None:
        self._words, self._next, self._depth = words, 0, 0

    # Rules

    def expression(self) -> Rule:
        """`condition ? this : that`"""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise values.CompileError(f"expression recursion limit exceeded: {_MAX_DEPTH}")
        condition = yield self._binary(1)
        if (sign := self._take("?")) is not None:
            this = yield self._binary(1)
            self._expect(":", "':'", recovers=self._begins_value())
            that = yield self.expression()
            condition = Call("?:", (condition, this, that), sign.at)
        self._depth -= 1
        return condition

    def _binary(self, level: int) -> Rule:
        """Operands and the operators between them that bind at least as tightly as this level."""
        left = yield self._unary()
        while (sign := self._take_operator(level)) is not None:
            right = yield self._binary(_LEVELS[sign.text] + 1)
            if sign.text in ("&&", "||") and isinstance(left, Call) and left.function == sign.text:
                left = Call(sign.text, (*left.arguments, right), left.at)
            else:
                left = Call(sign.text, (left, right), sign.at)
        return left

    def _take_operator(self, level: int) -> Token | None:
        word = self._words[self._next]
        if word.kind not in ("sign", "name") or _LEVELS.get(word.text, 0) < level:
            return None
        self._next += 1
        return word

    def _unary(self) -> Rule:
        """Two negations in a row cancel out."""
        first = sign = self._take("!", "-")
        count = 0
        while sign is not None:
            count += 1
            if sign.text == "-" and count % 2 and _is_signed(self._words[self._next]):
                self._words[self._next] = _negate(self._words[self._next])
                count -= 1
                break
            sign = self._take(sign.text)
        operand = yield self._member()
        if first is None or count % 2 == 0:
            return operand
        return Call("!_" if first.text == "!" else "-_", (operand,), first.at)

    def _member(self) -> Rule:
        node = yield self._primary()
        while (sign := self._take(".", "[")) is not None:
            is_optional = self._take("?") is not None
            if sign.text == "[":
                key = yield self.expression()
                node = Index(node, key, sign.at, is_optional)
                self._expect("]")
                continue
            word = self._words[self._next]
            if word.kind not in ("name", "quoted") or word.text in _CONSTANTS or word.text == "in":
                raise _no_field(word)
            self._next += 1
            if not is_optional and word.kind == "name" and (bracket := self._take("(")) is not None:
                arguments = yield from self._arguments()
                node = Call(word.text, arguments, bracket.at, node)
            else:
                node = Select(node, word.text.strip("`"), sign.at, is_optional)
        return node

    def _primary(self) -> Rule:
        word = self._words[self._next]
        self._next += 1
        if word.kind in ("int", "float", "text"):
            if type(word.value) is int and word.value not in values.INT64:
                raise values.CompileError("invalid int literal", word.at)
            return Literal(word.value, word.at)
        if word.text == "." and word.kind == "sign" and self._words[self._next].kind == "name":
            word = self._words[self._next]
            self._next += 1
        if word.kind == "name":
            return (yield from self._name(word))
        match word.text:
            case "(":
                node = yield self.expression()
                self._expect(")")
                return node
            case "[":
                return (yield from self._list(word.at))
            case "{":
                return (yield from self._map(word.at))
        raise self._unexpected(word, _VALUE_TOKENS, self._begins_value())

    def _name(self, word: Token) -> Rule:
        if word.text in _CONSTANTS:
            return Literal(_CONSTANTS[word.text], word.at)
        if word.text == "in":
            raise self._unexpected(word, _VALUE_TOKENS, self._begins_value())
        if word.text in _RESERVED:
            raise values.CompileError(f"reserved identifier: {word.text}", word.at)
        if (bracket := self._take("(")) is not None:
            arguments = yield from self._arguments()
            return Call(word.text, arguments, bracket.at)
        return Identifier(word.text, word.at)

    def _arguments(self) -> Generator[Rule, Node, tuple[Node, ...]]:
        nodes: list[Node] = []
        while self._take(")") is None:
            if nodes and self._take(",") is None:
                self._expect(")")
            nodes.append((yield self.expression()))
        return tuple(nodes)

    def _list(self, at: int) -> Rule:
        nodes: list[Node] = []
        optional: set[int] = set()
        while self._take("]") is None:
            if nodes:
                self._expect(",", "{']', ','}")
                if self._take("]") is not None:
                    break
            if self._take("?") is not None:
                optional.add(len(nodes))
            nodes.append((yield self.expression()))
        return ListLiteral(tuple(nodes), at, frozenset(optional))

    def _map(self, at: int) -> Rule:
        entries: list[tuple[Node, Node]] = []
        optional: set[int] = set()
        while self._take("}") is None:
            if entries:
                self._expect(",", "{'}', ','}")
                if self._take("}") is not None:
                    break
            if self._take("?") is not None:
                optional.add(len(entries))
            key = yield self.expression()
            self._expect(":", "':'", recovers=self._begins_value())
            value = yield self.expression()
            entries.append((key, value))
        return MapLiteral(tuple(entries), at, frozenset(optional))

    # Tokens

    def _take(self, *texts: str) -> Token | None:
        """The next token, if it is one of these signs."""
        word = self._words[self._next]
        if word.text not in texts or word.kind in ("text", "end"):
            return None
        self._next += 1
        return word

    def _expect(self, text: str, expected: str = "", recovers: bool = True) -> None:
        """`expected` is ANTLR's name of accepted tokens; if it `recovers`, its message names the missing token."""
        if self._take(text) is not None:
            return
        word, is_list = self._words[self._next], expected.startswith("{")
        follows = self._words[min(self._next + 1, len(self._words) - 1)]
        if follows.text == text or (is_list and f"'{follows.text}'" in expected):
            raise _mismatch("extraneous", word, expected or repr(text))
        if is_list or not recovers:
            raise _mismatch("mismatched", word, expected)
        raise values.CompileError(f"Syntax error: missing {text!r} at '{_print(word)}'", word.at)

    def expect_end(self) -> None:
        word = self._words[self._next]
        if word.kind != "end":
            raise self._unexpected(word, "<EOF>", self._words[self._next + 1].kind == "end")

    def _begins_value(self) -> bool:
        """May the next token begin a value?"""
        word = self._words[self._next] if self._next < len(self._words) else self._words[-1]
        return word.kind in ("int", "float", "text") or _begins_value(word)

    def _unexpected(self, word: Token, expected: str, is_extraneous: bool) -> values.CompileError:
        """ANTLR's message: a token is extraneous if the input is valid without it."""
        return _mismatch("extraneous" if is_extraneous and word.kind != "end" else "mismatched", word, expected)


def _is_signed(word: Token) -> bool:
    return word.kind in ("int", "float") and not isinstance(word.value, values.Uint)


def _negate(word: Token) -> Token:
    assert isinstance(word.value, int | float)
    return Token(word.kind, f"-{word.text}", -word.value, word.at)


def _begins_value(word: Token) -> bool:
    return (word.kind == "name" and word.text != "in") or (word.kind == "sign" and word.text in "[{(.-!")


def _mismatch(how: str, word: Token, expected: str) -> values.CompileError:
    return values.CompileError(f"Syntax error: {how} input '{_print(word)}' expecting {expected}", word.at)


def _no_field(word: Token) -> values.CompileError:
    if word.text in _CONSTANTS:
        return _mismatch("mismatched", word, "IDENTIFIER")
    after = "" if word.kind == "end" else word.text
    return values.CompileError(f"Syntax error: no viable alternative at input '.{after}'", word.at)


def _print(word: Token) -> str:
    return "<EOF>" if word.kind == "end" else word.text
