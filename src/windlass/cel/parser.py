"""An expression as a tree. Every rule of the grammar is one method, from the loosest binding to the tightest."""

from collections.abc import Generator
from typing import TypeAlias

from windlass.cel import lexer, syntax, values

_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in")
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_RESERVED = frozenset(
    ("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
     "namespace", "return", "var", "void", "while", "in")
)  # fmt: skip
_LEVELS = {"||": 1, "&&": 2, **dict.fromkeys(_RELATIONS, 3), "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
"""Binary operators, from the loosest to the tightest."""
_VALUE = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
"""What may begin a value, in ANTLR's words."""
_MAX_DEPTH = 250
"""How far expressions may be nested: the limit of Kubernetes' own parser."""

Rule: TypeAlias = Generator["Rule", syntax.Node, syntax.Node]
"""Yields the rules within it, is sent their nodes, and returns its own: so nesting takes no recursion."""


def parse(expression: str) -> syntax.Node:
    """The tree of an expression. CompileError, with the position, where it cannot be read."""
    parser = _Parser(list(lexer.split(expression)))
    tree = _run(parser.expression())
    parser.expect_end()
    return tree


def _run(rule: Rule) -> syntax.Node:
    stack = [rule]
    node: syntax.Node | None = None
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
    def __init__(self, words: list[lexer.Word]) -> None:
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
            condition = syntax.Call("?:", (condition, this, that), sign.at)
        self._depth -= 1
        return condition

    def _binary(self, level: int) -> Rule:
        """Operands and the operators between them that bind at least as tightly as this level."""
        left = yield self._unary()
        while (sign := self._take_operator(level)) is not None:
            right = yield self._binary(_LEVELS[sign.text] + 1)
            if sign.text in ("&&", "||") and isinstance(left, syntax.Call) and left.function == sign.text:
                left = syntax.Call(sign.text, (*left.arguments, right), left.at)
            else:
                left = syntax.Call(sign.text, (left, right), sign.at)
        return left

    def _take_operator(self, level: int) -> lexer.Word | None:
        word = self._words[self._next]
        if word.kind not in ("sign", "name") or _LEVELS.get(word.text, 0) < level:
            return None
        self._next += 1
        return word

    def _unary(self) -> Rule:
        """Two negations in a row are none."""
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
        return syntax.Call("!_" if first.text == "!" else "-_", (operand,), first.at)

    def _member(self) -> Rule:
        node = yield self._primary()
        while (sign := self._take(".", "[")) is not None:
            is_optional = self._take("?") is not None
            if sign.text == "[":
                key = yield self.expression()
                node = syntax.Index(node, key, sign.at, is_optional)
                self._expect("]")
                continue
            word = self._words[self._next]
            if word.kind not in ("name", "quoted") or word.text in _CONSTANTS or word.text == "in":
                raise _no_field(word)
            self._next += 1
            if not is_optional and word.kind == "name" and (bracket := self._take("(")) is not None:
                arguments = yield from self._arguments()
                node = syntax.Call(word.text, arguments, bracket.at, node)
            else:
                node = syntax.Select(node, word.text.strip("`"), sign.at, is_optional)
        return node

    def _primary(self) -> Rule:
        word = self._words[self._next]
        self._next += 1
        if word.kind in ("int", "float", "text"):
            if type(word.value) is int and word.value not in values.INT64:
                raise values.CompileError("invalid int literal", word.at)
            return syntax.Literal(word.value, word.at)
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
        raise self._unexpected(word, _VALUE, self._begins_value())

    def _name(self, word: lexer.Word) -> Rule:
        if word.text in _CONSTANTS:
            return syntax.Literal(_CONSTANTS[word.text], word.at)
        if word.text == "in":
            raise self._unexpected(word, _VALUE, self._begins_value())
        if word.text in _RESERVED:
            raise values.CompileError(f"reserved identifier: {word.text}", word.at)
        if (bracket := self._take("(")) is not None:
            arguments = yield from self._arguments()
            return syntax.Call(word.text, arguments, bracket.at)
        return syntax.Name(word.text, word.at)

    def _arguments(self) -> Generator[Rule, syntax.Node, tuple[syntax.Node, ...]]:
        found: list[syntax.Node] = []
        while self._take(")") is None:
            if found and self._take(",") is None:
                self._expect(")")
            found.append((yield self.expression()))
        return tuple(found)

    def _list(self, at: int) -> Rule:
        found: list[syntax.Node] = []
        optional: set[int] = set()
        while self._take("]") is None:
            if found:
                self._expect(",", "{']', ','}")
                if self._take("]") is not None:
                    break
            if self._take("?") is not None:
                optional.add(len(found))
            found.append((yield self.expression()))
        return syntax.List(tuple(found), at, frozenset(optional))

    def _map(self, at: int) -> Rule:
        entries: list[tuple[syntax.Node, syntax.Node]] = []
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
        return syntax.Map(tuple(entries), at, frozenset(optional))

    # Words

    def _take(self, *texts: str) -> lexer.Word | None:
        """The next word, if it is one of these signs."""
        word = self._words[self._next]
        if word.text not in texts or word.kind in ("text", "end"):
            return None
        self._next += 1
        return word

    def _expect(self, text: str, expected: str = "", recovers: bool = True) -> None:
        """`expected` is how ANTLR names what may stand here; where it `recovers`, it says what is missing."""
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
        """May the next word begin a value?"""
        word = self._words[self._next] if self._next < len(self._words) else self._words[-1]
        return word.kind in ("int", "float", "text") or _begins_value(word)

    def _unexpected(self, word: lexer.Word, expected: str, is_extraneous: bool) -> values.CompileError:
        """As ANTLR says it: a word is extraneous if all would be well without it."""
        return _mismatch("extraneous" if is_extraneous and word.kind != "end" else "mismatched", word, expected)


def _is_signed(word: lexer.Word) -> bool:
    return word.kind in ("int", "float") and not isinstance(word.value, values.Uint)


def _negate(word: lexer.Word) -> lexer.Word:
    assert isinstance(word.value, int | float)
    return lexer.Word(word.kind, f"-{word.text}", -word.value, word.at)


def _begins_value(word: lexer.Word) -> bool:
    return (word.kind == "name" and word.text != "in") or (word.kind == "sign" and word.text in "[{(.-!")


def _mismatch(how: str, word: lexer.Word, expected: str) -> values.CompileError:
    return values.CompileError(f"Syntax error: {how} input '{_print(word)}' expecting {expected}", word.at)


def _no_field(word: lexer.Word) -> values.CompileError:
    if word.text in _CONSTANTS:
        return _mismatch("mismatched", word, "IDENTIFIER")
    after = "" if word.kind == "end" else word.text
    return values.CompileError(f"Syntax error: no viable alternative at input '.{after}'", word.at)


def _print(word: lexer.Word) -> str:
    return "<EOF>" if word.kind == "end" else word.text
