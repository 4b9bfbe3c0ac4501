"""Expressions drawn from the grammar, over values of every type: each has a value or fails as an expression."""

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.cel import compiler, functions, values
from windlass.quantity import parse_quantity

NAMES = ("a", "b", "device", "x", "y")
ODD_NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    "-0.0",
    "1e-300",
    "1u",
    "0xff",
]
ODD_TEXTS = ["", "a", "é", "1", "-1", "1.5", "inf", "nan", "1e10000", "1Gi", "1.2.3", "1.2.3-99999999999999999999999",
             "v1.2", "^(a+)+$", "(", "a{1,99999999999}", "(?i)K", "true", "1e5000", "a" * 200]  # fmt: skip
LITERALS = st.one_of(
    st.sampled_from([*ODD_NUMBERS, "true", "false", "null", "[]", "{}", "optional.none()", "dyn(1.0 / 0.0)", *NAMES]),
    st.sampled_from(ODD_TEXTS).map(lambda text: f'"{text}"'),
    st.sampled_from(["b'a'", 'double("nan")', 'double("inf")', "dyn([1])", "semver('1.2.3')", "quantity('1e9999')"]),
)
BINARY = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||"])
UNARY = st.sampled_from(["!", "-", "--"])
MACROS = st.sampled_from(["all", "exists", "exists_one", "map", "filter", "existsOne", "sortBy"])
CALLS = st.sampled_from(sorted({(name, count) for name, count in functions.FUNCTIONS if name.isalpha()}))
METHODS = st.sampled_from(sorted(functions.METHODS))
NAMESPACED = st.sampled_from(sorted(functions.NAMESPACED))


def _call(drawn: tuple[tuple[str, int], list[str]]) -> str:
    (name, count), arguments = drawn
    return f"{name}({', '.join(arguments[:count])})"


def _method(drawn: tuple[str, tuple[str, int], list[str]]) -> str:
    target, (name, count), arguments = drawn
    return f"({target}).{name}({', '.join(arguments[:count])})"


def _namespaced(drawn: tuple[tuple[str, str, int], list[str]]) -> str:
    (namespace, name, count), arguments = drawn
    return f"{namespace}.{name}({', '.join(arguments[:count])})"


def _extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    three = st.lists(inner, min_size=3, max_size=3)
    return st.one_of(
        st.tuples(inner, BINARY, inner).map(lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"),
        st.tuples(UNARY, inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
        st.tuples(CALLS, three).map(_call),
        st.tuples(inner, METHODS, three).map(_method),
        st.tuples(NAMESPACED, three).map(_namespaced),
        st.tuples(inner, MACROS, inner).map(lambda parts: f"({parts[0]}).{parts[1]}(x, {parts[2]})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]}).transformMap(x, y, {parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]}).optMap(x, {parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"cel.bind(x, {parts[0]}, {parts[1]})"),
        three.map(lambda parts: f"({parts[0]}) ? ({parts[1]}) : ({parts[2]})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]})[{parts[1]}]"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]})[?{parts[1]}]"),
        st.tuples(inner, st.sampled_from(["a", "b", "missing"])).map(lambda parts: f"({parts[0]}).{parts[1]}"),
        inner.map(lambda part: f"has(({part}).a)"),
        st.tuples(inner, inner).map(lambda parts: f"[{parts[0]}, ?{parts[1]}, {parts[1]}]"),
        st.tuples(inner, inner).map(lambda parts: f"{{{parts[0]}: {parts[1]}, ?'b': {parts[1]}}}"),
    )


EXPRESSIONS = st.recursive(LITERALS, _extend, max_leaves=12)
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=5),
    st.sampled_from([
        math.inf, parse_quantity("1e4000"), parse_quantity("-1n"), values.parse_version("1.2.3-a.1"), values.NOTHING,
        values.Optional([1], True),
    ]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=150)
@given(EXPRESSIONS, VALUES, VALUES)
def test_an_expression_has_a_value_or_fails_as_an_expression(text: str, first: Any, second: Any) -> None:
    variables = {"a": first, "b": second, "device": {"a": first, "b": [second]}, "x": 1, "y": "y"}
    try:
        program = compiler.compile(text, NAMES)
    except values.CompileError:
        return
    for max_cost in (1_000_000, 5):
        assert "internal error" not in _complaint(program, variables, max_cost)


def _complaint(program: compiler.Program, variables: dict[str, Any], max_cost: int) -> str:
    try:
        program.evaluate(variables, max_cost)
    except values.EvaluationError as error:
        return str(error)
    return ""
