"""report: what is said of a MachineAutoscaler, as the API spells it. Pure."""

from typing import Any

from windlass.controllers.openshift.machine_autoscaler import facts

Json = dict[str, Any]


def patch(before: facts.Status, after: facts.Status) -> Json:
    """The merge patch from one status to the other; empty if they say the same."""
    changed: Json = {}
    if after.last_target != before.last_target:
        changed["lastTargetRef"] = _replace(before.last_target, after.last_target)
    if after.conditions != before.conditions:
        changed["conditions"] = [dict(each) for each in after.conditions]
    return {"status": changed} if changed else {}


def _replace(before: facts.Reference | None, after: facts.Reference | None) -> Json | None:
    if after is None:
        return None
    spelled = {"kind": after.kind, "name": after.name}
    if after.api_version or (before is not None and before.api_version):
        return {"apiVersion": after.api_version or None, **spelled}
    return spelled
