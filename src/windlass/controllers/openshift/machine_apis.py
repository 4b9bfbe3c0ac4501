"""OpenShift's two machine APIs: names, MachineSet authority, feature gates, capacity annotations. Pure.

Only the MachineSet of Machine API states authority: `spec.authoritativeAPI` is desired, `status.authoritativeAPI`
current, with `Migrating` in between, during which neither is authoritative. Cluster API may be used only if the feature
gate of the platform is enabled, and has the MachineSets to be scaled only if the platform's migration gate is, too.
Capacity annotations of scale-from-zero exist in OpenShift's keys and in the autoscaler's, which alone the autoscaler
reads. GPUs count toward resource limits only on nodes with the accelerator label.
"""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass import errors, quantity, selectors
from windlass.kube.resources import Resource, Unstructured

MACHINE_AUTOSCALERS = Resource(
    "autoscaling.openshift.io/v1beta1", "machineautoscalers", "MachineAutoscaler", True, Unstructured
)

MACHINE_API_NAMESPACE = "openshift-machine-api"

CLUSTER_API_NAMESPACE = "openshift-cluster-api"

OPERATOR_MANAGER = "cluster-autoscaler-operator"
"""Field manager of MachineSet annotations; other controllers that sync MachineSets know this name."""

AUTOSCALER_MANAGER = "cluster-autoscaler"

OWNER_ANNOTATION = "autoscaling.openshift.io/machineautoscaler"
"""Annotation of a MachineSet: its MachineAutoscaler as namespace/name. The same key in both APIs."""

MIN_SIZE_SUFFIX = "cluster-api-autoscaler-node-group-min-size"

MAX_SIZE_SUFFIX = "cluster-api-autoscaler-node-group-max-size"

DELETE_MACHINE_SUFFIX = "delete-machine"
"""These suffixes follow the group of an API: see MachineApi."""

PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"
"""Set on a MachineSet of Cluster API that is not authoritative."""

ACCELERATOR_LABEL = "cluster-api/accelerator"


@dataclass(frozen=True, slots=True)
class MachineApi:
    """One of the two machine APIs: group, namespace and annotation keys."""

    group: str
    versions: tuple[str, ...]
    """Supported versions, preferred first."""
    namespace: str
    authority: str
    """Its value in `authoritativeAPI`."""

    @property
    def min_size(self) -> str:
        """Annotation of the minimum size of a MachineSet."""
        return f"{self.group}/{MIN_SIZE_SUFFIX}"

    @property
    def max_size(self) -> str:
        return f"{self.group}/{MAX_SIZE_SUFFIX}"

    @property
    def delete_machine(self) -> str:
        """Annotation of a Machine to be deleted first."""
        return f"{self.group}/{DELETE_MACHINE_SUFFIX}"

    @property
    def mirror(self) -> "MachineApi":
        """The other API."""
        return CLUSTER_API if self is MACHINE_API else MACHINE_API

    def serves(self, api_version: str) -> bool:
        group, _, version = api_version.partition("/")
        return group == self.group and version in self.versions

    def machine_sets(self, version: str = "") -> Resource[Unstructured]:
        """The MachineSet resource, in the preferred version by default."""
        return self._resource("machinesets", "MachineSet", version)

    def machines(self, version: str = "") -> Resource[Unstructured]:
        return self._resource("machines", "Machine", version)

    def _resource(self, plural: str, kind: str, version: str) -> Resource[Unstructured]:
        return Resource(f"{self.group}/{version or self.versions[0]}", plural, kind, True, Unstructured)


MACHINE_API = MachineApi("machine.openshift.io", ("v1beta1",), MACHINE_API_NAMESPACE, "MachineAPI")

CLUSTER_API = MachineApi("cluster.x-k8s.io", ("v1beta2", "v1beta1"), CLUSTER_API_NAMESPACE, "ClusterAPI")

