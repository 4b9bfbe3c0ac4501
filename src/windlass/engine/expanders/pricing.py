"""Prices by table: what nodes cost by their instance type or their own word, and what pods are worth by what they ask.

Cluster API knows no prices. They come from a table, or from an annotation of the group's template, which wins: it is
nearer to the machine. A pod is worth what a machine that fits it exactly would cost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine import facts, gpus

ANNOTATION = "windlass.dev/price-per-hour"
ANNOTATIONS = (
    ANNOTATION,
    "capacity.cluster-autoscaler.kubernetes.io/price",
    "cluster.x-k8s.io/machine-current-price",
)
"""Where a group's price may stand: the first that can be read counts. The second and third were proposed for
karpenter-provider-cluster-api."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
INSTANCE_TYPE_BETA = "beta.kubernetes.io/instance-type"

RATES: Mapping[str, float] = {
    facts.CPU: 0.033174,
    facts.MEMORY: 0.004446,
    **dict.fromkeys(gpus.RESOURCES, 0.7),
}
"""Price of a core, of a GiB of memory and of a GPU for an hour: the figures of Cluster Autoscaler's pricing proposal.
Only their proportions matter, and those differ little between providers."""

_UNITS = {facts.CPU: 1000, facts.MEMORY: 2**30}
"""What a rate is for, in the engine's units; one piece for every other resource."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices for an hour, in any currency."""

    by_instance_type: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=lambda: RATES)
    """By resource: for a core of `cpu`, a GiB of `memory`, a piece of anything else. What is not named is free."""

    def node_price(self, node: facts.Node) -> float | None:
        """None if neither annotation nor table names a usable price."""
        text = node.annotations.get(ANNOTATION)
        if text is not None:
            return parse_price(text)
        instance_type = node.labels.get(INSTANCE_TYPE) or node.labels.get(INSTANCE_TYPE_BETA, "")
        return self.by_instance_type.get(instance_type)

    def pod_price(self, pod: facts.Pod) -> float | None:
        return sum(self._price(resource, amount) for resource, amount in pod.spec.requests)

    def _price(self, resource: str, amount: int) -> float:
        return self.rates.get(resource, 0.0) * amount / _UNITS.get(resource, 1)


def read_price(annotations: Mapping[str, str]) -> float | None:
    """The price that a group's annotations name; None if none of them can be read."""
    prices = (parse_price(annotations.get(key, "")) for key in ANNOTATIONS)
    return next((price for price in prices if price is not None), None)


def parse_price(text: str) -> float | None:
    """A price as an annotation spells it: a plain number that is finite and not negative."""
    try:
        price = float(text)
    except ValueError:
        return None
    return price if math.isfinite(price) and price >= 0 else None
