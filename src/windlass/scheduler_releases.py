"""kube-scheduler releases whose filters are applied, and the fields in which they differ.

A difference is a field of `SchedulerRelease`; code asks for the field, never for the version. Fields that a feature
gate of kube-scheduler decides are listed in `FEATURE_GATES`. The defaults are those of the oldest release.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class SchedulerRelease:
    """What a release's filters do. Each docstring says what holds where the field is true."""

    version: str = "1.36"
    """Major and minor version."""
    narrows_by_node_name: bool = False
    """NodeName: a pod with `spec.nodeName` narrows the search to that one name before any filter runs, as node affinity
    by `metadata.name` does. Other nodes are refused with `node(s) didn't satisfy plugin(s) [NodeName]`; where both
    narrow, the reason names both."""
    compares_resizes_by_pod: bool = False
    """NodeResourcesFit: a pod that is being resized counts with the largest of three sums over the whole pod (spec,
    allocated, actuated), not with the sum of each container's largest."""
    requires_csi_drivers: bool = False
    """NodeVolumeLimits: a driver whose CSIDriver object sets `preventPodSchedulingIfMissing` must be on the node's
    CSINode."""
    keeps_resolved_namespaces_only: bool = False
    """InterPodAffinity: a namespaceSelector of the pending pod selects namespaces that exist, by their labels.
    Otherwise one that an empty set of labels satisfies matches every namespace, too."""
    applies_device_taint_rules: bool = False
    """DynamicResources: DeviceTaintRules (resource.k8s.io/v1) add their taints to the devices that they select."""
    distinguishes_all_devices: bool = False
    """DynamicResources: distinctAttribute holds between all devices. Otherwise each request remembers the value of its
    last device only."""
    keys_counters_by_driver: bool = False
    """DynamicResources: shared counters belong to a driver's pool. Otherwise pools of one name share whichever counters
    were computed first, whatever their driver."""
    sees_counters_of_own_pools_only: bool = False
    """DynamicResources: a slice with shared counters matters to the nodes that it names. Otherwise to every node: an
    incomplete pool of another node makes each request for all devices an error."""
    divides_capacity_ranges: bool = False
    """DynamicResources: a validRange is rounded in thousandths where min, max and step are exact in thousandths.
    Otherwise in whole numbers."""
    counts_full_devices_in_all: bool = False
    """DynamicResources: whether a device is one of "all devices" is decided by its full capacity; one that is too full
    makes the request fail. Otherwise such a device is left out."""
    charges_shares_once: bool = False
    """DynamicResources: the counters of a device that is shared already are not charged again, even where its shares
    record no capacity."""
    refuses_unroundable_capacity: bool = False
    """DynamicResources: a request for capacity that cannot be rounded within an int64 is an error. Otherwise the device
    is skipped."""
    names_devices_in_selector_errors: bool = False
    """DynamicResources: the error of a CEL selector names the device, and gives a hint where a key is missing."""
    limits_devices_by_request: bool = False
    """DynamicResources: a claim for more than 32 devices fails at the request that exceeds the limit. Otherwise after
    all requests were looked at, with their sum."""
    compares_tolerations: bool = False
    """TaintToleration: tolerations with the operators Gt and Lt compare integers. Otherwise they tolerate nothing."""

    def __hash__(self) -> int:
        return hash(self.version)  # hashed for every pod that is read; all fields would take ten times as long


OLDEST_RELEASE = SchedulerRelease()
"""1.36."""

NEWEST_RELEASE = SchedulerRelease(
    version="1.37",
    narrows_by_node_name=True,
    compares_resizes_by_pod=True,
    requires_csi_drivers=True,
    keeps_resolved_namespaces_only=True,
    applies_device_taint_rules=True,
    distinguishes_all_devices=True,
    keys_counters_by_driver=True,
    sees_counters_of_own_pools_only=True,
    counts_full_devices_in_all=True,
    charges_shares_once=True,
    refuses_unroundable_capacity=True,
    names_devices_in_selector_errors=True,
    limits_devices_by_request=True,
)
"""1.37."""

KNOWN_RELEASES: Mapping[str, SchedulerRelease] = {one.version: one for one in (OLDEST_RELEASE, NEWEST_RELEASE)}
"""By version, in order."""

DEFAULT_RELEASE = OLDEST_RELEASE
"""Where neither a server nor a flag names a release."""


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """A feature gate of kube-scheduler, and the difference that it decides."""

    field: str
    locked: frozenset[str] = frozenset()
    """Releases in which the gate cannot be changed."""
    unknown: frozenset[str] = frozenset()
    """Releases that do not have it."""


FEATURE_GATES: Mapping[str, FeatureGate] = {
    "DRAFractionalCapacityRange": FeatureGate("divides_capacity_ranges", unknown=frozenset({"1.36"})),
    "TaintTolerationComparisonOperators": FeatureGate("compares_tolerations"),
    "VolumeLimitScaling": FeatureGate("requires_csi_drivers"),
}
"""Gates that change verdicts here, by name."""


def with_feature_gates(release: SchedulerRelease, gates: Mapping[str, bool]) -> SchedulerRelease:
    """The release with these gates set; gates that are not in `GATES` change nothing."""
    changes = {FEATURE_GATES[name].field: enabled for name, enabled in gates.items() if gate_has_effect(name, release)}
    return replace(release, **changes)  # type: ignore[arg-type]


def gate_has_effect(gate: str, release: SchedulerRelease) -> bool:
    """May the gate be set in this release, and does it change verdicts?"""
    known = FEATURE_GATES.get(gate)
    return known is not None and release.version not in known.locked | known.unknown


def release_differences(scheduler_release: SchedulerRelease, other: SchedulerRelease) -> list[str]:
    """Names of the fields in which two releases differ, but for the version."""
    names = [field.name for field in fields(SchedulerRelease) if field.name != "version"]
    return [name for name in names if getattr(scheduler_release, name) != getattr(other, name)]


def parse_version(text: str) -> tuple[int, int] | None:
    """Major and minor version of `v1.37.1`, `1.37`, or `v1.37.1-eks-1a2b3c`; None if there are none."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?=[.+-]|$)", text)
    return None if match is None else (int(match[1]), int(match[2]))


def nearest_release(text: str) -> SchedulerRelease:
    """The release for a server's version: the newest that is not newer, else the oldest."""
    version = parse_version(text)
    if version is None:
        return DEFAULT_RELEASE
    known = {parse_version(name): release for name, release in KNOWN_RELEASES.items()}
    older = [release for number, release in known.items() if number is not None and number <= version]
    return older[-1] if older else OLDEST_RELEASE
