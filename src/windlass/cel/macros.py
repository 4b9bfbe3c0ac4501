"""CEL macros (`all`, `exists`, `map`, `filter`, `cel.bind` …): calls whose arguments are names and expressions.

`all` and `exists` ignore an error at one item when another item decides.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.cel import cost as costs
from windlass.cel import functions, parser
from windlass.cel.cost import Builder, Code, Scope, Step, Variables, build_all, charge, sum_costs
from windlass.cel.values import (
    NO_OVERLOAD,
    Cancelled,
    CompileError,
    EvaluationError,
    Map,
    Optional,
    Value,
    as_evaluation_error,
)

ItemScopes: TypeAlias = Callable[[Variables], Iterator[tuple[Value, Variables]]]
"""(item, the variables with the item under its name) for every item of a list or key of a map, one after the other."""

_ONE_NAME = {"all": (2,), "exists": (2,), "exists_one": (2,), "existsOne": (2,), "map": (2, 3), "filter": (2,),
             "sortBy": (2,)}  # fmt: skip
_TWO_NAMES = {
    "all": (3,), "exists": (3,), "exists_one": (3,), "existsOne": (3,), "transformList": (3, 4), "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
}  # fmt: skip
"""Macros and how many arguments they take."""
_NO_NAME = dict.fromkeys(("map", "filter"), "argument is not an identifier")
"""Error for an argument that is no identifier, by macro."""


def expand_macro(node: parser.Call, scope: Scope) -> Builder | None:
    """The builder of a macro call; None for other calls."""
    if node.target is None:
        return None
    if isinstance(node.target, parser.Identifier) and node.target.name == "cel" and "cel" not in scope.names:
        return _bind(node, scope) if node.function == "bind" and len(node.arguments) == 3 else None
    if node.function in ("optMap", "optFlatMap") and len(node.arguments) == 2:
        return _map_optional(node, scope)
    count = len(node.arguments)
    if count in _ONE_NAME.get(node.function, ()):
        return _comprehend(node, scope, 1)
    if count in _TWO_NAMES.get(node.function, ()):
        return _comprehend(node, scope, 2)
    return None


def _comprehend(node: parser.Call, scope: Scope, count: int) -> Builder:
    assert node.target is not None
    message = _NO_NAME.get(node.function, "argument must be a simple name")
    names = [_name(argument, message) for argument in node.arguments[:count]]
    if len(set(names)) < count:
        raise CompileError(f"duplicate variable name: {names[1]}", node.arguments[1].at)
    inner = scope.add(*names)
    target = yield node.target, scope
    bodies = yield from build_all(node.arguments[count:], inner)
    loop = _Loop(_scopes(target.step, names), charge if scope.is_metered else _charge_nothing)
    step, per_item = _build_loop(node.function, loop, bodies, names[0])
    items = costs.value_size(target.step({})) if target.is_constant else None
    for_item = sum_costs((per_item, *(body.most for body in bodies)))
    more = None if items is None or for_item is None or node.function == "sortBy" else items * for_item
    return Code(step, target.cost + (2 if node.function in ("exists_one", "existsOne") else 1), more)


def _build_loop(function: str, loop: "_Loop", bodies: list[Code], key: str) -> tuple[Step, int]:
    """The step, and the upper bound of its cost per item besides the bodies."""
    match function:
        case "all" | "exists":
            return _decide(loop, bodies[0], function == "exists"), 4
        case "exists_one" | "existsOne":
            return _count_one(loop, bodies[0]), 2
        case "filter":
            return _keep(loop, bodies[0]), costs.APPEND + 1
        case "sortBy":
            return _sort(loop, bodies[0]), 0
        case "transformMap" | "transformMapEntry":
            return _make_map(loop, bodies, function == "transformMapEntry", key), 3
        case _:
            return _transform(loop, bodies), costs.APPEND


@dataclass(frozen=True, slots=True)
class _Loop:
    each: ItemScopes
    charge: Callable[[Variables, int], None]


def _charge_nothing(_: Variables, __: int) -> None:
    pass


def _filtered(loop: _Loop, bodies: list[Code], variables: Variables, cost: int) -> Iterator[Variables]:
    """The scopes in which the first of two bodies holds, or all of them; `cost` is that of the last body and more."""
    if len(bodies) == 1:
        for _, scope in loop.each(variables):
            loop.charge(variables, cost)
            yield scope
        return
    condition = bodies[0]
    for _, scope in loop.each(variables):
        loop.charge(variables, condition.cost)
        if _is_true(condition.step(scope)):
            loop.charge(variables, cost)
            yield scope


def _transform(loop: _Loop, bodies: list[Code]) -> Step:
    body, cost = bodies[-1].step, bodies[-1].cost + costs.APPEND
    return lambda variables: [body(scope) for scope in _filtered(loop, bodies, variables, cost)]


def _make_map(loop: _Loop, bodies: list[Code], are_entries: bool, key_name: str) -> Step:
    body, cost = bodies[-1].step, bodies[-1].cost + (2 if are_entries else 3)

    def evaluate(variables: Variables) -> Value:
        made: list[tuple[Value, Value]] = []
        for scope in _filtered(loop, bodies, variables, cost):
            value = body(scope)
            if not are_entries:
                made.append((scope[key_name], value))
            elif isinstance(value, Mapping):
                made += value.items()
            else:
                raise EvaluationError(NO_OVERLOAD)
        return Map(made)

    return evaluate


def _keep(loop: _Loop, body: Code) -> Step:
    step, cost = body.step, body.cost

    def evaluate(variables: Variables) -> Value:
        kept: list[Value] = []
        for item, scope in loop.each(variables):
            loop.charge(variables, cost)
            if _is_true(step(scope)):
                loop.charge(variables, costs.APPEND + 1)
                kept.append(item)
        return kept

    return evaluate


def _sort(loop: _Loop, body: Code) -> Step:
    step, cost = body.step, body.cost + costs.APPEND

    def evaluate(variables: Variables) -> Value:
        items: list[Value] = []
        keys: list[Value] = []
        for item, scope in loop.each(variables):
            loop.charge(variables, cost)
            items.append(item)
            keys.append(step(scope))
        loop.charge(variables, costs.compare_all_cost(keys))
        return functions.sort_items_by(items, keys)

    return evaluate


def _count_one(loop: _Loop, body: Code) -> Step:
    step, cost = body.step, body.cost

    def evaluate(variables: Variables) -> Value:
        count = 0
        for _, scope in loop.each(variables):
            loop.charge(variables, cost)
            if _is_true(step(scope)):
                loop.charge(variables, 2)
                count += 1
        return count == 1

    return evaluate


def _decide(loop: _Loop, body: Code, decides: bool) -> Step:
    step = body.step
    again = 3 if decides else 2
    """Checks before every item whether the result is decided; `exists` negates first."""
    cost = again + 1 + body.cost

    def evaluate(variables: Variables) -> Value:
        failed: EvaluationError | None = None
        is_decided = False
        for _, scope in loop.each(variables):
            if is_decided:
                loop.charge(variables, again)
                break
            loop.charge(variables, cost)
            try:
                is_decided = _is_true(step(scope)) is decides
            except Cancelled:
                raise
            except Exception as error:
                failed = failed or as_evaluation_error(error)
        if is_decided:
            return decides
        if failed is not None:
            raise failed
        return not decides

    return evaluate


def _scopes(container: Step, names: list[str]) -> ItemScopes:
    def each(variables: Variables) -> Iterator[tuple[Value, Variables]]:
        items = container(variables)
        if not isinstance(items, list | Mapping):
            raise EvaluationError(NO_OVERLOAD)
        scope = dict(variables)
        if len(names) == 1:
            (name,) = names
            for item in items:
                scope[name] = item
                yield item, scope
            return
        first, second = names
        for key, item in items.items() if isinstance(items, Mapping) else enumerate(items):
            scope[first], scope[second] = key, item
            yield item, scope

    return each


def _bind(node: parser.Call, scope: Scope) -> Builder:
    """`cel.bind(name, value, expression over the name)`"""
    name = _name(node.arguments[0], "cel.bind() variable names must be simple identifiers")
    bound = yield node.arguments[1], scope
    body = yield node.arguments[2], scope.bind(name)
    value, step = bound.step, body.step

    def evaluate(variables: Variables) -> Value:
        try:
            given = value(variables)
        except Cancelled:
            raise
        except Exception as error:
            given = as_evaluation_error(error)
        return step({**variables, name: given})

    return Code(evaluate, bound.cost + body.cost, sum_costs((bound.more, body.more)))


def _map_optional(node: parser.Call, scope: Scope) -> Builder:
    """Kubernetes evaluates the target twice: to see whether there is a value, and to take it."""
    assert node.target is not None
    name = _name(node.arguments[0], f"{node.function}() variable name must be a simple identifier")
    target = yield node.target, scope
    body = yield node.arguments[1], scope.add(name)
    is_flat = node.function == "optFlatMap"
    source, step, is_metered = target.step, body.step, scope.is_metered
    cost = target.cost + 1 + body.cost + (not is_flat)

    def evaluate(variables: Variables) -> Value:
        given = source(variables)
        if not isinstance(given, Optional):
            raise EvaluationError(NO_OVERLOAD)
        if is_metered:
            charge(variables, cost if given.has_value else 1)
        if not given.has_value:
            return given
        made = step({**variables, name: given.value})
        if is_flat and not isinstance(made, Optional):
            raise EvaluationError(NO_OVERLOAD)
        return made if is_flat else Optional(made, True)

    return Code(evaluate, target.cost + 1, sum_costs((cost, target.more, target.more, body.more)))


def _name(node: parser.Node, message: str) -> str:
    if not isinstance(node, parser.Identifier):
        raise CompileError(message, node.at)
    return node.name


def _is_true(value: Value) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(NO_OVERLOAD)
    return value
