"""One bad object never stops the others, and says what is wrong with it."""

from typing import Any

import msgspec
import pytest
import yaml

from windlass.autoscaler.readers import cluster_dump

Json = dict[str, Any]

GOOD = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "p"}, "spec": {"nodeName": "n"}},
]


def node(**fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bad"}, **fields}


def pod(**spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "bad"}, "spec": spec}


def asking(**amounts: Any) -> Json:
    return pod(containers=[{"name": "c", "resources": {"requests": amounts}}])


def node_affinity(**requirement: Any) -> Json:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", **requirement}]}]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def pod_affinity(**requirement: Any) -> Json:
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "k", **requirement}]}}
    return pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def spread(**constraint: Any) -> Json:
    usual = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return pod(topologySpreadConstraints=[{**usual, **constraint}])


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
IN_NODE_AFFINITY = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
IN_POD_AFFINITY = f"spec.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0]"
REQUESTS = "spec.containers[0].resources.requests"

BAD: dict[str, tuple[Json, str, object]] = {
    "a quantity with two points": (asking(cpu="1.5.3"), f"{REQUESTS}[cpu]", "1.5.3"),
    "a quantity of an unknown unit": (asking(memory="1K"), f"{REQUESTS}[memory]", "1K"),
    "a negative request": (asking(cpu="-1"), f"{REQUESTS}[cpu]", "-1"),
    "a limit that is none": (
        pod(containers=[{"name": "c", "resources": {"limits": {"cpu": "x"}}}]),
        "spec.containers[0].resources.limits[cpu]",
        "x",
    ),
    "an unknown operator": (node_affinity(operator="Near", values=["x"]), f"{IN_NODE_AFFINITY}.operator", "Near"),
    "In without values": (node_affinity(operator="In"), f"{IN_NODE_AFFINITY}.values", None),
    "Exists with values": (node_affinity(operator="Exists", values=["x"]), f"{IN_NODE_AFFINITY}.values", ["x"]),
    "Gt without an integer": (node_affinity(operator="Gt", values=["4.5"]), f"{IN_NODE_AFFINITY}.values", ["4.5"]),
    "Gt with two integers": (node_affinity(operator="Gt", values=["4", "5"]), f"{IN_NODE_AFFINITY}.values", ["4", "5"]),
    "Gt of a pod's label": (pod_affinity(operator="Gt", values=["4"]), f"{IN_POD_AFFINITY}.operator", "Gt"),
    "NotIn without values": (pod_affinity(operator="NotIn", values=[]), f"{IN_POD_AFFINITY}.values", []),
    "an affinity term without a topology": (
        pod(affinity={"podAffinity": {REQUIRED: [{"labelSelector": {}}]}}),
        f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey",
        None,
    ),
    "an unknown toleration operator": (
        pod(tolerations=[{"operator": "Exists"}, {"key": "k", "operator": "Gt", "value": "1"}]),
        "spec.tolerations[1].operator",
        "Gt",
    ),
    "an unknown toleration effect": (
        pod(tolerations=[{"operator": "Exists", "effect": "NoEntry"}]),
        "spec.tolerations[0].effect",
        "NoEntry",
    ),
    "a skew of zero": (spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew", 0),
    "a spread that does not say when": (
        spread(whenUnsatisfiable=None),
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        None,
    ),
    "an unknown inclusion policy": (
        spread(nodeTaintsPolicy="Perhaps"),
        "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
        "Perhaps",
    ),
    "a claim without a name": (
        pod(volumes=[{"name": "v", "persistentVolumeClaim": {}}]),
        "spec.volumes[0].persistentVolumeClaim.claimName",
        None,
    ),
    "a port that is no number": (
        pod(containers=[{"name": "c", "ports": [{"hostPort": "http"}]}]),
        "spec.containers[0].ports[0].hostPort",
        "http",
    ),
    "a spec that is a list": (pod() | {"spec": [1]}, "spec", [1]),
    "a status that is a word": (pod() | {"status": "fine"}, "status", "fine"),
    "a label that is a number": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "bad", "labels": {"a": 1}}},
        "metadata.labels[...]",
        {"a": 1},
    ),
    "a taint without effect": (node(spec={"taints": [{"key": "k"}]}), "spec.taints[0].effect", None),
    "a taint of an unknown effect": (
        node(spec={"taints": [{"key": "k", "effect": "No"}]}),
        "spec.taints[0].effect",
        "No",
    ),
    "a node with a bad amount": (node(status={"allocatable": {"cpu": "a"}}), "status.allocatable[cpu]", "a"),
}


COUNTS_FOR_NOTHING = {
    "an unknown operator", "In without values", "Exists with values", "Gt without an integer", "Gt with two integers",
    "an unknown toleration operator", "an unknown toleration effect", "Gt of a pod's label", "NotIn without values",
}  # fmt: skip
"""The pod can be read: a node affinity term matches no node, a toleration tolerates no taint, and a filter refuses a
pod with a pod affinity term or a spread constraint that cannot be parsed."""


