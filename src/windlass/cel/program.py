"""Expressions made ready to be evaluated: every node becomes a function of the variables.

What can never work is refused here: unknown names and functions, the wrong number of arguments. `&&` and `||` do not
mind an error on one side when the other side decides, and neither do `all` and `exists`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.cel import functions, macros, parser, syntax
from windlass.cel.values import (
    NO_OVERLOAD,
    NOTHING,
    CompileError,
    EvaluationError,
    Function,
    Optional,
    Value,
    is_number,
)

Variables: TypeAlias = Mapping[str, Value]
Step: TypeAlias = Callable[[Variables], Value]


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression. Evaluating it changes nothing."""

    text: str
    step: Step

    def evaluate(self, variables: Variables) -> Value:
        """What the expression comes to. EvaluationError where it fails on these variables."""
        try:
            return self.step(variables)
        except RecursionError:
            raise EvaluationError(_TOO_LONG) from None


_TOO_LONG = "too many operators in a row"


def compile(text: str, variables: tuple[str, ...]) -> Program:
    """The expression over variables of these names. CompileError if it can never be evaluated."""
    try:
        return Program(text, build(parser.parse(text), frozenset(variables)))
    except RecursionError:
        raise CompileError(_TOO_LONG) from None


def build(node: syntax.Node, known: frozenset[str]) -> Step:
    """A node as a function. `known` are the names that it may use."""
    match node:
        case syntax.Literal(value):
            return lambda _: value
        case syntax.Name(name, at):
            if name not in known:
                raise CompileError(f"undeclared reference to {name!r} at position {at + 1}")
            return lambda variables: variables[name]
        case syntax.Select():
            return _build_select(node, known)
        case syntax.Index():
            return _build_index(node, known)
        case syntax.List():
            return _build_list(node, known)
        case syntax.Map():
            return _build_map(node, known)
        case syntax.Call():
            return _build_call(node, known)


def _build_select(node: syntax.Select, known: frozenset[str]) -> Step:
    operand, field = build(node.operand, known), node.field
    if node.is_optional:
        return lambda variables: find(operand(variables), field)
    return lambda variables: _look_up(operand(variables), field)


def _build_index(node: syntax.Index, known: frozenset[str]) -> Step:
    operand, key = build(node.operand, known), build(node.key, known)
    if node.is_optional:
        return lambda variables: find(operand(variables), key(variables))
    return lambda variables: _look_up(operand(variables), key(variables))


def _look_up(container: Value, key: Value) -> Value:
    """The value under a key; of something that may be missing, something that may be missing, too."""
    if isinstance(container, Optional):
        return find(container, key)
    if isinstance(container, Mapping):
        try:
            return container[key]
        except KeyError:
            raise EvaluationError(f"no such key: {key}") from None
    if isinstance(container, list):
        if not is_number(key) or key != int(key):
            raise EvaluationError(NO_OVERLOAD)
        if not 0 <= key < len(container):
            raise EvaluationError(f"index out of bounds: {int(key)}")
        return container[int(key)]
    raise EvaluationError(NO_OVERLOAD)


def find(container: Value, key: Value) -> Optional:
    """The value under a key, if there is one."""
    if isinstance(container, Optional):
        if not container.has_value:
            return NOTHING
        container = container.value
    try:
        found = _look_up(container, key)
    except EvaluationError:
        if isinstance(container, Mapping | list):
            return NOTHING
        raise
    return found if isinstance(found, Optional) else Optional(found, True)


def _build_list(node: syntax.List, known: frozenset[str]) -> Step:
    items = [(build(item, known), number in node.optional) for number, item in enumerate(node.items)]

    def evaluate(variables: Variables) -> Value:
        made: list[Value] = []
        for item, is_optional in items:
            value = item(variables)
            if not is_optional:
                made.append(value)
            elif _given(value):
                made.append(value.value)
        return made

    return evaluate


def _build_map(node: syntax.Map, known: frozenset[str]) -> Step:
    entries = [
        (build(key, known), build(value, known), number in node.optional)
        for number, (key, value) in enumerate(node.entries)
    ]

    def evaluate(variables: Variables) -> Value:
        made: dict[Value, Value] = {}
        for key, item, is_optional in entries:
            name, value = key(variables), item(variables)
            if not is_optional:
                made[name] = value
            elif _given(value):
                made[name] = value.value
        return made

    return evaluate


def _given(value: Value) -> bool:
    if not isinstance(value, Optional):
        raise EvaluationError(NO_OVERLOAD)
    return value.has_value


def _build_call(node: syntax.Call, known: frozenset[str]) -> Step:
    if node.target is None:
        if node.function in ("&&", "||"):
            return _build_logic(node, known)
        if node.function == "?:":
            return _build_choice(node, known)
        if node.function == "has":
            return _build_has(node, known)
    made = macros.expand(node, known, build)
    if made is not None:
        return made
    called = _find_function(node, known)
    target = node.target if called.takes_target else None
    given = [build(argument, known) for argument in ((target, *node.arguments) if target else node.arguments)]
    function = called.function
    if len(given) == 1:
        (only,) = given
        return lambda variables: function(only(variables))
    if len(given) == 2:
        first, second = given
        return lambda variables: function(first(variables), second(variables))
    return lambda variables: function(*[argument(variables) for argument in given])


@dataclass(frozen=True, slots=True)
class _Called:
    function: Function
    takes_target: bool = False


def _find_function(node: syntax.Call, known: frozenset[str]) -> _Called:
    count = len(node.arguments)
    found: Function | None
    match node.target:
        case None:
            found = functions.FUNCTIONS.get((node.function, count))
        case syntax.Name(namespace) if namespace not in known:
            found = functions.NAMESPACED.get((namespace, node.function, count))
        case _:
            found = functions.METHODS.get((node.function, count))
            if found is not None:
                return _Called(found, takes_target=True)
    if found is None:
        raise CompileError(f"undeclared reference to {node.function!r} with {count} arguments at {node.at + 1}")
    return _Called(found)


def _build_logic(node: syntax.Call, known: frozenset[str]) -> Step:
    decides = node.function == "||"
    left, right = (build(argument, known) for argument in node.arguments)

    def evaluate(variables: Variables) -> Value:
        failed: EvaluationError | None = None
        for side in (left, right):
            try:
                value = side(variables)
            except EvaluationError as error:
                failed = failed or error
                continue
            if value is decides:
                return decides
            if not isinstance(value, bool):
                failed = failed or EvaluationError(NO_OVERLOAD)
        if failed is not None:
            raise failed
        return not decides

    return evaluate


def _build_choice(node: syntax.Call, known: frozenset[str]) -> Step:
    condition, this, that = (build(argument, known) for argument in node.arguments)

    def evaluate(variables: Variables) -> Value:
        chosen = condition(variables)
        if not isinstance(chosen, bool):
            raise EvaluationError(NO_OVERLOAD)
        return this(variables) if chosen else that(variables)

    return evaluate


def _build_has(node: syntax.Call, known: frozenset[str]) -> Step:
    if len(node.arguments) != 1 or not isinstance(node.arguments[0], syntax.Select):
        raise CompileError(f"invalid argument to has() macro at position {node.at + 1}")
    selected = node.arguments[0]
    operand, field = build(selected.operand, known), selected.field

    def evaluate(variables: Variables) -> Value:
        container = operand(variables)
        if isinstance(container, Optional):
            return find(container, field).has_value
        if not isinstance(container, Mapping):
            raise EvaluationError(NO_OVERLOAD)
        return find(container, field).has_value

    return evaluate
