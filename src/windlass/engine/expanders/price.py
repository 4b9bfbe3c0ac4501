"""Price: the options with the lowest ratio of node price to pod price, weighted by how well the machine size fits.

    ratio      = (price of the new nodes + s) / (price of the scheduled pods + s)    s: price of a small pod
    unfitness  = larger of preferred cpu / node cpu and node cpu / preferred cpu
    suppressed = (unfitness - 1) * (1 - tanh((new nodes - 1) / 15)) + 1
    score      = suppressed * ratio, twice that for a group which does not exist yet

The lowest score wins. The preferred machine doubles in size whenever the cluster grows threefold. A group with GPUs has
a suppressed unfitness of 1000. An option with an unknown price is dropped. Node prices come from the group's
annotation, else from the table; a pod's price is that of a machine with exactly its requests.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from windlass import product
from windlass.engine.model import facts, well_known
from windlass.engine.model.scale_up_status import ExpansionOption

PREFERRED_MILLICPU = ((2, 1_000), (6, 2_000), (20, 4_000), (60, 8_000), (200, 16_000))
"""(nodes in the cluster at most, preferred cpu of a machine)."""

PREFERRED_MILLICPU_BEYOND = 32_000

SMALL_POD = facts.Pod(
    "default",
    "stabilize",
    spec=facts.PodSpec(requests=((facts.CPU, 500), (facts.MEMORY, 500 * 2**20))),
)
"""Stabilizes the ratio: its price is added to both sides, so that pods with tiny requests do not make it huge."""

GPU_UNFITNESS = 1000.0

NOT_EXISTING_FACTOR = 2.0

NODES_SCALE = 15.0
"""Scale on which the weight of the machine size decays with the number of new nodes."""


class PricingModel(Protocol):
    """Prices of nodes and pods per hour; None if unknown."""

    def node_price(self, node: facts.Node) -> float | None: ...

    def pod_price(self, pod: facts.Pod) -> float | None: ...


@dataclass(frozen=True, slots=True)
class PriceScore:
    """The score of one option, with its factors."""

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


def find_best_options(
    options: Sequence[ExpansionOption], pricing: PricingModel, cluster_nodes: int, gpu_label: str
) -> list[ExpansionOption]:
    """The cheapest options. `cluster_nodes` is how many nodes the cluster has now."""
    scores = [score_option(option, pricing, cluster_nodes, gpu_label) for option in options]
    lowest = min((scored.score for scored in scores if scored is not None), default=0.0)
    pairs = zip(options, scores, strict=True)
    return [option for option, scored in pairs if scored is not None and scored.score == lowest]


def score_option(
    option: ExpansionOption, pricing: PricingModel, cluster_nodes: int, gpu_label: str
) -> PriceScore | None:
    """None if a price is unknown. If the small pod has no price, the ratio is not stabilized."""
    node_price = pricing.node_price(option.template)
    pods_price = _price_pods(option, pricing)
    if node_price is None or pods_price is None:
        return None
    nodes_price = node_price * option.node_count
    small = pricing.pod_price(SMALL_POD) or 0.0
    ratio = _divide(nodes_price + small, pods_price + small)
    unfitness = _compare_size(option.template, prefer_millicpu(cluster_nodes))
    suppressed = _suppress(unfitness, option.node_count)
    if well_known.has_gpu(option.template, gpu_label):
        suppressed = GPU_UNFITNESS
    total = suppressed * ratio * (1.0 if option.exists else NOT_EXISTING_FACTOR)
    return PriceScore(nodes_price, pods_price, ratio, unfitness, suppressed, total)


def prefer_millicpu(cluster_nodes: int) -> int:
    """The preferred cpu of a machine in a cluster of this size."""
    for up_to, millicpu in PREFERRED_MILLICPU:
        if cluster_nodes <= up_to:
            return millicpu
    return PREFERRED_MILLICPU_BEYOND


def _price_pods(option: ExpansionOption, pricing: PricingModel) -> float | None:
    total = 0.0
    for pods in option.pods:
        price = pricing.pod_price(pods.pod)
        if price is None:
            return None
        total += price * pods.count
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


def _divide(nodes_price: float, pods_price: float) -> float:
    """Infinite for pods without a price, as division by zero is in Go."""
    return nodes_price / pods_price if pods_price > 0.0 else math.inf


INSTANCE_TYPE = "node.kubernetes.io/instance-type"

INSTANCE_TYPE_BETA = "beta.kubernetes.io/instance-type"

RATES: Mapping[str, float] = {
    facts.CPU: 0.033174,
    facts.MEMORY: 0.004446,
    **dict.fromkeys(well_known.GPU_RESOURCES, 0.7),
}
"""Hourly price of a core, of a GiB of memory and of a GPU, as in Cluster Autoscaler's pricing proposal. Only the
proportions matter, and they differ little between providers."""

_UNITS = {facts.CPU: 1000, facts.MEMORY: 2**30}
"""Engine units per unit of a rate; 1 for every other resource."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Hourly prices, in any currency."""

    by_instance_type: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=lambda: RATES)
    """By resource: of a core of `cpu`, a GiB of `memory`, one of anything else. Other resources cost nothing."""

    def node_price(self, node: facts.Node) -> float | None:
        """None if neither annotation nor table holds a valid price."""
        text = node.annotations.get(product.PRICE_ANNOTATION, node.annotations.get(product.FORMER_PRICE_ANNOTATION))
        if text is not None:
            return well_known.parse_price(text)
        instance_type = node.labels.get(INSTANCE_TYPE) or node.labels.get(INSTANCE_TYPE_BETA, "")
        return self.by_instance_type.get(instance_type)

    def pod_price(self, pod: facts.Pod) -> float | None:
        return sum(self._price(resource, amount) for resource, amount in pod.spec.requests)

    def _price(self, resource: str, amount: int) -> float:
        return self.rates.get(resource, 0.0) * amount / _UNITS.get(resource, 1)