@pytest.mark.parametrize("what", BAD)
def test_a_bad_object_is_set_aside_with_its_name_and_field_and_the_others_are_seen(what: str) -> None:
    bad, field, found = BAD[what]
    objects = cluster_dump.read_objects([GOOD[0], bad, GOOD[1]])

    assert [fact.name for fact in objects.nodes if not fact.unreadable] == ["n"]
    assert [fact.key for fact in objects.pods] == [*(["ns/bad"] if what in COUNTS_FOR_NOTHING else []), "ns/p"]
    [error] = objects.set_aside
    name = "bad" if bad["kind"] == "Node" else "ns/bad"
    assert (error.kind, error.name, error.field, error.found) == (bad["kind"], name, field, found)
    assert error.accepted
    assert str(error).startswith(f"{bad['kind']} {name}: {field}: found {found!r}, expected ")


@pytest.mark.parametrize("what", BAD)
def test_a_bad_object_within_a_list_is_set_aside_alone(what: str) -> None:
    bad, field, _ = BAD[what]
    listed = {"apiVersion": "v1", "kind": "List", "items": [GOOD[0], bad, GOOD[1]]}

    for raw in (listed, msgspec.json.encode(listed), msgspec.json.format(msgspec.json.encode(listed))):
        objects = cluster_dump.read_objects([raw])
        is_pod = bad["kind"] == "Pod"
        assert (len(objects.nodes), len(objects.pods)) == (1 if is_pod else 2, 1 + (what in COUNTS_FOR_NOTHING))
        assert [error.field for error in objects.set_aside] == [field]


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_read_in_full_is_not_gone(what: str) -> None:
    """A pod on a node stays there, and a node is in use; what kube-scheduler passes over changes nothing."""
    bad, _, _ = BAD[what]
    bound = (
        bad if not isinstance(bad.get("spec", {}), dict) else {**bad, "spec": {**bad.get("spec", {}), "nodeName": "n"}}
    )
    objects = cluster_dump.read_objects([GOOD[0], bound, GOOD[1]])
    if bad["kind"] == "Node":
        assert [(fact.name, bool(fact.unreadable)) for fact in objects.nodes] == [("n", False), ("bad", True)]
    elif bound is not bad:
        found = next(fact for fact in objects.pods if fact.name == "bad")
        assert (found.node_name, bool(found.unreadable)) == ("n", what not in COUNTS_FOR_NOTHING)


def test_what_is_no_object_is_set_aside_too() -> None:
    nothing: list[Any] = [
        None,
        [],
        "{",
        b"",
        b"\xff",
        5,
        {"kind": 5},
        {("a",): 1},
        {"kind": "List", "items": [3, GOOD[0]]},
    ]
    objects = cluster_dump.read_objects([*nothing, *GOOD])

    assert len(objects.set_aside) == len(nothing)
    assert (len(objects.nodes), len(objects.pods)) == (2, 1)


def test_items_of_a_typed_list_need_not_say_what_they_are() -> None:
    items = [{"metadata": {"name": "a", "namespace": "ns"}}, {"metadata": {"name": "b", "namespace": "ns"}}]
    objects = cluster_dump.read_objects([msgspec.json.encode({"apiVersion": "v1", "kind": "PodList", "items": items})])

    assert [fact.key for fact in objects.pods] == ["ns/a", "ns/b"]


def test_an_empty_list_and_kinds_that_no_one_reads_are_passed_over() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    empty = {"apiVersion": "v1", "kind": "NodeList", "items": []}

    assert cluster_dump.read_objects([config, empty, {"kind": "List", "items": None}]) == cluster_dump.ClusterObjects()


def test_every_kind_that_is_read_has_its_place() -> None:
    objects = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": kind, "namespace": "ns"}}
        for version, kind in cluster_dump.READERS
    ]
    cluster_objects = cluster_dump.read_objects(objects)

    assert not cluster_objects.set_aside
    for (_, kind), (place, _) in cluster_dump.READERS.items():
        assert kind in [fact.name for fact in getattr(cluster_objects, place)]


def test_yaml_is_read_as_json_is() -> None:
    text = """
    apiVersion: v1
    kind: Node
    metadata: {name: n, creationTimestamp: 2026-01-02T03:04:05Z}
    status: {capacity: {cpu: 4, memory: 1.5Gi, pods: 110}}
    """
    json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "status": {"capacity": {"cpu": "4", "memory": "1536Mi", "pods": "110"}},
    }

    assert cluster_dump.read_objects([yaml.safe_load(text)]) == cluster_dump.read_objects([json])
    assert cluster_dump.read_objects([json]).nodes[0].capacity == (
        ("cpu", 4000),
        ("memory", 1536 * 2**20),
        ("pods", 110),
    )
