"""Resource requests of a pod: all containers, overhead and pod-level resources, as kube-scheduler counts them.

Amounts are exact (nano-units).

    containers run together:                 sum
    sidecars (init containers that restart): added to all that starts later
    init containers:                         maximum of each with what runs beside it
"""

from collections.abc import Iterable
from dataclasses import dataclass

from windlass import scheduler_releases
from windlass.kube import fields
from windlass.kube.models import core, meta, pods

NanoAmounts = dict[str, int]
"""Nano-units by resource."""
InvalidFields = list[fields.InvalidField]


@dataclass(frozen=True, slots=True)
class SpecRequests:
    """Unparsed requests, to detect a resize cheaply."""

    containers: dict[str | None, meta.Amounts]
    pod: meta.Amounts
    total: NanoAmounts
    """Sum of all containers, without pod-level requests and overhead."""


_POD_LEVEL = ("cpu", "memory")
_HUGEPAGES = "hugepages-"


def pending_requests(spec: pods.PodSpec, complaints: InvalidFields | None = None) -> NanoAmounts:
    """Requests of a pending pod, from its spec. For `complaints` see `fields.read_amounts`."""
    return _total(spec, _PlainReading(complaints))


def bound_requests(
    spec: pods.PodSpec,
    status: pods.PodStatus,
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
) -> NanoAmounts:
    """Requests of a bound pod; during a resize the maximum of old and new."""
    if release.compares_resizes_by_pod:
        return _compare_sums(spec, status)
    return _total(spec, _ReadingWithStatus(status))


def spec_requests(spec: pods.PodSpec) -> SpecRequests:
    """Requests of containers and pod, unparsed."""
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    total = _sum_containers(spec, _PlainReading([]))
    return SpecRequests({c.name: _requests(c.resources) for c in containers}, _requests(spec.resources), total)


def is_resizing(
    spelled: SpecRequests,
    status: pods.PodStatus,
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
) -> bool:
    """True if status and spec differ. If not, `bound_requests` equals `pending_requests`."""
    if release.compares_resizes_by_pod:
        return _is_resizing_by_pod(spelled, status)
    for reported in (status.container_statuses, status.init_container_statuses):
        for container in reported or ():
            desired = spelled.containers.get(container.name)
            if desired is not None and _differs(desired, container.resources, container.allocated_resources):
                return True
    return bool(spelled.pod) and _differs(spelled.pod, status.resources, status.allocated_resources)


def _differs(desired: meta.Amounts, actuated: core.ResourceRequirements | None, allocated: meta.Amounts | None) -> bool:
    if actuated is None:
        return False
    return (actuated.requests or {}) != desired or bool(allocated and allocated != desired)


def _is_resizing_by_pod(spelled: SpecRequests, status: pods.PodStatus) -> bool:
    if _is_infeasible(status):
        return True
    for reported in (status.container_statuses, status.init_container_statuses):
        for container in reported or ():
            desired = spelled.containers.get(container.name)
            if desired is not None and _has_other(desired, container.resources, container.allocated_resources):
                return True
    if spelled.pod:
        return status.resources is not None and _has_other(spelled.pod, status.resources, status.allocated_resources)
    lists = (status.allocated_resources, _requests(status.resources))
    return all(lists) and any(_exceeds(fields.read_amounts(item, "status", []), spelled.total) for item in lists)


def _has_other(
    desired: meta.Amounts, actuated: core.ResourceRequirements | None, allocated: meta.Amounts | None
) -> bool:
    return any(amounts and amounts != desired for amounts in (_requests(actuated), allocated))


def _exceeds(amounts: NanoAmounts, total: NanoAmounts) -> bool:
    return any(nano > total.get(name, 0) for name, nano in amounts.items())


def _is_infeasible(status: pods.PodStatus) -> bool:
    """True if the kubelet rejected the resize as infeasible."""
    pending = (condition.reason for condition in status.conditions or () if condition.type == "PodResizePending")
    return next(pending, None) == "Infeasible"


class _PlainReading:
    """Reads requests from the spec."""

    def __init__(self, complaints: InvalidFields | None = None) -> None:
        self.complaints = complaints

    def container(self, container: pods.Container, at: str, *, resizable: bool) -> NanoAmounts:
        return fields.read_amounts(_requests(container.resources), f"{at}.resources.requests", self.complaints)

    def pod(self, spec: pods.PodSpec) -> NanoAmounts:
        return fields.read_amounts(_requests(spec.resources), "spec.resources.requests", self.complaints)


