"""MachineSet sync model: names, the observed pair, the plan, settings.

MachineSets are kept as JSON, since every field is mirrored. Plan steps run in order, each only on the resourceVersion
that was observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers.openshift import machine_apis
from windlass.kube import unstructured

FINALIZER = "sync.machine.openshift.io/finalizer"

CLUSTER_API_FINALIZER = "cluster.x-k8s.io/machineset"
"""Finalizer of Cluster API's own controller."""

MANAGER = "MachineSetSyncController"
"""Field manager of MachineSets. Its apply owns only `spec.replicas`, which is the mark of `field_ownership`."""

ANNOTATIONS_MANAGER = "MachineSetSyncController-Annotations"
"""Field manager of shared annotations; its apply is their mark."""

CONDITION_MANAGER = "MachineSetSyncController-SynchronizedCondition"

AUTHORITY_MANAGER = "MachineSetMigrationController-AuthoritativeAPI"

SET_LABEL = "machine.openshift.io/cluster-api-machineset"
"""Label of Machines of Machine API and of generated templates: the MachineSet's name."""

CLUSTER_LABEL = "machine.openshift.io/cluster-api-cluster"

CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"

SYNCHRONIZED = "Synchronized"

PAUSED = "Paused"

RESOURCE_SYNCHRONIZED = "ResourceSynchronized"

AUTHORITY_CHANGED = "AuthoritativeAPIChanged"

FAILED_TO_GET_INFRASTRUCTURE = "FailedToGetCAPIInfraResources"

FAILED_TO_CONVERT_TO_CLUSTER_API = "FailedToConvertMAPIMachineSetToCAPI"

FAILED_TO_CONVERT_TO_MACHINE_API = "FailedToConvertCAPIMachineSetToMAPI"

FAILED_TO_UPDATE_MACHINE_API = "FailedToUpdateMAPIMachineSet"

FAILED_TO_UPDATE_CLUSTER_API = "FailedToUpdateCAPIMachineSet"

FAILED_TO_UPDATE_TEMPLATE = "FailedToUpdateCAPIInfraMachineTemplate"

FAILED_TO_CREATE_CLUSTER_API = "FailedToCreateCAPIMachineSet"

SYNCHRONIZED_TO_CLUSTER_API = "Successfully synchronized MAPI MachineSet to CAPI"

SYNCHRONIZED_TO_MACHINE_API = "Successfully synchronized CAPI MachineSet to MAPI"

WAITING_FOR_RESYNC = "Waiting for resync after change of AuthoritativeAPI"

CONVERSION_WARNING = "ConversionWarning"

SYNCHRONIZATION_ERROR = "SynchronizationError"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MachineTwins:
    """The Machines of one name; one may be missing."""

    name: str
    machine_api: Json | None = None
    cluster_api: Json | None = None

    def get(self, api: machine_apis.MachineApi) -> Json | None:
        return self.machine_api if api is machine_apis.MACHINE_API else self.cluster_api


def get_annotations(found: Json | None) -> Mapping[str, str]:
    return get_metadata(found).get("annotations") or {}


def get_labels(found: Json | None) -> Mapping[str, str]:
    return get_metadata(found).get("labels") or {}


def get_finalizers(found: Json | None) -> list[str]:
    return list(get_metadata(found).get("finalizers") or ())


def get_metadata(found: Json | None) -> Json:
    return (found or {}).get("metadata") or {}


def get_spec(found: Json | None) -> Json:
    return (found or {}).get("spec") or {}


def get_status(found: Json | None) -> Json:
    return (found or {}).get("status") or {}


def get_generation(found: Json | None) -> int:
    return get_metadata(found).get("generation") or 0


def is_deleting(found: Json | None) -> bool:
    return bool(get_metadata(found).get("deletionTimestamp"))


def is_observed(found: Json | None) -> bool:
    """True if observedGeneration is the current generation."""
    return (get_status(found).get("observedGeneration") or 0) == get_generation(found)


def is_paused(found: Json | None) -> bool:
    """True if its controller reports Paused."""
    conditions = get_status(found).get("conditions") or ()
    return any(item.get("type") == PAUSED and item.get("status") == "True" for item in conditions)


def get_field_owners(found: Json | None, *path: str) -> list[unstructured.FieldOwner]:
    return unstructured.find_field_owners(found or {}, path)


def has_applied(found: Json | None, manager: str, *path: str) -> bool:
    """True if a manager's apply owns a field."""
    return any(
        field_owner.manager == manager and field_owner.operation == "Apply"
        for field_owner in get_field_owners(found, *path)
    )


