"""Authority migration from one API to the other, through Migrating; the Synchronized condition. Pure.

    requested    only once both are equal, marks included: nothing is mirrored while migrating
    Migrating    the old authority is paused and reports it (Machine API pauses itself)
    done         the new authority is unpaused; authority and the reset of the synchronized state are one write

The request may be withdrawn, or the old authority changed, meanwhile: authority is given back unchanged, or changes are
mirrored first by going back. So it is if the condition is lost. The source is what `status.synchronizedAPI` records,
where the CRD has it, else what the condition names, else what the mirror's pause suggests: both were equal when the
migration began.
Transitions that the CRD forbids are never requested (`validate_status_transition`).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineAuthority
from windlass.controllers.openshift.machineset_sync import model
from windlass.controllers.openshift.machineset_sync.model import SynchronizedCondition
from windlass.kube import time_formats, unstructured

_RESYNC_CONDITION = model.SynchronizedCondition("Unknown", model.AUTHORITY_CHANGED, model.WAITING_FOR_RESYNC)


def plan_migration(observed: model.ObservedMachineSetPair, now_s: float) -> model.SyncPlan | None:
    """Steps of the migration; None if none is requested, or if the MachineSets are not equal yet."""
    machine_set = observed.machine_api
    sync_plan = None if machine_set is None else _plan_transition(observed, machine_set, now_s)
    before = model.get_status(machine_set)
    for step in sync_plan.steps if sync_plan is not None else ():
        if isinstance(step, model.SetAuthority) and (
            wrong := validate_status_transition(before, {**before, **step.status})
        ):
            return model.SyncPlan(reason="; ".join(wrong))
    return sync_plan


def _plan_transition(
    observed: model.ObservedMachineSetPair, machine_set: model.Json, now_s: float
) -> model.SyncPlan | None:
    desired, held = machine_apis.parse_desired_authority(machine_set), machine_apis.parse_authority(machine_set)
    if desired is held or desired is MachineAuthority.UNSET:
        return None
    if held is MachineAuthority.UNSET:
        return model.SyncPlan((model.SetAuthority({"authoritativeAPI": desired.value}),), reason="first seen")
    if held is MachineAuthority.MIGRATING:
        return _continue_migration(observed, machine_set, desired, now_s)
    if not _is_ready_to_migrate(observed, machine_set, held):
        return None
    start = model.SetAuthority({"authoritativeAPI": MachineAuthority.MIGRATING.value})
    return model.SyncPlan((*_record_stable(machine_set, held), start), reason="asked for")


def _record_stable(machine_set: model.Json, held: MachineAuthority) -> tuple[model.Patch, ...]:
    """The step that records the last stable authority. A patch: a CRD without the field prunes it, and refuses to
    apply it.
    """
    if model.get_status(machine_set).get("synchronizedAPI") == held.value:
        return ()
    return (model.Patch(machine_apis.MACHINE_API, {"status": {"synchronizedAPI": held.value}}, "status"),)


def plan_stable_record(machine_set: model.Json) -> tuple[model.Patch, ...]:
    """The step that corrects a recorded authority, if an interruption left an old one."""
    is_recorded = bool(model.get_status(machine_set).get("synchronizedAPI"))
    return _record_stable(machine_set, machine_apis.parse_authority(machine_set)) if is_recorded else ()


def missing_mirror_message(observed: model.ObservedMachineSetPair) -> str:
    """Why Cluster API cannot give authority back: it has no MachineSet of that name."""
    machine_set = observed.machine_api
    if machine_set is None or observed.cluster_api is not None:
        return ""
    is_asked = machine_apis.parse_desired_authority(machine_set) is MachineAuthority.MACHINE_API
    is_held = machine_apis.parse_authority(machine_set) in (MachineAuthority.CLUSTER_API, MachineAuthority.MIGRATING)
    at = f"{machine_apis.CLUSTER_API.namespace}/{observed.pair.name}"
    return f"failed to get Cluster API machine set {at}: it is made first" if is_asked and is_held else ""


def _is_ready_to_migrate(
    observed: model.ObservedMachineSetPair, machine_set: model.Json, held: MachineAuthority
) -> bool:
    """True if the mirror equals the authoritative MachineSet at its current generation."""
    if not is_synchronized(machine_set):
        return False
    source = find_synchronized_source(machine_set)
    if source and source != held.value:
        return False
    return _is_mirrored(observed, machine_set, held)


def _is_mirrored(observed: model.ObservedMachineSetPair, machine_set: model.Json, source: MachineAuthority) -> bool:
    body = machine_set if source is MachineAuthority.MACHINE_API else observed.cluster_api
    recorded = model.get_status(machine_set).get("synchronizedGeneration") or 0
    return body is not None and recorded == model.get_generation(body)


def _continue_migration(
    observed: model.ObservedMachineSetPair, machine_set: model.Json, desired: MachineAuthority, now_s: float
) -> model.SyncPlan:
    recorded = model.get_status(machine_set).get("synchronizedAPI") or find_synchronized_source(machine_set)
    other = MachineAuthority.CLUSTER_API if desired is MachineAuthority.MACHINE_API else MachineAuthority.MACHINE_API
    if recorded in AUTHORITIES:
        source = MachineAuthority(recorded)
    else:
        source = other if is_synchronized(machine_set) else _guess_source(observed)
    if source is desired:
        return _transfer_authority(observed, desired, {}, "given back")
    if not is_synchronized(machine_set):
        text = f"lost its Synchronized condition while migrating: {source.value} is authoritative until both are equal"
        event = model.SyncEvent(machine_apis.MACHINE_API, model.SYNCHRONIZATION_ERROR, text)
        return dataclasses.replace(_transfer_authority(observed, source, {}, text), events=(event,))
    if not _is_mirrored(observed, machine_set, source):
        reason = "changed meanwhile: mirrored first"
        return _transfer_authority(observed, source, {}, reason) if recorded else model.EMPTY_PLAN
    if desired is MachineAuthority.CLUSTER_API and not model.is_paused(machine_set):
        return model.EMPTY_PLAN
    reset = {**(synchronized_status(_RESYNC_CONDITION, machine_set, now_s) or {}), "synchronizedGeneration": 0}
    return _transfer_authority(observed, desired, reset, "done")


def _guess_source(observed: model.ObservedMachineSetPair) -> MachineAuthority:
    """The API that was authoritative before, by the pause of the mirror. Both were equal then: either may go on."""
    is_paused = machine_apis.PAUSED_ANNOTATION in model.get_annotations(observed.cluster_api)
    return (
        MachineAuthority.CLUSTER_API
        if observed.cluster_api is not None and not is_paused
        else MachineAuthority.MACHINE_API
    )


def _transfer_authority(
    observed: model.ObservedMachineSetPair, to: MachineAuthority, more: model.Json, reason: str
) -> model.SyncPlan:
    """Give authority to an API, once Cluster API's MachineSet is paused or unpaused as required."""
    body = observed.cluster_api
    is_annotated = machine_apis.PAUSED_ANNOTATION in model.get_annotations(body)
    done: tuple[model.SyncStep, ...] = (model.SetAuthority({"authoritativeAPI": to.value, **more}),)
    if model.get_status(observed.machine_api).get("synchronizedAPI"):
        done += _record_stable(observed.machine_api or {}, to)
    if to is MachineAuthority.CLUSTER_API:
        unpause = (_set_paused_annotation(None),) if is_annotated else ()
        return model.SyncPlan((*unpause, *done), reason=reason)
    if body is None:
        return model.SyncPlan(done, reason=reason) if not more else model.EMPTY_PLAN
    if not is_annotated:
        return model.SyncPlan((_set_paused_annotation(""),), reason=reason)
    return model.SyncPlan(done, reason=reason) if model.is_paused(body) else model.EMPTY_PLAN


