"""Character classes: the characters that a literal, a range, a named group or a negation of them accepts."""

import functools
import string
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Members: TypeAlias = Callable[[str], bool]

_PRINTABLE = string.ascii_letters + string.digits + string.punctuation
_WORD = string.ascii_letters + string.digits + "_"

ASCII_GROUPS: Mapping[str, frozenset[str]] = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset([*map(chr, range(32)), "\x7f"]),
    "digit": frozenset(string.digits),
    "graph": frozenset(_PRINTABLE),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(_PRINTABLE + " "),
    "punct": frozenset(string.punctuation),
    "space": frozenset("\t\n\v\f\r "),
    "upper": frozenset(string.ascii_uppercase),
    "word": frozenset(_WORD),
    "xdigit": frozenset(string.hexdigits),
}
"""POSIX groups: `[:alpha:]`."""

PERL_GROUPS: Mapping[str, tuple[frozenset[str], bool]] = {
    "d": (ASCII_GROUPS["digit"], False),
    "D": (ASCII_GROUPS["digit"], True),
    "s": (frozenset("\t\n\f\r "), False),
    "S": (frozenset("\t\n\f\r "), True),
    "w": (ASCII_GROUPS["word"], False),
    "W": (ASCII_GROUPS["word"], True),
}
r"""`\d` and the like: the characters, and whether they are excluded. Only ASCII counts, and `\s` has no `\v`."""

_CATEGORIES = {
    "L": "Letter", "Lu": "Uppercase_Letter", "Ll": "Lowercase_Letter", "Lt": "Titlecase_Letter",
    "Lm": "Modifier_Letter", "Lo": "Other_Letter", "M": "Mark", "Mn": "Nonspacing_Mark", "Mc": "Spacing_Mark",
    "Me": "Enclosing_Mark", "N": "Number", "Nd": "Decimal_Number", "Nl": "Letter_Number", "No": "Other_Number",
    "P": "Punctuation", "Pc": "Connector_Punctuation", "Pd": "Dash_Punctuation", "Ps": "Open_Punctuation",
    "Pe": "Close_Punctuation", "Pi": "Initial_Punctuation", "Pf": "Final_Punctuation", "Po": "Other_Punctuation",
    "S": "Symbol", "Sm": "Math_Symbol", "Sc": "Currency_Symbol", "Sk": "Modifier_Symbol", "So": "Other_Symbol",
    "Z": "Separator", "Zs": "Space_Separator", "Zl": "Line_Separator", "Zp": "Paragraph_Separator", "C": "Other",
    "Cc": "Control", "Cf": "Format", "Cs": "Surrogate", "Co": "Private_Use", "Cn": "Unassigned",
}  # fmt: skip
"""General categories of Unicode, by their short names."""
_BY_NAME = {name.replace("_", "").lower(): short for short, long in _CATEGORIES.items() for name in (short, long)}


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a class. With `folds`, a character belongs to it if a letter that differs only in case does."""

    members: Members
    is_negated: bool = False
    folds: bool = False

    def accepts(self, character: str) -> bool:
        among = any(map(self.members, _orbit(character))) if self.folds else self.members(character)
        return among is not self.is_negated


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """A set of characters. Results are cached, because texts repeat their characters."""

    parts: tuple[Part, ...]
    is_negated: bool = False
    _answers: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def accepts(self, character: str) -> bool:
        answer = self._answers.get(character)
        if answer is None:
            answer = any(part.accepts(character) for part in self.parts) is not self.is_negated
            if len(self._answers) < _MAX_ANSWERS:
                self._answers[character] = answer
        return answer


_MAX_ANSWERS = 1024


def span(low: str, high: str, folds: bool) -> Part:
    """The characters from `low` to `high`."""
    return Part(lambda character: low <= character <= high, folds=folds)


@functools.lru_cache(maxsize=1024)
def literal(character: str, folds: bool) -> CharacterClass:
    return CharacterClass((span(character, character, folds),))


ANY = CharacterClass((), is_negated=True)
ANY_BUT_NEWLINE = CharacterClass((span("\n", "\n", False),), is_negated=True)


def find_unicode_group(name: str) -> tuple[Members, bool] | None:
    r"""The members of `\p{name}` and whether they are excluded; None for an unknown name."""
    plain = "".join(letter for letter in name if letter not in "_- ").lower()
    match plain:
        case "any":
            return (lambda _: True), False
        case "assigned":
            return (lambda character: unicodedata.category(character) == "Cn"), True
        case "ascii":
            return str.isascii, False
        case "lc" | "casedletter":
            return (lambda character: unicodedata.category(character) in ("Lu", "Ll", "Lt")), False
    if plain not in _BY_NAME:
        return None
    short = _BY_NAME[plain]
    return (lambda character: unicodedata.category(character).startswith(short)), False


def is_word(character: str) -> bool:
    return character in ASCII_GROUPS["word"]


def _orbit(character: str) -> tuple[str, ...]:
    """All characters that differ from this one in case only, itself included."""
    if character.isascii() and character not in "kKsS":
        return (character.lower(), character.upper())
    return _orbits().get(_fold(character), (character,))


def _fold(character: str) -> str:
    """Simple case folding: one character for one."""
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return folded
    return character


@functools.cache
def _orbits() -> Mapping[str, tuple[str, ...]]:
    """Characters by their case folding, where there are several. Computed at first use: it takes some milliseconds."""
    by_fold: dict[str, list[str]] = {}
    for code in range(0x1F000):
        character = chr(code)
        if not character.islower() and not character.isupper() and not character.istitle() and code != 0x345:
            continue
        by_fold.setdefault(_fold(character), []).append(character)
    return {folded: tuple(characters) for folded, characters in by_fold.items() if len(characters) > 1}
