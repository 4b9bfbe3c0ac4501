"""API objects and node groups of a scenario: workloads, Jobs, budgets, priority classes, one node group per zone."""

from typing import Any

from windlass import quantity
from windlass.simulator.cluster import api_client, node_groups
from windlass.simulator.cluster.api_client import GroupResource
from windlass.simulator.cluster.node_groups import ZONE
from windlass.simulator.cluster.node_lifecycle import RUN, START, STOP, format_delay
from windlass.simulator.scenario import loader, model

Json = dict[str, Any]

_DEFAULT_PODS = "110"


def make_node_groups(scenario: model.Scenario) -> list[node_groups.NodeGroup]:
    return [_make_node_group(group, zone) for group in scenario.groups for zone in group.zones]


def _make_node_group(group: model.Group, zone: str) -> node_groups.NodeGroup:
    capacity = {name: str(quantity.read_quantity(str(amount))) for name, amount in group.capacity.items()}
    capacity.setdefault("pods", _DEFAULT_PODS)
    return node_groups.NodeGroup(
        loader.node_group_name(group, zone),
        group.name,
        zone,
        group.min,
        group.max,
        group.min if group.initial is None else group.initial,
        capacity,
        {name: _subtract(amount, group.reserved.get(name)) for name, amount in capacity.items()},
        group.price,
        group.labels,
        tuple(_make_taint(taint) for taint in group.taints),
        group.options,
        group.boot.delay,
        group.ready.delay,
        group.stop.delay,
        group.failure_rate,
        group.unready_rate,
        group.lifetime.delay if group.lifetime is not None else None,
        group.remediate_after,
    )


def _subtract(amount: str, reserved: str | int | float | None) -> str:
    if reserved is None:
        return amount
    remaining = quantity.read_quantity(amount).nano - quantity.read_quantity(str(reserved)).nano
    # In units of 10⁻³: exact for CPU and for whole bytes.
    return str(quantity.read_quantity(f"{max(remaining, 0) // 10**6}m"))


def _make_taint(taint: model.Taint) -> Json:
    return {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}


APP_LABEL = "app"

SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"

JOB_TTL_S = 60

_TOPOLOGY_KEYS = {"zone": ZONE, "node": "kubernetes.io/hostname"}

WORKLOAD_KINDS: dict[str, GroupResource] = {
    "Deployment": api_client.DEPLOYMENTS,
    "StatefulSet": api_client.STATEFUL_SETS,
    "DaemonSet": api_client.DAEMON_SETS,
    "Job": api_client.JOBS,
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
    """A CapacityBuffer with the workload's name."""
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
    return {APP_LABEL: workload.name}


def _annotations(workload: model.Workload) -> dict[str, str]:
    found = {START: format_delay(workload.start.delay), STOP: format_delay(workload.stop.delay)}
    if workload.run is not None:
        found[RUN] = format_delay(workload.run.delay)
    if workload.safe_to_evict is not None:
        found[SAFE_TO_EVICT_ANNOTATION] = "true" if workload.safe_to_evict else "false"
    return found


def _make_spec(workload: model.Workload) -> Json:
    requests = {name: str(quantity.read_quantity(str(amount))) for name, amount in workload.requests.items()}
    spec: Json = {
        "containers": [{"name": "main", "image": "registry.example/main:1", "resources": {"requests": requests}}],
        "terminationGracePeriodSeconds": int(workload.grace),
    }
    # Extended resources are not overcommitted: the API requires limits equal to requests.
    devices = {name: amount for name, amount in requests.items() if "/" in name}
    if devices:
        spec["containers"][0]["resources"]["limits"] = devices
    if workload.kind == "Job":
        spec["restartPolicy"] = "Never"
    if workload.node_selector:
        spec["nodeSelector"] = workload.node_selector
    if workload.tolerations:
        spec["tolerations"] = [_make_toleration(toleration) for toleration in workload.tolerations]
    if workload.priority is not None:
        spec["priorityClassName"] = priority_class_name(workload)
    if workload.spread:
        spec["topologySpreadConstraints"] = [_make_spread_constraint(workload, spread) for spread in workload.spread]
    if workload.apart is not None:
        term = {"topologyKey": _TOPOLOGY_KEYS[workload.apart], "labelSelector": {"matchLabels": _labels(workload)}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return spec


def _make_toleration(toleration: model.Toleration) -> Json:
    found = {
        "key": toleration.key,
        "operator": "Equal" if toleration.value else "Exists",
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: value for name, value in found.items() if value}


def _make_spread_constraint(workload: model.Workload, spread: model.Spread) -> Json:
    return {
        "maxSkew": spread.skew,
        "topologyKey": _TOPOLOGY_KEYS[spread.over],
        "whenUnsatisfiable": "DoNotSchedule" if spread.is_hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels(workload)},
    }


def priority_class_name(workload: model.Workload) -> str:
    never = "-never-preempts" if workload.never_preempts else ""
    assert workload.priority is not None
    sign = "minus-" if workload.priority < 0 else ""
    return f"priority-{sign}{abs(workload.priority)}{never}"


def make_priority_class(workload: model.Workload) -> Json:
    policy = "Never" if workload.never_preempts else "PreemptLowerPriority"
    return {"metadata": {"name": priority_class_name(workload)}, "value": workload.priority, "preemptionPolicy": policy}


def make_budget(workload: model.Workload) -> Json | None:
    budget = workload.budget
    if budget is None:
        return None
    limits = {"minAvailable": budget.min_available, "maxUnavailable": budget.max_unavailable}
    spec: Json = {"selector": {"matchLabels": _labels(workload)}}
    spec |= {name: limit for name, limit in limits.items() if limit is not None}
    return {"metadata": {"name": workload.name, "namespace": workload.namespace}, "spec": spec}
