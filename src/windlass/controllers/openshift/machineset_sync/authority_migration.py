"""Authority migration from one API to the other, through Migrating; the Synchronized condition. Pure.

    requested    only once both are equal, marks included: nothing is mirrored while migrating
    Migrating    the old authority is paused and reports it (Machine API pauses itself)
    done         the new authority is unpaused; authority and the reset of the synchronized state are one write

The request may be withdrawn, or the old authority changed, meanwhile. The condition names the source API: authority is
given back unchanged, or changes are mirrored first by going back. Without it the source is the API not desired.
Transitions that the CRD forbids are never requested (`validate_status_transition`).
"""

from collections.abc import Mapping
from typing import Any

from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_apis import MachineAuthority
from windlass.controllers.openshift.machineset_sync import model
from windlass.controllers.openshift.machineset_sync.model import SynchronizedCondition
from windlass.kube import time_formats, unstructured

_RESYNC_CONDITION = model.SynchronizedCondition("Unknown", model.AUTHORITY_CHANGED, model.WAITING_FOR_RESYNC)


def plan_migration(seen: model.ObservedMachineSetPair, now_s: float) -> model.SyncPlan | None:
    """None: no authority has to move, or not before both are equal. Nothing that the rules forbid is asked for."""
    machine_set = seen.machine_api
    found = None if machine_set is None else _plan_transition(seen, machine_set, now_s)
    before = model.get_status(machine_set)
    for step in found.steps if found is not None else ():
        if isinstance(step, model.SetAuthority) and (
            wrong := validate_status_transition(before, {**before, **step.status})
        ):
            return model.SyncPlan(reason="; ".join(wrong))
    return found


def _plan_transition(
    seen: model.ObservedMachineSetPair, machine_set: model.Json, now_s: float
) -> model.SyncPlan | None:
    wanted, held = machine_apis.parse_desired_authority(machine_set), machine_apis.parse_authority(machine_set)
    if wanted is held or wanted is MachineAuthority.UNSET:
        return None
    if held is MachineAuthority.UNSET:
        return model.SyncPlan((model.SetAuthority({"authoritativeAPI": wanted.value}),), reason="first seen")
    if held is MachineAuthority.MIGRATING:
        return _continue_migration(seen, machine_set, wanted, now_s)
    if not _is_ready_to_migrate(seen, machine_set, held):
        return None
    return model.SyncPlan(
        (model.SetAuthority({"authoritativeAPI": MachineAuthority.MIGRATING.value}),), reason="asked for"
    )


def missing_mirror_message(seen: model.ObservedMachineSetPair) -> str:
    """Why authority cannot move, if Cluster API is to give it back and has nothing of that name."""
    machine_set = seen.machine_api
    if machine_set is None or seen.cluster_api is not None:
        return ""
    is_asked = machine_apis.parse_desired_authority(machine_set) is MachineAuthority.MACHINE_API
    is_held = machine_apis.parse_authority(machine_set) in (MachineAuthority.CLUSTER_API, MachineAuthority.MIGRATING)
    at = f"{machine_apis.CLUSTER_API.namespace}/{seen.pair.name}"
    return f"failed to get Cluster API machine set {at}: it is made first" if is_asked and is_held else ""


def _is_ready_to_migrate(seen: model.ObservedMachineSetPair, machine_set: model.Json, held: MachineAuthority) -> bool:
    """Is the other equal to the holder, as it is now?"""
    if not is_synchronized(machine_set):
        return False
    source = find_synchronized_source(machine_set)
    if source and source != held.value:
        return False
    return _is_mirrored(seen, machine_set, held)


def _is_mirrored(seen: model.ObservedMachineSetPair, machine_set: model.Json, source: MachineAuthority) -> bool:
    body = machine_set if source is MachineAuthority.MACHINE_API else seen.cluster_api
    recorded = model.get_status(machine_set).get("synchronizedGeneration") or 0
    return body is not None and recorded == model.get_generation(body)


