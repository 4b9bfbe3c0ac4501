"""Matching: all alternatives of an expression are followed at once, character by character.

`matches` uses a deterministic automaton that is built lazily: a state is the set of reached instructions, with the kind
of the last character. `find` uses an ordered list of threads (Pike's machine), so that the leftmost match with the
preferred alternatives wins.
"""

import functools
from collections.abc import Iterable

from windlass.regexp import character_classes, syntax

_MAX_REMEMBERED = 200_000
"""Most instructions in the cached states of one expression; beyond them the cache is cleared."""
_BEGIN, _NEWLINE, _WORD, _OTHER = range(4)
"""Kinds of the character before a place: none, a line's end, a word's character, another."""
_END = ""
"""Stands for the character behind the last one."""


class StepLimitExceeded(Exception):
    """A match took more steps than its limit."""


@functools.lru_cache(maxsize=4096)
def compile(expression: str) -> "Regexp":
    """Compile an expression. InvalidExpression where Go refuses it."""
    return Regexp(expression, syntax.compile_program(expression))


class _State:
    """A state of the automaton: the instructions reached after a character."""

    __slots__ = ("before", "following", "reached")

    def __init__(self, reached: frozenset[int], before: int) -> None:
        self.reached = reached
        self.before = before
        self.following: dict[str, _State | None] = {}
        """Next states by character; None if the expression has matched before it."""


class Regexp:
    """A compiled expression. Expressions with one text are equal."""

    def __init__(self, expression: str, program: syntax.Program) -> None:
        self.expression = expression
        self._program = program
        self._forget()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regexp) and self.expression == other.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __repr__(self) -> str:
        return f"regexp.compile({self.expression!r})"

    def matches(self, text: str, limit: int | None = None) -> bool:
        """Is the expression found anywhere in the text? StepLimitExceeded after `limit` steps."""
        state = self._start
        steps = _Steps(limit)
        for character in (*text, _END):
            try:
                following = state.following[character]
            except KeyError:
                following = self._advance(state, character, steps)
            if following is None:
                return True
            state = following
        return False

    def find(self, text: str, limit: int | None = None) -> str:
        """The leftmost match, or an empty string."""
        span = self._find_span(text, 0, _Steps(limit))
        return text[span[0] : span[1]] if span else ""

    def find_all(self, text: str, count: int = -1, limit: int | None = None) -> list[str]:
        """Successive matches that do not overlap, at most `count` unless it is negative.

        An empty match right behind another one does not count.
        """
        steps = _Steps(limit)
        matches: list[str] = []
        at, last_end = 0, -1
        while at <= len(text) and len(matches) != count:
            span = self._find_span(text, at, steps)
            if span is None:
                break
            start, end = span
            if end > at or start != last_end:
                matches.append(text[start:end])
            at = end if end > at else at + 1
            last_end = end
        return matches

    # ── The automaton ────────────────────────────────────────────────────────────────────────────────────────────

    def _forget(self) -> None:
        self._states: dict[tuple[frozenset[int], int], _State] = {}
        self._remembered = 0
        self._start = self._remember(frozenset((0,)), _BEGIN)

    def _remember(self, reached: frozenset[int], before: int) -> _State:
        state = self._states.get((reached, before))
        if state is None:
            if self._remembered > _MAX_REMEMBERED:
                self._forget()
            state = self._states[reached, before] = _State(reached, before)
            self._remembered += len(reached) + _WEIGHT
        return state

    def _advance(self, state: _State, character: str, steps: "_Steps") -> _State | None:
        following: set[int] = {0}
        seen: set[int] = set()
        for start in state.reached:
            for at in self._follow(start, state.before, character, seen):
                instruction = self._program[at]
                if not isinstance(instruction, syntax.Accept):
                    state.following[character] = None
                    return None
                if character and instruction.characters.accepts(character):
                    following.add(at + 1)
        steps.take(len(seen))
        made = self._remember(frozenset(following), _kind(character))
        if len(state.following) < _MAX_FOLLOWING:
            state.following[character] = made
        return made

    def _follow(self, start: int, before: int, character: str, seen: set[int]) -> Iterable[int]:
        """Instructions reachable from this one that consume a character or match, in order of preference."""
        pending = [start]
        while pending:
            at = pending.pop()
            if at in seen:
                continue
            seen.add(at)
            match self._program[at]:
                case syntax.Jump(to):
                    pending.append(at + to)
                case syntax.Split(first, second):
                    pending += (at + second, at + first)
                case syntax.Assert(place):
                    if _is_at(place, before, character):
                        pending.append(at + 1)
                case _:
                    yield at

    # ── Threads ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _find_span(self, text: str, start: int, steps: "_Steps") -> tuple[int, int] | None:
        threads: list[tuple[int, int]] = []
        span: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            if span is None:
                threads.append((0, at))
            elif not threads:
                break
            character = text[at] if at < len(text) else _END
            before = _kind(text[at - 1]) if at else _BEGIN
            threads, matched = self._move(threads, before, character, at, steps)
            span = matched or span
        return span

    def _move(
        self, threads: list[tuple[int, int]], before: int, character: str, at: int, steps: "_Steps"
    ) -> tuple[list[tuple[int, int]], tuple[int, int] | None]:
        """The threads after a character, and the match before it, if any. A match ends less preferred threads."""
        following: list[tuple[int, int]] = []
        seen: set[int] = set()
        for thread, started in threads:
            for reached in self._follow(thread, before, character, seen):
                instruction = self._program[reached]
                if not isinstance(instruction, syntax.Accept):
                    steps.take(len(seen))
                    return following, (started, at)
                if character and instruction.characters.accepts(character):
                    following.append((reached + 1, started))
        steps.take(len(seen))
        return following, None


_WEIGHT = 50
"""Weight of a state and its transitions besides its instructions."""
_MAX_FOLLOWING = 512


class _Steps:
    """Counts steps against a limit."""

    __slots__ = ("_left",)

    def __init__(self, limit: int | None) -> None:
        self._left = limit

    def take(self, count: int) -> None:
        if self._left is not None:
            self._left -= count + 1
            if self._left < 0:
                raise StepLimitExceeded


def _kind(character: str) -> int:
    if character == "\n":
        return _NEWLINE
    return _WORD if character_classes.is_word(character) else _OTHER


def _is_at(place: syntax.Place, before: int, character: str) -> bool:
    match place:
        case "begin text":
            return before == _BEGIN
        case "end text":
            return character == _END
        case "begin line":
            return before in (_BEGIN, _NEWLINE)
        case "end line":
            return character in (_END, "\n")
        case "word boundary":
            return (before == _WORD) is not character_classes.is_word(character)
        case "no word boundary":
            return (before == _WORD) is character_classes.is_word(character)
