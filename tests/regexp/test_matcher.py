"""Expressions in Go's syntax: what they match and find, what is refused, and that no expression takes for ever."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.regexp import matcher, syntax


def finds(expression: str, text: str) -> bool:
    return matcher.compile(expression).matches(text)


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
        (r"^\s$", "\t", "\v"),
        (r"^\pL$", "é", "1"),
        (r"^\p{^Lu}$", "a", "A"),
        (r"^[^\PL]$", "é", "1"),
        ("(?i)^[k]$", "K", "x"),  # the Kelvin sign
        ("(?i)^straße$", "STRAẞE", "strasse"),
        ("(?i)^σ$", "ς", "o"),
        ("(?m)^b$", "a\nb\nc", "ab"),
        ("(?s)a.b", "a\nb", "ab"),
        ("a.b", "axb", "a\nb"),
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
        "[[:nonsense:]]", r"[a-\d]", r"[\b]", r"\Z", r"\q", r"\u0041", r"\8", "\\", r"\p{Nonsense}", "(?x)a", "(?a)b",
        "(?-)a", r"\x{110000}",
    ],
)  # fmt: skip
def test_what_go_refuses_is_refused(expression: str) -> None:
    with pytest.raises(syntax.InvalidExpression):
        matcher.compile(expression)


def test_an_empty_string_has_no_word_boundary() -> None:
    assert finds(r"\B", "")
    assert not finds(r"\b", "")


def test_depth_without_end_is_refused_not_crashed() -> None:
    with pytest.raises(syntax.InvalidExpression):
        matcher.compile("(" * 20000 + ")" * 20000)


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("a{1,99999999999999}", "invalid repeat count: `{1,99999999999999}`"),
        ("((a{100}){11})", "invalid repeat count: `{11}`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<n-m>a)", "invalid named capture: `(?P<n-m>`"),
        (r"a\1", r"invalid escape sequence: `\1`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("[ab", "missing closing ]: `[ab`"),
        ("(ab", "missing closing ): `(ab`"),
        ("ab)", "unexpected ): `ab)`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_what_is_refused_is_refused_in_the_words_of_go(expression: str, complaint: str) -> None:
    with pytest.raises(syntax.InvalidExpression) as refused:
        matcher.compile(expression)
    assert str(refused.value) == f"error parsing regexp: {complaint}"


@pytest.mark.parametrize(
    ("expression", "text", "found"),
    [
        ("a|ab", "xab", ["a"]),
        ("a*", "baac", ["", "aa", ""]),
        ("a*?", "aa", ["", "", ""]),
        ("(?U)a+", "aa", ["a", "a"]),
        ("(|a)*", "aa", ["", "", ""]),
        ("(|a)+", "aa", ["", "", ""]),
        ("a{2,3}", "aaaaa", ["aaa", "aa"]),
        (r"\b", "ab c", ["", "", "", ""]),
        ("", "é", ["", ""]),
        ("x", "", []),
    ],
)
def test_matches_are_found_as_go_finds_them(expression: str, text: str, found: list[str]) -> None:
    compiled = matcher.compile(expression)
    assert compiled.find_all(text) == found
    assert compiled.find_all(text, 1) == found[:1]
    assert compiled.find(text) == (found or [""])[0]


@pytest.mark.parametrize("expression", ["^(a+)+$b", "^(a|a)*$b", "(a*)*(a*)*(a*)*b$", "(x+x+)+y", "(a|b|ab)*c$"])
def test_expressions_that_make_others_backtrack_are_matched_in_few_steps(expression: str) -> None:
    """Python's `re` needs 2^n steps for some of these."""
    text = "ax" * 5_000 + "a" * 10_000
    assert not matcher.compile(expression).matches(text, limit=20_000)


def test_a_match_stops_at_its_limit_of_steps() -> None:
    expression = matcher.compile("(a?b?c?d?){250}z")
    with pytest.raises(matcher.StepLimitExceeded):
        expression.matches("abcd" * 100, limit=1_000)
    with pytest.raises(matcher.StepLimitExceeded):
        expression.find_all("abcd" * 100, limit=1_000)
    assert expression.matches("abcd" * 100 + "z")


def test_memory_of_an_automaton_is_bounded() -> None:
    """The state tells which of the last 14 letters were an `a`, so random text demands ever new states."""
    expression = matcher.compile("a[ab]{14}c")
    text = "".join("ab"[int(bit)] for bit in f"{3**9000:b}")
    assert not expression.matches(text)
    assert expression.matches(text + "a" * 15 + "c")
    assert expression._remembered < 300_000


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(syntax.InvalidExpression, match="expression too large"):
        matcher.compile("(abcdefghij){1000}" * 3)


LITERALS = st.sampled_from([*string.ascii_lowercase[:3], "[ab]", "[^b]", ".", "1", r"\d", r"\w", "^", "(?:$)"])
REPETITIONS = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "*?"])
EXPRESSIONS = st.recursive(
    LITERALS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, REPETITIONS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)  # fmt: skip


@given(EXPRESSIONS, st.text(alphabet="abc1 ", max_size=8))
def test_where_go_and_python_agree_in_syntax_they_agree_in_matches(expression: str, text: str) -> None:
    python = re.search(expression.replace("$", r"\Z"), text, re.ASCII)
    assert matcher.compile(expression).matches(text) is (python is not None)


@given(st.text(alphabet=r"ab(?:i)[]{}^$*+|\dpLQE-,01<>P", max_size=30), st.text(alphabet="ab1\n", max_size=5))
def test_any_text_is_an_expression_or_refused(expression: str, text: str) -> None:
    try:
        compiled = matcher.compile(expression)
    except syntax.InvalidExpression:
        return
    assert compiled.matches(text) or compiled.find_all(text) == []
