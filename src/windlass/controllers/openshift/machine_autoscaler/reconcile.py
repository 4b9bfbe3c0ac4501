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
"""The end of a migration is watched for; this is for the case that it is missed."""


@dataclass(frozen=True, slots=True)
class TargetResult:
    """Whether a MachineAutoscaler is ready, why, and what is to be done about its target."""

    is_ready: bool
    reason: str
    message: str
    event: str = ""
    """The reason of the event that tells of it, if it is news."""
    target: AnnotateMachineSet | None = None
    events: tuple[TargetEvent, ...] = ()
    requeue_after_s: float | None = None


def reconcile_machine_autoscaler(seen: model.ObservedMachineAutoscaler, now_s: float) -> MachineAutoscalerPlan:
    """What was scaled before is let go first, whatever is wrong with the new target."""
    autoscaler = seen.autoscaler
    if autoscaler.is_deleting:
        return _reconcile_delete(seen)
    if seen.last is not None and _is_release_blocked(seen.last, seen):
        verdict = _target_migrating(seen.last)
        return MachineAutoscalerPlan(
            _build_status(autoscaler, verdict, autoscaler.status.last_target, now_s),
            requeue_after_s=verdict.requeue_after_s,
        )
    verdict = reconcile_target(seen)
    has_finalizer = model.FINALIZER in autoscaler.finalizers
    return MachineAutoscalerPlan(
        status=_build_status(autoscaler, verdict, autoscaler.target if autoscaler.target.name else None, now_s),
        release=_plan_release(seen.last, seen),
        finalizers=None if has_finalizer else (*autoscaler.finalizers, model.FINALIZER),
        target=verdict.target,
        events=_build_events(autoscaler, verdict),
        requeue_after_s=verdict.requeue_after_s,
    )


def reconcile_target(seen: model.ObservedMachineAutoscaler) -> TargetResult:
    autoscaler = seen.autoscaler
    if trouble := webhook.explain_bounds(autoscaler.min, autoscaler.max):
        return TargetResult(False, model.INVALID, trouble, model.FAILED_VALIDATION)
    if trouble := webhook.validate_target_reference(autoscaler.target, seen.supported):
        return TargetResult(False, model.TARGET_INVALID, trouble, model.FAILED_GET_TARGET)
    named = machine_apis.find_machine_api(autoscaler.target.api_version)
    if named is None or seen.target.get(named) is None:
        return _target_not_found(seen.target.name, named or machine_apis.MACHINE_API)
    holder = _find_authoritative_api(seen.target, seen)
    if holder is None:
        return _target_migrating(seen.target)
    if holder not in seen.supported:
        found = f"found it authoritative in {holder.authority}, expected an API that is turned on"
        trouble = f"unsupported MachineAutoscaler target: MachineSet {seen.target.name}: {found}"
        return TargetResult(False, model.TARGET_INVALID, trouble, model.FAILED_GET_TARGET)
    if seen.target.get(holder) is None:
        return _target_not_found(seen.target.name, holder)
    if not owns_target(seen, holder):
        return TargetResult(False, model.DUPLICATE, model.DUPLICATE_MESSAGE, model.FAILED_SET_OWNER)
    return _plan_annotations(seen, holder)


def _find_authoritative_api(
    pair: machine_apis.MachineSetPair, seen: model.ObservedMachineAutoscaler
) -> machine_apis.MachineApi | None:
    """The API whose MachineSet is written to. Where Cluster API is turned off, nobody says that Machine API holds what
    it is wanted to: that is the case.
    """
    found = pair.machine_api
    if (
        found is None
        or machine_apis.CLUSTER_API in seen.supported
        or pair.authority is not machine_apis.MachineAuthority.UNSET
    ):
        return pair.holder
    return (
        machine_apis.MACHINE_API
        if machine_apis.parse_desired_authority(found) is machine_apis.MachineAuthority.MACHINE_API
        else None
    )


