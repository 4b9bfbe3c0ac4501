"""Random small clusters as API objects, as an API server hands them out.

Names, labels and amounts come from few values, so that things meet: pods match each other's selectors, nodes run full,
ports collide. Every pod asks for a few of the features that filters look at, rarely for many.
"""

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

Json = dict[str, Any]

EXPLORE = int(os.environ.get("WINDLASS_EXPLORE", "0"))
"""So many times more examples, and other ones each time; 0: the same ones in every run."""

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
TOPOLOGY = (HOST, ZONE, RACK)
NAMESPACES: dict[str, Json] = {"default": {}, "prod": {"env": "prod", "team": "a"}, "lab": {"env": "dev", "team": "a"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE_NAMES = tuple(f"n{number}" for number in range(6))


def examples(count: int) -> settings:
    """So many examples, the same in every run. They take their time on a busy machine: that is no failure."""
    return settings(
        max_examples=count * max(EXPLORE, 1),
        derandomize=not EXPLORE,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def pick(*values: Any) -> st.SearchStrategy[Any]:
    """One of these. A strategy is looked through when it is first used: half the time of a test goes into new ones."""
    try:
        return _pick(*values)
    except TypeError:  # values that cannot be keys
        return st.sampled_from(values)


@functools.lru_cache(maxsize=1000, typed=True)
def _pick(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@functools.lru_cache(maxsize=1000)
def some(strategy: st.SearchStrategy[Any], most: int, least: int = 0) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=least, max_size=most)


# ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────

TAINTS = some(
    st.builds(
        lambda key, value, effect: {"key": key, "value": value, "effect": effect},
        pick("dedicated", "ToBeDeletedByClusterAutoscaler", "node.kubernetes.io/unschedulable"),
        pick("", "db", "gpu"),
        pick("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"),
    ),
    2,
)


@functools.lru_cache(maxsize=1000)
@st.composite
def node(draw: st.DrawFn, name: str, roomy: bool = False) -> Json:
    """A node of this name, with odd labels, taints and sizes; a roomy one takes most pods."""
    chosen = {HOST: draw(pick(name, name, name, None, "n0")), ZONE: draw(pick("z0", "z1", "z2", None)),
              RACK: draw(pick("r0", "r1", None)), "size": draw(pick(None, "4", "10", "4.5", "large"))}  # fmt: skip
    if roomy:
        allocatable = {"cpu": draw(pick("4", "2")), "memory": "8Gi", "pods": draw(pick("110", "4", "2")),
                       "example.com/gpu": "2", "ephemeral-storage": "10Gi", "hugepages-2Mi": "8Mi"}  # fmt: skip
    else:
        allocatable = {"cpu": draw(pick("4", "1500m", "1", "0")), "memory": draw(pick("8Gi", "1500M", "64Mi")),
                       "pods": draw(pick("110", "110", "3", "1", "0")), "example.com/gpu": draw(pick(None, "2", "0")),
                       "ephemeral-storage": draw(pick(None, "10Gi")),
                       "hugepages-2Mi": draw(pick(None, None, "4Mi"))}  # fmt: skip
    spec: Json = {"taints": draw(TAINTS)} if draw(pick(False, False, not roomy, True)) else {}
    if draw(pick(*[False] * (9 if roomy else 4), True)):
        spec["unschedulable"] = True
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": _given(chosen)}, "spec": spec,
            "status": {"allocatable": _given(allocatable), "capacity": _given(allocatable)}}  # fmt: skip


# ── Selectors ────────────────────────────────────────────────────────────────────────────────────────────────────


def expressions(values_by_key: Mapping[str, tuple[str, ...]], numeric: bool = False) -> st.SearchStrategy[Json]:
    """One line of a selector over these keys and values."""

    def with_values(key: str) -> st.SearchStrategy[Json]:
        values = st.lists(pick(*values_by_key[key]), min_size=1, max_size=2, unique=True)
        listed = st.builds(lambda o, v: {"key": key, "operator": o, "values": v}, pick("In", "NotIn"), values)
        bare = st.builds(lambda o: {"key": key, "operator": o}, pick("Exists", "DoesNotExist"))
        compared = st.builds(lambda o, v: {"key": key, "operator": o, "values": [v]}, pick("Gt", "Lt"), pick("3", "9"))
        return listed | bare | compared if numeric else listed | bare

    return pick(*values_by_key).flatmap(with_values)


POD_VALUES = {"app": ("a", "b"), "tier": ("x", "y"), "own": ("p0", "p1")}
NODE_VALUES = {"size": ("4", "10", "large"), ZONE: ("z0", "z1"), RACK: ("r0", "r1"), "nowhere": ("v",)}

POD_SELECTOR: st.SearchStrategy[Json | None] = st.one_of(
    st.builds(lambda value: {"matchLabels": {"app": value}}, pick("a", "b")),
    st.builds(lambda value: {"matchLabels": {"app": value}}, pick("a", "b")),
    st.builds(lambda found: {"matchExpressions": found}, some(expressions(POD_VALUES), 2, least=1)),
    st.just({}),
    st.none(),
)
NAMESPACE_SELECTOR = st.one_of(
    st.just({}),
    st.builds(
        lambda found: {"matchExpressions": found},
        some(expressions({"env": ("prod", "dev"), "team": ("a",)}), 2, least=1),
    ),
)
NODE_TERM = st.one_of(
    st.builds(lambda found: {"matchExpressions": found}, some(expressions(NODE_VALUES, numeric=True), 2, least=1)),
    st.builds(
        lambda operator, name: {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]},
        pick("In", "NotIn"),
        pick(*NODE_NAMES[:3]),
    ),
    st.just({}),
)


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────

TOLERATION = st.one_of(
    st.just({"operator": "Exists"}),
    st.builds(
        lambda key, effect: _given({"key": key, "operator": "Exists", "effect": effect}),
        pick("dedicated", "node.kubernetes.io/unschedulable"), pick("NoSchedule", "NoExecute", None),
    ),
    st.builds(
        lambda value, effect: _given({"key": "dedicated", "operator": "Equal", "value": value, "effect": effect}),
        pick("db", "gpu", None), pick("NoSchedule", "NoExecute", None),
    ),
)  # fmt: skip

AMOUNTS = st.builds(
    lambda **amounts: _given(amounts),
    cpu=pick(None, "100m", "500m", "1", "0"), memory=pick(None, "32Mi", "512Mi"), **{
        "example.com/gpu": pick(None, None, None, "1"), "ephemeral-storage": pick(None, None, "1Gi"),
        "hugepages-2Mi": pick(*[None] * 4, "2Mi"), "example.com/unheard-of": pick(*[None] * 12, "1")},
)  # fmt: skip

PORT = st.builds(
    lambda number, address, protocol: _given(
        {"containerPort": number, "hostPort": number, "hostIP": address, "protocol": protocol}
    ),
    pick(80, 443), pick(None, "0.0.0.0", "10.0.0.1", "::"), pick("TCP", "UDP"),
)  # fmt: skip

SPREAD = st.builds(
    lambda key, skew, selector, when, domains, affinity, taints: _given(
        {"topologyKey": key, "maxSkew": skew, "labelSelector": selector, "whenUnsatisfiable": when,
         "minDomains": domains if when == "DoNotSchedule" else None, "nodeAffinityPolicy": affinity,
         "nodeTaintsPolicy": taints}
    ),
    pick(*TOPOLOGY), pick(1, 1, 2), POD_SELECTOR, pick(*["DoNotSchedule"] * 5, "ScheduleAnyway"),
    pick(None, None, None, 1, 3), pick(None, "Honor", "Ignore"), pick(None, "Honor", "Ignore"),
)  # fmt: skip

POD_TERM = st.builds(
    lambda key, selector, names, by_labels: _given(
        {"topologyKey": key, "labelSelector": selector, "namespaces": names, "namespaceSelector": by_labels}
    ),
    pick(*TOPOLOGY), POD_SELECTOR, pick(None, None, None, ["default"], ["prod", "lab"]),
    st.one_of(st.none(), st.none(), NAMESPACE_SELECTOR),
)  # fmt: skip

DISK: st.SearchStrategy[Json] = st.builds(
    lambda number, disk, read_only: {
        "name": f"v{number}",
        "gcePersistentDisk": {"pdName": disk, "readOnly": read_only},
    },
    st.integers(0, 99),
    pick("d0", "d1"),
    st.booleans(),
)

FEATURES = ("tolerations", "nodeSelector", "nodeAffinity", "ports", "spread", "affinity", "antiAffinity", "init",
            "overhead", "priority", "disks")  # fmt: skip
MINDING = ("spread", "spread", "affinity", "antiAffinity", "ports", "disks")
"""Features that make pods mind others; spread most, for it has the most to get wrong."""


@functools.lru_cache(maxsize=1000)
@st.composite
def pod_spec(draw: st.DrawFn, features: tuple[str, ...] = FEATURES, most: int = 3) -> Json:
    """A pod's spec with some of these features; without any it only asks for resources."""
    wanted = draw(st.lists(pick(*features), max_size=most, unique=True)) if features else []
    container: Json = {"name": "main", "resources": {"requests": draw(AMOUNTS)}}
    spec: Json = {"containers": [container]}
    affinity: Json = {}
    for feature in wanted:
        match feature:
            case "tolerations":
                spec["tolerations"] = draw(some(TOLERATION, 2, least=1))
            case "nodeSelector":
                spec["nodeSelector"] = {draw(pick(ZONE, RACK)): draw(pick("z0", "r0", "r1"))}
            case "nodeAffinity":
                affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": draw(some(NODE_TERM, 2, least=1))}}
            case "ports":
                container["ports"] = draw(some(PORT, 2, least=1))
            case "spread":
                spec["topologySpreadConstraints"] = draw(
                    st.lists(SPREAD, min_size=1, max_size=2, unique_by=lambda one: one["topologyKey"])
                )
            case "affinity":
                affinity["podAffinity"] = {REQUIRED: draw(some(POD_TERM, 2, least=1))}
            case "antiAffinity":
                affinity["podAntiAffinity"] = {REQUIRED: draw(some(POD_TERM, 2, least=1))}
            case "init":
                init: Json = {"name": "init", "resources": {"requests": draw(AMOUNTS)}}
                spec["initContainers"] = [init | draw(pick({}, {"restartPolicy": "Always"}))]
            case "overhead":
                spec["overhead"] = {"cpu": "100m"}
            case "priority":
                spec["priority"] = draw(pick(-1, 10))
            case "disks":
                spec["volumes"] = draw(st.lists(DISK, min_size=1, max_size=2, unique_by=lambda one: one["name"]))
    if affinity:
        spec["affinity"] = affinity
    return spec


@functools.lru_cache(maxsize=1000)
@st.composite
def pod(draw: st.DrawFn, name: str, spec: st.SearchStrategy[Json] | None = None, home: str | None = None) -> Json:
    """A pod of this name: bound to `home`, or waiting where that is empty."""
    labels = {"app": draw(pick("a", "b", None)), "tier": draw(pick("x", None)), "own": name}
    metadata = {"name": name, "namespace": draw(pick(*["default"] * 3, "prod", "lab")), "uid": f"uid-{name}",
                "labels": _given(labels)}  # fmt: skip
    status = {"phase": "Pending"}
    body = dict(draw(pod_spec() if spec is None else spec))
    if home:
        body["nodeName"] = home
        status["phase"] = draw(pick(*["Running"] * 8, "Succeeded", "Failed"))
        if draw(pick(*[False] * 6, True)):
            metadata["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body, "status": status}


# ── Clusters ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Objects:
    """A cluster: nodes, namespaces, pods that are bound (perhaps to a node that is gone) and pods that wait."""

    nodes: list[Json]
    namespaces: list[Json]
    bound: list[Json]
    pending: list[Json]

    @property
    def all(self) -> list[Json]:
        return [*self.nodes, *self.namespaces, *self.bound]


def namespace(name: str, labels: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


@st.composite
def clusters(
    draw: st.DrawFn,
    nodes: int = 5,
    bound: int = 7,
    pending: int = 4,
    features: tuple[str, ...] = FEATURES,
    roomy: bool = False,
) -> Objects:
    """Up to so many nodes, bound and waiting pods."""
    names = NODE_NAMES[: draw(st.integers(1, nodes))]
    specs = pod_spec(features)
    homes = draw(some(pick(*names, *names, *names, "gone"), bound))
    return Objects(
        [draw(node(name, roomy)) for name in names],
        [namespace(name, labels) for name, labels in NAMESPACES.items() if draw(pick(*[True] * 8, False))],
        [draw(pod(f"p{number}", specs, home)) for number, home in enumerate(homes)],
        [draw(pod(f"q{number}", specs)) for number in range(draw(st.integers(1, pending)))],
    )


def _given(fields: Json) -> Json:
    """The fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None}
