"""Macros: calls whose arguments are not values but names and expressions over them.

`all` and `exists` do not mind an error at one item when another decides.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from windlass.cel import syntax
from windlass.cel.values import NO_OVERLOAD, CompileError, EvaluationError, Optional, Value

Variables: TypeAlias = Mapping[str, Value]
Step: TypeAlias = Callable[[Variables], Value]
Build: TypeAlias = Callable[[syntax.Node, frozenset[str]], Step]
Scopes: TypeAlias = Callable[[Variables], Iterator[tuple[Value, Variables]]]
"""(item, the variables with the item under its name) for every item of a list or key of a map."""


def expand(node: syntax.Call, known: frozenset[str], build: Build) -> Step | None:
    """The macro that a call is, ready to be evaluated; None if it is none."""
    if node.target is None:
        return None
    if isinstance(node.target, syntax.Name) and node.target.name == "cel" and "cel" not in known:
        return _bind(node, known, build) if node.function == "bind" and len(node.arguments) == 3 else None
    if node.function in ("optMap", "optFlatMap") and len(node.arguments) == 2:
        return _map_optional(node, known, build)
    shapes = {"all": (2, 3), "exists": (2, 3), "exists_one": (2,), "existsOne": (2,), "map": (2, 3), "filter": (2,)}
    if len(node.arguments) not in shapes.get(node.function, ()):
        return None
    return _comprehend(node, known, build)


def _comprehend(node: syntax.Call, known: frozenset[str], build: Build) -> Step:
    assert node.target is not None
    has_two = node.function in ("all", "exists") and len(node.arguments) == 3
    names = [_name(argument) for argument in node.arguments[: 2 if has_two else 1]]
    inner = known | frozenset(names)
    bodies = [build(body, inner) for body in node.arguments[len(names) :]]
    scopes = _scopes(build(node.target, known), names)
    match node.function:
        case "all" | "exists":
            return _decide(scopes, bodies[0], node.function == "exists")
        case "exists_one" | "existsOne":
            return lambda variables: sum(_is_true(bodies[0](scope)) for _, scope in scopes(variables)) == 1
        case "filter":
            return lambda variables: [item for item, scope in scopes(variables) if _is_true(bodies[0](scope))]
        case _:
            return _transform(scopes, bodies)


def _transform(scopes: Scopes, bodies: list[Step]) -> Step:
    if len(bodies) == 1:
        return lambda variables: [bodies[0](scope) for _, scope in scopes(variables)]
    return lambda variables: [bodies[1](scope) for _, scope in scopes(variables) if _is_true(bodies[0](scope))]


def _decide(scopes: Scopes, body: Step, decides: bool) -> Step:
    def evaluate(variables: Variables) -> Value:
        failed: EvaluationError | None = None
        for _, scope in scopes(variables):
            try:
                if _is_true(body(scope)) is decides:
                    return decides
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return not decides

    return evaluate


def _scopes(container: Step, names: list[str]) -> Scopes:
    def each(variables: Variables) -> Iterator[tuple[Value, Variables]]:
        found = container(variables)
        if not isinstance(found, list | Mapping):
            raise EvaluationError(NO_OVERLOAD)
        if len(names) == 1:
            for item in found:
                yield item, {**variables, names[0]: item}
            return
        for key, item in found.items() if isinstance(found, Mapping) else enumerate(found):
            yield item, {**variables, names[0]: key, names[1]: item}

    return each


def _bind(node: syntax.Call, known: frozenset[str], build: Build) -> Step:
    """`cel.bind(name, value, expression over the name)`"""
    name = _name(node.arguments[0])
    value, body = build(node.arguments[1], known), build(node.arguments[2], known | {name})
    return lambda variables: body({**variables, name: value(variables)})


def _map_optional(node: syntax.Call, known: frozenset[str], build: Build) -> Step:
    assert node.target is not None
    name = _name(node.arguments[0])
    target, body = build(node.target, known), build(node.arguments[1], known | {name})
    is_flat = node.function == "optFlatMap"

    def evaluate(variables: Variables) -> Value:
        given = target(variables)
        if not isinstance(given, Optional):
            raise EvaluationError(NO_OVERLOAD)
        if not given.has_value:
            return given
        made = body({**variables, name: given.value})
        return made if is_flat else Optional(made, True)

    return evaluate


def _name(node: syntax.Node) -> str:
    if not isinstance(node, syntax.Name):
        raise CompileError(f"argument must be a simple name at position {node.at + 1}")
    return node.name


def _is_true(value: Value) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(NO_OVERLOAD)
    return value