MACHINE_APIS = (MACHINE_API, CLUSTER_API)


def find_machine_api(api_version: str) -> MachineApi | None:
    """The API of an apiVersion; None if it is of neither API or of an unsupported version."""
    return next((api for api in MACHINE_APIS if api.serves(api_version)), None)


Json = Mapping[str, Any]


V1BETA1 = CLUSTER_API.versions[1]
"""The version of Cluster API whose MachineSets have another form."""


def to_v1beta2(machine_set: Json) -> Json:
    """A MachineSet of Cluster API's v1beta1 in v1beta2's form, as far as it is mirrored."""
    spec, status = dict(machine_set.get("spec") or {}), dict(machine_set.get("status") or {})
    template = dict(spec.get("template") or {})
    machine = dict(template.get("spec") or {})
    if "deletePolicy" in spec:
        spec["deletion"] = {"order": spec.pop("deletePolicy")}
    if "minReadySeconds" in spec:
        machine["minReadySeconds"] = spec.pop("minReadySeconds")
    if reference := dict(machine.get("infrastructureRef") or {}):
        reference["apiGroup"] = str(reference.pop("apiVersion", "")).partition("/")[0]
        machine["infrastructureRef"] = reference
    old = {name: status.pop(name) for name in _V1BETA1_STATUS if name in status}
    status |= status.pop("v1beta2", None) or {}
    status |= {"deprecated": {"v1beta1": old}} if old else {}
    return {
        **machine_set,
        "spec": {**spec, "template": {**template, "spec": machine}},
        **({"status": status} if status else {}),
    }


def to_v1beta1(patch: Json, template_version: str = "") -> dict[str, Any]:
    """A MachineSet, or a patch of one, in v1beta2's form for Cluster API's v1beta1.

    `template_version` is the apiVersion of a referenced template, which v1beta1 names in place of its group.
    """
    found = dict(patch)
    if "spec" in patch:
        spec = found["spec"] = dict(patch["spec"])
        if "deletion" in spec:
            spec["deletePolicy"] = spec.pop("deletion")["order"]
        template = dict(spec.get("template") or {})
        machine = dict(template.get("spec") or {})
        if "minReadySeconds" in machine:
            spec["minReadySeconds"] = machine.pop("minReadySeconds")
        if "apiGroup" in (machine.get("infrastructureRef") or {}):
            reference = dict(machine["infrastructureRef"])
            machine["infrastructureRef"] = {**reference, "apiVersion": template_version}
            machine["infrastructureRef"].pop("apiGroup")
        template |= {"spec": machine} if machine else {}
        spec |= {"template": template} if template else {}
    if "status" in patch:
        status = dict(patch["status"])
        old = (status.pop("deprecated", None) or {}).get("v1beta1") or {}
        new = {name: status.pop(name) for name in _V1BETA2_STATUS if name in status}
        found["status"] = {**status, **old, **({"v1beta2": new} if new else {})}
    return found


_V1BETA1_STATUS = (
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "conditions",
    "failureReason",
    "failureMessage",
)
"""Status fields that v1beta2 has in `deprecated.v1beta1`."""

_V1BETA2_STATUS = ("readyReplicas", "availableReplicas", "upToDateReplicas", "conditions")
"""Status fields that v1beta1 has in `v1beta2`."""


class MachineAuthority(enum.Enum):
    """Values of `status.authoritativeAPI`."""

    MACHINE_API = "MachineAPI"
    CLUSTER_API = "ClusterAPI"
    MIGRATING = "Migrating"
    UNSET = ""
    """The field is empty."""


_AUTHORITY_BY_VALUE = {each.value: each for each in MachineAuthority}


def parse_authority(machine_set: Json) -> MachineAuthority:
    """Current authority of a MachineSet of Machine API; an unknown value counts as unset."""
    return _AUTHORITY_BY_VALUE.get(
        (machine_set.get("status") or {}).get("authoritativeAPI") or "", MachineAuthority.UNSET
    )


