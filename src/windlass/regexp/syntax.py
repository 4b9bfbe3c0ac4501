r"""Parser and compiler of expressions by Go's rules, in one pass and without recursion.

The parser keeps a stack of fragments, as Go's does: `|` and `)` combine what lies above a mark. A fragment is a tuple
of instructions with relative jumps that begins at its first and ends behind its last, so fragments are joined by
concatenation and repeated by multiplication.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from windlass.regexp import character_classes

MAX_INSTRUCTIONS = 20_000
"""Go allows some three million. An expression of 10 KiB without counted repetition always fits here."""
_MAX_REPEAT = 1000
_MAX_HEIGHT = 1000
_HUGE = 100_000_000
"""Go stops reading a repeat count here."""

_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_OCTAL_DIGITS = frozenset("01234567")
_DIGITS = frozenset("0123456789")


class InvalidExpression(ValueError):
    """An expression that Go refuses, with Go's message."""

    def __init__(self, code: str, found: str) -> None:
        super().__init__(f"error parsing regexp: {code}: `{found}`")


@dataclass(frozen=True, slots=True)
class Accept:
    """Continue after a character of this class."""

    characters: character_classes.CharacterClass


@dataclass(frozen=True, slots=True)
class Split:
    """Continue at both targets; the first is preferred."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Jump:
    """Continue at another instruction."""

    to: int


Place: TypeAlias = Literal["begin text", "end text", "begin line", "end line", "word boundary", "no word boundary"]


@dataclass(frozen=True, slots=True)
class Assert:
    """Continue if the position is of this kind."""

    place: Place


@dataclass(frozen=True, slots=True)
class Match:
    """The expression is matched."""


Instruction: TypeAlias = Accept | Split | Jump | Assert | Match
Program: TypeAlias = tuple[Instruction, ...]


def compile_program(expression: str) -> Program:
    """The expression as instructions. InvalidExpression where Go refuses it."""
    return (*_Parser(expression).parse(), Match())


@dataclass(frozen=True, slots=True)
class _Flags:
    folds: bool = False
    multi_line: bool = False
    dot_newline: bool = False
    non_greedy: bool = False


_FLAG_FIELDS = {"i": "folds", "m": "multi_line", "s": "dot_newline", "U": "non_greedy"}


@dataclass(frozen=True, slots=True)
class _Fragment:
    code: Program
    is_nullable: bool
    """Does it match the empty text?"""
    height: int = 1
    repeats: int = 1
    """The largest product of counted repetitions within each other."""


@dataclass(slots=True)
class _Group:
    """An open parenthesis: the flags to restore, the alternatives that are complete, and the parts of this one."""

    flags: _Flags
    captures: bool = True
    alternatives: list[_Fragment] = field(default_factory=list)
    parts: list[_Fragment] = field(default_factory=list)


class _Parser:
    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._flags = _Flags()
        self._groups = [_Group(self._flags)]
        self._size = 0

    def parse(self) -> Program:
        last_repeat = -1
        while self._at < len(self._text):
            start = self._at
            last_repeat = start if self._read_element(last_repeat) else -1
        if len(self._groups) > 1:
            raise InvalidExpression("missing closing )", self._text)
        return _alternate(self._groups.pop()).code

    def _read_element(self, last_repeat: int) -> bool:
        """Read one element; True if it is a repetition."""
        match self._text[self._at]:
            case "\\":
                self._read_escape()
            case "[":
                self._read_class()
            case "(":
                self._open_group()
            case ")":
                self._close_group()
            case "|":
                group = self._groups[-1]
                group.alternatives.append(_concatenate(group.parts))
                group.parts = []
                self._at += 1
            case "*":
                return self._repeat(0, None, 1, last_repeat)
            case "+":
                return self._repeat(1, None, 1, last_repeat)
            case "?":
                return self._repeat(0, 1, 1, last_repeat)
            case "{":
                return self._read_counts(last_repeat)
            case "^":
                self._push_place("begin line" if self._flags.multi_line else "begin text", 1)
            case "$":
                self._push_place("end line" if self._flags.multi_line else "end text", 1)
            case ".":
                self._push(character_classes.ANY if self._flags.dot_newline else character_classes.ANY_BUT_NEWLINE)
                self._at += 1
            case character:
                self._push(character_classes.literal(character, self._flags.folds))
                self._at += 1
        return False

    def _push(self, characters: character_classes.CharacterClass) -> None:
        self._add(_Fragment((Accept(characters),), is_nullable=False))

    def _push_place(self, place: Place, width: int) -> None:
        self._add(_Fragment((Assert(place),), is_nullable=True))
        self._at += width

    def _add(self, fragment: _Fragment) -> None:
        self._size += len(fragment.code)
        self._check_limits(self._size, fragment.height)
        self._groups[-1].parts.append(fragment)

    def _check_limits(self, size: int, height: int) -> None:
        if size > MAX_INSTRUCTIONS:
            raise InvalidExpression("expression too large", self._text)
        if height > _MAX_HEIGHT:
            raise InvalidExpression("expression nests too deeply", self._text)

    # ── Repetition ───────────────────────────────────────────────────────────────────────────────────────────────

    def _read_counts(self, last_repeat: int) -> bool:
        """`{2}`, `{2,}` or `{2,3}`; anything else is no repetition but a brace."""
        counts = self._parse_counts()
        if counts is None:
            self._push(character_classes.literal("{", self._flags.folds))
            self._at += 1
            return False
        least, most, width = counts
        if max(least, most or 0) > _MAX_REPEAT or (most is not None and least > most):
            raise InvalidExpression("invalid repeat count", self._text[self._at : self._at + width])
        return self._repeat(least, most, width, last_repeat)

    def _parse_counts(self) -> tuple[int, int | None, int] | None:
        at = self._at + 1
        least, at = self._parse_int(at)
        most: int | None = least
        if least is not None and self._text.startswith(",", at):
            at += 1
            most = None
            if not self._text.startswith("}", at):
                most, at = self._parse_int(at)
                if most is None:
                    return None
        if least is None or not self._text.startswith("}", at):
            return None
        return least, most, at + 1 - self._at

    def _parse_int(self, at: int) -> tuple[int | None, int]:
        end = at
        while end < len(self._text) and self._text[end] in _DIGITS:
            end += 1
        if end == at or (end > at + 1 and self._text[at] == "0"):
            return None, at
        return (_HUGE if end - at > 9 else int(self._text[at:end])), end

    def _repeat(self, least: int, most: int | None, width: int, last_repeat: int) -> bool:
        start = self._at
        self._at += width
        is_greedy = not self._flags.non_greedy
        if self._text.startswith("?", self._at):
            self._at += 1
            is_greedy = not is_greedy
        if last_repeat >= 0:
            raise InvalidExpression("invalid nested repetition operator", self._text[last_repeat : self._at])
        operator = self._text[start : self._at]
        parts = self._groups[-1].parts
        if not parts:
            raise InvalidExpression("missing argument to repetition operator", operator)
        body = parts.pop()
        self._size -= len(body.code)
        repeats = body.repeats
        if self._text[start] == "{":
            count = least if most is None else most
            repeats = 1 if most == 0 else body.repeats * max(count, 1)
            if repeats > _MAX_REPEAT and count >= 2:
                raise InvalidExpression("invalid repeat count", operator)
        copies = least + 1 if most is None else most
        self._check_limits(self._size + copies * (len(body.code) + 1) + 1, body.height + 1)
        self._add(
            _Fragment(_repeat(body, least, most, is_greedy), body.is_nullable or not least, body.height + 1, repeats)
        )
        return True

    # ── Groups ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _open_group(self) -> None:
        if not self._text.startswith("(?", self._at):
            self._at += 1
            self._groups.append(_Group(self._flags))
        elif self._text.startswith(("(?P<", "(?<"), self._at):
            self._open_named_group()
        else:
            self._read_flags()

    def _open_named_group(self) -> None:
        end = self._text.find(">", self._at)
        if end < 0:
            raise InvalidExpression("invalid named capture", self._text[self._at :])
        name = self._text[self._text.index("<", self._at) + 1 : end]
        if not name or any(not character_classes.is_word(character) for character in name):
            raise InvalidExpression("invalid named capture", self._text[self._at : end + 1])
        self._at = end + 1
        self._groups.append(_Group(self._flags))

    def _read_flags(self) -> None:
        """`(?i)` holds until the group around it ends, also past `|`; `(?i:` opens a group."""
        changed = {name: getattr(self._flags, name) for name in _FLAG_FIELDS.values()}
        value, has_flag, at = True, False, self._at + 2
        while at < len(self._text):
            letter = self._text[at]
            at += 1
            if letter in _FLAG_FIELDS:
                changed[_FLAG_FIELDS[letter]], has_flag = value, True
            elif letter == "-" and value:
                value, has_flag = False, False
            elif letter in ":)" and (value or has_flag):
                if letter == ":":
                    self._groups.append(_Group(self._flags, captures=False))
                self._flags = _Flags(**changed)
                self._at = at
                return
            else:
                break
        raise InvalidExpression("invalid or unsupported Perl syntax", self._text[self._at : at])

    def _close_group(self) -> None:
        if len(self._groups) == 1:
            raise InvalidExpression("unexpected )", self._text)
        group = self._groups.pop()
        self._flags = group.flags
        self._at += 1
        inner = _alternate(group)
        self._size += len(inner.code) - sum(len(part.code) for part in (*group.alternatives, *group.parts))
        height = inner.height + group.captures
        self._check_limits(self._size, height)
        self._groups[-1].parts.append(_Fragment(inner.code, inner.is_nullable, height, inner.repeats))

    # ── Escapes and classes ──────────────────────────────────────────────────────────────────────────────────────

    def _read_escape(self) -> None:
        letter = self._text[self._at + 1 : self._at + 2]
        match letter:
            case "A":
                self._push_place("begin text", 2)
            case "z":
                self._push_place("end text", 2)
            case "b":
                self._push_place("word boundary", 2)
            case "B":
                self._push_place("no word boundary", 2)
            case "Q":
                quoted, _, _ = self._text[self._at + 2 :].partition(r"\E")
                for character in quoted:
                    self._push(character_classes.literal(character, self._flags.folds))
                self._at += 2 + len(quoted) + 2
            case _:
                part = self._read_group()
                if part is not None:
                    self._push(character_classes.CharacterClass((part,)))
                else:
                    self._push(character_classes.literal(self._read_character(self._at), self._flags.folds))

    def _read_class(self) -> None:
        start = self._at
        self._at += 1
        is_negated = self._text.startswith("^", self._at)
        self._at += is_negated
        parts: list[character_classes.Part] = []
        while not parts or not self._text.startswith("]", self._at):
            parts.append(self._read_posix_group() or self._read_group() or self._read_range(start))
        self._at += 1
        self._push(character_classes.CharacterClass(tuple(parts), is_negated))

    def _read_posix_group(self) -> character_classes.Part | None:
        if not self._text.startswith("[:", self._at):
            return None
        end = self._text.find(":]", self._at + 2)
        if end < 0:
            return None
        name = self._text[self._at + 2 : end]
        members = character_classes.ASCII_GROUPS.get(name.removeprefix("^"))
        if members is None:
            raise InvalidExpression("invalid character class range", self._text[self._at : end + 2])
        self._at = end + 2
        return character_classes.Part(members.__contains__, name.startswith("^"), self._flags.folds)

    def _read_group(self) -> character_classes.Part | None:
        r"""`\d`, `\pL`, `\p{Lu}` and the like."""
        if not self._text.startswith("\\", self._at):
            return None
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in character_classes.PERL_GROUPS:
            members, is_negated = character_classes.PERL_GROUPS[letter]
            self._at += 2
            return character_classes.Part(members.__contains__, is_negated, self._flags.folds)
        if letter in ("p", "P"):
            return self._read_unicode_group(letter == "P")
        return None

    def _read_unicode_group(self, is_negated: bool) -> character_classes.Part:
        end = self._at + 3
        name = self._text[self._at + 2 : end]
        if name == "{":
            end = self._text.find("}", self._at) + 1
            name = self._text[self._at + 3 : end - 1] if end else ""
        unicode_group = character_classes.find_unicode_group(name.removeprefix("^"))
        if unicode_group is None or not end:
            raise InvalidExpression(
                "invalid character class range", self._text[self._at : end] if end else self._text[self._at :]
            )
        self._at = end
        members, is_excluded = unicode_group
        return character_classes.Part(members, (is_negated != name.startswith("^")) != is_excluded, self._flags.folds)

    def _read_range(self, class_start: int) -> character_classes.Part:
        start = self._at
        low = high = self._read_character(class_start)
        if self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
            self._at += 1
            high = self._read_character(class_start)
            if high < low:
                raise InvalidExpression("invalid character class range", self._text[start : self._at])
        return character_classes.span(low, high, self._flags.folds)

    def _read_character(self, class_start: int) -> str:
        """A single character, escaped or not."""
        if self._at >= len(self._text):
            raise InvalidExpression("missing closing ]", self._text[class_start:])
        character = self._text[self._at]
        if character != "\\":
            self._at += 1
            return character
        start, escaped = self._at, self._text[self._at + 1 : self._at + 2]
        if not escaped:
            raise InvalidExpression("trailing backslash at end of expression", "")
        self._at += 2
        if escaped in _CONTROLS:
            return _CONTROLS[escaped]
        if escaped in _OCTAL_DIGITS and (escaped == "0" or self._text[self._at : self._at + 1] in tuple(_OCTAL_DIGITS)):
            end = self._at
            while end < self._at + 2 and self._text[end : end + 1] in tuple(_OCTAL_DIGITS):
                end += 1
            code, self._at = int(self._text[start + 1 : end], 8), end
            return chr(code)
        if escaped == "x":
            return self._read_hex(start)
        if escaped.isascii() and not escaped.isalnum():
            return escaped
        raise InvalidExpression("invalid escape sequence", self._text[start : self._at])

    def _read_hex(self, start: int) -> str:
        if self._text.startswith("{", self._at):
            code, at = 0, self._at + 1
            while at < len(self._text) and self._text[at] in _HEX_DIGITS and code <= 0x10FFFF:
                code = code * 16 + int(self._text[at], 16)
                at += 1
            if code <= 0x10FFFF and at > self._at + 1 and self._text.startswith("}", at):
                self._at = at + 1
                return chr(code)
            if code <= 0x10FFFF:
                at += 1
            raise InvalidExpression("invalid escape sequence", self._text[start:at])
        digits = self._text[self._at : self._at + 2]
        if len(digits) == 2 and set(digits) <= _HEX_DIGITS:
            self._at += 2
            return chr(int(digits, 16))
        raise InvalidExpression("invalid escape sequence", self._text[start : self._at + 2])


def _concatenate(parts: list[_Fragment]) -> _Fragment:
    if len(parts) == 1:
        return parts[0]
    return _Fragment(
        tuple(instruction for part in parts for instruction in part.code),
        all(part.is_nullable for part in parts),
        1 + max((part.height for part in parts), default=0),
        max((part.repeats for part in parts), default=1),
    )


def _alternate(group: _Group) -> _Fragment:
    """The alternatives of a group, the first preferred."""
    branches = [*group.alternatives, _concatenate(group.parts)]
    if len(branches) == 1:
        return branches[0]
    code: list[Instruction] = []
    remaining = sum(len(branch.code) + 2 for branch in branches) - 2
    for branch in branches[:-1]:
        remaining -= len(branch.code) + 2
        code += (Split(1, len(branch.code) + 2), *branch.code, Jump(remaining + 1))
    code += branches[-1].code
    return _Fragment(
        tuple(code),
        any(branch.is_nullable for branch in branches),
        1 + max(branch.height for branch in branches),
        max(branch.repeats for branch in branches),
    )


def _repeat(body: _Fragment, least: int, most: int | None, is_greedy: bool) -> Program:
    if most is None:
        if least == 0 and body.is_nullable:  # as `(x+)?`: an empty match of the body ends the repetition
            return _optional(_repeat(body, 1, None, is_greedy), is_greedy)
        if least == 0:
            return _optional((*body.code, Jump(-len(body.code) - 1)), is_greedy)
        return (*body.code * least, _split(-len(body.code), 1, is_greedy))
    code: Program = ()
    for _ in range(most - least):
        code = _optional(body.code + code, is_greedy)
    return body.code * least + code


def _optional(code: Program, is_greedy: bool) -> Program:
    return (_split(1, len(code) + 1, is_greedy), *code)


def _split(inside: int, behind: int, is_greedy: bool) -> Split:
    return Split(inside, behind) if is_greedy else Split(behind, inside)
