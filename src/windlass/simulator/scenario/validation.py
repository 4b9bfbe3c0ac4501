"""Scenario validation across fields: contradicting sizes, unknown names, pods that fit no machine, unknown measures."""

import datetime
from collections.abc import Iterator

from windlass import quantity
from windlass.simulator.scenario import model

TOTAL_MEASURES = (
    "pods",
    "pods_that_waited",
    "pending_p50_s",
    "pending_p95_s",
    "pending_max_s",
    "pods_never_placed",
    "pods_given_up",
    "node_hours",
    "node_hours_lower_bound",
    "cost",
    "cost_lower_bound",
    "cost_ratio",
    "utilization_cpu",
    "utilization_memory",
    "evictions",
    "evictions_by_machines",
    "preemptions",
    "nodes_added",
    "nodes_removed",
    "scale_ups",
    "scale_downs",
    "most_nodes",
    "least_nodes",
    "violations",
)
"""Measures with one value per run."""

SERIES_MEASURES = (
    "nodes",
    "pending",
    "utilization_cpu",
    "utilization_memory",
    "cost_per_hour",
    "cost_per_hour_lower_bound",
)
"""Measures with a value per sample; `nodes` also by group."""

Path = tuple[str | int, ...]

FieldError = tuple[Path, str]


def validate(scenario: model.Scenario) -> list[FieldError]:
    """All mistakes, in the order of the file."""
    return [
        *_check_head(scenario),
        *_check_groups(scenario),
        *_check_workloads(scenario),
        *_check_buffers(scenario),
        *_check_timeline(scenario),
        *_check_expectations(scenario),
    ]


def node_group_names(scenario: model.Scenario) -> set[str]:
    """Names of groups, and of their node groups in each zone."""
    found = {group.name for group in scenario.groups}
    return found | {node_group_name(group, zone) for group in scenario.groups for zone in group.zones}


def node_group_name(group: model.Group, zone: str) -> str:
    """The name of a group's MachineDeployment in a zone."""
    return f"{group.name}-{zone}" if len(group.zones) > 1 else group.name


def _check_head(scenario: model.Scenario) -> Iterator[FieldError]:
    if scenario.duration <= 0:
        yield ("duration",), "found 0, accepted is a duration above zero"
    if scenario.sample <= 0:
        yield ("sample",), "found 0, accepted is a duration above zero"
    if not scenario.groups:
        yield ("groups",), "found none, accepted is one group or more"
    try:
        datetime.datetime.fromisoformat(scenario.begins)
    except ValueError:
        yield ("begins",), f"found {scenario.begins!r}, accepted is a time like 2026-01-05T00:00:00Z"


def _check_groups(scenario: model.Scenario) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, group in enumerate(scenario.groups):
        at: Path = ("groups", i)
        if group.name in seen:
            yield (*at, "name"), f"found {group.name!r} a second time, accepted is another name"
        seen.add(group.name)
        if not group.zones or len(set(group.zones)) < len(group.zones):
            yield (*at, "zones"), f"found {list(group.zones)}, accepted is one zone or more, each once"
        yield from _check_sizes(group, at)
        yield from _check_amounts(group.capacity, (*at, "capacity"))
        yield from _check_amounts(group.reserved, (*at, "reserved"))
        for name in ("cpu", "memory"):
            if not group.capacity.get(name):
                yield (*at, "capacity"), f"found no {name}, accepted is an amount above zero"
        for field in ("failure_rate", "unready_rate"):
            if not 0 <= getattr(group, field) <= 1:
                yield (*at, field), f"found {getattr(group, field)}, accepted is a share between 0 and 1"
        if group.price < 0:
            yield (*at, "price"), f"found {group.price}, accepted is zero or more"


def _check_sizes(group: model.Group, at: Path) -> Iterator[FieldError]:
    if group.min < 0:
        yield (*at, "min"), f"found {group.min}, accepted is zero or more"
    if group.max < max(group.min, 1):
        yield (*at, "max"), f"found {group.max}, accepted is at least {max(group.min, 1)}"
    if group.initial is not None and group.initial < 0:
        yield (*at, "initial"), f"found {group.initial}, accepted is zero or more"


def _check_amounts(amounts: model.Amounts, at: Path) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        try:
            if quantity.read_quantity(str(amount)).nano < 0:
                yield (*at, name), f"found {amount}, accepted is zero or more"
        except ValueError:
            yield (*at, name), f"found {amount!r}, accepted is a quantity like 500m or 2Gi"


def _check_workloads(scenario: model.Scenario) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, workload in enumerate(scenario.workloads):
        at: Path = ("workloads", i)
        if workload.name in seen:
            yield (*at, "name"), f"found {workload.name!r} a second time, accepted is another name"
        seen.add(workload.name)
        bad = list(_check_amounts(workload.requests, (*at, "requests")))
        yield from bad
        if workload.replicas < 0:
            yield (*at, "replicas"), f"found {workload.replicas}, accepted is zero or more"
        if workload.daily is not None and not 0 <= workload.daily.low <= workload.daily.high:
            yield (
                (*at, "daily"),
                f"found low {workload.daily.low} and high {workload.daily.high}, accepted is low ≤ high",
            )
        if workload.daily is not None and workload.daily.every <= 0:
            yield (*at, "daily", "every"), "found 0, accepted is a duration above zero"
        yield from _check_kind(workload, at)
        if workload.provisioning is not None:
            yield from _check_flags(scenario, (*at, "provisioning"), "enable-provisioning-requests")
        if not bad and not workload.may_wait and not _is_possible(scenario, workload):
            said = "more than any group has that its selector allows; accepted is less, or may_wait: true"
            yield (*at, "requests"), f"found {_format_amounts(workload.requests)}: {said}"


