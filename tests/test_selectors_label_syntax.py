"""Selectors as users write them: what they mean, and what the API says of those that mean nothing."""

import pytest

from windlass.selectors import (
    EVERYTHING,
    InvalidLabelSelector,
    MatchExpression,
    Operator,
    Requirement,
    UnparsedLabelSelector,
    go_quote,
    parse_label_selector,
    validate_requirement,
)

NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

PREFIX_HINT = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


def find_problem(selector: UnparsedLabelSelector) -> str:
    with pytest.raises(InvalidLabelSelector) as caught:
        parse_label_selector(selector)
    return str(caught.value)


def test_labels_and_expressions_must_all_hold() -> None:
    selector = parse_label_selector(
        UnparsedLabelSelector({"b": "1", "a": ""}, (MatchExpression("c", "NotIn", ("z", "y")),))
    )
    assert selector.requirements == (
        Requirement("a", Operator.IN, ("",)),
        Requirement("b", Operator.IN, ("1",)),
        Requirement("c", Operator.NOT_IN, ("y", "z")),
    )


def test_an_empty_selector_selects_everything() -> None:
    assert parse_label_selector(UnparsedLabelSelector()) == EVERYTHING


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("bad key!", f"name part {NAME_RULE}"),
        ("", f"name part must be non-empty; name part {NAME_RULE}"),
        ("/x", "prefix part must be non-empty"),
        ("a" * 64, "name part must be no more than 63 bytes"),
        ("a/b/c", f"a valid label key {NAME_RULE}{PREFIX_HINT}"),
    ],
)
def test_a_bad_key_is_named_with_what_is_wrong(key: str, wrong: str) -> None:
    assert find_problem(UnparsedLabelSelector({key: "x"})) == f'key: Invalid value: "{key}": {wrong}'


def test_a_prefix_must_be_a_dns_name() -> None:
    assert find_problem(UnparsedLabelSelector({"Upper/x": "y"})).startswith(
        'key: Invalid value: "Upper/x": prefix part a lowercase RFC 1123 subdomain must consist of '
    )


def test_a_bad_value_is_named_with_its_place() -> None:
    found = find_problem(
        UnparsedLabelSelector(match_expressions=(MatchExpression("pool", "In", ("fine", "not fine")),))
    )
    assert found.startswith(
        'values[1][pool]: Invalid value: "not fine": a valid label must be an empty string or consist of '
    )


def test_several_faults_of_one_requirement_are_listed() -> None:
    found = find_problem(UnparsedLabelSelector(match_expressions=(MatchExpression("", "Exists", ("x",)),)))
    assert found.startswith('[key: Invalid value: "": name part must be non-empty; ')
    assert found.endswith(', values: Invalid value: ["x"]: values set must be empty for exists and does not exist]')


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_a_set_without_values_is_refused(operator: str) -> None:
    found = find_problem(UnparsedLabelSelector(match_expressions=(MatchExpression("pool", operator),)))
    assert found == "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"


@pytest.mark.parametrize("operator", ["Gt", "in", ""])
def test_an_unknown_operator_is_refused(operator: str) -> None:
    found = find_problem(UnparsedLabelSelector(match_expressions=(MatchExpression("pool", operator),)))
    assert found == f'"{operator}" is not a valid label selector operator'


def test_integers_are_checked_one_by_one() -> None:
    rule = "for 'Gt', 'Lt' operators"
    assert validate_requirement("cores", Operator.GT, ["v3", "4"]) == [
        f'values: Invalid value: ["v3","4"]: {rule}, exactly one value is required',
        f'values[0]: Invalid value: "v3": {rule}, the value must be an integer',
    ]
    assert validate_requirement("cores", Operator.LT, ()) == [
        f"values: Invalid value: null: {rule}, exactly one value is required"
    ]
    assert validate_requirement("cores", Operator.LT, ["-9223372036854775808"])[0].startswith("values[0][cores]: ")
    assert validate_requirement("cores", Operator.LT, ["9223372036854775807"]) == []


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('quo"te\\', r'"quo\"te\\"'),
        ("a\nb\x00\x7f", r'"a\nb\x00\x7f"'),
        ("ü\u200b\U000e0001", '"ü' + r'\u200b\U000e0001"'),
    ],
)
def test_values_are_quoted_as_go_quotes_them(text: str, printed: str) -> None:
    assert go_quote(text) == printed


def test_a_selector_prints_as_it_was_written() -> None:
    selector = UnparsedLabelSelector(
        {"b": "<1>", "a": "x"}, (MatchExpression("c", "In", ("y",)), MatchExpression("d", "Exists"))
    )
    assert str(selector) == (
        r'{"matchLabels":{"a":"x","b":"\u003c1\u003e"},'
        '"matchExpressions":[{"key":"c","operator":"In","values":["y"]},{"key":"d","operator":"Exists"}]}'
    )
