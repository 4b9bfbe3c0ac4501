"""report: what is said of a Cluster, as the API spells it. Pure."""

from typing import Any

from windlass.controllers.eks_anywhere import facts

Json = dict[str, Any]


def patch(before: facts.Status, after: facts.Status) -> Json:
    """The merge patch from one status to the other; empty if they say the same."""
    old, new = _spell(before), _spell(after)
    changed = {name: value for name, value in new.items() if old[name] != value}
    return {"status": changed} if changed else {}


def _spell(status: facts.Status) -> Json:
    return {
        "conditions": [_spell_condition(each) for each in status.conditions],
        "observedGeneration": status.observed_generation,
        "reconciledGeneration": status.reconciled_generation,
        "failureReason": status.failure_reason or None,
        "failureMessage": status.failure_message or None,
    }


def _spell_condition(condition: facts.Condition) -> Json:
    fields = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "severity": condition.severity,
        "message": condition.message,
        "lastTransitionTime": condition.since,
    }
    return {name: value for name, value in fields.items() if value}
