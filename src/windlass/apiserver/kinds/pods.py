"""Pods: a status of their own from the start, a spec that hardly changes, and time to finish."""

from windlass.apiserver import status
from windlass.apiserver.kinds import podspec
from windlass.apiserver.kinds.strategy import Errors, Strategy
from windlass.apiserver.types.model import Json

FINISHED = ("Succeeded", "Failed")

_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class Pods(Strategy):
    """Pods."""

    counts_generations = True

    def default(self, obj: Json) -> None:
        podspec.default_pod(obj["spec"])

    def new_status(self, obj: Json) -> Json:
        new: Json = {"phase": "Pending", "qosClass": podspec.quality_of_service(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
            message = "Scheduling is blocked due to non-empty scheduling gates"
            times = {"lastProbeTime": None, "lastTransitionTime": None}
            new["conditions"] = [{**gated, "message": message, **times}]
        return new

    def prepare_status(self, new: Json, old: Json) -> None:
        super().prepare_status(new, old)
        new["metadata"].pop("deletionTimestamp", None)
        if "ownerReferences" in old["metadata"]:
            new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
        else:
            new["metadata"].pop("ownerReferences", None)
        if "deletionTimestamp" in old["metadata"]:
            new["metadata"]["deletionTimestamp"] = old["metadata"]["deletionTimestamp"]
        if "qosClass" in old["status"]:
            new["status"].setdefault("qosClass", old["status"]["qosClass"])

    def validate(self, obj: Json) -> Errors:
        return podspec.validate(obj["spec"], "spec")

    def validate_update(self, new: Json, old: Json) -> Errors:
        errors = self.validate(new)
        spec, before = new["spec"], old["spec"]
        for kind in ("containers", "initContainers"):
            if len(spec.get(kind) or ()) != len(before.get(kind) or ()):
                said = "pod updates may not add or remove containers"
                return [*errors, status.forbidden_field(f"spec.{kind}", said)]
        if any(toleration not in (spec.get("tolerations") or ()) for toleration in before.get("tolerations") or ()):
            said = "existing toleration can not be modified except its tolerationSeconds"
            errors.append(status.forbidden_field("spec.tolerations", said))
        if spec != before and _mask(spec) != _mask(before):
            said = f"pod updates may not change fields other than {_UPDATABLE}\n"
            errors.append(status.forbidden_field("spec", said))
        return errors

    def grace_s(self, obj: Json, asked_s: int | None) -> int | None:
        own_s = obj["spec"].get("terminationGracePeriodSeconds", 0)
        grace_s: int = own_s if asked_s is None else asked_s
        if not obj["spec"].get("nodeName") or obj["status"].get("phase") in FINISHED:
            return 0
        return grace_s if grace_s >= 0 else 1


def _mask(spec: Json) -> Json:
    """The spec without what may change."""
    masked = {
        name: value
        for name, value in spec.items()
        if name not in ("tolerations", "activeDeadlineSeconds", "schedulingGates")
    }
    for kind in ("containers", "initContainers"):
        if kind in masked:
            masked[kind] = [
                {name: value for name, value in container.items() if name != "image"} for container in masked[kind]
            ]
    if masked.get("terminationGracePeriodSeconds", 0) < 0:
        masked["terminationGracePeriodSeconds"] = 1
    return masked


def is_ready(pod: Json) -> bool:
    """Does the pod's Ready condition hold?"""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def set_condition(pod: Json, condition: Json, now: str) -> None:
    """Add or replace a condition. Its transition time moves only with its status."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            is_same = old["status"] == condition["status"]
            since = old.get("lastTransitionTime") if is_same else now
            conditions[i] = {"lastProbeTime": old.get("lastProbeTime"), "lastTransitionTime": since, **condition}
            return
    conditions.append({"lastProbeTime": None, "lastTransitionTime": now, **condition})