def parse_desired_authority(machine_set: Json) -> MachineAuthority:
    """Desired authority; servers with the field default it to Machine API."""
    found = (machine_set.get("spec") or {}).get("authoritativeAPI") or ""
    return _AUTHORITY_BY_VALUE.get(found, MachineAuthority.UNSET)


def is_migration_requested(machine_set: Json | None) -> bool:
    """True if desired and current authority differ."""
    return machine_set is not None and parse_desired_authority(machine_set) is not parse_authority(machine_set)


@dataclass(frozen=True, slots=True)
class MachineSetPair:
    """The MachineSets of one name; one or both may be missing."""

    name: str
    machine_api: Json | None = None
    cluster_api: Json | None = None

    def get(self, api: MachineApi) -> Json | None:
        return self.machine_api if api is MACHINE_API else self.cluster_api

    @property
    def authority(self) -> MachineAuthority:
        """Current authority.

        A MachineSet that exists in Cluster API only is Cluster API's. One without current authority is Machine API's,
        as its controllers have it; it is undecided only while Cluster API is desired.
        """
        if self.machine_api is None:
            return MachineAuthority.UNSET if self.cluster_api is None else MachineAuthority.CLUSTER_API
        machine_authority = parse_authority(self.machine_api)
        if (
            machine_authority is MachineAuthority.UNSET
            and parse_desired_authority(self.machine_api) is not MachineAuthority.CLUSTER_API
        ):
            return MachineAuthority.MACHINE_API
        return machine_authority

    @property
    def holder(self) -> MachineApi | None:
        """The authoritative API, even if its MachineSet is missing; None while none is authoritative."""
        machine_authority = self.authority
        return next((api for api in MACHINE_APIS if api.authority == machine_authority.value), None)


FEATURE_GATES = Resource("config.openshift.io/v1", "featuregates", "FeatureGate", False, Unstructured)

INFRASTRUCTURES = Resource("config.openshift.io/v1", "infrastructures", "Infrastructure", False, Unstructured)

CLUSTER_SINGLETON = "cluster"
"""The name of these cluster-scoped singletons."""

CLUSTER_VERSIONS = Resource("config.openshift.io/v1", "clusterversions", "ClusterVersion", False, Unstructured)

CLUSTER_VERSION_SINGLETON = "version"

PROVISIONING_REQUEST_GATE = "ProvisioningRequestAvailable"

_CLUSTER_API_GATE = "ClusterAPIMachineManagement"

_MIGRATION_GATE = "MachineAPIMigration"
"""Prefixes of the gates of a platform, and gates themselves for all platforms together."""

_CLUSTER_API_PLATFORMS = frozenset({"AWS", "Azure", "BareMetal", "GCP", "OpenStack", "PowerVS", "VSphere"})
"""Platforms with a feature gate for Cluster API."""

_FIRST_MIGRATION_PLATFORMS = frozenset({"AWS", "OpenStack"})
"""Platforms that a release migrates whose migration gate is one for all platforms."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Feature gates of a platform."""

    platform: str = ""
    enabled: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    """Gates that are listed and not enabled. A release does not list gates that it does not know."""

    @property
    def has_cluster_api(self) -> bool:
        """True if Cluster API's objects may be read and written."""
        return (
            self.platform in _CLUSTER_API_PLATFORMS
            and f"{_CLUSTER_API_GATE}{self.platform}" in self.enabled
            and _CLUSTER_API_GATE not in self.disabled
        )

    @property
    def has_migration(self) -> bool:
        """True if MachineSets are mirrored between the APIs. A release that lists no migration gate needs none."""
        own = f"{_MIGRATION_GATE}{self.platform}"
        if not {_MIGRATION_GATE, own} & (self.enabled | self.disabled):
            return True
        is_off = bool({_MIGRATION_GATE, own} & self.disabled)
        return not is_off and (own in self.enabled or self.platform in _FIRST_MIGRATION_PLATFORMS)

    @property
    def scales_cluster_api(self) -> bool:
        """True if the autoscaler works on Cluster API, where mirrors of all MachineSets are; else on Machine API."""
        return self.has_cluster_api and self.has_migration

    @property
    def has_provisioning_requests(self) -> bool:
        return PROVISIONING_REQUEST_GATE in self.enabled


