"""The priority expander's ConfigMap: what it spells, and what is wrong with it."""

import pytest

from windlass.autoscaler import priority_expander_config
from windlass.errors import InvalidInput, InvalidObject


def to_text(text: str) -> list[tuple[int, str]]:
    return [(rule.priority, rule.pattern.expression) for rule in priority_expander_config.parse_priorities(text)]


def test_rules_come_highest_priority_first() -> None:
    assert to_text("10:\n  - a\n  - b\n50:\n  - c\n-5:\n  - d\n") == [(50, "c"), (10, "a"), (10, "b"), (-5, "d")]


def test_a_quoted_priority_is_a_number() -> None:
    assert to_text('"20": [a]') == [(20, "a")]


def test_a_priority_without_expressions_has_none() -> None:
    assert to_text("20:\n10: [a]") == [(10, "a")]


def test_numbers_and_truth_values_are_taken_as_their_text() -> None:
    assert to_text("1: [5, true, null]") == [(1, "5"), (1, "true"), (1, "")]


def test_a_text_of_comments_spells_no_rules() -> None:
    assert to_text("# nothing yet\n") == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "it is empty"),
        ("not yaml: [", "it is not YAML"),
        ("- a\n- b", "expected a YAML mapping"),
        ("high: [a]", "found the priority 'high', expected a whole number"),
        ("1.5: [a]", "found the priority 1.5, expected a whole number"),
        ("true: [a]", "found the priority True, expected a whole number"),
        ("9223372036854775808: [a]", "expected a whole number"),
        ("10: spot", "priority 10: found 'spot', expected a list"),
        ("10: [{a: b}]", "priority 10: found {'a': 'b'} in the list"),
        ("10: [2000-01-01]", "quote it"),
        ("2000-13-45: [a]", "expected a whole number|it is not YAML"),
        ("[a]: b", "it is not YAML"),
        ("10: ['(?=a)']", "invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_a_text_that_cannot_be_used_says_what_is_wrong(text: str, wrong: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        priority_expander_config.parse_priorities(text)
    assert any(part in str(caught.value) for part in wrong.split("|"))


def test_the_error_names_the_config_map_and_the_key() -> None:
    with pytest.raises(InvalidObject) as caught:
        priority_expander_config.read_config_map("kube-system", {"priorities": "10: [')']"})
    assert str(caught.value).startswith(
        "ConfigMap kube-system/cluster-autoscaler-priority-expander: data[priorities]: found "
    )
    assert "unexpected )" in str(caught.value)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(InvalidObject, match=r"data: found \['priority'\], expected the key priorities"):
        priority_expander_config.read_config_map("kube-system", {"priority": "10: [a]"})
