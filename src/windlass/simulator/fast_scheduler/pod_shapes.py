"""Pod shapes: pods that are equal for all filters and scores, except for their labels, share one shape."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from windlass.simulator.cluster.api_client import IdentityCache
from windlass.simulator.reference_scheduler import (
    cluster_view,
    inter_pod_affinity,
    node_filters,
    node_scores,
    pod_topology_spread,
    resource_requests,
)
from windlass.simulator.reference_scheduler.cluster_view import priority_of
from windlass.simulator.reference_scheduler.pod_topology_spread import SpreadConstraint

Json = dict[str, Any]

_SCHEDULING_FIELDS = (
    "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priority", "preemptionPolicy",
    "containers", "initContainers", "overhead", "resources", "hostNetwork", "hostUsers", "volumes", "nodeName",
)  # fmt: skip
"""Fields of a pod spec that filters and scores read."""

FindSelector = Callable[[Json], Json | None]
"""The selector of a pod's default spread constraints; None: it has no such constraints."""


@dataclass(slots=True, eq=False)
class PodShape:
    """All inputs of filters and scores of a pod except its labels; `example` is the first pod of the shape."""

    example: Json
    amounts: resource_requests.ResourceList
    priority: int
    spread: list[SpreadConstraint]
    affinity_terms: list[inter_pod_affinity.AffinityTerm]
    anti_affinity_terms: list[inter_pod_affinity.AffinityTerm]
    soft_spread: list[SpreadConstraint]
    preferred_terms: list[tuple[inter_pod_affinity.AffinityTerm, int]]
    """Preferred affinity to other pods, and weights; negative: anti-affinity."""
    scored_terms: list[tuple[inter_pod_affinity.AffinityTerm, int]]
    """Terms of such a pod that score other pods once it runs."""
    has_preferred_nodes: bool
    nonzero_pending: npt.NDArray[np.int64]
    """(2,) int: CPU and memory for scores while pending, with a default for containers that request none."""
    nonzero_assigned: npt.NDArray[np.int64]
    """(2,) int: the same once assigned."""
    ports: list[node_filters.HostPort]
    names_nodes: bool
    """Can the verdict differ between nodes that differ by name only?"""
    pre_filter_error: str
    """Why the pod cannot be filtered; empty if it can."""
    pre_score_error: str
    """Why the pod cannot be scored, where more than one node is feasible; empty if it can."""
    number: int = 0
    request_vector: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(resources,) int: requests by column."""

    @property
    def is_plain(self) -> bool:
        """Does the verdict depend on other pods by their requests only?"""
        return not (self.spread or self.affinity_terms or self.anti_affinity_terms)


@dataclass(frozen=True, slots=True)
class ShapedPod:
    """A pod with its shape."""

    shape: PodShape
    pinned: str
    """The only node that its affinity selects, as for daemon pods; empty: any."""


def no_selector(pod: Json) -> Json | None:
    """No default spread constraints, for shapes that are not scored."""
    return None


class PodShapes:
    """Shapes by key, interned."""

    def __init__(self, find_selector: FindSelector = no_selector) -> None:
        self._find_selector = find_selector
        self._by_key: dict[bytes, PodShape] = {}
        self._by_spec: IdentityCache[ShapedPod] = IdentityCache()

    def shape_pod(self, pod: Json) -> ShapedPod:
        spec = pod["spec"]
        # Pods of one owner share their spec object until they are bound.
        shaped_pod = self._by_spec.get(spec)
        if shaped_pod is None:
            shaped_pod = self._intern(pod)
            if not shaped_pod.pinned:
                self._by_spec.put(spec, shaped_pod)
        return shaped_pod

    def _intern(self, pod: Json) -> ShapedPod:
        pinned = node_filters.pinned_node_name(pod)
        if pinned:
            pod = {**pod, "spec": {**pod["spec"], "affinity": _without_node_affinity(pod["spec"]["affinity"])}}
        # A pinned pod is not scored, so its shape needs no selector.
        selector = None if pinned or pod_topology_spread.has_own_constraints(pod) else self._find_selector(pod)
        key = _key_of(pod, selector)
        shape = self._by_key.get(key)
        if shape is None:
            shape = self._by_key[key] = _make_shape(pod, selector)
            shape.number = len(self._by_key)
        return ShapedPod(shape, pinned)


def _without_node_affinity(affinity: Json) -> Json:
    return {name: value for name, value in affinity.items() if name != "nodeAffinity"}


def _key_of(pod: Json, selector: Json | None) -> bytes:
    spec = pod["spec"]
    seen = [spec.get(name) for name in _SCHEDULING_FIELDS]
    # Terms and selectors without a namespace mean the pod's own.
    has_place = selector or spec.get("affinity") or spec.get("topologySpreadConstraints")
    place = pod["metadata"]["namespace"] if has_place else ""
    return msgspec.json.encode((place, _own_labels(pod), selector, seen), order="deterministic")


def _own_labels(pod: Json) -> Json | None:
    """Labels that the pod's own constraints read: they decide whether it counts for them."""
    spec = pod["spec"]
    if not spec.get("topologySpreadConstraints") and not (spec.get("affinity") or {}).get("podAffinity"):
        return None
    labels: Json | None = pod["metadata"].get("labels")
    return labels


def _make_shape(pod: Json, selector: Json | None) -> PodShape:
    spec = pod["spec"]
    amounts = resource_requests.pending_pod_requests(pod)
    text = msgspec.json.encode([spec.get("affinity"), spec.get("nodeSelector")])
    return PodShape(
        pod,
        amounts,
        priority_of(pod),
        pod_topology_spread.hard_constraints(pod),
        inter_pod_affinity.required_terms(pod, "podAffinity"),
        inter_pod_affinity.required_terms(pod, "podAntiAffinity"),
        pod_topology_spread.soft_constraints(pod, selector),
        inter_pod_affinity.preferred_terms(pod),
        inter_pod_affinity.scored_terms(pod),
        bool(node_filters.preferred_affinity(pod)),
        _cpu_and_memory(resource_requests.nonzero_pending_requests(pod)),
        _cpu_and_memory(resource_requests.nonzero_assigned_requests(pod, amounts)),
        node_filters.host_ports(pod),
        b"metadata.name" in text or b"kubernetes.io/hostname" in text,
        pod_topology_spread.hard_constraints_error(pod),
        node_scores.find_pre_score_error(pod),
    )


def _cpu_and_memory(amounts: resource_requests.ResourceList) -> npt.NDArray[np.int64]:
    return np.array([amounts["cpu"], amounts["memory"]], np.int64)


def is_schedulable_pending(pod: Json) -> bool:
    """Is the pod pending and to be placed by this scheduler?"""
    return (
        not pod["spec"].get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and cluster_view.is_queued(pod)
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
    )
