"""Similar groups: do two groups make the same kind of node, so that new nodes may be shared between them?

By resources and labels, unless the user names the labels that decide (--balancing-label):

    capacity      equal, but memory, which may differ by 1.5 %: machines of one type differ in what the kernel takes
    allocatable   within 5 %, resource by resource
    free          within 5 %: what the pods of a new node, DaemonSets above all, leave of its allocatable
    labels        equal, but for those that tell where a node is and those that the user names

A resource that only one of the two has makes them different.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from windlass.engine import facts

Comparator = Callable[["Template", "Template"], bool]

ALWAYS_IGNORED = frozenset(
    {
        facts.HOSTNAME,
        facts.ZONE,
        facts.REGION,
        facts.ZONE_BETA,
        facts.REGION_BETA,
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
    }
)
"""Labels that differ between nodes of one kind everywhere. Cluster API's groups get no others by default."""

CSI_ZONES = frozenset(
    {
        "topology.ebs.csi.aws.com/zone",
        "topology.k8s.aws/zone-id",
        "topology.disk.csi.azure.com/zone",
        "topology.gke.io/zone",
        "topology.diskplugin.csi.alibabacloud.com/zone",
        "topology.cinder.csi.openstack.org/zone",
        "topology.manila.csi.openstack.org/zone",
        "topology.csi.vmware.com/k8s-zone",
        "topology.csi.vmware.com/k8s-region",
        "failure-domain.beta.vmware.com/zone",
        "failure-domain.beta.vmware.com/region",
        "csi.hetzner.cloud/location",
        "topology.linode.com/region",
    }
)
"""Labels by which CSI drivers and clouds name the zone of a node once more. A node gets them when its driver starts, so
that groups in several zones differ in them as soon as they have nodes."""


@dataclass(frozen=True, slots=True)
class Template:
    """What a new node of a group looks like, and what its own pods ask for."""

    node: facts.Node
    requested: facts.Resources = facts.NO_RESOURCES


def make_template(node: facts.Node, pods: Iterable[facts.Pod]) -> Template:
    """The template of a node that starts with these pods."""
    requested: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.spec.requests:
            requested[resource] = requested.get(resource, 0) + amount
    return Template(node, tuple(sorted(requested.items())))


@dataclass(frozen=True, slots=True)
class Ratios:
    """How far two templates may be apart, as fractions of the larger one."""

    capacity_memory: float = 0.015
    """--memory-difference-ratio"""
    allocatable: float = 0.05
    """--max-allocatable-difference-ratio"""
    free: float = 0.05
    """--max-free-difference-ratio"""


@dataclass(frozen=True, slots=True)
class ByResources:
    """Compares resources and labels; called with two templates."""

    ratios: Ratios = Ratios()
    ignored_labels: frozenset[str] = ALWAYS_IGNORED
    """What is ignored in all: --balancing-ignore-label adds to `ALWAYS_IGNORED`."""

    def __call__(self, one: Template, other: Template) -> bool:
        return (
            self._agree_on_capacity(dict(one.node.capacity), dict(other.node.capacity))
            and _within(dict(one.node.allocatable), dict(other.node.allocatable), self.ratios.allocatable)
            and _within(_free(one), _free(other), self.ratios.free)
            and self._labels(one) == self._labels(other)
        )

    def _agree_on_capacity(self, one: dict[str, int], other: dict[str, int]) -> bool:
        if one.keys() != other.keys():
            return False
        return all(
            _close(facts.MEMORY, one[name], other[name], self.ratios.capacity_memory)
            if name == facts.MEMORY
            else one[name] == other[name]
            for name in one
        )

    def _labels(self, template: Template) -> dict[str, str]:
        labels = template.node.labels
        return {key: value for key, value in labels.items() if key not in self.ignored_labels}


@dataclass(frozen=True, slots=True)
class ByLabels:
    """Compares the labels that the user names (--balancing-label): both must have each, with equal values."""

    labels: tuple[str, ...]

    def __call__(self, one: Template, other: Template) -> bool:
        left, right = one.node.labels, other.node.labels
        return all(label in left and label in right and left[label] == right[label] for label in self.labels)


def choose_comparator(
    balancing_labels: Iterable[str], ignored_labels: Iterable[str], ratios: Ratios, ignore_csi_zones: bool = False
) -> Comparator:
    """By labels where the user names any, else by resources, with the user's own ignored labels added."""
    labels = tuple(balancing_labels)
    if labels:
        return ByLabels(labels)
    built_in = ALWAYS_IGNORED | CSI_ZONES if ignore_csi_zones else ALWAYS_IGNORED
    return ByResources(ratios, built_in | frozenset(ignored_labels))


def find_similar(group: str, templates: Mapping[str, Template], similar: Comparator) -> list[str]:
    """The other groups that are like the group, in the order of `templates`. A group without template has none."""
    if group not in templates:
        return []
    own = templates[group]
    return [other for other, template in templates.items() if other != group and similar(own, template)]


def _free(template: Template) -> dict[str, int]:
    """What a new node has left, of the resources every pod may use and of those that its own pods ask for.

    Places for pods are not counted off: a template's pods take none of them in the peer's reckoning.
    """
    requested = {facts.CPU: 0, facts.MEMORY: 0, facts.EPHEMERAL_STORAGE: 0, **dict(template.requested), facts.PODS: 0}
    allocatable = dict(template.node.allocatable)
    return {resource: allocatable.get(resource, 0) - amount for resource, amount in requested.items()}


def _within(one: dict[str, int], other: dict[str, int], ratio: float) -> bool:
    return one.keys() == other.keys() and all(_close(name, one[name], other[name], ratio) for name in one)


def _close(resource: str, one: int, other: int, ratio: float) -> bool:
    """Compared in thousandths, as the peer compares: a ratio of a large number rounds the same way."""
    scale = 1 if resource == facts.CPU else 1000
    larger, smaller = float(max(one, other) * scale), float(min(one, other) * scale)
    return larger - smaller <= larger * ratio