def parse_feature_gates(feature_gate: Json | None, infrastructure: Json | None, version: str = "") -> FeatureGates:
    """Feature gates of a version; none for a version that is not listed.

    Without a version, the gates that are enabled in every listed version.
    """
    status = (infrastructure or {}).get("status") or {}
    platform = (status.get("platformStatus") or {}).get("type") or status.get("platform") or ""
    listed = ((feature_gate or {}).get("status") or {}).get("featureGates") or ()
    found = [entry for entry in listed if not version or entry.get("version") == version]
    enabled = [_gate_names(entry, "enabled") for entry in found]
    disabled = [_gate_names(entry, "disabled") for entry in found]
    return FeatureGates(
        platform, frozenset.intersection(*enabled) if enabled else frozenset(), frozenset().union(*disabled)
    )


def parse_release_version(cluster_version: Json | None) -> str:
    """The version of OpenShift that the cluster is at, or is being upgraded to; empty if it is unknown.

    The cluster version operator completes an upgrade once every ClusterOperator reports that version.
    """
    status = (cluster_version or {}).get("status") or {}
    version: str = (status.get("desired") or {}).get("version") or ""
    return version


def _gate_names(entry: Json, which: str) -> frozenset[str]:
    return frozenset(gate.get("name") or "" for gate in entry.get(which) or ())


VCPU_ANNOTATION = "machine.openshift.io/vCPU"

MEMORY_MB_ANNOTATION = "machine.openshift.io/memoryMb"

GPU_ANNOTATION = "machine.openshift.io/GPU"

MAX_PODS_ANNOTATION = "machine.openshift.io/maxPods"

OPENSHIFT_CAPACITY_ANNOTATIONS = (VCPU_ANNOTATION, MEMORY_MB_ANNOTATION, GPU_ANNOTATION, MAX_PODS_ANNOTATION)

CAPACITY_PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"

CPU_CAPACITY = f"{CAPACITY_PREFIX}cpu"

MEMORY_CAPACITY = f"{CAPACITY_PREFIX}memory"

GPU_COUNT_CAPACITY = f"{CAPACITY_PREFIX}gpu-count"

GPU_TYPE_CAPACITY = f"{CAPACITY_PREFIX}gpu-type"

PODS_CAPACITY = f"{CAPACITY_PREFIX}maxPods"

NVIDIA_GPU = "nvidia.com/gpu"

_MIB = 1 << 20


class InvalidCapacityAnnotation(errors.WindlassError):
    """A capacity annotation is not a number."""

    def __init__(self, problem: str, name: str, found: str, expected: str) -> None:
        super().__init__(f'{problem}: annotation "{name}": found {found!r}, expected {expected}')


def translate_capacity(annotations: Mapping[str, str]) -> dict[str, str]:
    """The autoscaler's capacity annotations that are missing, translated from OpenShift's.

    Existing ones are kept, even if empty. InvalidCapacityAnnotation if a needed value is invalid.
    """
    made: dict[str, str] = {}
    if VCPU_ANNOTATION in annotations:
        made[CPU_CAPACITY] = annotations[VCPU_ANNOTATION]
    if MEMORY_MB_ANNOTATION in annotations and MEMORY_CAPACITY not in annotations:
        made[MEMORY_CAPACITY] = str(
            quantity.Quantity(_parse_mib(annotations[MEMORY_MB_ANNOTATION]) * _MIB * quantity.NANO)
        )
    if GPU_ANNOTATION in annotations and not {GPU_COUNT_CAPACITY, GPU_TYPE_CAPACITY} <= annotations.keys():
        made[GPU_COUNT_CAPACITY] = annotations[GPU_ANNOTATION]
        made[GPU_TYPE_CAPACITY] = NVIDIA_GPU if count_gpus(annotations) > 0 else ""
    if MAX_PODS_ANNOTATION in annotations:
        made[PODS_CAPACITY] = annotations[MAX_PODS_ANNOTATION]
    return {key: value for key, value in made.items() if key not in annotations}


