"""Expressions and what they come to, in the words of Kubernetes' own implementation where they fail."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import cel
from windlass.quantity import parse

DEVICE = {
    "driver": "gpu.example.com",
    "attributes": {"gpu.example.com": {"memory": 40, "model": "a100", "healthy": True}},
    "capacity": {"gpu.example.com": {"memory": parse("40Gi")}},
}


def evaluate(text: str) -> Any:
    return cel.compile(text, ("device",)).evaluate({"device": DEVICE})


A = 'device.attributes["gpu.example.com"]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('device.driver == "gpu.example.com"', True),
        (f"{A}.memory >= 24 && {A}.memory < 80", True),
        (f'{A}.model in ["l4", "h100"]', False),
        (f"!{A}.healthy", False),
        (f"has({A}.missing)", False),
        (f"{A}.?missing.orValue(7)", 7),
        (f"{A}[?'memory'].hasValue()", True),
        (f"cel.bind(a, {A}, a.healthy && a.memory == 40)", True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi"))', 0),
        ('quantity("1Gi").add(quantity("1Gi")).isGreaterThan(quantity("2G"))', True),
        ('semver("1.10.0").isGreaterThan(semver("1.9.9"))', True),
        ('semver("v1.2", true).patch()', 0),
        ('semver("2.0.0-rc.1").isLessThan(semver("2.0.0"))', True),
        ("1 == 1.0", True),
        ('1 == "1"', False),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ('"ab" + "c"', "abc"),
        ("[1, 2] + [3]", [1, 2, 3]),
        ("[1, 2, 3].filter(x, x > 1).map(x, x * 2)", [4, 6]),
        ("[1, 2, 3].exists_one(x, x == 2)", True),
        ('{"a": 1}.all(k, k == "a")', True),
        ('"a,b".split(",")', ["a", "b"]),
        ('"Hello".lowerAscii().startsWith("he")', True),
        ('"gpu-7".matches("^gpu-[0-9]+$")', True),
        ("true ? 1 : 2", 1),
        ("size([1, 2])", 2),
        ("[3, 1].min()", 1),
        ("sets.contains([1, 2], [2])", True),
        ("optional.none().orValue(1)", 1),
        ('r"\\d" == "\\\\d"', True),
        ("0x10", 16),
    ],
)
def test_expressions_come_to(text: str, expected: object) -> None:
    assert evaluate(text) == expected


@pytest.mark.parametrize(
    "text", [f"{A}.missing == 1 || true", f"false && {A}.missing == 1", "[1, 0].exists(x, 1 / x == 1)"]
)
def test_an_error_does_not_matter_where_something_else_decides(text: str) -> None:
    assert evaluate(text) is text.endswith(("true", "== 1)"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{A}.missing", "no such key: missing"),
        (f"{A}.model < 5", "no such overload"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("[1][2] == 1", "index out of bounds: 2"),
        ('quantity("many").isInteger()', "quantities must match the regular expression"),
    ],
)
def test_expressions_fail_on_their_input(text: str, complaint: str) -> None:
    with pytest.raises(cel.EvaluationError, match=complaint):
        evaluate(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("device.driver ==", "unexpected the end at position 17"),
        ("nobody", "undeclared reference to 'nobody' at position 1"),
        ('duration("1s")', "undeclared reference to 'duration'"),
        ("device.driver.unheardOf()", "undeclared reference to 'unheardOf'"),
        ('"unfinished', "unexpected '\"' at position 1"),
        ("has(1)", "invalid argument to has"),
        ("[1].map(1, 2)", "must be a simple name"),
        pytest.param("(" * 300 + "1" + ")" * 300, "nested deeper", id="brackets"),
        pytest.param("&& ".join(["true "] * 2000), "too many operators", id="operators"),
    ],
)
def test_expressions_that_can_never_be_evaluated_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(cel.CompileError, match=complaint):
        cel.compile(text, ("device",))


@given(st.text(alphabet='device.attributes["x"] &|!=<>()+-*/%?:,{}0123456789aé\'\\n', max_size=40))
def test_any_text_is_read_or_refused_and_never_more(text: str) -> None:
    try:
        program = cel.compile(text, ("device",))
    except cel.CompileError:
        return
    try:
        program.evaluate({"device": DEVICE})
    except cel.EvaluationError:
        return
