from typing import Any

import pytest

from windlass import errors
from windlass.autoscaler.readers import nodes
from windlass.engine.model import facts
from windlass.kube import scheme
from windlass.kube.models import core

Json = dict[str, Any]


def read(spec: Json | None = None, status: Json | None = None, **metadata: Any) -> facts.Node:
    json = {"metadata": {"name": "n", **metadata}, "spec": spec, "status": status}
    return nodes.read_node(scheme.decode_as(core.Node, json))


def test_all_that_is_known_of_a_node() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Fine", "lastTransitionTime": "1970-01-01T00:00:10Z"}
    node = read(
        {
            "providerID": "cloud:///1",
            "unschedulable": True,
            "taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "value": "v", "effect": "NoExecute"}],
        },
        {
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "0"},
            "allocatable": {"cpu": "3800m", "memory": "7Gi", "pods": 110},
            "conditions": [condition],
            "declaredFeatures": ["F"],
        },
        uid="u",
        labels={"a": "b"},
        annotations={"c": "d"},
        creationTimestamp="1970-01-01T00:00:05Z",
    )

    assert node == facts.Node(
        name="n",
        uid="u",
        labels={"a": "b"},
        annotations={"c": "d"},
        taints=(facts.Taint("k", "", "NoSchedule"), facts.Taint("k", "v", "NoExecute")),
        unschedulable=True,
        allocatable=(("cpu", 3800), ("memory", 7 * 2**30), ("pods", 110)),
        capacity=(("cpu", 4000), ("memory", 8 * 2**30), ("nvidia.com/gpu", 0), ("pods", 110)),
        declared_features=frozenset({"F"}),
        provider_id="cloud:///1",
        created_s=5.0,
        conditions=(facts.Condition("Ready", "True", 10.0, "Fine"),),
    )


def test_a_bare_node() -> None:
    assert read() == facts.Node(name="n")


@pytest.mark.parametrize(("told", "allocatable"), [({}, (("cpu", 4000),)), ({"allocatable": {}}, ())])
def test_capacity_stands_in_for_allocatable_that_is_not_told(told: Json, allocatable: facts.Resources) -> None:
    assert read(status={"capacity": {"cpu": 4}, **told}).allocatable == allocatable


@pytest.mark.parametrize(
    ("spec", "status", "field", "found"),
    [
        ({"taints": [{"key": "k"}]}, {}, "spec.taints[0].effect", None),
        ({"taints": [{"key": "k", "effect": "NoEntry"}]}, {}, "spec.taints[0].effect", "NoEntry"),
        ({"taints": [{"effect": "NoSchedule"}]}, {}, "spec.taints[0].key", None),
        ({}, {"allocatable": {"cpu": "1.5.3"}}, "status.allocatable[cpu]", "1.5.3"),
        ({}, {"capacity": {"memory": "-1Gi"}}, "status.capacity[memory]", "-1Gi"),
    ],
)
def test_a_node_that_cannot_be_used_says_why(spec: Json, status: Json, field: str, found: object) -> None:
    with pytest.raises(errors.InvalidObject) as caught:
        read(spec, status)

    error = caught.value
    assert (error.kind, error.name, error.field, error.found) == ("Node", "n", field, found)


def test_namespaces_have_labels() -> None:
    model = scheme.decode_as(core.Namespace, {"metadata": {"name": "ns", "labels": {"team": "x"}}})

    assert nodes.read_namespace(model) == facts.Namespace("ns", {"team": "x"})
