import msgspec
import pytest

from windlass import selectors
from windlass.kube import fields
from windlass.kube import selectors as kube_selectors
from windlass.kube.models import core, meta
from windlass.selectors import Operator, Requirement


def labels(json: object) -> meta.LabelSelector:
    return msgspec.convert(json, meta.LabelSelector)


def terms(*json: object) -> core.NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": list(json)}, core.NodeSelector)


def test_absent_stays_absent_and_empty_selects_everything() -> None:
    assert kube_selectors.parse_label_selector(None, "spec.selector") is None
    assert kube_selectors.parse_label_selector(labels({}), "spec.selector") == selectors.EVERYTHING
    assert (
        kube_selectors.parse_label_selector(labels({"matchLabels": None, "matchExpressions": []}), "")
        == selectors.EVERYTHING
    )
    assert kube_selectors.parse_node_selector(None, "") is None


def test_labels_and_expressions_say_the_same_thing() -> None:
    by_label = kube_selectors.parse_label_selector(labels({"matchLabels": {"b": "y", "a": "x"}}), "")
    by_expression = kube_selectors.parse_label_selector(
        labels(
            {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["x", "x"]},
                    {"key": "b", "operator": "In", "values": ["y"]},
                ]
            }
        ),
        "",
    )

    assert by_label == by_expression


def test_a_term_keeps_labels_and_fields_apart() -> None:
    read = kube_selectors.parse_node_selector(
        terms(
            {
                "matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}],
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
            },
            {},
        ),
        "",
    )

    assert read == selectors.NodeSelector(
        (
            selectors.NodeSelectorTerm(
                (Requirement("cores", Operator.GT, ("4",)),),
                (Requirement("metadata.name", Operator.NOT_IN, ("n1",)),),
            ),
            selectors.NodeSelectorTerm(),
        )
    )


@pytest.mark.parametrize(
    ("expression", "field", "accepted"),
    [
        ({"key": "a", "operator": "In"}, "values", "at least one value for In"),
        ({"key": "a", "operator": "NotIn", "values": []}, "values", "at least one value for NotIn"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values", "no value for Exists"),
        ({"key": "a", "operator": "Gt", "values": ["1"]}, "operator", "In, NotIn, Exists or DoesNotExist"),
        ({"key": "a", "operator": "in", "values": ["1"]}, "operator", "In, NotIn, Exists or DoesNotExist"),
        ({"key": "a"}, "operator", "In, NotIn, Exists or DoesNotExist"),
        ({"operator": "Exists"}, "key", "the key of a label"),
    ],
)
def test_a_label_selector_that_the_api_refuses(expression: dict[str, object], field: str, accepted: str) -> None:
    with pytest.raises(fields.InvalidField) as caught:
        kube_selectors.parse_label_selector(labels({"matchExpressions": [expression]}), "spec.selector")

    assert caught.value.field == f"spec.selector.matchExpressions[0].{field}"
    assert caught.value.found == expression.get(field)
    assert caught.value.accepted == accepted


@pytest.mark.parametrize(
    ("term", "field"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["4.5"]}]}, "matchExpressions[0].values"),
        ({"matchExpressions": [{"key": "a", "operator": "Lt", "values": ["1", "2"]}]}, "matchExpressions[0].values"),
        ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, "matchExpressions[0].operator"),
        ({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n"]}]}, "matchFields[0].key"),
        ({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}, "matchFields[0].operator"),
        ({"matchFields": [{"key": "metadata.name", "operator": "Gt", "values": ["1"]}]}, "matchFields[0].operator"),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}, "matchFields[0].values"),
    ],
)
def test_a_node_selector_that_cannot_be_judged(term: dict[str, object], field: str) -> None:
    with pytest.raises(fields.InvalidField) as caught:
        kube_selectors.parse_node_selector(terms({}, term), "spec.x")

    assert caught.value.field == f"spec.x.nodeSelectorTerms[1].{field}"
