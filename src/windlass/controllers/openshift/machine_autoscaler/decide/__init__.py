"""decide: what becomes of a MachineAutoscaler, of its target, and of what was its target before. Pure."""

from dataclasses import dataclass

from windlass.controllers.openshift import accelerators, apis, authority, capacity
from windlass.controllers.openshift import names as openshift
from windlass.controllers.openshift.machine_autoscaler import facts, names
from windlass.controllers.openshift.machine_autoscaler.decide import bounds, ownership, validation
from windlass.controllers.openshift.machine_autoscaler.plan import Annotate, Event, Plan
from windlass.controllers.worker_pools.sizes import Limits
from windlass.kube import conditions

MIGRATING_S = 30.0
"""The end of a migration is watched for; this is for the case that it is missed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a MachineAutoscaler is ready, why, and what is to be done about its target."""

    is_ready: bool
    reason: str
    message: str
    event: str = ""
    """The reason of the event that tells of it, if it is news."""
    target: Annotate | None = None
    told: tuple[Event, ...] = ()
    again_s: float | None = None


def decide(seen: facts.Seen, now_s: float) -> Plan:
    """What was scaled before is let go first, whatever is wrong with the new target."""
    autoscaler = seen.autoscaler
    if autoscaler.is_deleting:
        return _finish(seen)
    if seen.last is not None and _is_moving(seen.last, seen):
        verdict = _wait(seen.last)
        return Plan(_tell(autoscaler, verdict, autoscaler.status.last_target, now_s), again_s=verdict.again_s)
    verdict = judge(seen)
    has_finalizer = names.FINALIZER in autoscaler.finalizers
    return Plan(
        status=_tell(autoscaler, verdict, autoscaler.target if autoscaler.target.name else None, now_s),
        release=_release(seen.last, seen),
        finalizers=None if has_finalizer else (*autoscaler.finalizers, names.FINALIZER),
        target=verdict.target,
        events=_news(autoscaler, verdict),
        again_s=verdict.again_s,
    )


def judge(seen: facts.Seen) -> Verdict:
    autoscaler = seen.autoscaler
    if trouble := validation.explain(autoscaler.min, autoscaler.max):
        return Verdict(False, names.INVALID, trouble, names.FAILED_VALIDATION)
    if trouble := validation.check_reference(autoscaler.target, seen.supported):
        return Verdict(False, names.TARGET_INVALID, trouble, names.FAILED_GET_TARGET)
    named = apis.find(autoscaler.target.api_version)
    if named is None or seen.target.get(named) is None:
        return _miss(seen.target.name, named or apis.MACHINE_API)
    holder = _find_holder(seen.target, seen)
    if holder is None:
        return _wait(seen.target)
    if holder not in seen.supported:
        found = f"found it authoritative in {holder.authority}, expected an API that is turned on"
        trouble = f"unsupported MachineAutoscaler target: MachineSet {seen.target.name}: {found}"
        return Verdict(False, names.TARGET_INVALID, trouble, names.FAILED_GET_TARGET)
    if seen.target.get(holder) is None:
        return _miss(seen.target.name, holder)
    if not ownership.is_ours(seen, holder):
        return Verdict(False, names.DUPLICATE, names.DUPLICATE_MESSAGE, names.FAILED_SET_OWNER)
    return _scale(seen, holder)


def _find_holder(pair: authority.Pair, seen: facts.Seen) -> apis.Api | None:
    """The API whose MachineSet is written to. Where Cluster API is turned off, nobody says that Machine API holds what
    it is wanted to: that is the case.
    """
    found = pair.machine_api
    if found is None or apis.CLUSTER_API in seen.supported or pair.authority is not authority.Authority.UNSET:
        return pair.holder
    return apis.MACHINE_API if authority.read_wanted(found) is authority.Authority.MACHINE_API else None


def _scale(seen: facts.Seen, holder: apis.Api) -> Verdict:
    """Bounds, owner and capacity, as far as they are not there yet."""
    autoscaler, before = seen.autoscaler, ownership.read(seen.target, holder)
    try:
        added = capacity.translate(before)
    except capacity.Unreadable as unreadable:
        trouble = f"MachineSet {holder.namespace}/{seen.target.name}: {unreadable}"
        return Verdict(False, names.TARGET_INVALID, trouble, names.FAILED_UPDATE_TARGET)
    limits = Limits(autoscaler.min, autoscaler.max)
    wanted: dict[str, str | None] = dict(added)
    if bounds.differ(before, limits, holder) or before.get(openshift.OWNER_ANNOTATION) != autoscaler.key:
        wanted |= bounds.spell(limits, autoscaler.key, holder)
    if not wanted:
        return Verdict(True, names.IS_READY, names.IS_READY_MESSAGE)
    step = _annotate(seen.target, holder, wanted)
    message = f"Updated MachineAutoscaler target: {holder.namespace}/{step.name}"
    told = [Event("Normal", names.SUCCESSFUL_UPDATE, message, "UpdateTarget")]
    if warning := accelerators.warn(seen.target.get(holder) or {}, holder):
        action = "ValidateGPUAcceleratorLabel"
        told.append(Event("Warning", names.BAD_ACCELERATOR_LABEL, warning, action, of_target=holder))
    return Verdict(True, names.IS_READY, names.IS_READY_MESSAGE, target=step, told=tuple(told))


