r"""Regular expressions in Go's syntax (RE2), found with Python's.

Users write expressions for Cluster Autoscaler, which is Go. The two languages look alike and differ in small ways, so
an expression is read by Go's rules and written anew for Python: what RE2 lacks (lookaround, backreferences, possessive
repetition) is refused as Go refuses it, what Python lacks (`\z`, `\Q…\E`, `[[:alpha:]]`, flags in the middle) is
spelled out. Classes of Unicode properties (`\pL`) are refused too, although Go has them: ids of groups are ASCII.

Only whether something is found matters here, so groups capture nothing and greed is left as it comes.
"""

import re
import string

_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED = re.compile(r"\(\?P?<[A-Za-z0-9_]+>")
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
_HEX = re.compile(r"\\x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)

_MOST_REPEATS = 1000
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLASSES = "dDsSwW"
_PLACES = {"A": r"(?:\A)", "b": r"(?:\b)", "B": r"(?!\b)", "z": r"(?:\Z)"}
"""Wrapped, because Go lets a place be repeated. Python's own `\\B` is never found in an empty string."""
_POSIX_CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "ascii": "".join(map(chr, range(128))),
    "blank": "\t ",
    "cntrl": "".join(map(chr, range(32))) + "\x7f",
    "digit": string.digits,
    "graph": string.ascii_letters + string.digits + string.punctuation,
    "lower": string.ascii_lowercase,
    "print": string.ascii_letters + string.digits + string.punctuation + " ",
    "punct": string.punctuation,
    "space": "\t\n\v\f\r ",
    "upper": string.ascii_uppercase,
    "word": string.ascii_letters + string.digits + "_",
    "xdigit": string.hexdigits,
}


class NotRE2(ValueError):
    """Go would refuse this expression; the message says what it trips over."""


