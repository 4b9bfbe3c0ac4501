"""Score plugins of the default profile: arithmetic over all candidate nodes at once, normalized to 0 … 100.

Integers where kube-scheduler has integers. The inputs (`ScoreInputs`) come from `node_scores`, node by node, or from
the fast scheduler's columns. Plugins that give every simulated node the same score are left out: ImageLocality (nodes
list no images), VolumeBinding (scores nothing by default), DynamicResources (device claims are not simulated).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MAX_NODE_SCORE = 100
HARD_POD_AFFINITY_WEIGHT = 1
"""hardPodAffinityWeight: the weight of required affinity terms of assigned pods."""

RESOURCES = ("cpu", "memory")
"""Resources that the default profile scores, each with weight 1."""

TAINT_TOLERATION = "TaintToleration"
NODE_AFFINITY = "NodeAffinity"
LEAST_ALLOCATED = "NodeResourcesFit"
TOPOLOGY_SPREAD = "PodTopologySpread"
INTERPOD_AFFINITY = "InterPodAffinity"
BALANCED_ALLOCATION = "NodeResourcesBalancedAllocation"

WEIGHTS = {
    TAINT_TOLERATION: 3,
    NODE_AFFINITY: 2,
    LEAST_ALLOCATED: 1,
    TOPOLOGY_SPREAD: 2,
    INTERPOD_AFFINITY: 2,
    BALANCED_ALLOCATION: 1,
}


@dataclass(frozen=True, slots=True)
class SpreadInputs:
    """One soft spread constraint."""

    max_skew: int
    domains: int
    """Number of distinct domains among the candidates."""
    pods: Ints
    """(nodes,): matching pods in the node's domain."""
    has_key: Mask
    """(nodes,): does the node carry the topology key?"""


@dataclass(frozen=True, slots=True)
class ScoreInputs:
    """Inputs of the plugins for the candidate nodes. None: a plugin does not apply to the pod."""

    allocatable: Ints
    """(nodes, resources)"""
    requested: Ints
    """(nodes, resources): by the pods on the node."""
    nonzero_requested: Ints
    """(nodes, resources): the same, with a default for containers that request nothing."""
    pod_requests: Ints
    """(resources,): by the pod."""
    nonzero_pod_requests: Ints
    """(resources,): the same, with the default."""
    soft_taints: Ints
    """(nodes,): PreferNoSchedule taints that the pod does not tolerate."""
    preferred: Ints | None
    """(nodes,): the weight of the preferred node affinity terms that match."""
    spread: Sequence[SpreadInputs]
    is_ignored: Mask | None
    """(nodes,): nodes that lack a topology key of some constraint; None: there are none."""
    affinity_weights: Ints | None
    """(nodes,): the sum of affinity weights of pods in the node's domains, negative for anti-affinity."""


def score(facts: ScoreInputs) -> dict[str, Ints]:
    """(nodes,) by plugin: normalized scores times the plugin's weight."""
    plugin_scores = {
        TAINT_TOLERATION: normalize(facts.soft_taints, reverse=True),
        LEAST_ALLOCATED: least_allocated(facts.nonzero_requested + facts.nonzero_pod_requests, facts.allocatable),
    }
    if facts.preferred is not None:
        plugin_scores[NODE_AFFINITY] = normalize(facts.preferred)
    if facts.spread:
        plugin_scores[TOPOLOGY_SPREAD] = spread(facts.spread, facts.is_ignored)
    if facts.affinity_weights is not None:
        plugin_scores[INTERPOD_AFFINITY] = interpod_affinity(facts.affinity_weights)
    # Pods without requests would otherwise all be scored to one node.
    if facts.pod_requests.any():
        plugin_scores[BALANCED_ALLOCATION] = balanced_allocation(facts.requested, facts.pod_requests, facts.allocatable)
    return {plugin: scores * WEIGHTS[plugin] for plugin, scores in plugin_scores.items()}


def normalize(counts: Ints, *, reverse: bool = False) -> Ints:
    """(nodes,): the largest count becomes 100; reversed, the largest becomes 0 and none at all is 100."""
    most = int(counts.max(initial=0))
    scores = MAX_NODE_SCORE * counts // most if most else np.zeros_like(counts)
    return MAX_NODE_SCORE - scores if reverse else scores


def least_allocated(requested: Ints, allocatable: Ints) -> Ints:
    """(nodes,): the mean over resources of the free share in percent; resources that a node lacks do not count."""
    free = np.maximum(allocatable - requested, 0)
    shares = free * MAX_NODE_SCORE // np.maximum(allocatable, 1)
    total: Ints = shares[:, 0] + shares[:, 1]
    return total // (2 if allocatable.all() else np.maximum(np.count_nonzero(allocatable, axis=1), 1))


def balanced_allocation(requested: Ints, desired: Ints, allocatable: Ints) -> Ints:
    """(nodes,): 75 if the pod leaves the node's shares of CPU and memory as far apart as they are, more if closer."""
    half = MAX_NODE_SCORE // 2
    change = _balance(requested + desired, allocatable) - _balance(requested, allocatable)
    return half + (half + change) // 2


def _balance(requested: Ints, allocatable: Ints) -> Ints:
    """(nodes,): 100 where the same share of both resources is requested, less the further the shares are apart."""
    shares = np.minimum(requested / np.maximum(allocatable, 1), 1.0)
    # Of two values, half the distance is the standard deviation; of one it is nothing.
    deviation: Floats = np.abs((shares[:, 0] - shares[:, 1]) / 2)
    if not allocatable.all():
        deviation[~allocatable.all(axis=1)] = 0.0
    return ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)


def spread(constraints: Sequence[SpreadInputs], is_ignored: Mask | None) -> Ints:
    """(nodes,): higher for fewer matching pods in the node's domains, weighted by the number of domains."""
    total: Floats = np.zeros(len(constraints[0].pods))
    for spread_inputs in constraints:
        weight = math.log(spread_inputs.domains + 2)
        total += np.where(spread_inputs.has_key, spread_inputs.pods * weight + float(spread_inputs.max_skew - 1), 0.0)
    crowded = np.floor(total + 0.5).astype(np.int64)
    counted = crowded if is_ignored is None else crowded[~is_ignored]
    most, least = int(counted.max(initial=0)), int(counted.min()) if len(counted) else 0
    scores = MAX_NODE_SCORE * (most + least - crowded) // most if most else np.full_like(crowded, MAX_NODE_SCORE)
    return scores if is_ignored is None else np.where(is_ignored, 0, scores)


def interpod_affinity(affinity_weights: Ints) -> Ints:
    """(nodes,): affinity weights normalized from 0 for the lowest to 100 for the highest."""
    least, most = int(affinity_weights.min()), int(affinity_weights.max())
    if most == least:
        return np.zeros_like(affinity_weights)
    return (float(MAX_NODE_SCORE) * ((affinity_weights - least) / float(most - least))).astype(np.int64)
