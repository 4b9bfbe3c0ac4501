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
"""Cluster API's own, on its MachineSets."""

MANAGER = "MachineSetSyncController"
"""Who writes MachineSets. Its *apply* holds `spec.replicas` and nothing else: that is the mark (`decide.replicas`)."""

ANNOTATIONS_MANAGER = "MachineSetSyncController-Annotations"
"""Who applies annotations that either side may write, and marks them as known (`decide.authored`)."""

CONDITION_MANAGER = "MachineSetSyncController-SynchronizedCondition"

AUTHORITY_MANAGER = "MachineSetMigrationController-AuthoritativeAPI"

SET_LABEL = "machine.openshift.io/cluster-api-machineset"
"""On Machines of Machine API, and on templates that were made for a MachineSet: the MachineSet's name."""

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
    """The Machines of one name. Either may be missing."""

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
    """Has its controller seen the spec that it has?"""
    return (get_status(found).get("observedGeneration") or 0) == get_generation(found)


def is_paused(found: Json | None) -> bool:
    """Does its controller say that it leaves it alone?"""
    conditions = get_status(found).get("conditions") or ()
    return any(each.get("type") == PAUSED and each.get("status") == "True" for each in conditions)


def get_field_owners(found: Json | None, *path: str) -> list[unstructured.FieldOwner]:
    return unstructured.find_field_owners(found or {}, path)


def has_applied(found: Json | None, manager: str, *path: str) -> bool:
    """Does a manager's apply hold a field?"""
    return any(each.manager == manager and each.operation == "Apply" for each in get_field_owners(found, *path))


@dataclass(frozen=True, slots=True)
class Create:
    """Make the MachineSet of Cluster API."""

    body: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """Change fields of a MachineSet, replicas never; null takes one away."""

    api: machine_apis.MachineApi
    patch: Json
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class ApplyReplicas:
    """Make a MachineSet this size, or mark the size that it has as known."""

    api: machine_apis.MachineApi
    replicas: int


@dataclass(frozen=True, slots=True)
class ApplyAnnotations:
    """Make these the annotations of a MachineSet that either side may write, and mark them as known."""

    api: machine_apis.MachineApi
    annotations: Mapping[str, str]
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkMachine:
    """Say of a Machine that it goes first, or (None) that it does not."""

    api: machine_apis.MachineApi
    name: str
    uid: str
    resource_version: str
    value: str | None


@dataclass(frozen=True, slots=True)
class SetAuthority:
    """Say which API holds. `status` may say more."""

    status: Json


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a MachineSet."""

    api: machine_apis.MachineApi


@dataclass(frozen=True, slots=True)
class ApplyTemplate:
    """Make a template."""

    body: Json


@dataclass(frozen=True, slots=True)
class DeleteTemplate:
    """Delete a template that was made for a set and is no longer its."""

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
    """Synchronized, as it should be said; `generation` is the holder's that the other is equal to."""

    status: str
    reason: str
    message: str
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class SyncEvent:
    """Something to tell of a MachineSet."""

    api: machine_apis.MachineApi
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What is to be done, and what is said then."""

    steps: tuple[SyncStep, ...] = ()
    condition: SynchronizedCondition | None = None
    """Said once the steps are done."""
    events: tuple[SyncEvent, ...] = ()
    reason: str = ""
    """For the log."""
    needs_machines: bool = False
    """Nothing is decided before the pair's Machines are read, after the MachineSets were."""


EMPTY_PLAN = SyncPlan()


@dataclass(frozen=True, slots=True)
class MachineSetSyncSettings:
    """What may be done otherwise."""

    cluster: str = ""
    """The Cluster of Cluster API that MachineSets belong to. Empty: what OpenShift's Infrastructure says; where there
    is none, what the MachineSet's label machine.openshift.io/cluster-api-cluster says.
    """
    resync_s: float = 600.0
    """Every pair is looked at this often, even if nothing seems to have changed."""


@dataclass(frozen=True, slots=True)
class MachineInfrastructure:
    """What Machines of a set are made of."""

    api_version: str
    kind: str
    name: str
    spec: Json | None = None
    """The template's, if it is to be made; None if someone else made it."""
    user_data_secret: str = ""
    failure_domain: str = ""

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]


@dataclass(frozen=True, slots=True)
class InfrastructureTemplate:
    """A template that is there."""

    api_version: str
    kind: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    is_deleting: bool = False
    spec: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObservedMachineSetPair:
    """All that a decision is made from."""

    pair: machine_apis.MachineSetPair
    cluster_name: str = ""
    cluster: Json | None = None
    """The Cluster of Cluster API that the set belongs to, if it is there."""
    templates: tuple[InfrastructureTemplate, ...] = ()
    """Those that were made for the set, and the one that it refers to."""
    machines: tuple[MachineTwins, ...] | None = None
    """Its Machines, as the server had them after the MachineSets; None: nobody asked."""

    @property
    def machine_api(self) -> Json | None:
        return self.pair.machine_api

    @property
    def cluster_api(self) -> Json | None:
        return self.pair.cluster_api

    def both(self) -> tuple[Json, Json]:
        """(Machine API's, Cluster API's), where both are there."""
        assert self.pair.machine_api is not None, "a pair is two"
        assert self.pair.cluster_api is not None, "a pair is two"
        return self.pair.machine_api, self.pair.cluster_api
