"""Clusters to measure on: sizes and mixes that are stated, drawn from a fixed seed."""

from collections.abc import Iterator

import numpy as np

from windlass.engine.model import facts
from windlass.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Operator, Requirement

GIB = 1 << 30
ZONES = ("zone-a", "zone-b", "zone-c")


def amounts(millicpu: int, memory_bytes: int, pods: int) -> facts.Resources:
    return ((facts.CPU, millicpu), (facts.MEMORY, memory_bytes), (facts.PODS, pods))


def requests(millicpu: int, memory_bytes: int) -> facts.Resources:
    return ((facts.CPU, millicpu), (facts.MEMORY, memory_bytes))


def node(number: int, millicpu: int, memory_bytes: int, pods: int = 110, **labels: str) -> facts.Node:
    """A node named by its number, in one of three zones in turn."""
    name = f"node-{number:05d}"
    allocatable = amounts(millicpu, memory_bytes, pods)
    return facts.Node(
        name,
        uid=f"uid-{name}",
        labels={facts.HOSTNAME: name, facts.ZONE: ZONES[number % 3], **labels},
        allocatable=allocatable,
        capacity=allocatable,
    )


def app_selector(app: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, (app,)),))


def spread_over(app: str, key: str, max_skew: int = 1) -> tuple[facts.SpreadConstraint, ...]:
    return (facts.SpreadConstraint(key, max_skew, app_selector(app)),)


def near_or_apart(app: str, key: str, namespace: str = "default") -> tuple[facts.PodAffinityTerm, ...]:
    return (facts.PodAffinityTerm(key, app_selector(app), (namespace,)),)


def pods_of(app: str, count: int, spec: facts.PodSpec, first: int = 0, node_name: str = "") -> Iterator[facts.Pod]:
    """Pods of one ReplicaSet."""
    owner = facts.Owner("apps/v1", "ReplicaSet", app, f"uid-{app}")
    for number in range(first, first + count):
        yield facts.Pod(
            "default",
            f"{app}-{number}",
            f"uid-{app}-{number}",
            {"app": app},
            owner=owner,
            spec=spec,
            digest=app,
            node_name=node_name,
            phase="Running" if node_name else "Pending",
        )


def in_zones(*zones: str) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm((Requirement(facts.ZONE, Operator.IN, zones),)),))


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)
