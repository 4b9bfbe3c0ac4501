"""What disruption budgets select and say: shared by eviction and by the controller that keeps their status."""

from collections.abc import Mapping
from typing import Any

from windlass import selectors
from windlass.apiserver.types.model import Json


def read_selector(budget: Json) -> selectors.LabelSelector | None:
    """The pods that a budget is about; None if it selects none."""
    spec = budget["spec"].get("selector")
    return None if spec is None else read_label_selector(spec)


def read_label_selector(spec: Mapping[str, Any]) -> selectors.LabelSelector:
    """A label selector as objects spell it."""
    wanted = [
        selectors.Requirement(key, selectors.Operator.IN, (value,))
        for key, value in (spec.get("matchLabels") or {}).items()
    ]
    for expression in spec.get("matchExpressions") or ():
        values = tuple(sorted(set(expression.get("values") or ())))
        wanted.append(selectors.Requirement(expression["key"], selectors.Operator(expression["operator"]), values))
    return selectors.LabelSelector.of(wanted)


def set_condition(budget: Json, now: str, failure: str = "") -> None:
    """DisruptionAllowed, as the status' number says; or that the status could not be computed."""
    known = budget["status"]
    is_allowed = known.get("disruptionsAllowed", 0) > 0 and not failure
    reason = "SyncFailed" if failure else ("SufficientPods" if is_allowed else "InsufficientPods")
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "observedGeneration": known.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": reason,
        "message": failure,
    }
    if not condition["observedGeneration"]:
        del condition["observedGeneration"]
    conditions = known.setdefault("conditions", [])
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            if old["status"] == condition["status"]:
                condition["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[i] = condition
            return
    conditions.append(condition)