def _set_paused_annotation(value: str | None) -> model.Patch:
    return model.Patch(machine_apis.CLUSTER_API, {"metadata": {"annotations": {machine_apis.PAUSED_ANNOTATION: value}}})


_SEVERITIES = {"True": "", "False": "Error", "Unknown": "Info"}


def synchronized_status(
    condition: SynchronizedCondition, machine_set: model.Json, now_s: float
) -> dict[str, Any] | None:
    """The status fields of the Synchronized condition; None if they are up to date.

    A failure keeps the generation. It never decreases: a server allows that during a migration only.
    """
    status = model.get_status(machine_set)
    before = unstructured.find_condition(status.get("conditions"), model.SYNCHRONIZED) or {}
    fields = {
        "type": model.SYNCHRONIZED,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "severity": _SEVERITIES[condition.status],
    }
    recorded = status.get("synchronizedGeneration")
    generation = recorded if condition.generation is None else condition.generation
    if generation is not None and validate_status_transition(status, {**status, "synchronizedGeneration": generation}):
        generation = recorded  # a recreated mirror has lower generations; it counts again once it has caught up
    is_same = all((before.get(name) or "") == value for name, value in fields.items())
    if is_same and recorded == generation:
        return None
    since = before.get("lastTransitionTime") if before.get("status") == condition.status else None
    # Apply every field, an empty severity too: an omitted one would keep another manager's value.
    found: dict[str, Any] = {"conditions": [{**fields, "lastTransitionTime": since or time_formats.format_time(now_s)}]}
    return found if generation is None else {**found, "synchronizedGeneration": generation}


