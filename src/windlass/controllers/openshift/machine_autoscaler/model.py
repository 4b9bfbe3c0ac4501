"""MachineAutoscaler model: names, facts, plan and settings; conversion from and to JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.controllers import controller_interface
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineSetPair

API_VERSION = "autoscaling.openshift.io/v1beta1"

KIND = "MachineAutoscaler"

FINALIZER = "machinetarget.autoscaling.openshift.io"

TARGET_KIND = "MachineSet"

READY = "Ready"

IS_READY = "MachineAutoscalerReady"

IS_READY_MESSAGE = "MachineAutoscaler ready for autoscaling"

DUPLICATE = "MachineAutoscalerDuplicateTargetScaleRef"

DUPLICATE_MESSAGE = "targetScaleRef has multiple MachineAutoscaler owners"

INVALID = "MachineAutoscalerInvalid"

TARGET_NOT_FOUND = "MachineAutoscalerTargetNotFound"

TARGET_INVALID = "MachineAutoscalerTargetInvalid"

TARGET_MIGRATING = "MachineAutoscalerTargetMigrating"

TARGET_UPDATE_FAILED = "MachineAutoscalerTargetUpdateFailed"

FAILED_VALIDATION = "FailedValidation"

FAILED_GET_TARGET = "FailedGetTarget"

FAILED_SET_OWNER = "FailedSetOwner"

FAILED_SET_LAST_TARGET = "FailedSetLastTarget"

FAILED_UPDATE_TARGET = "FailedUpdateTarget"

FAILED_FINALIZE_TARGET = "FailedFinalizeTarget"

SUCCESSFUL_UPDATE = "SuccessfulUpdate"

BAD_ACCELERATOR_LABEL = "InvalidOrMissingGPUAcceleratorLabel"


@dataclass(frozen=True, slots=True)
class TargetReference:
    """`spec.scaleTargetRef`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""

    @property
    def machine_set(self) -> str:
        """The name of the target MachineSet in either API; empty if the target is of another kind."""
        return self.name if self.kind == TARGET_KIND and machine_apis.find_machine_api(self.api_version) else ""


@dataclass(frozen=True, slots=True)
class MachineAutoscalerStatus:
    """Status of a MachineAutoscaler."""

    last_target: TargetReference | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class MachineAutoscaler:
    """A MachineAutoscaler."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    created: str = ""
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    min: int = 0
    max: int = 0
    target: TargetReference = field(default_factory=TargetReference)
    status: MachineAutoscalerStatus = field(default_factory=MachineAutoscalerStatus)

    @property
    def key(self) -> str:
        """namespace/name, as the owner annotation has it."""
        return f"{self.namespace}/{self.name}"

    @property
    def sets(self) -> frozenset[str]:
        """Names of the current and previous target MachineSets."""
        last = self.status.last_target
        return frozenset(name for name in (self.target.machine_set, last.machine_set if last else "") if name)


@dataclass(frozen=True, slots=True)
class ObservedMachineAutoscaler:
    """Facts for one reconcile of a MachineAutoscaler."""

    autoscaler: MachineAutoscaler
    supported: frozenset[machine_apis.MachineApi]
    """APIs that are enabled and served."""
    target: MachineSetPair
    last: MachineSetPair | None = None
    """The previous target, if it differs from the current one."""
    others: Mapping[str, MachineAutoscaler] = field(default_factory=dict)
    """Other MachineAutoscalers with the same current or previous target, by key."""


@dataclass(frozen=True, slots=True)
class AnnotateMachineSet:
    """Set annotations of a MachineSet; a None value removes one."""

    api: machine_apis.MachineApi
    name: str
    annotations: Mapping[str, str | None]
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class TargetEvent(controller_interface.Event):
    """An event about the MachineAutoscaler or its target."""

    of_target: machine_apis.MachineApi | None = None
    """Record the event about the target in this API, not about the MachineAutoscaler."""


@dataclass(frozen=True, slots=True)
class MachineAutoscalerPlan:
    """Ordered steps of a MachineAutoscaler, and its new status; the first failed step stops the rest."""

    status: MachineAutoscalerStatus
    release: AnnotateMachineSet | None = None
    """Release of the previous target."""
    finalizers: tuple[str, ...] | None = None
    """New finalizers; None leaves them unchanged."""
    target: AnnotateMachineSet | None = None
    events: tuple[TargetEvent, ...] = ()
    requeue_after_s: float | None = None
    """Requeue after this time even without a change."""


@dataclass(frozen=True, slots=True)
class MachineAutoscalerSettings:
    """Settings of the MachineAutoscaler controller."""

    namespace: str = machine_apis.MACHINE_API_NAMESPACE
    """The namespace of MachineAutoscalers."""
    release_version: str = ""
    """The version of OpenShift whose feature gates apply; empty: gates that are enabled in every listed version."""
    resync_s: float = 600.0
    """Period after which each MachineAutoscaler is reconciled without a change."""


Json = Mapping[str, Any]


def parse_machine_autoscaler(body: Json) -> MachineAutoscaler:
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    return MachineAutoscaler(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        resource_version=metadata.get("resourceVersion") or "",
        created=metadata.get("creationTimestamp") or "",
        is_deleting=bool(metadata.get("deletionTimestamp")),
        finalizers=tuple(metadata.get("finalizers") or ()),
        min=spec.get("minReplicas") or 0,
        max=spec.get("maxReplicas") or 0,
        target=parse_target_reference(spec.get("scaleTargetRef")) or TargetReference(),
        status=MachineAutoscalerStatus(
            parse_target_reference(status.get("lastTargetRef")), tuple(status.get("conditions") or ())
        ),
    )


def parse_target_reference(given: Json | None) -> TargetReference | None:
    if given is None:
        return None
    return TargetReference(given.get("apiVersion") or "", given.get("kind") or "", given.get("name") or "")


MergePatch = dict[str, Any]


def status_patch(before: MachineAutoscalerStatus, after: MachineAutoscalerStatus) -> MergePatch:
    """The merge patch between two statuses; empty if they are equal."""
    changed: MergePatch = {}
    if after.last_target != before.last_target:
        changed["lastTargetRef"] = _target_patch(before.last_target, after.last_target)
    if after.conditions != before.conditions:
        changed["conditions"] = [dict(item) for item in after.conditions]
    return {"status": changed} if changed else {}


def _target_patch(before: TargetReference | None, after: TargetReference | None) -> MergePatch | None:
    if after is None:
        return None
    spelled = {"kind": after.kind, "name": after.name}
    if after.api_version or (before is not None and before.api_version):
        return {"apiVersion": after.api_version or None, **spelled}
    return spelled