class _ReadingWithStatus(_PlainReading):
    """Reads the maximum of spec, allocated and actuated requests per container."""

    def __init__(self, status: pods.PodStatus) -> None:
        super().__init__()
        self._status = status
        reported = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
        self._reported = {container.name: container for container in reported}
        self._is_infeasible = _is_infeasible(status)

    def container(self, container: pods.Container, at: str, *, resizable: bool) -> NanoAmounts:
        desired = super().container(container, at, resizable=resizable)
        reported = self._reported.get(container.name)
        if not resizable or reported is None or reported.resources is None:
            return desired
        status = f"status.containerStatuses[{container.name}]"
        return self._effective(
            desired,
            fields.read_amounts(reported.resources.requests, f"{status}.resources.requests"),
            fields.read_amounts(reported.allocated_resources, f"{status}.allocatedResources"),
        )

    def pod(self, spec: pods.PodSpec) -> NanoAmounts:
        desired = super().pod(spec)
        if self._status.resources is None:
            return desired
        effective = self._effective(
            desired,
            fields.read_amounts(self._status.resources.requests, "status.resources.requests"),
            fields.read_amounts(self._status.allocated_resources, "status.allocatedResources"),
        )
        return {name: effective.get(name, 0) for name in desired}

    def _effective(self, desired: NanoAmounts, actuated: NanoAmounts, allocated: NanoAmounts) -> NanoAmounts:
        # the desired requests of an infeasible resize do not count
        effective = {} if self._is_infeasible else dict(desired)
        for amounts in (actuated, allocated):
            _take_maximum(effective, amounts)
        return effective


class _ReadingOfNode(_PlainReading):
    """Reads allocated or, if `actuated`, actuated requests; else those of the spec."""

    def __init__(self, status: pods.PodStatus, *, actuated: bool) -> None:
        super().__init__()
        self._actuated, self._is_infeasible = actuated, _is_infeasible(status)
        reported = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
        self._reported = {container.name: container for container in reported}

    def container(self, container: pods.Container, at: str, *, resizable: bool) -> NanoAmounts:
        reported = self._reported.get(container.name)
        status = f"status.containerStatuses[{container.name}]"
        if reported is not None and self._actuated and _requests(reported.resources):
            return fields.read_amounts(_requests(reported.resources), f"{status}.resources.requests")
        if reported is not None and reported.allocated_resources:
            return fields.read_amounts(reported.allocated_resources, f"{status}.allocatedResources")
        return {} if self._is_infeasible else super().container(container, at, resizable=resizable)


def _compare_sums(spec: pods.PodSpec, status: pods.PodStatus) -> NanoAmounts:
    """Maximum of three sums over the whole pod: spec, actuated, allocated; without spec if that is infeasible."""
    is_infeasible, plain = _is_infeasible(status), _PlainReading()
    actuated = fields.read_amounts(_requests(status.resources), "status.resources.requests")
    allocated = fields.read_amounts(status.allocated_resources, "status.allocatedResources")
    total = {} if is_infeasible else _sum_containers(spec, plain)
    if actuated and allocated:
        _take_maximum(total, actuated)
        _take_maximum(total, allocated)
    else:
        _take_maximum(total, _sum_containers(spec, _ReadingOfNode(status, actuated=True)))
        _take_maximum(total, _sum_containers(spec, _ReadingOfNode(status, actuated=False)))
    if _has_pod_level_requests(spec):
        pod_level = {} if is_infeasible and status.resources is not None else plain.pod(spec)
        if status.resources is not None:
            _take_maximum(pod_level, actuated)
            _take_maximum(pod_level, allocated)
        total |= {name: nano for name, nano in pod_level.items() if is_pod_level(name)}
    _add(total, fields.read_amounts(spec.overhead, "spec.overhead"))
    return total


def _sum_containers(spec: pods.PodSpec, reading: _PlainReading) -> NanoAmounts:
    total: NanoAmounts = {}
    for i, container in enumerate(spec.containers or ()):
        _add(total, reading.container(container, f"spec.containers[{i}]", resizable=True))
    _count_init_containers(total, spec.init_containers or (), reading)
    return total


def _total(spec: pods.PodSpec, reading: _PlainReading) -> NanoAmounts:
    total = _sum_containers(spec, reading)
    if _has_pod_level_requests(spec):
        total |= {name: nano for name, nano in reading.pod(spec).items() if is_pod_level(name)}
    _add(total, fields.read_amounts(spec.overhead, "spec.overhead", reading.complaints))
    return total


def _count_init_containers(total: NanoAmounts, containers: Iterable[pods.Container], reading: _PlainReading) -> None:
    sidecars: NanoAmounts = {}
    peak: NanoAmounts = {}
    for i, container in enumerate(containers):
        amounts = reading.container(container, f"spec.initContainers[{i}]", resizable=container.is_sidecar)
        if container.is_sidecar:
            _add(total, amounts)
            _add(sidecars, amounts)
            _take_maximum(peak, sidecars)
        else:
            running = dict(amounts)
            _add(running, sidecars)
            _take_maximum(peak, running)
    _take_maximum(total, peak)


def _has_pod_level_requests(spec: pods.PodSpec) -> bool:
    return any(is_pod_level(name) for name in _requests(spec.resources))


def is_pod_level(name: str) -> bool:
    """True if the resource can be requested at pod level."""
    return name in _POD_LEVEL or name.startswith(_HUGEPAGES)


def _requests(resources: core.ResourceRequirements | None) -> meta.Amounts:
    return (resources.requests if resources is not None else None) or {}


def _add(total: NanoAmounts, amounts: NanoAmounts) -> None:
    for name, nano in amounts.items():
        total[name] = total.get(name, 0) + nano


def _take_maximum(total: NanoAmounts, amounts: NanoAmounts) -> None:
    for name, nano in amounts.items():
        total[name] = max(total.get(name, nano), nano)
