"""Strategies of workloads (Deployment, StatefulSet, Job …) and of PodDisruptionBudgets."""

import re
from typing import Any

from windlass.apiserver import pod_strategy, status_errors
from windlass.apiserver.strategies import FieldErrors, Strategy
from windlass.apiserver.value_types import Json


class WorkloadStrategy(Strategy):
    """A kind with a pod template and a selector that must match it."""

    counts_generations = True

    def default(self, obj: Json) -> None:
        pod_strategy.default_pod_spec(obj["spec"]["template"]["spec"])

    def validate(self, obj: Json) -> FieldErrors:
        spec = obj["spec"]
        errors: FieldErrors = []
        if (replicas := spec.get("replicas")) is not None and replicas < 0:
            errors.append(status_errors.field_invalid("spec.replicas", replicas, "must be greater than or equal to 0"))
        selector, template = spec.get("selector"), spec["template"]
        if selector is None:
            errors.append(status_errors.field_required("spec.selector"))
        else:
            labels = template["metadata"].get("labels") or {}
            wanted = selector.get("matchLabels") or {}
            if any(labels.get(key) != value for key, value in wanted.items()):
                said = "`selector` does not match template `labels`"
                errors.append(status_errors.field_invalid("spec.template.metadata.labels", labels, said))
        return errors + pod_strategy.validate_pod_spec(template["spec"], "spec.template.spec")

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        errors = self.validate(new)
        if new["spec"].get("selector") != old["spec"].get("selector"):
            errors.append(
                status_errors.field_invalid("spec.selector", new["spec"].get("selector"), "field is immutable")
            )
        return errors


class ReplicaSetStrategy(WorkloadStrategy):
    """ReplicaSets."""

    def default(self, obj: Json) -> None:
        super().default(obj)
        obj["spec"].setdefault("replicas", 1)


