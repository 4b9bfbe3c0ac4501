"""Expressions and what they come to, in the words of Kubernetes' own implementation where they fail."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.cel import compiler, values
from windlass.quantity import parse_quantity

DEVICE = {
    "driver": "gpu.example.com",
    "attributes": {"gpu.example.com": {"memory": 40, "model": "a100", "healthy": True}},
    "capacity": {"gpu.example.com": {"memory": parse_quantity("40Gi")}},
}


def evaluate(text: str) -> Any:
    return compiler.compile(text, ("device",)).evaluate({"device": DEVICE})


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
        ("dyn(1) == 1.0", True),
        ('dyn(1) == "1"', False),
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
        # What follows is what Kubernetes 1.36 answers.
        ('quantity("1e10000").asApproximateFloat() > 1.0', True),
        ('quantity("-1e10000").asApproximateFloat() < 1.0', True),
        ("{dyn([1]): 1}.size() == 1", True),
        ("{dyn(1): 1, dyn(true): 2}.size() == 2", True),
        ("dyn(true) in {1: 1}", False),
        ("{1: 'a'}[dyn(1.0)] == 'a'", True),
        ("!!!!true", True),
        ("--1", 1),
        (r'b"é" == b"\303\251"', True),
        ("[1, 2].transformList(i, v, v > 1, i + v) == [3]", True),
        ('{"a": 1}.transformMap(k, v, v + 1) == {"a": 2}', True),
        ("{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'}", True),
        ("[1, 2].existsOne(i, v, v == 2)", True),
        ("[3, 1, 2].sort() == [1, 2, 3] && lists.range(3) == [0, 1, 2] && [1, 2, 3].slice(0, 2) == [1, 2]", True),
        ("[{'n': 2}, {'n': 1}].sortBy(x, x.n)[0].n == 1 && [[1], [2, [3]]].flatten(2) == [1, 2, 3]", True),
        ("[1, 2].first().value() == 1 && [].last() == optional.none()", True),
        ("type(1) == int && type('a') != int && type(1u) == uint && type(dyn([])) == list", True),
        (
            "string(42949672960.0) + string(1.5) + string(1e21) + string(-0.00001) + string(3.0)",
            "4.294967296e+101.51e+21-1e-053",
        ),
        ("optional.of(1).orValue([][0]) == 1 && optional.of(1).or(optional.of([][0])).value() == 1", True),
        ("cel.bind(x, 1 / 0 == 1, x || true)", True),
        ("cel.bind(x, 1 / 0 == 1, true)", True),
        ("1 / 0 in []", False),
        ("quantity('1').add(2) == quantity('3') && dyn(quantity('1')) != null", True),
        ("18446744073709551615u > 1u && dyn(1u) == 1 && uint('7') == 7u", True),
        ("bytes('é') == b'\\303\\251' && string(b'a') == 'a'", True),
        ("dyn(9223372036854775807) < 9223372036854775808.0", False),
        ("has({'foo': optional.none()}.foo)", True),
        (
            "ip('1.2.3.4').family() == 4 && ip('::1').isLoopback() && !isIP('1.2.3')",
            True,
        ),
        ("ip('10.0.0.1').isGlobalUnicast()", True),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')", True),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0')", True),
        ("cidr('::1/128').ip() == ip('::1') && string(cidr('::1/128')) == '::1/128'", True),
        pytest.param("(" * 249 + "1" + ")" * 249, 1, id="brackets"),
        pytest.param("!(" * 249 + "true" + ")" * 249, False, id="negations"),
        pytest.param("+".join("1" * 250), 250, id="sums"),
        pytest.param("&&".join(["true"] * 2000), True, id="operators"),
        pytest.param('("' + "a" * 40 + 'b").matches("^(a+)+$")', False, id="an expression that makes others backtrack"),
        ('("aaa").matches("^(a|a)*$b")', False),
        (r'"x".matches("\\Ax\\z") && "é".matches("[[:^alpha:]]") && "é".matches("\\pL")', True),
        ('"seafood fool".find("foo.?") + ["-"].join() + "abc".findAll("[a-z]", 2).join("")', "food-ab"),
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
        ('[1, 2][dyn(double("inf"))] == 1', r"unsupported index value \+Inf in list"),
        ("[1, 2][dyn(1.0 / 0.0)] == 1", r"unsupported index value \+Inf in list"),
        ("[1, 2][dyn('a')] == 1", "unsupported index type 'string' in list"),
        ("{'a': 1}[dyn([1])] == 1", "no such key"),
        ("device.attributes[dyn([1])] == 1", "no such key"),
        pytest.param(
            f'semver("1.2.3-{"9" * 5000}") == semver("1.2.3")', "strconv.ParseUint: .* value out of range", id="version"
        ),
        (
            'device.driver.matches("a{1,"+"99999999999999}")',
            r"error parsing regexp: invalid repeat count: `\{1,99999999999999\}`",
        ),
        ('device.driver.matches("(?=a)")', r"invalid or unsupported Perl syntax: `\(\?=`"),
        (r'device.driver.matches("(a)\\1")', "invalid escape sequence"),
        ("quantity('1') == 'a'", "no such overload"),
        ("dyn(semver('1.2.3')) == dyn(true)", "no such overload"),
        ("quantity('3') == quantity('1').add(2)", "no such overload"),
        ("double('nan') < 1.0", "NaN values cannot be ordered"),
        ("cel.bind(x, 1 / 0, x == 1)", "division by zero"),
        ("1u - 2u == 0u", "unsigned integer overflow"),
        ("uint(-1) == 0u", "unsigned integer overflow"),
        ("int(-9223372036854775808.0) == 0", "integer overflow"),
        ("string(b'\\xff') == ''", "invalid UTF-8"),
        ("lists.range(9223372036854775807) == []", "actual cost limit exceeded"),
        ("ip('nowhere') == ip('::1')", "parse error"),
    ],
)
def test_expressions_fail_on_their_input(text: str, complaint: str) -> None:
    with pytest.raises(values.EvaluationError, match=complaint):
        evaluate(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("device.driver ==", "<input>:1:17: Syntax error: mismatched input '<EOF>' expecting {"),
        ("nobody", "<input>:1:1: undeclared reference to 'nobody'"),
        ('duration("1s")', "the function 'duration' is not supported by windlass"),
        ("device.driver.unheardOf()", "undeclared reference to 'unheardOf'"),
        ('"unfinished', "<input>:1:1: Syntax error: token recognition error at: '\""),
        ("has(1)", "invalid argument to has"),
        ("[1].map(1, 2)", "<input>:1:9: argument is not an identifier"),
        ("[1].all(1, 2)", "<input>:1:9: argument must be a simple name"),
        pytest.param("(" * 250 + "1" + ")" * 250, "expression recursion limit exceeded: 250", id="brackets"),
        pytest.param("[" * 5000, "expression recursion limit exceeded: 250", id="lists without end"),
        pytest.param("+".join("1" * 300), "max recursion depth exceeded", id="sums"),
        pytest.param("device" + ".a" * 5000, "max recursion depth exceeded", id="fields"),
        pytest.param("9" * 5000 + " == 1", "invalid int literal", id="digits"),
        pytest.param("0x" + "f" * 5000 + " == 1", "invalid int literal", id="hexadecimal digits"),
        (r'"\U00110000" == "a"', "invalid unicode code point"),
        (r'"\uD800" == "a"', "invalid unicode code point"),
    ],
)
def test_expressions_that_can_never_be_evaluated_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(values.CompileError, match=complaint):
        compiler.compile(text, ("device",))


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("true", 0),
        ("1 == 1", 1),
        ('device.driver == "gpu.example.com"', 4),
        (f"{A}.memory >= 24 && {A}.memory < 80", 10),
        (f'{A}.model in ["l4", "h100"]', 4),
        (f"has({A}.missing)", 3),
        (f"{A}[?'memory'].hasValue()", 5),
        (f"cel.bind(a, {A}, a.healthy && a.memory == 40)", 8),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) == 0', 7),
        ("[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6]", 63),
        ("[1, 2, 3].exists(x, x == 2)", 16),
        ("[1, 2, 3].all(x, x > 0)", 16),
        ("[1, 2, 3].exists_one(x, x == 2)", 10),
        ("[1, 2, 3].all(i, v, i < v)", 19),
        ("[1, 2].all(x, [1, 2].all(y, x + y > 0))", 37),
        ("[1, 2, 3].transformList(i, v, v * 2) == [2, 4, 6]", 44),
        ('{"a": 1}.transformMap(k, v, v + 1) == {"a": 2}', 7),
        (f"{A}.healthy ? {A}.memory > 1 : false", 9),
        (f"{A}.healthy || {A}.memory > 1", 4),
        ("[device.driver].size() == 1", 14),
        ('{"a": device.driver}.size() == 1', 34),
        (f'{A}.model.startsWith("a")', 5),
        ('device.driver.contains("example.com")', 6),
        ('device.driver.matches("^gpu[.]")', 6),
        ('device.driver.lowerAscii() == ""', 4),
        ('["aaaaaaaaaaaaaaaaaaaa", "b"].max() == "b"', 3),
        ('["a", "b"].join("-") == "a-b"', 2),
        (f"sets.intersects([{A}.memory], [40])", 16),
        ("[1, 1].distinct() == [1]", 20),
        (f"{A}.?memory.optMap(x, x + 1).orValue(0) == 41", 14),
    ],
)
def test_an_evaluation_costs_what_it_costs_in_kubernetes(text: str, cost: int) -> None:
    program = compiler.compile(text, ("device",))
    program.evaluate({"device": DEVICE}, max_cost=cost)
    if cost:
        with pytest.raises(values.EvaluationError, match="operation cancelled: actual cost limit exceeded"):
            program.evaluate({"device": DEVICE}, max_cost=cost - 1)


TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


@pytest.mark.parametrize(
    "text",
    [
        f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, a + b + c + d + e >= 0)))))",
        f"false || true && {TEN}.map(a, {TEN}.map(b, {TEN}.map(c, {TEN}.map(d, {TEN}.map(e, [a]))))) == []",
        f"{TEN}.exists(a, {TEN}.map(b, {TEN}.map(c, {TEN}.map(d, {TEN}.map(e, {TEN})))) == []) || true",
    ],
)
def test_nothing_makes_up_for_an_evaluation_that_costs_too_much(text: str) -> None:
    with pytest.raises(values.EvaluationError, match="operation cancelled: actual cost limit exceeded"):
        evaluate(text)


def test_a_lists_size_is_bounded_though_joining_lists_costs_one() -> None:
    text = "x.size() > 0"
    for _ in range(40):
        text = f"cel.bind(x, x + x, {text})"
    with pytest.raises(values.EvaluationError, match="operation cancelled"):
        evaluate(f"cel.bind(x, [1], {text})")


def test_compiling_makes_nothing_that_evaluating_would_have_to_pay_for() -> None:
    program = compiler.compile("true || lists.range(1000000000000).size() > 0", ())
    assert program.evaluate({}) is True
    with pytest.raises(values.EvaluationError, match="actual cost limit exceeded"):
        evaluate("false || lists.range(1000000000000).size() > 0")


@pytest.mark.parametrize(
    "use",
    ["x == x", "x != x", "x in [x]", "x.indexOf(x) == 0", "[x, x].distinct() == x", "sets.contains([x], [x])",
     "sets.equivalent([x], [x])", "[x].isSorted()", "[x].sum() == x", "[x].min() == x", "{'a': x} == {'a': x}",
     "[x].exists(y, y == x)", "optional.of(x) == optional.of(x)", "x.flatten(200) == []", "[x].sort() == x"],
)  # fmt: skip
def test_lists_of_lists_of_the_same_lists_are_too_much_to_compare(use: str) -> None:
    """4^40 items, for a cost of some hundreds in Kubernetes."""
    text = use
    for _ in range(40):
        text = f"cel.bind(x, [x, x, x, x], {text})"
    with pytest.raises(values.EvaluationError, match=r"operation cancelled|must be comparable|no such overload"):
        evaluate(f"cel.bind(x, [1], {text})")


def test_a_strings_size_is_bounded_though_replacing_costs_what_it_reads() -> None:
    thousand = '"' + "a" * 1000 + '"'
    with pytest.raises(values.EvaluationError, match="operation cancelled"):
        evaluate(f'{thousand}.replace("", {thousand}).replace("", {thousand}).size() > 0')


@given(st.text(alphabet='device.attributes["x"] &|!=<>()+-*/%?:,{}0123456789aé\'\\n', max_size=40))
def test_any_text_is_read_or_refused_and_never_more(text: str) -> None:
    try:
        program = compiler.compile(text, ("device",))
    except values.CompileError:
        return
    try:
        program.evaluate({"device": DEVICE})
    except values.EvaluationError:
        return