@dataclass(frozen=True, slots=True)
class Create:
    """Create the MachineSet of Cluster API."""

    body: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch fields of a MachineSet other than replicas; null removes one."""

    api: machine_apis.MachineApi
    patch: Json
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class ApplyReplicas:
    """Set replicas of a MachineSet, or mark its current value, by server-side apply."""

    api: machine_apis.MachineApi
    replicas: int


@dataclass(frozen=True, slots=True)
class ApplyAnnotations:
    """Set shared annotations of a MachineSet, and mark them, by server-side apply."""

    api: machine_apis.MachineApi
    annotations: Mapping[str, str]
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkMachine:
    """Set the delete mark of a Machine, or remove it if None."""

    api: machine_apis.MachineApi
    name: str
    uid: str
    resource_version: str
    value: str | None


@dataclass(frozen=True, slots=True)
class SetAuthority:
    """Set the current authority, with other status fields."""

    status: Json


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a MachineSet."""

    api: machine_apis.MachineApi


@dataclass(frozen=True, slots=True)
class ApplyTemplate:
    """Create or update a template."""

    body: Json


@dataclass(frozen=True, slots=True)
class DeleteTemplate:
    """Delete a generated template that is no longer used."""

    api_version: str
    kind: str
    name: str


SyncStep = (
    Create
    | Patch
    | ApplyReplicas
    | ApplyAnnotations
    | MarkMachine
    | SetAuthority
    | Delete
    | ApplyTemplate
    | DeleteTemplate
)


@dataclass(frozen=True, slots=True)
class SynchronizedCondition:
    """The Synchronized condition; `generation` is that of the authoritative MachineSet."""

    status: str
    reason: str
    message: str
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class SyncEvent:
    """An event about a MachineSet."""

    api: machine_apis.MachineApi
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """Steps for a pair, and the condition to write after them."""

    steps: tuple[SyncStep, ...] = ()
    condition: SynchronizedCondition | None = None
    """The condition to write after the steps."""
    events: tuple[SyncEvent, ...] = ()
    reason: str = ""
    """Reason for the steps, for the log."""
    needs_machines: bool = False
    """True if Machines must be read, after the MachineSets, before a plan is possible."""


EMPTY_PLAN = SyncPlan()


@dataclass(frozen=True, slots=True)
class MachineSetSyncSettings:
    """Settings of the MachineSet sync controller."""

    cluster: str = ""
    """Name of the Cluster of Cluster API. Default: OpenShift's Infrastructure, else the MachineSet's label
    machine.openshift.io/cluster-api-cluster."""
    resync_s: float = 600.0
    """Period after which each pair is reconciled without a change."""


@dataclass(frozen=True, slots=True)
class MachineInfrastructure:
    """Infrastructure of a MachineSet's Machines."""

    api_version: str
    kind: str
    name: str
    spec: Json | None = None
    """The spec of a template to be created; None if the template belongs to the user."""
    user_data_secret: str = ""
    failure_domain: str = ""
    is_scaling_only: bool = False
    """The provider spec is converted as far as scaling reads it: there is no template of this name."""

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]


@dataclass(frozen=True, slots=True)
class InfrastructureTemplate:
    """A live infrastructure template."""

    api_version: str
    kind: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    is_deleting: bool = False
    spec: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutoscalerRequests:
    """What the autoscaler wrote to a mirror, though OpenShift's own sync may have reverted it since."""

    replicas: int | None = None
    marked: Mapping[str, str] = field(default_factory=dict)
    """Delete marks by Machine."""
    unmarked: frozenset[str] = frozenset()
    """Machines whose mark, copied to the mirror before, was removed there."""


NO_REQUESTS = AutoscalerRequests()


@dataclass(frozen=True, slots=True)
class ObservedMachineSetPair:
    """Facts for one reconcile of a pair."""

    pair: machine_apis.MachineSetPair
    cluster_name: str = ""
    cluster: Json | None = None
    """The Cluster of the MachineSet; None if it does not exist."""
    templates: tuple[InfrastructureTemplate, ...] = ()
    """Templates generated for the MachineSet, and the one that it references."""
    template_error: str = ""
    """Why templates may be missing here; empty if all were read."""
    has_other_sync: bool = False
    """True if OpenShift's own sync is running, and mirrors everything but what the autoscaler writes to a mirror."""
    is_cluster_api_going: bool = False
    """True if Cluster API's objects are deleted with their definition, namespace or Cluster: nobody deleted a mirror.
    Known where a mirror is being deleted."""
    requests: "AutoscalerRequests" = field(default_factory=lambda: NO_REQUESTS)
    machines: tuple[MachineTwins, ...] | None = None
    """Machines read after the MachineSets; None if they were not read."""

    @property
    def machine_api(self) -> Json | None:
        return self.pair.machine_api

    @property
    def cluster_api(self) -> Json | None:
        return self.pair.cluster_api

    def both(self) -> tuple[Json, Json]:
        """(Machine API's, Cluster API's) of templates that exist in both."""
        assert self.pair.machine_api is not None, "a pair is two"
        assert self.pair.cluster_api is not None, "a pair is two"
        return self.pair.machine_api, self.pair.cluster_api
