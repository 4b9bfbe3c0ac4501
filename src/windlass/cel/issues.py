"""Issues: what is wrong with an expression, printed as cel-go prints it.

ERROR: <input>:1:8: undeclared reference to 'foo' (in container '')
| true && foo
| .......^
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windlass.cel import types

_OPERATORS = {
    **{name: f"_{name}_" for name in ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")}, "in": "@in",
    "?:": "_?_:_",
}  # fmt: skip
"""Names of operators that are not those of `syntax`."""
_DOTS = {False: ".", True: "．"}
_MARKS = {False: "^", True: "＾"}
"""By whether the character takes more than one byte."""


@dataclass(frozen=True, slots=True, order=True)
class Issue:
    """A fault at a position of the expression; -1 where it has none."""

    at: int
    text: str


def undeclared(name: str, at: int) -> Issue:
    return Issue(at, f"undeclared reference to '{name}' (in container '')")


def undefined_field(field: str, at: int) -> Issue:
    return Issue(at, f"undefined field '{field}'")


def no_overload(name: str, given: Sequence[str], at: int, is_method: bool = False) -> Issue:
    """Where the type of an argument is not known, it names no types, unlike cel-go's."""
    spelled = types.spell_call(given, is_method)
    applied = f"'{spelled}'" if spelled else f"{len(given)} arguments"
    return Issue(at, f"found no matching overload for '{_OPERATORS.get(name, name)}' applied to {applied}")


def not_bool(found: str, at: int) -> Issue:
    return Issue(at, f"expected type 'bool' but found '{found}'")


def describe(expression: str, found: Iterable[Issue]) -> str:
    """Issues in the order of their positions, each with the line that it is in."""
    return "\n".join(_describe(expression, issue) for issue in sorted(found))


def _describe(expression: str, issue: Issue) -> str:
    if issue.at < 0:
        return f"ERROR: <input>:-1:0: {issue.text}"
    start = expression.rfind("\n", 0, issue.at) + 1
    line = expression.count("\n", 0, issue.at) + 1
    source = expression[start:].split("\n", 1)[0].replace("\t", " ")
    column = issue.at - start
    before = "".join(_DOTS[not character.isascii()] for character in source[:column])
    mark = _MARKS[not source[column : column + 1].isascii()]
    return f"ERROR: <input>:{line}:{column + 1}: {issue.text}\n | {source}\n | {before}{mark}"
