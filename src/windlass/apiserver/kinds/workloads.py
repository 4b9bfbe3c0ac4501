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


class StatefulSets(ReplicaSets):
    """StatefulSets."""

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
    """DaemonSets."""

    def default(self, obj: Json) -> None:
        super().default(obj)
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
        return [] if obj["spec"].get("template") else [status.required("spec.template")]

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


class PodTemplates(Strategy):
    """PodTemplates."""

    def default(self, obj: Json) -> None:
        podspec.default(obj["template"]["spec"])

    def prepare_create(self, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Json, old: Json) -> None:
        if new["template"] != old["template"]:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _fill(into: Json, **defaults: Any) -> None:
    for name, value in defaults.items():
        into.setdefault(name, value)
