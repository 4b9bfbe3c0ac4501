"""Expressions in Go's syntax: what means the same, what is spelled out, what is refused."""

import pytest

from windlass.engine.expanders import expressions


def finds(expression: str, text: str) -> bool:
    return expressions.compile_go(expression).search(text) is not None


@pytest.mark.parametrize(
    ("expression", "found", "not_found"),
    [
        ("spot", "my-spot-a", "on-demand"),
        ("^gpu$", "gpu", "gpu-a"),
        (r"\Agpu\z", "gpu", "a gpu"),
        (r"a{2,3}b", "aab", "ab"),
        ("a{,2}", "a{,2}", "aa"),  # not a repetition in Go
        ("a{01}", "a{01}", "a"),
        ("^*a", "a", "b"),
        (r"\Qa.b*\E+", "a.b**", "aXb"),
        (r"\Qa.b", "a.b", "aXb"),
        (r"\x{61}\x62\143", "abc", "xyz"),
        (r"[[:alpha:]]\d", "x1", "11"),
        (r"^[[:^digit:]x]$", "a", "1"),
        ("^[a[b]$", "[", "]"),
        ("^[]a]$", "]", "b"),
        ("^[^]a]$", "b", "]"),
        ("^[a&&b]$", "&", "|"),
        (r"^[\d-]$", "-", "a"),
        ("(?i)SPOT", "spot", "sport"),
        ("x(?i)A|b", "B", "XA"),  # a flag holds past the bar, to the end of its group
        ("((?i)a)b", "Ab", "AB"),
        ("(?i:a)b", "Ab", "aB"),
        ("(?i)(?-i:a)b", "aB", "AB"),
        ("(?U)a+", "a", "b"),
        ("(?P<n>a)(?<m>b)", "ab", "ba"),
        (r"^\w$", "a", "é"),
    ],
)
def test_an_expression_means_what_it_means_in_go(expression: str, found: str, not_found: str) -> None:
    assert finds(expression, found)
    assert not finds(expression, not_found)


@pytest.mark.parametrize(
    "expression",
    [
        "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?P<n>a)(?P=n)", "(?(1)a|b)", "(?>a)", "(?#note)a",
        "a*+", "a++", "a?+", "a**", "a{2}{3}", "a{1001}", "a{3,2}", "*a", "a|*", "(", ")", "a)", "[a", "[z-a]",
        "[[:nonsense:]]", r"[a-\d]", r"[\b]", r"\Z", r"\q", r"\u0041", r"\8", "\\", r"\pL", "(?x)a", "(?a)b", "(?-)a",
        r"\x{110000}",
    ],
)  # fmt: skip
def test_what_go_refuses_is_refused(expression: str) -> None:
    with pytest.raises(expressions.NotRE2):
        expressions.compile_go(expression)


def test_an_empty_string_has_no_word_boundary() -> None:
    assert finds(r"\B", "")
    assert not finds(r"\b", "")


def test_depth_without_end_is_refused_not_crashed() -> None:
    with pytest.raises(expressions.NotRE2):
        expressions.compile_go("(" * 20000 + ")" * 20000)
