"""Similarity of node groups: by resources and labels, unless --balancing-label names the labels that decide.

    capacity      equal, but memory within 1.5 %
    allocatable   within 5 %, resource by resource
    free          within 5 %: what the pods of a new node leave of its allocatable
    labels        equal, but for those that tell where a node is and those that the user names

Two groups are similar if all four hold.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from windlass.engine.model import facts

Comparator = Callable[["ComparedTemplate", "ComparedTemplate"], bool]


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
class ComparedTemplate:
    """A new node of a group, and the requests of its DaemonSet and mirror pods."""

    node: facts.Node
    requested: facts.Resources = facts.NO_RESOURCES


def make_compared_template(node: facts.Node, pods: Iterable[facts.Pod]) -> ComparedTemplate:
    """The template of a node that starts with these pods."""
    requested: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.spec.requests:
            requested[resource] = requested.get(resource, 0) + amount
    return ComparedTemplate(node, tuple(sorted(requested.items())))


@dataclass(frozen=True, slots=True)
class SimilarityRatios:
    """Maximum differences of two similar templates, as fractions of the larger value."""

    capacity_memory: float = 0.015
    """--memory-difference-ratio"""
    allocatable: float = 0.05
    """--max-allocatable-difference-ratio"""
    free: float = 0.05
    """--max-free-difference-ratio"""


@dataclass(frozen=True, slots=True)
class ResourceComparator:
    """Compares resources and labels; called with two templates."""

    ratios: SimilarityRatios = SimilarityRatios()
    ignored_labels: frozenset[str] = ALWAYS_IGNORED
    """All ignored labels: --balancing-ignore-label adds to `ALWAYS_IGNORED`."""

    def __call__(self, compared_template: ComparedTemplate, other: ComparedTemplate) -> bool:
        return (
            self._agree_on_capacity(dict(compared_template.node.capacity), dict(other.node.capacity))
            and _within(dict(compared_template.node.allocatable), dict(other.node.allocatable), self.ratios.allocatable)
            and _within(_free_resources(compared_template), _free_resources(other), self.ratios.free)
            and self._labels(compared_template) == self._labels(other)
        )

    def _agree_on_capacity(self, one: dict[str, int], other: dict[str, int]) -> bool:
        if one.keys() != other.keys():
            return False
        return all(
            _is_close(facts.MEMORY, one[name], other[name], self.ratios.capacity_memory)
            if name == facts.MEMORY
            else one[name] == other[name]
            for name in one
        )

    def _labels(self, template: ComparedTemplate) -> dict[str, str]:
        labels = template.node.labels
        return {key: value for key, value in labels.items() if key not in self.ignored_labels}


@dataclass(frozen=True, slots=True)
class LabelComparator:
    """Compares the labels that the user names (--balancing-label): both must have each, with equal values."""

    labels: tuple[str, ...]

    def __call__(self, compared_template: ComparedTemplate, other: ComparedTemplate) -> bool:
        left, right = compared_template.node.labels, other.node.labels
        return all(label in left and label in right and left[label] == right[label] for label in self.labels)


def choose_comparator(
    balancing_labels: Iterable[str],
    ignored_labels: Iterable[str],
    ratios: SimilarityRatios,
    ignore_csi_zones: bool = False,
) -> Comparator:
    """The comparator: by --balancing-label where it is set, else by resources and labels that are not ignored."""
    labels = tuple(balancing_labels)
    if labels:
        return LabelComparator(labels)
    built_in = ALWAYS_IGNORED | CSI_ZONES if ignore_csi_zones else ALWAYS_IGNORED
    return ResourceComparator(ratios, built_in | frozenset(ignored_labels))


def find_similar(group: str, templates: Mapping[str, ComparedTemplate], similar: Comparator) -> list[str]:
    """The groups similar to the group, in the order of `templates`. A group without template has none."""
    if group not in templates:
        return []
    own = templates[group]
    return [other for other, template in templates.items() if other != group and similar(own, template)]


def _free_resources(template: ComparedTemplate) -> dict[str, int]:
    """What a new node has left, of the resources every pod may use and of those that its own pods ask for.

    The template's pods are not subtracted from the `pods` resource, as in Cluster Autoscaler.
    """
    requested = {facts.CPU: 0, facts.MEMORY: 0, facts.EPHEMERAL_STORAGE: 0, **dict(template.requested), facts.PODS: 0}
    allocatable = dict(template.node.allocatable)
    return {resource: allocatable.get(resource, 0) - amount for resource, amount in requested.items()}


def _within(one: dict[str, int], other: dict[str, int], ratio: float) -> bool:
    return one.keys() == other.keys() and all(_is_close(name, one[name], other[name], ratio) for name in one)


def _is_close(resource: str, one: int, other: int, ratio: float) -> bool:
    """Compared in thousandths, as Cluster Autoscaler does: a ratio of a large number rounds the same way."""
    scale = 1 if resource == facts.CPU else 1000
    larger, smaller = float(max(one, other) * scale), float(min(one, other) * scale)
    return larger - smaller <= larger * ratio
