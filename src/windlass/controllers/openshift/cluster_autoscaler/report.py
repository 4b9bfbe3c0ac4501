"""report: what is said of a ClusterAutoscaler, and of the operator, as the API spells it. Pure."""

from typing import Any

from windlass.controllers.openshift.cluster_autoscaler import facts
from windlass.controllers.openshift.cluster_autoscaler.decide import reporting

Json = dict[str, Any]


def patch(before: tuple[facts.Json, ...], after: tuple[facts.Json, ...]) -> Json:
    """The merge patch from some conditions to others; empty if they say the same."""
    return {} if before == after else {"status": {"conditions": [dict(each) for each in after]}}


def patch_operator(own: facts.Json | None, said: reporting.Report, related: list[dict[str, str]]) -> Json:
    """The merge patch of a ClusterOperator; empty if it says all that already."""
    before = (own or {}).get("status") or {}
    after: Json = {
        "conditions": [dict(each) for each in said.conditions],
        "versions": [dict(each) for each in said.versions],
        "relatedObjects": related,
    }
    changed = {name: value for name, value in after.items() if (before.get(name) or []) != value}
    return {"status": changed} if changed else {}
