"""Strategies of workloads (Deployment, StatefulSet, Job …) and of PodDisruptionBudgets."""

import re
from typing import Any

from windlass import quantity, selectors
from windlass.apiserver import status_errors
from windlass.apiserver.strategies import FieldErrors, Strategy
from windlass.apiserver.value_types import Json

_RESTART_POLICIES = ("Always", "OnFailure", "Never")

_MODE = 0o644

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_pod_spec(spec: Json) -> None:
    """Defaults of every pod spec."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def default_pod_only(spec: Json) -> None:
    """Defaults of pods only: requests from limits, host ports with hostNetwork."""
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            if limits := container["resources"].get("limits"):
                container["resources"]["requests"] = limits | container["resources"].get("requests", {})
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    port.setdefault("hostPort", port["containerPort"])


def _default_container(container: Json) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = "Always" if _is_latest(container.get("image", "")) else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for name in _PROBES:
        if probe := container.get(name):
            _default_probe(probe)
    for variable in container.get("env") or ():
        if reference := (variable.get("valueFrom") or {}).get("fieldRef"):
            reference.setdefault("apiVersion", "v1")


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _default_probe(probe: Json) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(name, value)
    if get := probe.get("httpGet"):
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if source := volume.get(kind):
            source.setdefault("defaultMode", _MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def validate_pod_spec(spec: Json, at: str) -> FieldErrors:
    """Errors in a pod spec."""
    errors: FieldErrors = []
    containers = spec.get("containers") or []
    if not containers:
        errors.append(status_errors.field_required(f"{at}.containers"))
    seen: set[str] = set()
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            errors += _validate_container(container, f"{at}.{kind}[{i}]", seen)
            if kind == "initContainers" and container.get("restartPolicy") != "Always":
                message = "may not be set for init containers without restartPolicy=Always"
                errors += [
                    status_errors.field_forbidden(f"{at}.{kind}[{i}].{name}", message)
                    for name in ("lifecycle", *_PROBES)
                    if name in container
                ]
    if (policy := spec.get("restartPolicy")) not in _RESTART_POLICIES:
        errors.append(status_errors.field_not_supported(f"{at}.restartPolicy", policy, _RESTART_POLICIES))
    return errors


def _validate_container(container: Json, at: str, seen: set[str]) -> FieldErrors:
    errors: FieldErrors = []
    name = container.get("name", "")
    if not name:
        errors.append(status_errors.field_required(f"{at}.name"))
    else:
        errors += [
            status_errors.field_invalid(f"{at}.name", name, complaint) for complaint in selectors.check_dns_label(name)
        ]
        if name in seen:
            errors.append(status_errors.field_duplicate(f"{at}.name", name))
        seen.add(name)
    if not container.get("image"):
        errors.append(status_errors.field_required(f"{at}.image"))
    return errors + _validate_resources(container["resources"], f"{at}.resources")


def _validate_resources(resources: Json, at: str) -> FieldErrors:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    errors: FieldErrors = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if amount.startswith("-"):
                message = "must be greater than or equal to 0"
                errors.append(status_errors.field_invalid(f"{at}.{kind}[{name}]", amount, message))
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is not None and limit != amount and quantity.parse_quantity(amount) > quantity.parse_quantity(limit):
            message = f"must be less than or equal to {name} limit of {limit}"
            errors.append(status_errors.field_invalid(f"{at}.requests", amount, message))
    return errors


def qos_class(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory of all containers."""
    is_guaranteed, has_any = True, False
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        requests, limits = container["resources"].get("requests") or {}, container["resources"].get("limits") or {}
        for name in ("cpu", "memory"):
            asked, limit = _quantity_of(requests.get(name)), _quantity_of(limits.get(name))
            has_any = has_any or asked > 0 or limit > 0
            is_guaranteed = is_guaranteed and limit > 0 and asked == limit
    if not has_any:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _quantity_of(text: Any) -> int:
    return 0 if text is None else quantity.parse_quantity(text).nano


FINISHED_PHASES = ("Succeeded", "Failed")

