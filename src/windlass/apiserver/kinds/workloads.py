"""Workloads: what makes pods from a template. They count generations and default their replicas."""

from typing import Any

from windlass.apiserver import status
from windlass.apiserver.kinds import podspec
from windlass.apiserver.kinds.strategy import Errors, Strategy
from windlass.apiserver.types.model import Json


class Workload(Strategy):
    """A kind with a pod template and a selector that must match it."""

    counts_generations = True

    def default(self, obj: Json) -> None:
        podspec.default(obj["spec"]["template"]["spec"])

    def validate(self, obj: Json) -> Errors:
        spec = obj["spec"]
        errors: Errors = []
        if (replicas := spec.get("replicas")) is not None and replicas < 0:
            errors.append(status.wrong("spec.replicas", replicas, "must be greater than or equal to 0"))
        selector, template = spec.get("selector"), spec["template"]
        if selector is None:
            errors.append(status.required("spec.selector"))
        else:
            labels = template["metadata"].get("labels") or {}
            wanted = selector.get("matchLabels") or {}
            if any(labels.get(key) != value for key, value in wanted.items()):
                said = "`selector` does not match template `labels`"
                errors.append(status.wrong("spec.template.metadata.labels", labels, said))
        return errors + podspec.validate(template["spec"], "spec.template.spec")

    def validate_update(self, new: Json, old: Json) -> Errors:
        errors = self.validate(new)
        if new["spec"].get("selector") != old["spec"].get("selector"):
            errors.append(status.wrong("spec.selector", new["spec"].get("selector"), "field is immutable"))
        return errors


class ReplicaSets(Workload):
    """ReplicaSets."""

    def default(self, obj: Json) -> None:
        super().default(obj)
        obj["spec"].setdefault("replicas", 1)


class Deployments(ReplicaSets):
    """Deployments."""

    def default(self, obj: Json) -> None:
        super().default(obj)
        spec = obj["spec"]
        strategy = spec["strategy"]
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            _fill(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")
        _fill(spec, revisionHistoryLimit=10, progressDeadlineSeconds=600)

    def validate(self, obj: Json) -> Errors:
        errors = super().validate(obj)
        strategy = obj["spec"]["strategy"]
        if strategy["type"] == "Recreate" and "rollingUpdate" in strategy:
            said = "may not be specified when strategy `type` is 'Recreate'"
            errors.append(status.forbidden_field("spec.strategy.rollingUpdate", said))
        return errors


_STATEFUL = ("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit")
_STATEFUL_TOO = ("persistentVolumeClaimRetentionPolicy", "minReadySeconds")


class StatefulSets(ReplicaSets):
    """StatefulSets: what a pod's identity hangs on does not change."""

    def validate_update(self, new: Json, old: Json) -> Errors:
        errors = self.validate(new)
        changed = {name for name in {*new["spec"], *old["spec"]} if new["spec"].get(name) != old["spec"].get(name)}
        if changed - {*_STATEFUL, *_STATEFUL_TOO}:
            listed = ", ".join(f"'{name}'" for name in (*_STATEFUL, _STATEFUL_TOO[0]))
            said = f"updates to statefulset spec for fields other than {listed} and '{_STATEFUL_TOO[1]}' are forbidden"
            errors.append(status.forbidden_field("spec", said))
        return errors

    def default(self, obj: Json) -> None:
        super().default(obj)
        spec = obj["spec"]
        _fill(spec, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
        update = spec["updateStrategy"]
        if "type" not in update:
            update["type"] = "RollingUpdate"
            update.setdefault("rollingUpdate", {})
        if update["type"] == "RollingUpdate" and "rollingUpdate" in update:
            update["rollingUpdate"].setdefault("partition", 0)
        _fill(spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), whenDeleted="Retain", whenScaled="Retain")


class DaemonSets(Workload):
    """DaemonSets, which still count the generations of their template in an annotation."""

    _COUNTED = "deprecated.daemonset.template.generation"

    def prepare_create(self, obj: Json) -> None:
        super().prepare_create(obj)
        obj["metadata"].setdefault("annotations", {})[self._COUNTED] = "1"

    def prepare_update(self, new: Json, old: Json) -> None:
        super().prepare_update(new, old)
        count = int((old["metadata"].get("annotations") or {}).get(self._COUNTED, 0))
        if new["spec"]["template"] != old["spec"]["template"]:
            count += 1
        new["metadata"].setdefault("annotations", {})[self._COUNTED] = str(count)

    def default(self, obj: Json) -> None:
        super().default(obj)
        # Zero until it is counted; whoever posts the object owns it all the same.
        obj["metadata"].setdefault("annotations", {}).setdefault(self._COUNTED, "0")
        update = obj["spec"]["updateStrategy"]
        if update.setdefault("type", "RollingUpdate") == "RollingUpdate":
            _fill(update.setdefault("rollingUpdate", {}), maxUnavailable=1, maxSurge=0)
        obj["spec"].setdefault("revisionHistoryLimit", 10)


class ReplicationControllers(ReplicaSets):
    """ReplicationControllers: the selector is a plain map and comes from the template where it is missing."""

    def default(self, obj: Json) -> None:
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        template = spec.get("template")
        if template is not None:
            podspec.default(template["spec"])
            if labels := template["metadata"].get("labels"):
                spec.setdefault("selector", dict(labels))
                obj["metadata"].setdefault("labels", dict(labels))

    def validate(self, obj: Json) -> Errors:
        template = obj["spec"].get("template")
        return (
            podspec.validate(template["spec"], "spec.template.spec") if template else [status.required("spec.template")]
        )

    def validate_update(self, new: Json, old: Json) -> Errors:
        return self.validate(new)


class Jobs(Workload):
    """Jobs: the selector and the labels that it asks for come from the job's uid."""

    def default(self, obj: Json) -> None:
        super().default(obj)
        spec = obj["spec"]
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        _fill(spec, parallelism=1, backoffLimit=6, completionMode="NonIndexed", suspend=False, manualSelector=False)
        spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")

    def prepare_create(self, obj: Json) -> None:
        super().prepare_create(obj)
        uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
        labels = obj["spec"]["template"]["metadata"].setdefault("labels", {})
        _fill(labels, **{"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name})
        _fill(labels, **{"controller-uid": uid, "job-name": name})
        obj["spec"].setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
        # The real server defaults a job's labels to its template's when it reads the job again.
        obj["metadata"].setdefault("labels", dict(labels))

    def validate_update(self, new: Json, old: Json) -> Errors:
        errors = super().validate_update(new, old)
        if new["spec"]["template"] != old["spec"]["template"]:
            errors.append(status.wrong("spec.template", new["spec"]["template"], "field is immutable"))
        return errors


class PodTemplates(Strategy):
    """PodTemplates."""

    def default(self, obj: Json) -> None:
        podspec.default(obj["template"]["spec"])

    def validate(self, obj: Json) -> Errors:
        return podspec.validate(obj["template"]["spec"], "template.spec")

    def prepare_create(self, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Json, old: Json) -> None:
        if new["template"] != old["template"]:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _fill(into: Json, **defaults: Any) -> None:
    for name, value in defaults.items():
        into.setdefault(name, value)