def _continue_migration(
    seen: model.ObservedMachineSetPair, machine_set: model.Json, wanted: MachineAuthority, now_s: float
) -> model.SyncPlan:
    told = find_synchronized_source(machine_set)
    other = MachineAuthority.CLUSTER_API if wanted is MachineAuthority.MACHINE_API else MachineAuthority.MACHINE_API
    source = MachineAuthority(told) if told else other
    if source is wanted:
        return _transfer_authority(seen, wanted, {}, "given back")
    if not is_synchronized(machine_set):
        return model.EMPTY_PLAN
    if not _is_mirrored(seen, machine_set, source):
        return _transfer_authority(seen, source, {}, "changed meanwhile: mirrored first") if told else model.EMPTY_PLAN
    if wanted is MachineAuthority.CLUSTER_API and not model.is_paused(machine_set):
        return model.EMPTY_PLAN
    reset = {**(synchronized_status(_RESYNC_CONDITION, machine_set, now_s) or {}), "synchronizedGeneration": 0}
    return _transfer_authority(seen, wanted, reset, "done")


def _transfer_authority(
    seen: model.ObservedMachineSetPair, to: MachineAuthority, more: model.Json, why: str
) -> model.SyncPlan:
    """Give authority to an API, as soon as Cluster API's is paused or not as it should be."""
    body = seen.cluster_api
    is_annotated = machine_apis.PAUSED_ANNOTATION in model.get_annotations(body)
    done = model.SetAuthority({"authoritativeAPI": to.value, **more})
    if to is MachineAuthority.CLUSTER_API:
        unpause = (_set_paused_annotation(None),) if is_annotated else ()
        return model.SyncPlan((*unpause, done), reason=why)
    if body is None:
        return model.SyncPlan((done,), reason=why) if not more else model.EMPTY_PLAN
    if not is_annotated:
        return model.SyncPlan((_set_paused_annotation(""),), reason=why)
    return model.SyncPlan((done,), reason=why) if model.is_paused(body) else model.EMPTY_PLAN


def _set_paused_annotation(value: str | None) -> model.Patch:
    return model.Patch(machine_apis.CLUSTER_API, {"metadata": {"annotations": {machine_apis.PAUSED_ANNOTATION: value}}})


_SEVERITIES = {"True": "", "False": "Error", "Unknown": "Info"}


def synchronized_status(
    condition: SynchronizedCondition, machine_set: model.Json, now_s: float
) -> dict[str, Any] | None:
    """The part of a MachineSet's status that says so; None if it is said already.

    A failure leaves the generation as it was. It never falls: a server lets it fall only when authority moves.
    """
    status = model.get_status(machine_set)
    before = unstructured.find_condition(status.get("conditions"), model.SYNCHRONIZED) or {}
    said = {
        "type": model.SYNCHRONIZED,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "severity": _SEVERITIES[condition.status],
    }
    recorded = status.get("synchronizedGeneration")
    generation = recorded if condition.generation is None else condition.generation
    if generation is not None and validate_status_transition(status, {**status, "synchronizedGeneration": generation}):
        generation = recorded  # of a mirror that was made anew: it counts again once it has caught up
    is_same = all((before.get(name) or "") == value for name, value in said.items())
    if is_same and recorded == generation:
        return None
    since = before.get("lastTransitionTime") if before.get("status") == condition.status else None
    # All of it, the empty severity too: what is left out stays as another manager has applied it.
    found: dict[str, Any] = {"conditions": [{**said, "lastTransitionTime": since or time_formats.format_time(now_s)}]}
    return found if generation is None else {**found, "synchronizedGeneration": generation}


def is_synchronized(machine_set: model.Json) -> bool:
    return unstructured.is_condition_true(model.get_status(machine_set).get("conditions"), model.SYNCHRONIZED)


def find_synchronized_source(machine_set: model.Json) -> str:
    """The API that both were last made equal to, as the condition says; empty if it does not say so."""
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
    """A spec with what a server fills in."""
    return {"authoritativeAPI": AUTHORITIES[0], **({"replicas": 1} if is_set else {}), **spec}


def validate_spec(spec: Json) -> list[str]:
    found = spec.get("authoritativeAPI") or AUTHORITIES[0]
    supported = ", ".join(f'"{each}"' for each in AUTHORITIES)
    return (
        []
        if found in AUTHORITIES
        else [f'spec.authoritativeAPI: Unsupported value: "{found}": supported values: {supported}']
    )


def validate_status_transition(before: Json, after: Json) -> list[str]:
    """What is wrong with a status after another; nothing if it may follow."""
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