def is_synchronized(machine_set: model.Json) -> bool:
    return unstructured.is_condition_true(model.get_status(machine_set).get("conditions"), model.SYNCHRONIZED)


def find_synchronized_source(machine_set: model.Json) -> str:
    """The source API that the Synchronized condition names; empty if it names none."""
    found = unstructured.find_condition(model.get_status(machine_set).get("conditions"), model.SYNCHRONIZED) or {}
    sources = {model.SYNCHRONIZED_TO_CLUSTER_API: "MachineAPI", model.SYNCHRONIZED_TO_MACHINE_API: "ClusterAPI"}
    return sources.get(found.get("message") or "", "")


Json = Mapping[str, Any]

AUTHORITIES = ("MachineAPI", "ClusterAPI")

MIGRATING_AUTHORITY = "Migrating"

_DIRECT_TRANSITION = (
    "The authoritativeAPI field must not transition directly from MachineAPI to ClusterAPI or vice versa. "
    "It must transition through Migrating."
)

_GENERATION_DECREASED = (
    "synchronizedGeneration must not decrease unless authoritativeAPI is transitioning from Migrating to another value"
)


def default_spec(spec: Json, *, is_set: bool) -> dict[str, Any]:
    """The spec with the server's defaults."""
    return {"authoritativeAPI": AUTHORITIES[0], **({"replicas": 1} if is_set else {}), **spec}


def validate_spec(spec: Json) -> list[str]:
    found = spec.get("authoritativeAPI") or AUTHORITIES[0]
    supported = ", ".join(f'"{item}"' for item in AUTHORITIES)
    return (
        []
        if found in AUTHORITIES
        else [f'spec.authoritativeAPI: Unsupported value: "{found}": supported values: {supported}']
    )


def validate_status_transition(before: Json, after: Json) -> list[str]:
    """Errors of a status transition; empty if the CRD allows it."""
    was, now = before.get("authoritativeAPI"), after.get("authoritativeAPI")
    found = []
    if was and not now:
        found.append('status: Invalid value: "object": authoritativeAPI may not be removed once set')
    if was and now and now != was and MIGRATING_AUTHORITY not in (was, now):
        found.append(f'status.authoritativeAPI: Invalid value: "string": {_DIRECT_TRANSITION}')
    recorded, leaves = before.get("synchronizedGeneration"), was == MIGRATING_AUTHORITY and now != MIGRATING_AUTHORITY
    if recorded is not None and not leaves and (after.get("synchronizedGeneration") or 0) < recorded:
        found.append(f'status.synchronizedGeneration: Invalid value: "object": {_GENERATION_DECREASED}')
    return found