def _plan_annotations(seen: model.ObservedMachineAutoscaler, holder: machine_apis.MachineApi) -> TargetResult:
    """Bounds, owner and capacity, as far as they are not there yet."""
    autoscaler, before = seen.autoscaler, annotations_of(seen.target, holder)
    try:
        added = machine_apis.translate_capacity(before)
    except machine_apis.InvalidCapacityAnnotation as unreadable:
        trouble = f"MachineSet {holder.namespace}/{seen.target.name}: {unreadable}"
        return TargetResult(False, model.TARGET_INVALID, trouble, model.FAILED_UPDATE_TARGET)
    limits = ReplicaLimits(autoscaler.min, autoscaler.max)
    wanted: dict[str, str | None] = dict(added)
    if bounds_differ(before, limits, holder) or before.get(machine_apis.OWNER_ANNOTATION) != autoscaler.key:
        wanted |= bounds_annotations(limits, autoscaler.key, holder)
    if not wanted:
        return TargetResult(True, model.IS_READY, model.IS_READY_MESSAGE)
    step = _annotate_step(seen.target, holder, wanted)
    message = f"Updated MachineAutoscaler target: {holder.namespace}/{step.name}"
    told = [TargetEvent("Normal", model.SUCCESSFUL_UPDATE, message, "UpdateTarget")]
    if warning := machine_apis.accelerator_label_warning(seen.target.get(holder) or {}, holder):
        action = "ValidateGPUAcceleratorLabel"
        told.append(TargetEvent("Warning", model.BAD_ACCELERATOR_LABEL, warning, action, of_target=holder))
    return TargetResult(True, model.IS_READY, model.IS_READY_MESSAGE, target=step, events=tuple(told))


def _target_not_found(name: str, api: machine_apis.MachineApi) -> TargetResult:
    missing = f"MachineSet {api.namespace}/{name} ({api.group}) not found"
    return TargetResult(False, model.TARGET_NOT_FOUND, missing, model.FAILED_GET_TARGET)


def _target_migrating(pair: machine_apis.MachineSetPair) -> TargetResult:
    if pair.authority is machine_apis.MachineAuthority.MIGRATING:
        message = f"MachineSet {pair.name} is moving from one API to the other: neither is written to"
    else:
        message = f"MachineSet {pair.name} does not say yet which API is authoritative"
    return TargetResult(False, model.TARGET_MIGRATING, message, requeue_after_s=MIGRATING_REQUEUE_S)


# Letting go


def _reconcile_delete(seen: model.ObservedMachineAutoscaler) -> MachineAutoscalerPlan:
    """A MachineAutoscaler that is deleted lets go of whatever is its, and waits where nothing may be written."""
    autoscaler = seen.autoscaler
    held = [pair for pair in (seen.last, seen.target) if pair is not None]
    if model.FINALIZER not in autoscaler.finalizers:
        return MachineAutoscalerPlan(autoscaler.status)
    if any(_is_release_blocked(pair, seen) for pair in held):
        return MachineAutoscalerPlan(autoscaler.status, requeue_after_s=MIGRATING_REQUEUE_S)
    releases = [step for pair in held if (step := _plan_release(pair, seen))]
    if len(releases) > 1:  # one at a time: the other one is let go at the next pass, which the first one wakes
        return MachineAutoscalerPlan(autoscaler.status, release=releases[0], requeue_after_s=MIGRATING_REQUEUE_S)
    left = tuple(each for each in autoscaler.finalizers if each != model.FINALIZER)
    return MachineAutoscalerPlan(autoscaler.status, release=releases[0] if releases else None, finalizers=left)


def _plan_release(
    pair: machine_apis.MachineSetPair | None, seen: model.ObservedMachineAutoscaler
) -> AnnotateMachineSet | None:
    """Take off what is ours: from the MachineSet that holds, if it is written on it that it is ours."""
    holder = None if pair is None else _find_authoritative_api(pair, seen)
    if pair is None or holder is None or holder not in seen.supported:
        return None
    before = annotations_of(pair, holder)
    if before.get(machine_apis.OWNER_ANNOTATION) != seen.autoscaler.key:
        return None
    return _annotate_step(pair, holder, released_annotations(before))


def _is_release_blocked(pair: machine_apis.MachineSetPair, seen: model.ObservedMachineAutoscaler) -> bool:
    """Whether something of ours is on a MachineSet that may not be written to now."""
    holder = _find_authoritative_api(pair, seen)
    if holder is not None and (pair.get(holder) is not None or holder not in seen.supported):
        return False
    owners = (annotations_of(pair, api).get(machine_apis.OWNER_ANNOTATION) for api in machine_apis.MACHINE_APIS)
    return seen.autoscaler.key in owners


def _annotate_step(
    pair: machine_apis.MachineSetPair, api: machine_apis.MachineApi, wanted: dict[str, str | None] | dict[str, None]
) -> AnnotateMachineSet:
    metadata = (pair.get(api) or {}).get("metadata") or {}
    return AnnotateMachineSet(
        api, pair.name, {**wanted}, metadata.get("uid") or "", metadata.get("resourceVersion") or ""
    )


# Telling


