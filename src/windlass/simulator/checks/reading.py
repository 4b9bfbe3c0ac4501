"""API objects, read for the checks alone."""

import math
from collections.abc import Mapping
from typing import Any

from windlass.kube import quantity

Json = dict[str, Any]


def has_ended(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_going(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def holds(obj: Json, type_: str) -> bool:
    """Is this condition of the object true?"""
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(one["type"] == type_ and one["status"] == "True" for one in conditions)


def owner_of(obj: Json) -> Json:
    """The reference to the object's controller; empty if it has none."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return {}


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Does a label selector match? None matches nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for wanted in selector.get("matchExpressions") or ():
        value, values = labels.get(wanted["key"]), wanted.get("values") or ()
        met = {
            "In": value is not None and value in values,
            "NotIn": value is None or value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not met[wanted["operator"]]:
            return False
    return True


def share(limit: int | str, of: int) -> int:
    """A number, or a percentage rounded up."""
    return limit if isinstance(limit, int) else math.ceil(int(limit[:-1]) * of / 100)


def amounts(said: Mapping[str, Any] | None) -> dict[str, int]:
    """Quantities in billionths."""
    return {name: quantity.read(amount).nano for name, amount in (said or {}).items()}


def asked_by(spec: Json) -> dict[str, int]:
    """What a pod asks for: its containers together, or one of its init containers, whichever is more; and a place."""
    together: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in amounts((container.get("resources") or {}).get("requests")).items():
            together[name] = together.get(name, 0) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in amounts((container.get("resources") or {}).get("requests")).items():
            together[name] = max(together.get(name, 0), amount)
    for name, amount in amounts(spec.get("overhead")).items():
        together[name] = together.get(name, 0) + amount
    return {**together, "pods": 10**9}