class DeploymentStrategy(ReplicaSetStrategy):
    """Deployments."""

    def default(self, obj: Json) -> None:
        super().default(obj)
        spec = obj["spec"]
        strategy = spec["strategy"]
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            _fill_defaults(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")
        _fill_defaults(spec, revisionHistoryLimit=10, progressDeadlineSeconds=600)

    def validate(self, obj: Json) -> FieldErrors:
        errors = super().validate(obj)
        strategy = obj["spec"]["strategy"]
        if strategy["type"] == "Recreate" and "rollingUpdate" in strategy:
            said = "may not be specified when strategy `type` is 'Recreate'"
            errors.append(status_errors.field_forbidden("spec.strategy.rollingUpdate", said))
        return errors


_STATEFUL_SET_FIELDS = ("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit")

_STATEFUL_SET_FIELDS_LATER = ("persistentVolumeClaimRetentionPolicy", "minReadySeconds")


class StatefulSetStrategy(ReplicaSetStrategy):
    """StatefulSets: fields of the pods' identity are immutable."""

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        errors = self.validate(new)
        changed = {name for name in {*new["spec"], *old["spec"]} if new["spec"].get(name) != old["spec"].get(name)}
        if changed - {*_STATEFUL_SET_FIELDS, *_STATEFUL_SET_FIELDS_LATER}:
            listed = ", ".join(f"'{name}'" for name in (*_STATEFUL_SET_FIELDS, _STATEFUL_SET_FIELDS_LATER[0]))
            last = _STATEFUL_SET_FIELDS_LATER[1]
            message = f"updates to statefulset spec for fields other than {listed} and '{last}' are forbidden"
            errors.append(status_errors.field_forbidden("spec", message))
        return errors

    def default(self, obj: Json) -> None:
        super().default(obj)
        spec = obj["spec"]
        _fill_defaults(spec, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
        update = spec["updateStrategy"]
        if "type" not in update:
            update["type"] = "RollingUpdate"
            update.setdefault("rollingUpdate", {})
        if update["type"] == "RollingUpdate" and "rollingUpdate" in update:
            update["rollingUpdate"].setdefault("partition", 0)
        _fill_defaults(
            spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), whenDeleted="Retain", whenScaled="Retain"
        )


class DaemonSetStrategy(WorkloadStrategy):
    """DaemonSets, with the template's generation in an annotation."""

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
        # Zero until it is incremented; the client that posts the object owns the field.
        obj["metadata"].setdefault("annotations", {}).setdefault(self._COUNTED, "0")
        update = obj["spec"]["updateStrategy"]
        if update.setdefault("type", "RollingUpdate") == "RollingUpdate":
            _fill_defaults(update.setdefault("rollingUpdate", {}), maxUnavailable=1, maxSurge=0)
        obj["spec"].setdefault("revisionHistoryLimit", 10)


class ReplicationControllerStrategy(ReplicaSetStrategy):
    """ReplicationControllers: the selector is a plain map that defaults to the template's labels."""

    def default(self, obj: Json) -> None:
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        template = spec.get("template")
        if template is not None:
            pod_strategy.default_pod_spec(template["spec"])
            if labels := template["metadata"].get("labels"):
                spec.setdefault("selector", dict(labels))
                obj["metadata"].setdefault("labels", dict(labels))

    def validate(self, obj: Json) -> FieldErrors:
        template = obj["spec"].get("template")
        return (
            pod_strategy.validate_pod_spec(template["spec"], "spec.template.spec")
            if template
            else [status_errors.field_required("spec.template")]
        )

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        return self.validate(new)


class JobStrategy(WorkloadStrategy):
    """Jobs: the selector and its labels are generated from the Job's uid."""

    def default(self, obj: Json) -> None:
        super().default(obj)
        spec = obj["spec"]
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        _fill_defaults(
            spec, parallelism=1, backoffLimit=6, completionMode="NonIndexed", suspend=False, manualSelector=False
        )
        spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")

    def prepare_create(self, obj: Json) -> None:
        super().prepare_create(obj)
        uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
        labels = obj["spec"]["template"]["metadata"].setdefault("labels", {})
        _fill_defaults(labels, **{"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name})
        _fill_defaults(labels, **{"controller-uid": uid, "job-name": name})
        obj["spec"].setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
        # kube-apiserver defaults a Job's labels to its template's when it decodes the stored Job.
        obj["metadata"].setdefault("labels", dict(labels))

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        errors = super().validate_update(new, old)
        if new["spec"]["template"] != old["spec"]["template"]:
            errors.append(status_errors.field_invalid("spec.template", new["spec"]["template"], "field is immutable"))
        return errors


class PodTemplateStrategy(Strategy):
    """PodTemplates."""

    def default(self, obj: Json) -> None:
        pod_strategy.default_pod_spec(obj["template"]["spec"])

    def validate(self, obj: Json) -> FieldErrors:
        return pod_strategy.validate_pod_spec(obj["template"]["spec"], "template.spec")

    def prepare_create(self, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Json, old: Json) -> None:
        if new["template"] != old["template"]:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _fill_defaults(into: Json, **defaults: Any) -> None:
    for name, value in defaults.items():
        into.setdefault(name, value)


_PERCENT = re.compile(r"[0-9]+%")

_PERCENT_DIGITS = 3

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")

_STATUS_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class BudgetStrategy(Strategy):
    """PodDisruptionBudgets."""

    counts_generations = True
    needs_version_to_update = True

    def validate(self, obj: Json) -> FieldErrors:
        spec = obj["spec"]
        errors: FieldErrors = []
        if "minAvailable" in spec and "maxUnavailable" in spec:
            errors.append(
                status_errors.field_invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
            )
        for name in ("minAvailable", "maxUnavailable"):
            if name in spec:
                errors += _validate_limit(spec[name], f"spec.{name}")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _POLICIES:
            errors.append(status_errors.field_not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
        return errors + validate_selector(spec.get("selector") or {}, "spec.selector")

    def validate_status(self, new: Json, old: Json) -> FieldErrors:
        return [
            status_errors.field_invalid(f"status.{name}", new["status"][name], "must be greater than or equal to 0")
            for name in _STATUS_COUNTS
            if new["status"].get(name, 0) < 0
        ]


def _validate_limit(value: Any, at: str) -> FieldErrors:
    if isinstance(value, int):
        said = "must be greater than or equal to 0"
        return [status_errors.field_invalid(at, value, said)] if value < 0 else []
    if not _PERCENT.fullmatch(value):
        said = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [status_errors.field_invalid(at, value, said)]
    digits = value[:-1].lstrip("0")
    is_above = len(digits) > _PERCENT_DIGITS or int(digits or "0") > 100
    return [status_errors.field_invalid(at, value, "must not be greater than 100%")] if is_above else []


def validate_selector(selector: Json, at: str) -> FieldErrors:
    """Errors in a label selector's requirements."""
    errors: FieldErrors = []
    for i, requirement in enumerate(selector.get("matchExpressions") or ()):
        operator, values = requirement.get("operator", ""), requirement.get("values")
        place = f"{at}.matchExpressions[{i}]"
        if operator in ("In", "NotIn"):
            if not values:
                said = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(status_errors.field_required(f"{place}.values", said))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                said = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(status_errors.field_forbidden(f"{place}.values", said))
        else:
            errors.append(status_errors.field_invalid(f"{place}.operator", operator, "not a valid selector operator"))
    return errors