def compile_go(expression: str) -> re.Pattern[str]:
    """The expression as a Python pattern to `search` with. NotRE2 if Go refuses it."""
    try:
        return re.compile(_Translator(expression).translate(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise NotRE2(str(error) or "too deeply nested") from error


class _Translator:
    """Reads an expression from left to right and writes Python's spelling of it."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._written: list[str] = []
        self._scopes: list[list[str]] = [[]]
        """For each open group, outermost first: the flags set within it, each a Python group of its own."""

    def translate(self) -> str:
        while self._at < len(self._text):
            self._read_one()
        if len(self._scopes) > 1:
            raise NotRE2("missing closing )")
        self._written.append(")" * len(self._scopes[0]))
        return "".join(self._written)

    def _read_one(self) -> None:
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
                self._separate()
            case "*" | "+" | "?" as operator:
                self._repeat(operator)
            case "{" if found := _REPEAT.match(self._text, self._at):
                self._repeat(self._check_repeat(found))
            case "^" | "$" as place:
                self._take(place, f"(?:{place})")
            case "." as any_character:
                self._take(any_character, any_character)
            case character:
                self._take(character, re.escape(character))

    def _take(self, read: str, written: str) -> None:
        self._at += len(read)
        self._written.append(written)

    # ── Repetition ───────────────────────────────────────────────────────────────────────────────────────────────

    def _check_repeat(self, found: re.Match[str]) -> str:
        if max(int(found[1]), int(found[3] or 0)) > _MOST_REPEATS:
            raise NotRE2(f"invalid repeat count {found[0]}: at most {_MOST_REPEATS}")
        return found[0]

    def _repeat(self, operator: str) -> None:
        self._take(operator, operator)
        if self._text.startswith("?", self._at):
            self._take("?", "?")
        if self._text.startswith(("*", "+", "?"), self._at) or _REPEAT.match(self._text, self._at):
            raise NotRE2(f"invalid nested repetition operator at {self._text[self._at :]!r}")

    # ── Groups ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _open_group(self) -> None:
        if not self._text.startswith("(?", self._at):
            self._take("(", "(?:")
            self._scopes.append([])
        elif named := _NAMED.match(self._text, self._at):
            self._take(named[0], "(?:")
            self._scopes.append([])
        elif flags := _FLAGS.match(self._text, self._at):
            self._set_flags(flags)
        else:
            raise NotRE2(f"{self._text[self._at : self._at + 4]!r} is neither a group nor flags; RE2 has no lookaround")

    def _set_flags(self, found: re.Match[str]) -> None:
        """`(?i:…)` is a group; `(?i)` holds until the group around it ends, also past `|`."""
        off = set(found[2] or "") - {"U"}
        on = set(found[1]) - {"U"} - off
        flags = "".join(sorted(on)) + ("-" + "".join(sorted(off)) if off else "")
        if found[3] == ":":
            self._take(found[0], f"(?{flags}:")
            self._scopes.append([])
        elif flags:
            self._take(found[0], f"(?{flags}:")
            self._scopes[-1].append(flags)
        else:
            self._take(found[0], "")

    def _close_group(self) -> None:
        if len(self._scopes) == 1:
            raise NotRE2("unexpected )")
        self._take(")", ")" * len(self._scopes.pop()) + ")")

    def _separate(self) -> None:
        flags = self._scopes[-1]
        self._take("|", ")" * len(flags) + "|" + "".join(f"(?{scope}:" for scope in flags))

    # ── Escapes and classes ──────────────────────────────────────────────────────────────────────────────────────

    def _read_escape(self) -> None:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter and letter in _CLASSES:
            self._take("\\" + letter, "\\" + letter)
        elif letter in _PLACES:
            self._take("\\" + letter, _PLACES[letter])
        elif letter == "Q" and (quoted := _QUOTED.match(self._text, self._at)):
            self._take(quoted[0], re.escape(quoted[1]))
        else:
            self._written.append(re.escape(self._read_character()))

    def _read_class(self) -> None:
        start = self._at
        opening = "[^" if self._text.startswith("[^", self._at) else "["
        self._take(opening, opening)
        first = True
        while first or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise NotRE2(f"missing closing ]: {self._text[start:]!r}")
            first = False
            self._read_member()
        self._take("]", "]")

    def _read_member(self) -> None:
        r"""One part of a class: `[:alpha:]`, `\d`, a character, or a range of them."""
        if posix := _POSIX.match(self._text, self._at):
            self._take(posix[0], _spell_posix(posix[2], negated=bool(posix[1])))
        elif self._text[self._at] == "\\" and self._text[self._at + 1 : self._at + 2] in tuple(_CLASSES):
            self._take(self._text[self._at : self._at + 2], self._text[self._at : self._at + 2])
        else:
            low = high = self._read_character()
            if self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                high = self._read_character()
            if high < low:
                raise NotRE2(f"invalid character class range {low}-{high}")
            self._written.append(re.escape(low) if low == high else f"{re.escape(low)}-{re.escape(high)}")

    def _read_character(self) -> str:
        """A single character, escaped or not."""
        character = self._text[self._at]
        if character != "\\":
            self._at += 1
            return character
        escaped = self._text[self._at + 1 : self._at + 2]
        if found := _HEX.match(self._text, self._at) or _OCTAL.match(self._text, self._at):
            self._at = found.end()
            code = int(found[1] or found[2], 16) if escaped == "x" else int(found[1], 8)
            if code > 0x10FFFF:
                raise NotRE2(f"invalid escape sequence {found[0]}")
            return chr(code)
        if escaped not in _CONTROLS and (not escaped.isascii() or escaped.isalnum() or not escaped):
            raise NotRE2(f"invalid escape sequence \\{escaped}; RE2 has no backreferences")
        self._at += 2
        return _CONTROLS.get(escaped, escaped)


def _spell_posix(name: str, negated: bool) -> str:
    if name not in _POSIX_CLASSES:
        raise NotRE2(f"invalid character class range [:{name}:]")
    members = _POSIX_CLASSES[name]
    if not negated:
        return re.escape(members)
    rest = "".join(chr(code) for code in range(128) if chr(code) not in members)
    return re.escape(rest) + "\\x80-\\U0010ffff"
