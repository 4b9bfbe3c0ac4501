"""The condition Synchronized, as it is written: with a severity, and with the generation that was mirrored."""

from typing import Any

from windlass.controllers.openshift.machineset_sync import facts, names
from windlass.controllers.openshift.machineset_sync.decide import rules
from windlass.controllers.openshift.machineset_sync.plan import Condition
from windlass.kube import conditions, times

_SEVERITIES = {"True": "", "False": "Error", "Unknown": "Info"}


def spell(condition: Condition, machine_set: facts.Json, now_s: float) -> dict[str, Any] | None:
    """The part of a MachineSet's status that says so; None if it is said already.

    A failure leaves the generation as it was. It never falls: a server lets it fall only when authority moves.
    """
    status = facts.status(machine_set)
    before = conditions.find(status.get("conditions"), names.SYNCHRONIZED) or {}
    said = {
        "type": names.SYNCHRONIZED,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "severity": _SEVERITIES[condition.status],
    }
    recorded = status.get("synchronizedGeneration")
    generation = recorded if condition.generation is None else condition.generation
    if generation is not None and rules.check_status(status, {**status, "synchronizedGeneration": generation}):
        generation = recorded  # of a mirror that was made anew: it counts again once it has caught up
    is_same = all((before.get(name) or "") == value for name, value in said.items())
    if is_same and recorded == generation:
        return None
    since = before.get("lastTransitionTime") if before.get("status") == condition.status else None
    # All of it, the empty severity too: what is left out stays as another manager has applied it.
    found: dict[str, Any] = {"conditions": [{**said, "lastTransitionTime": since or times.spell(now_s)}]}
    return found if generation is None else {**found, "synchronizedGeneration": generation}


def is_synchronized(machine_set: facts.Json) -> bool:
    return conditions.is_true(facts.status(machine_set).get("conditions"), names.SYNCHRONIZED)


def find_source(machine_set: facts.Json) -> str:
    """The API that both were last made equal to, as the condition says; empty if it does not say so."""
    found = conditions.find(facts.status(machine_set).get("conditions"), names.SYNCHRONIZED) or {}
    sources = {names.SYNCHRONIZED_TO_CLUSTER_API: "MachineAPI", names.SYNCHRONIZED_TO_MACHINE_API: "ClusterAPI"}
    return sources.get(found.get("message") or "", "")