def count_gpus(annotations: Mapping[str, str]) -> int:
    """Whole GPUs of OpenShift's annotation. InvalidCapacityAnnotation if it is not a quantity."""
    if GPU_ANNOTATION not in annotations:
        return 0
    try:
        return max(
            0, quantity.saturate_int64(quantity.parse_quantity(annotations[GPU_ANNOTATION])).nano // quantity.NANO
        )
    except ValueError:
        raise InvalidCapacityAnnotation(
            "could not parse quantity", GPU_ANNOTATION, annotations[GPU_ANNOTATION], "a number of GPUs"
        ) from None


def _parse_mib(found: str) -> int:
    size_mib = None if found.startswith("-") else selectors.parse_int64(found)
    if size_mib is None:
        raise InvalidCapacityAnnotation("could not parse integer", MEMORY_MB_ANNOTATION, found, "MiB as a whole number")
    return size_mib


_MAX_LABEL_CHARACTERS = 63

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)

_INVALID_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

_NOT_AN_ERROR = (
    "This is not an error but may cause issues when using GPU resource limits with the Cluster Autoscaler. For more "
    "information on the proper use of these values, please see https://access.redhat.com/solutions/6055181"
)


def accelerator_label_warning(machine_set: Json, api: MachineApi) -> str:
    """A warning if a MachineSet with GPUs has an invalid accelerator label; empty if there is nothing to warn of."""
    metadata = machine_set.get("metadata") or {}
    if not has_gpus(metadata.get("annotations") or {}):
        return ""
    return check_accelerator_label(node_template_labels(machine_set, api), metadata.get("name") or "")


def has_gpus(annotations: Mapping[str, str]) -> bool:
    """True if a GPU annotation is positive; an invalid one counts as 0."""
    try:
        return count_gpus(annotations) > 0
    except InvalidCapacityAnnotation:
        return False


def node_template_labels(machine_set: Json, api: MachineApi) -> Mapping[str, str]:
    """Labels of the MachineSet's Nodes: in the Machine's spec in Machine API, on the Machine in Cluster API.

    Labels of Machine API's Machines themselves are not copied to Nodes.
    """
    template = (machine_set.get("spec") or {}).get("template") or {}
    machine = template if api is CLUSTER_API else template.get("spec") or {}
    found: Mapping[str, str] = (machine.get("metadata") or {}).get("labels") or {}
    return found


def check_accelerator_label(labels: Mapping[str, str], name: str) -> str:
    if ACCELERATOR_LABEL not in labels:
        return f"GPU accelerator label not found on MachineSet {name}. {_NOT_AN_ERROR}"
    return check_accelerator_value(labels[ACCELERATOR_LABEL])


def check_accelerator_value(value: str) -> str:
    """The error in a GPU type as label value; empty if it is valid."""
    if not value:
        return f"GPU accelerator label is empty. {_NOT_AN_ERROR}"
    wrong = [f"must be no more than {_MAX_LABEL_CHARACTERS} bytes"] if len(value) > _MAX_LABEL_CHARACTERS else []
    if not _LABEL_VALUE.fullmatch(value):
        wrong.append(_INVALID_LABEL_VALUE)
    if not wrong:
        return ""
    return f"GPU accelerator label contains a poorly formed value: {value}, errors: {','.join(wrong)}. {_NOT_AN_ERROR}"
