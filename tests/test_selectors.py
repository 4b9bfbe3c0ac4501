import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import selectors
from windlass.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Operator, Requirement

keys = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(["x", "y", "1", "2", "10", ""])
labels = st.dictionaries(keys, values)
requirements = st.one_of(
    st.builds(
        Requirement, keys, st.sampled_from([Operator.IN, Operator.NOT_IN]), st.sets(values, min_size=1).map(tuple)
    ),
    st.builds(Requirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement, keys, st.sampled_from([Operator.GT, Operator.LT]), st.integers(-3, 12).map(lambda n: (str(n),))
    ),
)

OPPOSITES = [(Operator.IN, Operator.NOT_IN, ("x", "y")), (Operator.EXISTS, Operator.DOES_NOT_EXIST, ())]


@pytest.mark.parametrize(("operator", "other", "wanted"), OPPOSITES)
@given(value=st.none() | values)
def test_opposite_operators_never_agree(
    operator: Operator, other: Operator, wanted: tuple[str, ...], value: str | None
) -> None:
    assert Requirement("a", operator, wanted).accepts(value) != Requirement("a", other, wanted).accepts(value)


@pytest.mark.parametrize(
    ("operator", "bound", "value", "accepted"),
    [
        (Operator.GT, "4", "5", True),
        (Operator.GT, "4", "4", False),
        (Operator.GT, "4", "10", True),
        (Operator.LT, "4", "3", True),
        (Operator.LT, "08", "7", True),
        (Operator.LT, "4", "-1", True),
        (Operator.GT, "-9223372036854775808", "9223372036854775807", True),
        (Operator.GT, "0", "9223372036854775808", False),
        (Operator.GT, "4", "4.5", False),
        (Operator.GT, "4", "5 ", False),
        (Operator.GT, "4", "1_0", False),
        (Operator.GT, "4", "５", False),
        (Operator.GT, "4", "", False),
        (Operator.LT, "4", None, False),
    ],
)
def test_numbers_are_compared_as_int64_or_not_at_all(
    operator: Operator, bound: str, value: str | None, accepted: bool
) -> None:
    assert Requirement("a", operator, (bound,)).accepts(value) is accepted


@given(st.lists(requirements), labels)
def test_a_label_selector_asks_for_all_of_its_requirements(wanted: list[Requirement], found: dict[str, str]) -> None:
    assert LabelSelector(tuple(wanted)).matches(found) == all(r.matches(found) for r in wanted)


@given(st.lists(requirements), st.randoms(use_true_random=False))
def test_selectors_of_the_same_requirements_are_equal_whatever_their_order(wanted: list[Requirement], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = [*wanted, *wanted]
    random.shuffle(shuffled)

    assert LabelSelector.of(shuffled) == LabelSelector.of(wanted)
    assert hash(LabelSelector.of(shuffled)) == hash(LabelSelector.of(wanted))


@given(labels)
def test_an_empty_selector_selects_everything(found: dict[str, str]) -> None:
    assert selectors.EVERYTHING.matches(found)


@given(st.lists(st.lists(requirements, max_size=2), max_size=3), labels)
def test_a_node_selector_asks_for_any_term_and_an_empty_term_matches_nothing(
    wanted: list[list[Requirement]], found: dict[str, str]
) -> None:
    selector = NodeSelector(tuple(NodeSelectorTerm(tuple(term)) for term in wanted))

    assert selector.matches(found, "n") == any(term and all(r.matches(found) for r in term) for term in wanted)


def test_fields_of_a_term_ask_for_the_nodes_name() -> None:
    term = NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, ("n1",)),))

    assert NodeSelector((term,)).matches({}, "n1")
    assert not NodeSelector((term,)).matches({"metadata.name": "n1"}, "n2")


@pytest.mark.parametrize(
    ("operator", "wanted", "complaint"),
    [
        (Operator.IN, ("a",), ""),
        (Operator.IN, (), "at least one value for In"),
        (Operator.NOT_IN, (), "at least one value for NotIn"),
        (Operator.EXISTS, (), ""),
        (Operator.EXISTS, ("a",), "no value for Exists"),
        (Operator.DOES_NOT_EXIST, ("a",), "no value for DoesNotExist"),
        (Operator.GT, ("1",), ""),
        (Operator.GT, ("1", "2"), "one integer for Gt"),
        (Operator.LT, (), "one integer for Lt"),
        (Operator.LT, ("4.5",), "one integer for Lt"),
    ],
)
def test_each_operator_says_what_values_it_takes(operator: Operator, wanted: tuple[str, ...], complaint: str) -> None:
    assert selectors.explain_invalid_values(operator, wanted) == complaint


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9" * 4400, None),
        ("-" + "9" * 4400, None),
        ("0" * 4400 + "7", 7),
        ("-" + "0" * 4400 + "7", -7),
        ("+9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", None),
        ("", None),
        ("+", None),
        ("0" * 30, 0),
    ],
)
def test_an_integer_of_any_length_is_read_or_refused(text: str, number: int | None) -> None:
    assert selectors.parse_int64(text) == number