def _build_status(
    autoscaler: model.MachineAutoscaler, verdict: TargetResult, last: model.TargetReference | None, now_s: float
) -> model.MachineAutoscalerStatus:
    return model.MachineAutoscalerStatus(
        last, ready_conditions(autoscaler, verdict.is_ready, verdict.reason, verdict.message, now_s)
    )


def ready_conditions(
    autoscaler: model.MachineAutoscaler, is_ready: bool, reason: str, message: str, now_s: float
) -> tuple[unstructured.Condition, ...]:
    """The conditions that it then has: one, of whether it is ready."""
    return tuple(
        unstructured.set_condition(autoscaler.status.conditions, model.READY, is_ready, reason, message, now_s)
    )


def _build_events(autoscaler: model.MachineAutoscaler, verdict: TargetResult) -> tuple[TargetEvent, ...]:
    """What is worth an event: what was done, and what is wrong, if that is not in the condition already."""
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
"""What was being done, and how an event about its failure begins."""


def owns_target(seen: model.ObservedMachineAutoscaler, holder: machine_apis.MachineApi) -> bool:
    """Whether the target is ours, or free to be.

    Whoever is written on it has it, as long as there is such a MachineAutoscaler that is, or was, about it: one that
    was lets it go by itself. If nobody is, the oldest has it.
    """
    recorded = find_recorded_owner(seen.target, holder)
    if recorded and not _is_owner_gone(recorded, seen):
        return recorded == seen.autoscaler.key
    rivals = [
        other for other in seen.others.values() if not other.is_deleting and other.target.name == seen.target.name
    ]
    return all(
        _creation_key(seen.autoscaler) < _creation_key(other) for other in rivals if _is_valid_owner(other, seen)
    )


def find_recorded_owner(pair: MachineSetPair, holder: machine_apis.MachineApi) -> str:
    """Who is written on a MachineSet that holds; on its mirror, if nobody is; empty if nobody is there either."""
    found = (annotations_of(pair, api).get(machine_apis.OWNER_ANNOTATION) for api in (holder, holder.mirror))
    return next((owner for owner in found if owner), "")


def annotations_of(pair: MachineSetPair, api: machine_apis.MachineApi) -> dict[str, str]:
    """The annotations of a MachineSet; none if it is not there."""
    return ((pair.get(api) or {}).get("metadata") or {}).get("annotations") or {}


def _is_owner_gone(owner: str, seen: model.ObservedMachineAutoscaler) -> bool:
    """Whether an owner cannot be one: nobody of that name, where we would know of it, has to do with the MachineSet.

    An owner somewhere else, or one that cannot be read, is not ours to judge.
    """
    if owner == seen.autoscaler.key:
        return False
    try:
        namespace, _ = parse_owner({machine_apis.OWNER_ANNOTATION: owner})
    except InvalidBounds:
        return False
    return namespace == seen.autoscaler.namespace and owner not in seen.others


def _is_valid_owner(other: model.MachineAutoscaler, seen: model.ObservedMachineAutoscaler) -> bool:
    """Whether it could have the target at all."""
    return not webhook.validate_bounds(other.min, other.max) and not webhook.validate_target_reference(
        other.target, seen.supported
    )


def _creation_key(autoscaler: model.MachineAutoscaler) -> tuple[str, str]:
    return autoscaler.created, autoscaler.name


Annotations = Mapping[str, str]


class InvalidBounds(errors.WindlassError):
    """Bounds, or an owner, that are missing or cannot be read."""


def bounds_annotations(limits: ReplicaLimits, owner: str, api: machine_apis.MachineApi) -> dict[str, str]:
    return {machine_apis.OWNER_ANNOTATION: owner, api.min_size: str(limits.min), api.max_size: str(limits.max)}


def parse_bounds(annotations: Annotations, api: machine_apis.MachineApi) -> ReplicaLimits:
    """`Unreadable` unless both are there, and numbers."""
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
    """(namespace, name) of the MachineAutoscaler whose it is. `Unreadable` if that is missing, or none."""
    if machine_apis.OWNER_ANNOTATION not in annotations:
        raise InvalidBounds("missing owner annotation")
    namespace, _, name = annotations[machine_apis.OWNER_ANNOTATION].partition("/")
    if not namespace or not name or "/" in name:
        raise InvalidBounds("incorrectly formatted owner annotation")
    return namespace, name


def released_annotations(annotations: Annotations) -> dict[str, None]:
    """What is taken off a MachineSet that is let go: owner and bounds, under either prefix."""
    keys = (
        machine_apis.OWNER_ANNOTATION,
        *(key for api in machine_apis.MACHINE_APIS for key in (api.min_size, api.max_size)),
    )
    return {key: None for key in keys if key in annotations}
