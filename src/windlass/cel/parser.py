"""An expression as a tree. Every rule of the grammar is one method, from the loosest binding to the tightest."""

from windlass.cel import lexer, syntax, values

_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in")
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_RESERVED = frozenset(
    ("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
     "namespace", "return", "var", "void", "while", "in")
)  # fmt: skip
_DEEPEST = 50
"""How far expressions may be nested. Kubernetes' own parser goes further; nobody else does."""


def parse(expression: str) -> syntax.Node:
    """The tree of an expression. CompileError, with the position, where it cannot be read."""
    parser = _Parser(list(lexer.split(expression)))
    tree = parser.expression()
    parser.expect_end()
    return tree


class _Parser:
    def __init__(self, words: list[lexer.Word]) -> None:
        self._words, self._next, self._depth = words, 0, 0

    # Rules

    def expression(self) -> syntax.Node:
        """`condition ? this : that`"""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise values.CompileError(f"nested deeper than {_DEEPEST}")
        condition = self._any()
        if (sign := self._take("?")) is not None:
            this = self._any()
            self._expect(":")
            condition = syntax.Call("?:", (condition, this, self.expression()), sign.at)
        self._depth -= 1
        return condition

    def _any(self) -> syntax.Node:
        left = self._all()
        while (sign := self._take("||")) is not None:
            left = syntax.Call("||", (left, self._all()), sign.at)
        return left

    def _all(self) -> syntax.Node:
        left = self._relation()
        while (sign := self._take("&&")) is not None:
            left = syntax.Call("&&", (left, self._relation()), sign.at)
        return left

    def _relation(self) -> syntax.Node:
        left = self._sum()
        while (sign := self._take(*_RELATIONS)) is not None:
            left = syntax.Call(sign.text, (left, self._sum()), sign.at)
        return left

    def _sum(self) -> syntax.Node:
        left = self._product()
        while (sign := self._take("+", "-")) is not None:
            left = syntax.Call(sign.text, (left, self._product()), sign.at)
        return left

    def _product(self) -> syntax.Node:
        left = self._unary()
        while (sign := self._take("*", "/", "%")) is not None:
            left = syntax.Call(sign.text, (left, self._unary()), sign.at)
        return left

    def _unary(self) -> syntax.Node:
        sign = self._take("!", "-")
        if sign is None:
            return self._member()
        if sign.text == "-" and self._words[self._next].kind in ("int", "float"):
            self._words[self._next] = _negate(self._words[self._next])
            return self._member()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise values.CompileError(f"nested deeper than {_DEEPEST}")
        operand = self._unary()
        self._depth -= 1
        return syntax.Call("!_" if sign.text == "!" else "-_", (operand,), sign.at)

    def _member(self) -> syntax.Node:
        node = self._primary()
        while (sign := self._take(".", "[")) is not None:
            is_optional = self._take("?") is not None
            if sign.text == "[":
                node = syntax.Index(node, self.expression(), sign.at, is_optional)
                self._expect("]")
                continue
            word = self._words[self._next]
            if word.kind not in ("name", "quoted"):
                raise _unexpected(word, "the name of a field")
            self._next += 1
            if not is_optional and self._take("(") is not None:
                node = syntax.Call(word.text, self._arguments(")"), sign.at, node)
            else:
                node = syntax.Select(node, word.text.strip("`"), sign.at, is_optional)
        return node

    def _primary(self) -> syntax.Node:
        word = self._words[self._next]
        self._next += 1
        if word.kind in ("int", "float", "text"):
            if isinstance(word.value, int) and word.value not in values.INT64:
                raise values.CompileError(f"the number {word.text} at position {word.at + 1} is too large")
            return syntax.Literal(word.value, word.at)
        if word.kind == "name":
            return self._name(word)
        match word.text:
            case "(":
                node = self.expression()
                self._expect(")")
                return node
            case "[":
                items, optional = self._items()
                return syntax.List(items, word.at, optional)
            case "{":
                return self._map(word.at)
            case ".":
                return self._primary()
        raise _unexpected(word, "a value")

    def _name(self, word: lexer.Word) -> syntax.Node:
        if word.text in _CONSTANTS:
            return syntax.Literal(_CONSTANTS[word.text], word.at)
        if word.text in _RESERVED:
            raise _unexpected(word, "a value")
        if self._take("(") is not None:
            return syntax.Call(word.text, self._arguments(")"), word.at)
        return syntax.Name(word.text, word.at)

    def _arguments(self, end: str) -> tuple[syntax.Node, ...]:
        found: list[syntax.Node] = []
        while self._take(end) is None:
            if found:
                self._expect(",")
            found.append(self.expression())
        return tuple(found)

    def _items(self) -> tuple[tuple[syntax.Node, ...], frozenset[int]]:
        found: list[syntax.Node] = []
        optional: set[int] = set()
        while self._take("]") is None:
            if found:
                self._expect(",")
                if self._take("]") is not None:
                    break
            if self._take("?") is not None:
                optional.add(len(found))
            found.append(self.expression())
        return tuple(found), frozenset(optional)

    def _map(self, at: int) -> syntax.Node:
        entries: list[tuple[syntax.Node, syntax.Node]] = []
        optional: set[int] = set()
        while self._take("}") is None:
            if entries:
                self._expect(",")
                if self._take("}") is not None:
                    break
            if self._take("?") is not None:
                optional.add(len(entries))
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
        return syntax.Map(tuple(entries), at, frozenset(optional))

    # Words

    def _take(self, *texts: str) -> lexer.Word | None:
        """The next word, if it is one of these signs."""
        word = self._words[self._next]
        if word.text not in texts or word.kind in ("text", "end"):
            return None
        self._next += 1
        return word

    def _expect(self, text: str) -> None:
        if self._take(text) is None:
            raise _unexpected(self._words[self._next], repr(text))

    def expect_end(self) -> None:
        word = self._words[self._next]
        if word.kind != "end":
            raise _unexpected(word, "the end")


def _negate(word: lexer.Word) -> lexer.Word:
    assert isinstance(word.value, int | float)
    return lexer.Word(word.kind, f"-{word.text}", -word.value, word.at)


def _unexpected(word: lexer.Word, expected: str) -> values.CompileError:
    return values.CompileError(f"unexpected {word.text} at position {word.at + 1}, expected {expected}")