def _check_kind(workload: model.Workload, at: Path) -> Iterator[FieldError]:
    is_job = workload.kind == "Job"
    if is_job and workload.run is None:
        yield (*at, "run"), "found nothing, accepted for a Job is how long its pods work"
    if not is_job and workload.run is not None:
        yield (*at, "run"), f"found for a {workload.kind}, accepted for a Job only"
    if not is_job and workload.arrivals is not None:
        yield (*at, "arrivals"), f"found for a {workload.kind}, accepted for a Job only"
    if not is_job and workload.provisioning is not None:
        yield (*at, "provisioning"), f"found for a {workload.kind}, accepted for a Job only"
    if workload.kind in ("Job", "DaemonSet") and workload.daily is not None:
        yield (*at, "daily"), f"found for a {workload.kind}, accepted for a Deployment or a StatefulSet"
    budget = workload.budget
    if budget is not None and (budget.min_available is None) == (budget.max_unavailable is None):
        yield (*at, "budget"), "accepted is one of min_available and max_unavailable"


def _check_buffers(scenario: model.Scenario) -> Iterator[FieldError]:
    kept = {workload.name: workload.kind for workload in scenario.workloads}
    followed = sorted(name for name, kind in kept.items() if kind in ("Deployment", "StatefulSet"))
    seen: set[str] = set()
    for i, buffer in enumerate(scenario.buffers):
        at: Path = ("buffers", i)
        if buffer.workload in seen:
            yield (*at, "workload"), f"found {buffer.workload!r} a second time, accepted is one buffer for each"
        seen.add(buffer.workload)
        if buffer.workload not in followed:
            accepted = f"one of the Deployments and StatefulSets: {', '.join(followed) or 'none'}"
            yield (*at, "workload"), f"found {buffer.workload!r}, accepted is {accepted}"
        if buffer.replicas is None and buffer.percentage is None:
            yield at, "accepted is replicas, percentage or both"
        for field in ("replicas", "percentage"):
            if (getattr(buffer, field) or 0) < 0:
                yield (*at, field), f"found {getattr(buffer, field)}, accepted is zero or more"
        for flag in ("capacity-buffer-controller-enabled", "capacity-buffer-pod-injection-enabled"):
            yield from _check_flags(scenario, at, flag)


def _check_flags(scenario: model.Scenario, at: Path, needed: str) -> Iterator[FieldError]:
    if scenario.flags.get(needed) is not True:
        yield at, f"found no flag {needed}, accepted with it only, because nothing reads it otherwise"


def _is_possible(scenario: model.Scenario, workload: model.Workload) -> bool:
    """Does one of its pods fit on an empty machine of any group?"""
    return any(
        all(group.labels.get(key, value) == value for key, value in workload.node_selector.items())
        and all(_fits(group, name, amount) for name, amount in workload.requests.items())
        for group in scenario.groups
    )


def _fits(group: model.Group, name: str, amount: str | int | float) -> bool:
    try:
        has = (
            quantity.read_quantity(str(group.capacity.get(name, 0))).nano
            - quantity.read_quantity(str(group.reserved.get(name, 0))).nano
        )
        return quantity.read_quantity(str(amount)).nano <= has
    except ValueError:
        return True


def _format_amounts(amounts: model.Amounts) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def _check_timeline(scenario: model.Scenario) -> Iterator[FieldError]:
    workloads = {workload.name: workload.kind for workload in scenario.workloads}
    groups = node_group_names(scenario)
    zones = {zone for group in scenario.groups for zone in group.zones}
    for i, step in enumerate(scenario.timeline):
        at: Path = ("timeline", i)
        if step.at > scenario.duration:
            yield (*at, "at"), f"found {step.at:g} s, accepted is within the {scenario.duration:g} s of the scenario"
        for field, known in (("workload", set(workloads)), ("group", groups), ("zone", zones)):
            named = getattr(step, field, None)
            if named is not None and named not in known:
                yield (*at, field), f"found {named!r}, accepted is one of {', '.join(sorted(known)) or 'none'}"
        if isinstance(step, model.Jobs) and workloads.get(step.workload, "Job") != "Job":
            yield (*at, "workload"), f"found a {workloads[step.workload]}, accepted is a Job"
        if isinstance(step, model.Rollout) and workloads.get(step.workload, "Deployment") != "Deployment":
            yield (*at, "workload"), f"found a {workloads[step.workload]}, accepted is a Deployment"
        if isinstance(step, model.Trouble) and not 0 <= step.errors <= 1:
            yield (*at, "errors"), f"found {step.errors}, accepted is a share between 0 and 1"
        for field in ("to", "count", "times"):
            if getattr(step, field, 0) < 0:
                yield (*at, field), f"found {getattr(step, field)}, accepted is zero or more"


def _check_expectations(scenario: model.Scenario) -> Iterator[FieldError]:
    for i, expected in enumerate(scenario.expect):
        at: Path = ("expect", i)
        is_series = expected.start is not None or expected.end is not None or expected.group is not None
        known = SERIES_MEASURES if is_series else TOTAL_MEASURES
        if expected.measure not in known:
            yield (*at, "measure"), f"found {expected.measure!r}, accepted is one of {', '.join(known)}"
        if expected.at_least is None and expected.at_most is None:
            yield at, "accepted is at_least, at_most or both"
        if expected.group is not None and expected.group not in node_group_names(scenario):
            yield (
                (*at, "group"),
                f"found {expected.group!r}, accepted is one of {', '.join(sorted(node_group_names(scenario)))}",
            )
