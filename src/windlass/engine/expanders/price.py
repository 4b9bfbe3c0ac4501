"""Price: the options whose nodes cost least for what the helped pods are worth, on machines of a fitting size.

    ratio      = (price of the new nodes + s) / (price of the helped pods + s)       s: price of a small pod
    unfitness  = larger of preferred cpu / node cpu and node cpu / preferred cpu
    suppressed = (unfitness - 1) * (1 - tanh((new nodes - 1) / 15)) + 1
    score      = suppressed * ratio, twice that for a group which does not exist yet

The lowest score wins. The preferred machine doubles in size whenever the cluster grows threefold; the more nodes are
added at once, the less their size matters. A group with GPUs has a suppressed unfitness of 1000: its size is chosen for
the GPUs, and pods that need none should not land there. An option with a price that nobody knows is left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass.engine import facts, gpus
from windlass.engine.expanders.option import Option

PREFERRED_MILLICPU = ((2, 1_000), (6, 2_000), (20, 4_000), (60, 8_000), (200, 16_000))
"""Up to so many nodes in the cluster, a machine with so much cpu is preferred."""
PREFERRED_MILLICPU_BEYOND = 32_000

SMALL_POD = facts.Pod(
    "default",
    "stabilize",
    spec=facts.PodSpec(requests=((facts.CPU, 500), (facts.MEMORY, 500 * 2**20))),
)
"""Its price is added on both sides of the ratio, so that pods which ask for next to nothing do not blow it up."""

GPU_UNFITNESS = 1000.0
NOT_EXISTING_FACTOR = 2.0
NODES_SCALE = 15.0
"""How fast the machine's size loses its weight as nodes are added."""


class Pricing(Protocol):
    """What nodes and pods cost for an hour; None where nobody knows."""

    def node_price(self, node: facts.Node) -> float | None: ...

    def pod_price(self, pod: facts.Pod) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Score:
    """The arithmetic of one option."""

    nodes_price: float
    pods_price: float
    ratio: float
    unfitness: float
    suppressed: float
    score: float

    def __str__(self) -> str:
        return (
            f"all_nodes_price={self.nodes_price:f} pods_price={self.pods_price:f} stabilized_ratio={self.ratio:f} "
            f"unfitness={self.unfitness:f} suppressed={self.suppressed:f} final_score={self.score:f}"
        )


def keep(options: Sequence[Option], pricing: Pricing, cluster_nodes: int, gpu_label: str) -> list[Option]:
    """The cheapest options. `cluster_nodes` is how many nodes the cluster has now."""
    scores = [score(option, pricing, cluster_nodes, gpu_label) for option in options]
    lowest = min((scored.score for scored in scores if scored is not None), default=0.0)
    pairs = zip(options, scores, strict=True)
    return [option for option, scored in pairs if scored is not None and scored.score == lowest]


def score(option: Option, pricing: Pricing, cluster_nodes: int, gpu_label: str) -> Score | None:
    """None if a price is unknown. A small pod without a price is left out of the ratio, on both sides."""
    node_price = pricing.node_price(option.template)
    pods_price = _price_pods(option, pricing)
    if node_price is None or pods_price is None:
        return None
    nodes_price = node_price * option.node_count
    small = pricing.pod_price(SMALL_POD) or 0.0
    ratio = _divide(nodes_price + small, pods_price + small)
    unfitness = _compare_size(option.template, prefer_millicpu(cluster_nodes))
    suppressed = _suppress(unfitness, option.node_count)
    if gpus.has_gpu(option.template, gpu_label):
        suppressed = GPU_UNFITNESS
    total = suppressed * ratio * (1.0 if option.exists else NOT_EXISTING_FACTOR)
    return Score(nodes_price, pods_price, ratio, unfitness, suppressed, total)


def prefer_millicpu(cluster_nodes: int) -> int:
    """The cpu of the machine that suits a cluster of this size."""
    for up_to, millicpu in PREFERRED_MILLICPU:
        if cluster_nodes <= up_to:
            return millicpu
    return PREFERRED_MILLICPU_BEYOND


def _price_pods(option: Option, pricing: Pricing) -> float | None:
    total = 0.0
    for helped in option.pods:
        price = pricing.pod_price(helped.pod)
        if price is None:
            return None
        total += price * helped.count
    return total


def _compare_size(template: facts.Node, preferred_millicpu: int) -> float:
    millicpu = dict(template.capacity).get(facts.CPU, 0)
    if millicpu <= 0:
        return math.inf
    return max(preferred_millicpu / millicpu, millicpu / preferred_millicpu)


def _suppress(unfitness: float, node_count: int) -> float:
    if math.isinf(unfitness):
        return unfitness
    return (unfitness - 1.0) * (1.0 - math.tanh((node_count - 1) / NODES_SCALE)) + 1.0


def _divide(paid: float, worth: float) -> float:
    """Whatever is paid for pods that are worth nothing is paid in vain."""
    return paid / worth if worth > 0.0 else math.inf
