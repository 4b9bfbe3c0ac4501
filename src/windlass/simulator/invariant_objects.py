"""API objects as the invariants read them: conditions, owners, label selectors, resource amounts; and violations.

Implemented independently of the engine, the simulated cluster and the schedulers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass import quantity


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation: time, rule, object, and the numbers."""

    at_s: float
    rule: str
    name: str
    said: str

    def __str__(self) -> str:
        return f"at {self.at_s:g} s: {self.rule}: {self.name}: {self.said}"


Breach = tuple[str, str]
"""The object's name and the violation."""

Json = dict[str, Any]


def is_finished(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_deleting(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_condition_true(obj: Json, type_: str) -> bool:
    """Is this condition of the object true?"""
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(item["type"] == type_ and item["status"] == "True" for item in conditions)


def controller_of(obj: Json) -> Json:
    """The reference to the object's controller; empty if it has none."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return {}


def matches_selector(selector: Json | None, labels: Mapping[str, str]) -> bool:
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


def scale_limit(limit: int | str, of: int) -> int:
    """A number, or a percentage rounded up."""
    return limit if isinstance(limit, int) else math.ceil(int(limit[:-1]) * of / 100)


def parse_amounts(said: Mapping[str, Any] | None) -> dict[str, int]:
    """Amounts in units of 10⁻⁹."""
    return {name: quantity.read_quantity(amount).nano for name, amount in (said or {}).items()}


def pod_requests(spec: Json) -> dict[str, int]:
    """Requests of a pod: the larger of its containers' sum and each init container, and 1 of `pods`."""
    together: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in parse_amounts((container.get("resources") or {}).get("requests")).items():
            together[name] = together.get(name, 0) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in parse_amounts((container.get("resources") or {}).get("requests")).items():
            together[name] = max(together.get(name, 0), amount)
    for name, amount in parse_amounts(spec.get("overhead")).items():
        together[name] = together.get(name, 0) + amount
    return {**together, "pods": 10**9}