_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    """Pods."""

    counts_generations = True

    def default(self, obj: Json) -> None:
        default_pod_only(obj["spec"])

    def new_status(self, obj: Json) -> Json:
        new: Json = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
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

    def validate(self, obj: Json) -> FieldErrors:
        return validate_pod_spec(obj["spec"], "spec")

    def validate_update(self, new: Json, old: Json) -> FieldErrors:
        errors = self.validate(new)
        spec, before = new["spec"], old["spec"]
        for kind in ("containers", "initContainers"):
            if len(spec.get(kind) or ()) != len(before.get(kind) or ()):
                message = "pod updates may not add or remove containers"
                return [*errors, status_errors.field_forbidden(f"spec.{kind}", message)]
        if any(toleration not in (spec.get("tolerations") or ()) for toleration in before.get("tolerations") or ()):
            message = "existing toleration can not be modified except its tolerationSeconds"
            errors.append(status_errors.field_forbidden("spec.tolerations", message))
        if spec != before and _mask_mutable(spec) != _mask_mutable(before):
            message = f"pod updates may not change fields other than {_UPDATABLE}\n"
            errors.append(status_errors.field_forbidden("spec", message))
        return errors

    def grace_s(self, obj: Json, asked_s: int | None) -> int | None:
        own_s = obj["spec"].get("terminationGracePeriodSeconds", 0)
        grace_s: int = own_s if asked_s is None else asked_s
        if not obj["spec"].get("nodeName") or obj["status"].get("phase") in FINISHED_PHASES:
            return 0
        return grace_s if grace_s >= 0 else 1


def _mask_mutable(spec: Json) -> Json:
    """The spec without mutable fields."""
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


def is_pod_ready(pod: Json) -> bool:
    """Does the pod's Ready condition hold?"""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def set_pod_condition(pod: Json, condition: Json, now: str) -> None:
    """Add or replace a condition. Its transition time changes only with its status."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            is_same = old["status"] == condition["status"]
            since = old.get("lastTransitionTime") if is_same else now
            conditions[i] = {"lastProbeTime": old.get("lastProbeTime"), "lastTransitionTime": since, **condition}
            return
    conditions.append({"lastProbeTime": None, "lastTransitionTime": now, **condition})


class WorkloadStrategy(Strategy):
    """A kind with a pod template and a selector that must match it."""

    counts_generations = True

    def default(self, obj: Json) -> None:
        default_pod_spec(obj["spec"]["template"]["spec"])

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
            desired = selector.get("matchLabels") or {}
            if any(labels.get(key) != value for key, value in desired.items()):
                message = "`selector` does not match template `labels`"
                errors.append(status_errors.field_invalid("spec.template.metadata.labels", labels, message))
        return errors + validate_pod_spec(template["spec"], "spec.template.spec")

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
            message = "may not be specified when strategy `type` is 'Recreate'"
            errors.append(status_errors.field_forbidden("spec.strategy.rollingUpdate", message))
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
            default_pod_spec(template["spec"])
            if labels := template["metadata"].get("labels"):
                spec.setdefault("selector", dict(labels))
                obj["metadata"].setdefault("labels", dict(labels))

    def validate(self, obj: Json) -> FieldErrors:
        template = obj["spec"].get("template")
        return (
            validate_pod_spec(template["spec"], "spec.template.spec")
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
        default_pod_spec(obj["template"]["spec"])

    def validate(self, obj: Json) -> FieldErrors:
        return validate_pod_spec(obj["template"]["spec"], "template.spec")

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
        message = "must be greater than or equal to 0"
        return [status_errors.field_invalid(at, value, message)] if value < 0 else []
    if not _PERCENT.fullmatch(value):
        message = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [status_errors.field_invalid(at, value, message)]
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
                message = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(status_errors.field_required(f"{place}.values", message))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(status_errors.field_forbidden(f"{place}.values", message))
        else:
            errors.append(status_errors.field_invalid(f"{place}.operator", operator, "not a valid selector operator"))
    return errors
