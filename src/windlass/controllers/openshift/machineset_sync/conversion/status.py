"""Status: counts and conditions of a MachineSet. Machine API's come from what Cluster API calls deprecated."""

from collections.abc import Iterable, Mapping
from typing import Any

from windlass import selectors
from windlass.controllers.openshift.machineset_sync.conversion import comparing
from windlass.kube import times

Json = Mapping[str, Any]


def to_cluster_api(machine_set: Json, selector: Json) -> dict[str, Any]:
    """All but observedGeneration, and since when conditions hold."""
    status = machine_set.get("status") or {}
    wanted = (machine_set.get("spec") or {}).get("replicas")
    wanted = 1 if wanted is None else wanted
    made, ready = status.get("replicas") or 0, status.get("readyReplicas") or 0
    labelled, available = status.get("fullyLabeledReplicas") or 0, status.get("availableReplicas") or 0
    old = {
        "fullyLabeledReplicas": labelled,
        "readyReplicas": ready,
        "availableReplicas": available,
        "conditions": _old_conditions(made == wanted, ready == wanted),
        "failureReason": status.get("errorReason"),
        "failureMessage": status.get("errorMessage"),
    }
    found: dict[str, Any] = {
        "replicas": made,
        "readyReplicas": ready or None,
        "availableReplicas": available or None,
        "upToDateReplicas": 0,
        "selector": spell_selector(selector),
        "deprecated": {"v1beta1": _given(old)},
        "conditions": [
            _condition("Deleting", bool((machine_set.get("metadata") or {}).get("deletionTimestamp"))),
            _condition("MachinesReady", ready == wanted, "Ready", "NotReady"),
            _condition("MachinesUpToDate", labelled == wanted, "UpToDate", "NotUpToDate"),
            _condition("ScalingDown", wanted < made),
            _condition("ScalingUp", wanted > made),
        ],
    }
    return _given(found)


def to_machine_api(status: Json) -> dict[str, Any]:
    """All but observedGeneration; conditions are Machine API's own."""
    old = (status.get("deprecated") or {}).get("v1beta1") or {}
    return {
        "replicas": status.get("replicas") or 0,
        "fullyLabeledReplicas": old.get("fullyLabeledReplicas") or 0,
        "readyReplicas": old.get("readyReplicas") or 0,
        "availableReplicas": old.get("availableReplicas") or 0,
        "errorReason": old.get("failureReason"),
        "errorMessage": old.get("failureMessage"),
    }


def spell_selector(selector: Json) -> str:
    """As one text, sorted by key; empty if it selects everything."""
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [(each["key"], _spell_expression(each)) for each in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(parts))


def _spell_expression(expression: Json) -> str:
    key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
    match expression["operator"]:
        case selectors.Operator.EXISTS:
            return str(key)
        case selectors.Operator.DOES_NOT_EXIST:
            return f"!{key}"
        case selectors.Operator.NOT_IN:
            return f"{key} notin ({values})"
    return f"{key} in ({values})"


def settle_times(wanted: Iterable[Json], there: Iterable[Json], now_s: float) -> list[dict[str, Any]]:
    """Conditions with the time since when they hold; those that a mirror's own controllers write stay as they are."""
    before = {each.get("type"): each for each in there}
    found = []
    for each in wanted:
        old = before.pop(each["type"], {})
        since = old.get("lastTransitionTime") if old.get("status") == each["status"] else None
        found.append({**each, "lastTransitionTime": since or times.spell(now_s)})
    kept = [dict(each) for each in before.values() if each.get("type") in comparing.OWN_CONDITIONS]
    return sorted([*found, *kept], key=lambda each: str(each["type"]))


def _old_conditions(is_made: bool, is_ready: bool) -> list[dict[str, Any]]:
    held = {"MachinesCreated": is_made, "MachinesReady": is_ready, "Ready": is_made and is_ready, "Resized": is_made}
    return [{"type": kind, "status": str(holds)} for kind, holds in held.items()]


def _condition(kind: str, holds: bool, reason: str = "", otherwise: str = "") -> dict[str, Any]:
    said = (reason or kind) if holds else (otherwise or f"Not{kind}")
    return {"type": kind, "status": str(holds), "reason": said, "message": ""}


def _given(fields: Json) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
