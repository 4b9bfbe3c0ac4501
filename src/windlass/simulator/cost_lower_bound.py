"""Cost lower bound: the least cost of the pods at one time, packed fractionally on the cheapest machines.

For any weights w of resources, the pods on a machine g together weigh no more than the machine:

    Σ w·request ≤ w·capacity(g)
    cost ≥ Σ over pods of  w·request × min over machines that may take it of price(g) / w·capacity(g)

The best of several weights is taken. Capacity is what DaemonSet pods leave of a machine. Real packing cannot reach it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from windlass.simulator.cluster import daemon_sets
from windlass.simulator.cluster.node_groups import NodeGroup
from windlass.simulator.fast_scheduler import node_plugins, pod_shapes
from windlass.simulator.reference_scheduler import resource_requests

Json = dict[str, Any]
Floats = npt.NDArray[np.float64]

_WEIGHT_MIXES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Weights of the first of two resources, in mixes of both."""


class CostLowerBound:
    """The demand of all pods, and the lower bound of its cost."""

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        self._groups = groups
        self._shapes = pod_shapes.PodShapes()
        self._counts: dict[int, int] = {}
        self._allowed: dict[int, tuple[pod_shapes.PodShape, npt.NDArray[np.bool_]]] = {}
        self._pods: dict[str, int] = {}
        self._names = (
            "cpu",
            "memory",
            *sorted({name for node_group in groups for name in node_group.allocatable if "/" in name}),
        )
        self._capacity = np.array([self._vector(_allocatable_of(one)) for one in groups])
        self._nodes = [_example_node(one) for one in groups]
        self._prices = np.array([one.price_per_hour for one in groups])
        self._least_sizes = np.array([one.min_size for one in groups])

    def _vector(self, amounts: resource_requests.ResourceList) -> list[float]:
        return [float(amounts.get(name, 0)) for name in self._names]

    def add(self, key: str, pod: Json) -> None:
        shape = self._shapes.shape_pod(pod).shape
        if shape.number not in self._allowed:
            allowed = [not node_plugins.check_static_filters(shape, node) for node in self._nodes]
            self._allowed[shape.number] = shape, np.array(allowed, bool)
        if key not in self._pods:
            self._pods[key] = shape.number
            self._counts[shape.number] = self._counts.get(shape.number, 0) + 1

    def remove(self, key: str) -> None:
        number = self._pods.pop(key, None)
        if number is not None:
            self._counts[number] -= 1

    def set_daemon_overhead(self, daemons: Iterable[Json]) -> None:
        """Subtract the requests of these DaemonSets from the machines' capacity."""
        capacity = np.array([self._vector(_allocatable_of(node_group)) for node_group in self._groups])
        for found in daemons:
            pod = {"kind": "Pod", "metadata": found["metadata"], "spec": found["spec"]["template"]["spec"]}
            wanted = np.array(self._vector(resource_requests.pending_pod_requests(pod)))
            for i, node in enumerate(self._nodes):
                if daemon_sets.should_run_on(found, node):
                    capacity[i] -= wanted
        self._capacity = np.maximum(capacity, 0)

    def bound(self) -> tuple[float, float]:
        """The least price per hour and the least number of nodes for the current pods."""
        present = [(number, count) for number, count in self._counts.items() if count]
        cost_floor, node_floor = float(self._prices @ self._least_sizes), float(self._least_sizes.sum())
        if not present:
            return cost_floor, node_floor
        wanted = np.array([self._vector(self._allowed[number][0].amounts) for number, _ in present])
        counts = np.array([count for _, count in present], float)
        allowed = np.array([self._allowed[number][1] for number, _ in present])
        cost = self._bound(wanted, counts, allowed, self._prices)
        nodes = self._bound(wanted, counts, allowed, np.ones(len(self._groups)))
        return max(cost, cost_floor), max(nodes, node_floor)

    def _bound(self, wanted: Floats, counts: Floats, allowed: npt.NDArray[np.bool_], prices: Floats) -> float:
        best = 0.0
        for weights in self._weights():
            weight = self._capacity @ weights
            ratio = np.where(weight > 0, prices / np.where(weight > 0, weight, 1.0), np.inf)
            cheapest = np.where(allowed, ratio, np.inf).min(axis=1)
            asked = (wanted @ weights) * counts
            fits = np.isfinite(cheapest) & (asked > 0)
            best = max(best, float((asked[fits] * cheapest[fits]).sum()))
        return best

    def _weights(self) -> list[Floats]:
        """Weights for each resource alone and for pairs, relative to the mean capacity of machines."""
        scale = 1.0 / np.maximum(self._capacity.mean(axis=0), 1e-9)
        alone = np.eye(len(self._names)) * scale
        mixed = [share * alone[i] + (1 - share) * alone[i + 1]
                 for i in range(len(self._names) - 1) for share in _WEIGHT_MIXES]  # fmt: skip
        return [*alone, *mixed]


def _allocatable_of(group: NodeGroup) -> resource_requests.ResourceList:
    return resource_requests.node_allocatable(_example_node(group))


def _example_node(group: NodeGroup) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": group.name, "labels": group.node_labels(group.name)},
        "spec": {"taints": list(group.taints)},
        "status": {"allocatable": group.allocatable},
    }
