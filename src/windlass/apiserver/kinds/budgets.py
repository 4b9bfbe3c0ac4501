"""PodDisruptionBudgets: one of two limits, as a number or a percentage."""

import re
from typing import Any

from windlass.apiserver import status
from windlass.apiserver.kinds.strategy import Errors, Strategy
from windlass.apiserver.types.model import Json

_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_DIGITS = 3
_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class Budgets(Strategy):
    """PodDisruptionBudgets."""

    counts_generations = True
    needs_version_to_update = True

    def validate(self, obj: Json) -> Errors:
        spec = obj["spec"]
        errors: Errors = []
        if "minAvailable" in spec and "maxUnavailable" in spec:
            errors.append(status.wrong("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for name in ("minAvailable", "maxUnavailable"):
            if name in spec:
                errors += _validate_limit(spec[name], f"spec.{name}")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _POLICIES:
            errors.append(status.unsupported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
        return errors + validate_selector(spec.get("selector") or {}, "spec.selector")

    def validate_status(self, new: Json, old: Json) -> Errors:
        return [
            status.wrong(f"status.{name}", new["status"][name], "must be greater than or equal to 0")
            for name in _COUNTS
            if new["status"].get(name, 0) < 0
        ]


def _validate_limit(value: Any, at: str) -> Errors:
    if isinstance(value, int):
        said = "must be greater than or equal to 0"
        return [status.wrong(at, value, said)] if value < 0 else []
    if not _PERCENT.fullmatch(value):
        said = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [status.wrong(at, value, said)]
    digits = value[:-1].lstrip("0")
    is_above = len(digits) > _PERCENT_DIGITS or int(digits or "0") > 100
    return [status.wrong(at, value, "must not be greater than 100%")] if is_above else []


def validate_selector(selector: Json, at: str) -> Errors:
    """Complaints about a label selector's requirements."""
    errors: Errors = []
    for i, requirement in enumerate(selector.get("matchExpressions") or ()):
        operator, values = requirement.get("operator", ""), requirement.get("values")
        place = f"{at}.matchExpressions[{i}]"
        if operator in ("In", "NotIn"):
            if not values:
                said = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(status.required(f"{place}.values", said))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                said = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(status.forbidden_field(f"{place}.values", said))
        else:
            errors.append(status.wrong(f"{place}.operator", operator, "not a valid selector operator"))
    return errors
