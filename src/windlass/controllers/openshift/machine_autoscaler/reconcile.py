"""MachineAutoscaler reconcile: annotations for the target, release of the previous target, conditions. Pure.

Of several MachineAutoscalers for one MachineSet, the recorded owner has it while it exists, otherwise the oldest.
The previous target is released first, whatever is wrong with the new one. While authority migrates, nothing is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from windlass import errors, selectors
from windlass.controllers.machine_deployments import ReplicaLimits
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineSetPair
from windlass.controllers.openshift.machine_autoscaler import model, webhook
from windlass.controllers.openshift.machine_autoscaler.model import (
    AnnotateMachineSet,
    MachineAutoscalerPlan,
    TargetEvent,
)
from windlass.kube import unstructured

MIGRATING_REQUEUE_S = 30.0
"""Requeue during a migration. Its end is watched; this covers a missed update."""


@dataclass(frozen=True, slots=True)
class TargetResult:
    """Readiness of the target, with reason, and the step for it."""

    is_ready: bool
    reason: str
    message: str
    event: str = ""
    """Reason of the event to record if the result changed."""
    target: AnnotateMachineSet | None = None
    events: tuple[TargetEvent, ...] = ()
    requeue_after_s: float | None = None


def reconcile_machine_autoscaler(observed: model.ObservedMachineAutoscaler, now_s: float) -> MachineAutoscalerPlan:
    """Plan for a MachineAutoscaler. The previous target is released first, even if the new one is invalid."""
    autoscaler = observed.autoscaler
    if autoscaler.is_deleting:
        return _reconcile_delete(observed, now_s)
    if observed.last is not None and _is_release_blocked(observed.last, observed):
        verdict = _target_migrating(observed.last)
        return MachineAutoscalerPlan(
            _build_status(autoscaler, verdict, autoscaler.status.last_target, now_s),
            requeue_after_s=verdict.requeue_after_s,
        )
    verdict = reconcile_target(observed)
    has_finalizer = model.FINALIZER in autoscaler.finalizers
    return MachineAutoscalerPlan(
        status=_build_status(autoscaler, verdict, autoscaler.target if autoscaler.target.name else None, now_s),
        release=_plan_release(observed.last, observed),
        finalizers=None if has_finalizer else (*autoscaler.finalizers, model.FINALIZER),
        target=verdict.target,
        events=_build_events(autoscaler, verdict),
        requeue_after_s=verdict.requeue_after_s,
    )


def reconcile_target(observed: model.ObservedMachineAutoscaler) -> TargetResult:
    autoscaler = observed.autoscaler
    if trouble := webhook.explain_bounds(autoscaler.min, autoscaler.max):
        return TargetResult(False, model.INVALID, trouble, model.FAILED_VALIDATION)
    if trouble := webhook.validate_target_reference(autoscaler.target, observed.supported):
        return TargetResult(False, model.TARGET_INVALID, trouble, model.FAILED_GET_TARGET)
    named = machine_apis.find_machine_api(autoscaler.target.api_version)
    if named is None or observed.target.get(named) is None:
        return _target_not_found(observed.target.name, named or machine_apis.MACHINE_API)
    holder = _find_authoritative_api(observed.target, observed)
    if holder is None:
        return _target_migrating(observed.target)
    if holder not in observed.supported:
        found = f"found it authoritative in {holder.authority}, expected an API that is turned on"
        trouble = f"unsupported MachineAutoscaler target: MachineSet {observed.target.name}: {found}"
        return TargetResult(False, model.TARGET_INVALID, trouble, model.FAILED_GET_TARGET)
    if observed.target.get(holder) is None:
        return _target_not_found(observed.target.name, holder)
    if not owns_target(observed, holder):
        return TargetResult(False, model.DUPLICATE, model.DUPLICATE_MESSAGE, model.FAILED_SET_OWNER)
    return _plan_annotations(observed, holder)


def _find_authoritative_api(
    pair: machine_apis.MachineSetPair, observed: model.ObservedMachineAutoscaler
) -> machine_apis.MachineApi | None:
    """The authoritative API of the target.

    Where the autoscaler works on Machine API nobody decides an undecided one: it is Machine API's.
    """
    is_undecided = pair.machine_api is not None and pair.authority is machine_apis.MachineAuthority.UNSET
    if is_undecided and machine_apis.CLUSTER_API not in observed.supported:
        return machine_apis.MACHINE_API
    return pair.holder


def _plan_annotations(observed: model.ObservedMachineAutoscaler, holder: machine_apis.MachineApi) -> TargetResult:
    """The step that sets missing or outdated bounds, owner and capacity."""
    autoscaler, before = observed.autoscaler, annotations_of(observed.target, holder)
    try:
        added = machine_apis.translate_capacity(before)
    except machine_apis.InvalidCapacityAnnotation as unreadable:
        trouble = f"MachineSet {holder.namespace}/{observed.target.name}: {unreadable}"
        return TargetResult(False, model.TARGET_INVALID, trouble, model.FAILED_UPDATE_TARGET)
    limits = ReplicaLimits(autoscaler.min, autoscaler.max)
    desired: dict[str, str | None] = dict(added)
    if bounds_differ(before, limits, holder) or before.get(machine_apis.OWNER_ANNOTATION) != autoscaler.key:
        desired |= bounds_annotations(limits, autoscaler.key, holder)
    if not desired:
        return TargetResult(True, model.IS_READY, model.IS_READY_MESSAGE)
    step = _annotate_step(observed.target, holder, desired)
    message = f"Updated MachineAutoscaler target: {holder.namespace}/{step.name}"
    events = [TargetEvent("Normal", model.SUCCESSFUL_UPDATE, message, "UpdateTarget")]
    if warning := machine_apis.accelerator_label_warning(observed.target.get(holder) or {}, holder):
        action = "ValidateGPUAcceleratorLabel"
        events.append(TargetEvent("Warning", model.BAD_ACCELERATOR_LABEL, warning, action, of_target=holder))
    return TargetResult(True, model.IS_READY, model.IS_READY_MESSAGE, target=step, events=tuple(events))


def _target_not_found(name: str, api: machine_apis.MachineApi) -> TargetResult:
    missing = f"MachineSet {api.namespace}/{name} ({api.group}) not found"
    return TargetResult(False, model.TARGET_NOT_FOUND, missing, model.FAILED_GET_TARGET)


def _target_migrating(pair: machine_apis.MachineSetPair) -> TargetResult:
    if pair.authority is machine_apis.MachineAuthority.MIGRATING:
        message = f"MachineSet {pair.name} is moving from one API to the other: neither is written to"
    else:
        message = f"MachineSet {pair.name} does not say yet which API is authoritative"
    return TargetResult(False, model.TARGET_MIGRATING, message, requeue_after_s=MIGRATING_REQUEUE_S)


# Release


def _reconcile_delete(observed: model.ObservedMachineAutoscaler, now_s: float) -> MachineAutoscalerPlan:
    """Release all targets of a deleted MachineAutoscaler; wait, and say so, while one must not be written."""
    autoscaler = observed.autoscaler
    held = [pair for pair in (observed.last, observed.target) if pair is not None]
    if model.FINALIZER not in autoscaler.finalizers:
        return MachineAutoscalerPlan(autoscaler.status)
    if blocked := [pair for pair in held if _is_release_blocked(pair, observed)]:
        waiting = _build_status(autoscaler, _target_migrating(blocked[0]), autoscaler.status.last_target, now_s)
        return MachineAutoscalerPlan(waiting, requeue_after_s=MIGRATING_REQUEUE_S)
    releases = [step for pair in held if (step := _plan_release(pair, observed))]
    if len(releases) > 1:  # one per reconcile: the write enqueues the key for the other
        return MachineAutoscalerPlan(autoscaler.status, release=releases[0], requeue_after_s=MIGRATING_REQUEUE_S)
    left = tuple(item for item in autoscaler.finalizers if item != model.FINALIZER)
    return MachineAutoscalerPlan(autoscaler.status, release=releases[0] if releases else None, finalizers=left)


def _plan_release(
    pair: machine_apis.MachineSetPair | None, observed: model.ObservedMachineAutoscaler
) -> AnnotateMachineSet | None:
    """Remove our annotations from the authoritative MachineSet, if its owner annotation names us."""
    holder = None if pair is None else _find_authoritative_api(pair, observed)
    if pair is None or holder is None or holder not in observed.supported:
        return None
    before = annotations_of(pair, holder)
    if before.get(machine_apis.OWNER_ANNOTATION) != observed.autoscaler.key:
        return None
    return _annotate_step(pair, holder, released_annotations(before))


def _is_release_blocked(pair: machine_apis.MachineSetPair, observed: model.ObservedMachineAutoscaler) -> bool:
    """True if a MachineSet with our annotations must not be written now."""
    holder = _find_authoritative_api(pair, observed)
    if holder is not None and (pair.get(holder) is not None or holder not in observed.supported):
        return False
    owners = (annotations_of(pair, api).get(machine_apis.OWNER_ANNOTATION) for api in machine_apis.MACHINE_APIS)
    return observed.autoscaler.key in owners


def _annotate_step(
    pair: machine_apis.MachineSetPair, api: machine_apis.MachineApi, desired: dict[str, str | None] | dict[str, None]
) -> AnnotateMachineSet:
    metadata = (pair.get(api) or {}).get("metadata") or {}
    return AnnotateMachineSet(
        api, pair.name, {**desired}, metadata.get("uid") or "", metadata.get("resourceVersion") or ""
    )


# Status and events


def _build_status(
    autoscaler: model.MachineAutoscaler, verdict: TargetResult, last: model.TargetReference | None, now_s: float
) -> model.MachineAutoscalerStatus:
    return model.MachineAutoscalerStatus(
        last, ready_conditions(autoscaler, verdict.is_ready, verdict.reason, verdict.message, now_s)
    )


def ready_conditions(
    autoscaler: model.MachineAutoscaler, is_ready: bool, reason: str, message: str, now_s: float
) -> tuple[unstructured.Condition, ...]:
    """The conditions of the new status: Ready."""
    return tuple(
        unstructured.set_condition(autoscaler.status.conditions, model.READY, is_ready, reason, message, now_s)
    )


def _build_events(autoscaler: model.MachineAutoscaler, verdict: TargetResult) -> tuple[TargetEvent, ...]:
    """Events for writes, and for errors that the Ready condition does not show yet."""
    before = unstructured.find_condition(autoscaler.status.conditions, model.READY) or {}
    is_known = (before.get("reason"), before.get("message")) == (verdict.reason, verdict.message)
    if not verdict.event or is_known:
        return verdict.events
    action, words = _EVENT_ACTIONS[verdict.event]
    return (*verdict.events, TargetEvent("Warning", verdict.event, f"{words}: {verdict.message}", action))


_EVENT_ACTIONS = {
    model.FAILED_VALIDATION: ("Validate", "MachineAutoscaler validation error"),
    model.FAILED_GET_TARGET: ("GetTarget", "Error getting target"),
    model.FAILED_SET_OWNER: ("SetOwner", "Error setting target owner"),
    model.FAILED_UPDATE_TARGET: ("UpdateTarget", "Error updating target"),
    model.FAILED_FINALIZE_TARGET: ("FinalizeTarget", "Error finalizing target"),
}
"""Action of a failure event, and the beginning of its message."""


def owns_target(observed: model.ObservedMachineAutoscaler, holder: machine_apis.MachineApi) -> bool:
    """True if the target is owned by this MachineAutoscaler or free.

    The recorded owner has it while a MachineAutoscaler of that name has it as current or previous target; the latter
    releases it. Without recorded owner the oldest has it.
    """
    recorded = find_recorded_owner(observed.target, holder)
    if recorded and not _is_owner_gone(recorded, observed):
        return recorded == observed.autoscaler.key
    rivals = [
        other
        for other in observed.others.values()
        if not other.is_deleting and other.target.name == observed.target.name
    ]
    return all(
        _creation_key(observed.autoscaler) < _creation_key(other)
        for other in rivals
        if _is_valid_owner(other, observed)
    )


def find_recorded_owner(pair: MachineSetPair, holder: machine_apis.MachineApi) -> str:
    """The owner annotation of the authoritative MachineSet, else of its mirror; empty if neither has one."""
    found = (annotations_of(pair, api).get(machine_apis.OWNER_ANNOTATION) for api in (holder, holder.mirror))
    return next((owner for owner in found if owner), "")


def annotations_of(pair: MachineSetPair, api: machine_apis.MachineApi) -> dict[str, str]:
    """The annotations of a MachineSet; empty if it is missing."""
    return ((pair.get(api) or {}).get("metadata") or {}).get("annotations") or {}


def _is_owner_gone(owner: str, observed: model.ObservedMachineAutoscaler) -> bool:
    """True if no MachineAutoscaler of the owner's name targets the MachineSet.

    An invalid owner, or one of another namespace, counts as existing.
    """
    if owner == observed.autoscaler.key:
        return False
    try:
        namespace, _ = parse_owner({machine_apis.OWNER_ANNOTATION: owner})
    except InvalidBounds:
        return False
    return namespace == observed.autoscaler.namespace and owner not in observed.others


def _is_valid_owner(other: model.MachineAutoscaler, observed: model.ObservedMachineAutoscaler) -> bool:
    """True if a MachineAutoscaler is valid for the target."""
    return not webhook.validate_bounds(other.min, other.max) and not webhook.validate_target_reference(
        other.target, observed.supported
    )


def _creation_key(autoscaler: model.MachineAutoscaler) -> tuple[str, str]:
    return autoscaler.created, autoscaler.name


Annotations = Mapping[str, str]


class InvalidBounds(errors.WindlassError):
    """The bounds or owner annotations are missing or invalid."""


def bounds_annotations(limits: ReplicaLimits, owner: str, api: machine_apis.MachineApi) -> dict[str, str]:
    return {machine_apis.OWNER_ANNOTATION: owner, api.min_size: str(limits.min), api.max_size: str(limits.max)}


def parse_bounds(annotations: Annotations, api: machine_apis.MachineApi) -> ReplicaLimits:
    """Bounds from annotations. InvalidBounds unless both are numbers."""
    if api.min_size not in annotations or api.max_size not in annotations:
        raise InvalidBounds("missing min or max annotation")
    return ReplicaLimits(_parse_size(annotations[api.min_size], "min"), _parse_size(annotations[api.max_size], "max"))


def _parse_size(found: str, which: str) -> int:
    size = selectors.parse_int64(found)
    if size is None:
        raise InvalidBounds(f"bad {which} annotation: {found}")
    return size


def bounds_differ(annotations: Annotations, limits: ReplicaLimits, api: machine_apis.MachineApi) -> bool:
    try:
        return parse_bounds(annotations, api) != limits
    except InvalidBounds:
        return True


def parse_owner(annotations: Annotations) -> tuple[str, str]:
    """(namespace, name) of the owner annotation. InvalidBounds if it is missing or invalid."""
    if machine_apis.OWNER_ANNOTATION not in annotations:
        raise InvalidBounds("missing owner annotation")
    namespace, _, name = annotations[machine_apis.OWNER_ANNOTATION].partition("/")
    if not namespace or not name or "/" in name:
        raise InvalidBounds("incorrectly formatted owner annotation")
    return namespace, name


def released_annotations(annotations: Annotations) -> dict[str, None]:
    """The patch that releases a MachineSet: owner and bounds of both APIs are removed."""
    keys = (
        machine_apis.OWNER_ANNOTATION,
        *(key for api in machine_apis.MACHINE_APIS for key in (api.min_size, api.max_size)),
    )
    return {key: None for key in keys if key in annotations}
