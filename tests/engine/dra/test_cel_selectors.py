"""What is said of an expression that cannot be compiled: cel-go's words, position and mark, as it gave them itself."""

import pytest

from windlass.engine.dra import cel_selectors

VALUE = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
ATTRIBUTES = 'device.attributes["gpu.example.com"]'


def undeclared(name: str) -> str:
    return f"undeclared reference to '{name}' (in container '')"


def no_overload(name: str, types: str) -> str:
    return f"found no matching overload for '{name}' applied to '{types}'"


def mark(line: str, column: int) -> str:
    return f"\n | {line}\n | {'.' * (column - 1)}^"


@pytest.mark.parametrize(
    ("expression", "column", "text"),
    [
        ("foo == 1", 1, undeclared("foo")),
        ("foo.bar == 1", 1, undeclared("foo")),
        ("foo(1)", 4, undeclared("foo")),
        ("device.driver.foo(1)", 18, undeclared("foo")),
        ("[1].exists(x, y)", 15, undeclared("y")),
        ("device.foo == 1", 7, "undefined field 'foo'"),
        ("has(device.foo)", 4, "undefined field 'foo'"),
        ("device.?foo.orValue(true)", 7, "undefined field 'foo'"),
        ("device.driver == 1", 15, no_overload("_==_", "(string, int)")),
        ('1 + "a" == 2', 3, no_overload("_+_", "(int, string)")),
        ("1 == 1.0", 3, no_overload("_==_", "(int, double)")),
        ('1 < "a"', 3, no_overload("_<_", "(int, string)")),
        ("!device.driver", 1, no_overload("!_", "(string)")),
        ('-"a" == 1', 1, no_overload("-_", "(string)")),
        ('true ? 1 : "a"', 6, no_overload("_?_:_", "(bool, int, string)")),
        ("size(1) == 1", 5, no_overload("size", "(int)")),
        ("size(1,2) == 1", 5, no_overload("size", "(int, int)")),
        ("optional.of(1,2)", 12, no_overload("optional.of", "(int, int)")),
        ("device.driver.startsWith(1)", 25, no_overload("startsWith", "string.(int)")),
        ("device.driver.startsWith()", 25, no_overload("startsWith", "string.()")),
        (f'{ATTRIBUTES}.startsWith("a")', 48, no_overload("startsWith", "map(string, any).(string)")),
        ("quantity(1) == quantity('1')", 9, no_overload("quantity", "(int)")),
        ("device.driver && true", 7, "expected type 'bool' but found 'string'"),
        ("has(1) && foo", 5, "invalid argument to has() macro"),
        ("[1].all(x.y, true)", 10, "argument must be a simple name"),
        ("[1].all(x, x, true)", 12, "duplicate variable name: x"),
        ("cel.bind(a.b, 2, foo)", 11, "cel.bind() variable names must be simple identifiers"),
        ("if == 1", 1, "reserved identifier: if"),
        ("99999999999999999999 == 1", 1, "invalid int literal"),
        ("18446744073709551616u == 1u", 1, "invalid uint literal"),
        ("1e999 == 1.0", 1, "invalid double literal"),
        ("device.driver ==", 17, f"Syntax error: mismatched input '<EOF>' expecting {VALUE}"),
        ("&& true", 1, f"Syntax error: extraneous input '&&' expecting {VALUE}"),
        (")", 1, f"Syntax error: mismatched input ')' expecting {VALUE}"),
        ("a b", 3, "Syntax error: extraneous input 'b' expecting <EOF>"),
        ("a b c", 3, "Syntax error: mismatched input 'b' expecting <EOF>"),
        ("[1,2", 5, "Syntax error: mismatched input '<EOF>' expecting {']', ','}"),
        ("[1,2 3]", 6, "Syntax error: extraneous input '3' expecting {']', ','}"),
        ("{1", 3, "Syntax error: mismatched input '<EOF>' expecting ':'"),
        ("a ? b c", 7, "Syntax error: missing ':' at 'c'"),
        ("(1", 3, "Syntax error: missing ')' at '<EOF>'"),
        ("foo(1 2)", 7, "Syntax error: extraneous input '2' expecting ')'"),
        ("a[1", 4, "Syntax error: missing ']' at '<EOF>'"),
        ("device.", 8, "Syntax error: no viable alternative at input '.'"),
        ("a.true", 3, "Syntax error: mismatched input 'true' expecting IDENTIFIER"),
        ("true #", 6, "Syntax error: token recognition error at: '#'"),
    ],
)
def test_a_fault_is_named_where_it_is(expression: str, column: int, text: str) -> None:
    found = cel_selectors.compile_selector(expression)
    assert found == f"compilation failed: ERROR: <input>:1:{column}: {text}{mark(expression, column)}"


def test_all_faults_are_named_in_their_order() -> None:
    expression = "device.driver\n == foo\n && bar(baz)"
    lines = expression.split("\n")
    assert cel_selectors.compile_selector(expression) == "compilation failed: " + "\n".join(
        (
            f"ERROR: <input>:2:5: {undeclared('foo')}{mark(lines[1], 5)}",
            f"ERROR: <input>:3:8: {undeclared('bar')}{mark(lines[2], 8)}",
            f"ERROR: <input>:3:9: {undeclared('baz')}{mark(lines[2], 9)}",
        )
    )


def test_what_takes_several_bytes_takes_a_wide_dot() -> None:
    found = cel_selectors.compile_selector('\t"ü" == foo')
    assert found == f'compilation failed: ERROR: <input>:1:9: {undeclared("foo")}\n |  "ü" == foo\n | ..．.....^'


def test_nesting_has_no_position() -> None:
    found = cel_selectors.compile_selector("[" * 300)
    assert found == "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"


@pytest.mark.parametrize(
    ("expression", "type"),
    [
        ("1", "int"),
        ("true ? 1 : 2", "int"),
        ("device", "kubernetes.DRADevice"),
        ("device.driver", "string"),
        ("device.attributes", "map(string, map(string, google.protobuf.Any))"),
    ],
)
def test_a_selector_must_be_a_bool(expression: str, type: str) -> None:
    assert cel_selectors.compile_selector(expression) == f"must evaluate to bool or the unknown type, not {type}"


@pytest.mark.parametrize(
    "expression",
    [
        f"{ATTRIBUTES}.model == 1",
        f"{ATTRIBUTES}.model + 1 == 2",
        f"{ATTRIBUTES}.model",
        "1 < 1.0",
        "int == type(1)",
        "[1].exists(device, device == 1)",
        'device.capacity["x"].memory.isGreaterThan(quantity("1Gi"))',
        "dyn(1) == 'a'",
    ],
)
def test_what_is_not_known_before_it_is_evaluated_is_not_refused(expression: str) -> None:
    assert not isinstance(cel_selectors.compile_selector(expression), str)
