"""The API objects of a scenario's workloads."""

from typing import Any

from windlass.kube import quantity
from windlass.simulator.scenario import model
from windlass.simulator.world import kinds
from windlass.simulator.world.groups import ZONE
from windlass.simulator.world.kinds import Kind
from windlass.simulator.world.kubelets import RUN, START, STOP, spell_delay

Json = dict[str, Any]

APP = "app"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
JOB_TTL_S = 60
_TOPOLOGY = {"zone": ZONE, "node": "kubernetes.io/hostname"}
KINDS: dict[str, Kind] = {
    "Deployment": kinds.DEPLOYMENTS,
    "StatefulSet": kinds.STATEFUL_SETS,
    "DaemonSet": kinds.DAEMON_SETS,
    "Job": kinds.JOBS,
}


def make_workload(workload: model.Workload, replicas: int) -> Json:
    """A Deployment, StatefulSet or DaemonSet."""
    spec: Json = {"selector": {"matchLabels": _labels(workload)}, "template": make_template(workload)}
    if workload.kind != "DaemonSet":
        spec["replicas"] = replicas
    if workload.kind == "Deployment":
        limits = {"maxSurge": workload.surge, "maxUnavailable": workload.unavailable}
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": limits}
    if workload.kind == "StatefulSet":
        spec["serviceName"] = workload.name
    return {"metadata": {"name": workload.name, "namespace": workload.namespace}, "spec": spec}


def make_buffer(workload: model.Workload, buffer: model.Buffer) -> Json:
    """A CapacityBuffer of the workload's name."""
    target = {"apiGroup": "apps", "kind": workload.kind, "name": workload.name}
    spec = {
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        "scalableRef": target,
        "replicas": buffer.replicas,
        "percentage": buffer.percentage,
    }
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


def make_job(workload: model.Workload, name: str) -> Json:
    pods = max(workload.replicas, 1)
    spec = {
        "completions": pods,
        "parallelism": pods,
        "ttlSecondsAfterFinished": JOB_TTL_S,
        "template": make_template(workload),
    }
    return {"metadata": {"name": name, "namespace": workload.namespace}, "spec": spec}


def make_template(workload: model.Workload) -> Json:
    return {
        "metadata": {"labels": {**workload.labels, **_labels(workload)}, "annotations": _annotations(workload)},
        "spec": _make_spec(workload),
    }


def _labels(workload: model.Workload) -> dict[str, str]:
    return {APP: workload.name}


def _annotations(workload: model.Workload) -> dict[str, str]:
    found = {START: spell_delay(workload.start.delay), STOP: spell_delay(workload.stop.delay)}
    if workload.run is not None:
        found[RUN] = spell_delay(workload.run.delay)
    if workload.safe_to_evict is not None:
        found[SAFE_TO_EVICT] = "true" if workload.safe_to_evict else "false"
    return found


def _make_spec(workload: model.Workload) -> Json:
    requests = {name: str(quantity.read(str(amount))) for name, amount in workload.requests.items()}
    spec: Json = {
        "containers": [{"name": "main", "image": "registry.example/main:1", "resources": {"requests": requests}}],
        "terminationGracePeriodSeconds": int(workload.grace),
    }
    # Devices are never overcommitted: the API wants their limits to say the same.
    devices = {name: amount for name, amount in requests.items() if "/" in name}
    if devices:
        spec["containers"][0]["resources"]["limits"] = devices
    if workload.kind == "Job":
        spec["restartPolicy"] = "Never"
    if workload.node_selector:
        spec["nodeSelector"] = workload.node_selector
    if workload.tolerations:
        spec["tolerations"] = [_tolerate(one) for one in workload.tolerations]
    if workload.priority is not None:
        spec["priorityClassName"] = class_name(workload)
    if workload.spread:
        spec["topologySpreadConstraints"] = [_spread(workload, one) for one in workload.spread]
    if workload.apart is not None:
        term = {"topologyKey": _TOPOLOGY[workload.apart], "labelSelector": {"matchLabels": _labels(workload)}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return spec


def _tolerate(one: model.Toleration) -> Json:
    found = {"key": one.key, "operator": "Equal" if one.value else "Exists", "value": one.value, "effect": one.effect}
    return {name: value for name, value in found.items() if value}


def _spread(workload: model.Workload, one: model.Spread) -> Json:
    return {
        "maxSkew": one.skew,
        "topologyKey": _TOPOLOGY[one.over],
        "whenUnsatisfiable": "DoNotSchedule" if one.is_hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels(workload)},
    }


def class_name(workload: model.Workload) -> str:
    never = "-never-preempts" if workload.never_preempts else ""
    assert workload.priority is not None
    sign = "minus-" if workload.priority < 0 else ""
    return f"priority-{sign}{abs(workload.priority)}{never}"


def make_class(workload: model.Workload) -> Json:
    policy = "Never" if workload.never_preempts else "PreemptLowerPriority"
    return {"metadata": {"name": class_name(workload)}, "value": workload.priority, "preemptionPolicy": policy}


def make_budget(workload: model.Workload) -> Json | None:
    budget = workload.budget
    if budget is None:
        return None
    limits = {"minAvailable": budget.min_available, "maxUnavailable": budget.max_unavailable}
    spec: Json = {"selector": {"matchLabels": _labels(workload)}}
    spec |= {name: limit for name, limit in limits.items() if limit is not None}
    return {"metadata": {"name": workload.name, "namespace": workload.namespace}, "spec": spec}