def _miss(name: str, api: apis.Api) -> Verdict:
    missing = f"MachineSet {api.namespace}/{name} ({api.group}) not found"
    return Verdict(False, names.TARGET_NOT_FOUND, missing, names.FAILED_GET_TARGET)


def _wait(pair: authority.Pair) -> Verdict:
    if pair.authority is authority.Authority.MIGRATING:
        message = f"MachineSet {pair.name} is moving from one API to the other: neither is written to"
    else:
        message = f"MachineSet {pair.name} does not say yet which API is authoritative"
    return Verdict(False, names.TARGET_MIGRATING, message, again_s=MIGRATING_S)


# Letting go


def _finish(seen: facts.Seen) -> Plan:
    """A MachineAutoscaler that is deleted lets go of whatever is its, and waits where nothing may be written."""
    autoscaler = seen.autoscaler
    held = [pair for pair in (seen.last, seen.target) if pair is not None]
    if names.FINALIZER not in autoscaler.finalizers:
        return Plan(autoscaler.status)
    if any(_is_moving(pair, seen) for pair in held):
        return Plan(autoscaler.status, again_s=MIGRATING_S)
    releases = [step for pair in held if (step := _release(pair, seen))]
    if len(releases) > 1:  # one at a time: the other one is let go at the next pass, which the first one wakes
        return Plan(autoscaler.status, release=releases[0], again_s=MIGRATING_S)
    left = tuple(each for each in autoscaler.finalizers if each != names.FINALIZER)
    return Plan(autoscaler.status, release=releases[0] if releases else None, finalizers=left)


def _release(pair: authority.Pair | None, seen: facts.Seen) -> Annotate | None:
    """Take off what is ours: from the MachineSet that holds, if it is written on it that it is ours."""
    holder = None if pair is None else _find_holder(pair, seen)
    if pair is None or holder is None or holder not in seen.supported:
        return None
    before = ownership.read(pair, holder)
    if before.get(openshift.OWNER_ANNOTATION) != seen.autoscaler.key:
        return None
    return _annotate(pair, holder, bounds.find_ours(before))


def _is_moving(pair: authority.Pair, seen: facts.Seen) -> bool:
    """Whether something of ours is on a MachineSet that may not be written to now."""
    holder = _find_holder(pair, seen)
    if holder is not None and (pair.get(holder) is not None or holder not in seen.supported):
        return False
    owners = (ownership.read(pair, api).get(openshift.OWNER_ANNOTATION) for api in apis.BOTH)
    return seen.autoscaler.key in owners


def _annotate(pair: authority.Pair, api: apis.Api, wanted: dict[str, str | None] | dict[str, None]) -> Annotate:
    metadata = (pair.get(api) or {}).get("metadata") or {}
    return Annotate(api, pair.name, {**wanted}, metadata.get("uid") or "", metadata.get("resourceVersion") or "")


# Telling


def _tell(autoscaler: facts.Autoscaler, verdict: Verdict, last: facts.Reference | None, now_s: float) -> facts.Status:
    return facts.Status(last, describe(autoscaler, verdict.is_ready, verdict.reason, verdict.message, now_s))


def describe(
    autoscaler: facts.Autoscaler, is_ready: bool, reason: str, message: str, now_s: float
) -> tuple[conditions.Condition, ...]:
    """The conditions that it then has: one, of whether it is ready."""
    return tuple(conditions.put(autoscaler.status.conditions, names.READY, is_ready, reason, message, now_s))


def _news(autoscaler: facts.Autoscaler, verdict: Verdict) -> tuple[Event, ...]:
    """What is worth an event: what was done, and what is wrong, if that is not in the condition already."""
    before = conditions.find(autoscaler.status.conditions, names.READY) or {}
    is_known = (before.get("reason"), before.get("message")) == (verdict.reason, verdict.message)
    if not verdict.event or is_known:
        return verdict.told
    action, words = _WORDS[verdict.event]
    return (*verdict.told, Event("Warning", verdict.event, f"{words}: {verdict.message}", action))


_WORDS = {
    names.FAILED_VALIDATION: ("Validate", "MachineAutoscaler validation error"),
    names.FAILED_GET_TARGET: ("GetTarget", "Error getting target"),
    names.FAILED_SET_OWNER: ("SetOwner", "Error setting target owner"),
    names.FAILED_UPDATE_TARGET: ("UpdateTarget", "Error updating target"),
    names.FAILED_FINALIZE_TARGET: ("FinalizeTarget", "Error finalizing target"),
}
"""What was being done, and how an event about its failure begins."""
