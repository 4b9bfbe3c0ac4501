"""CapacityBuffer reconciliation: pod template, replicas and ResourceQuota limits in each buffer's status.

A buffer is sized by replicas, a percentage of its workload, and limits. Buffers are served in order of creation, and
each reserves quota: what one takes, the next cannot. Conditions and messages are Cluster Autoscaler's.

CapacityBuffer pods: injection among pending pods, and the scale-ups that were proposed for them.

A buffer counts if its status says ready or provisioned, and only while its PodTemplate has the generation that the
status was written for. Scale-ups are counted before the loop's fork, the only place where these pods exist, is
reverted.
"""

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from windlass.engine.model import decision_record, scale_up_status, settings
from windlass.engine.model.provisioning import BufferPods, Condition
from windlass.quantity import Quantity
from windlass.selectors import Operator

ACTIVE_STRATEGY = "buffer.x-k8s.io/active-capacity"
"""The strategy of buffers whose capacity is there, running and empty."""

READY_FOR_PROVISIONING, PROVISIONING, LIMITED_BY_QUOTAS = "ReadyForProvisioning", "Provisioning", "LimitedByQuotas"


@dataclass(frozen=True, slots=True)
class ScalableRef:
    """A workload, by the group and kind under which it can be scaled."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class BufferStatus:
    """The spec of a CapacityBuffer."""

    pod_template: str | None = None
    pod_template_generation: int | None = None
    replicas: int | None = None
    strategy: str | None = None
    conditions: tuple[Condition, ...] = ()

    def has(self, condition_type: str, status: str) -> bool:
        return any(condition.type == condition_type and condition.status == status for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class CapacityBuffer:
    """A CapacityBuffer."""

    namespace: str
    name: str
    uid: str = ""
    generation: int = 0
    created_s: float = 0.0
    strategy: str | None = None
    template: str | None = None
    """Name of the PodTemplate of the buffer's pods."""
    scalable: ScalableRef | None = None
    """Or the scalable workload whose pods are the template."""
    replicas: int | None = None
    percentage: int | None = None
    limits: Mapping[str, Quantity] | None = None
    status: BufferStatus = field(default_factory=BufferStatus)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_ours(self) -> bool:
        return self.strategy in (None, "", ACTIVE_STRATEGY)


@dataclass(frozen=True, slots=True)
class SamplePod:
    """A pod such as room is kept for, as far as sizes and quotas ask."""

    requests: Mapping[str, Quantity]
    priority_class: str = ""
    crosses_namespaces: bool = False
    """Its affinity looks at pods of other namespaces."""


def set_buffer_condition(
    status: BufferStatus, kind: str, value: bool, reason: str, message: str, now_s: float, generation: int | None = None
) -> BufferStatus:
    """The status with this condition; the transition time is kept while its status is the same."""
    text = str(value)
    old = next((condition for condition in status.conditions if condition.type == kind), None)
    since_s = old.since_s if old is not None and old.status == text else now_s
    new = Condition(kind, text, reason, message, since_s, generation)
    if old is None:
        return replace(status, conditions=(*status.conditions, new))
    return replace(status, conditions=tuple(new if condition is old else condition for condition in status.conditions))


NO_SIZE_DEFINED = "replicas, percentage and limits are not defined"

LIMITS_NOT_IN_TEMPLATE = "resources in configured limits not found in the pod template"


class UndefinedBufferSize(ValueError):
    """The number of replicas cannot be determined."""


def count_buffer_pods(buffer: CapacityBuffer, requests: Mapping[str, Quantity], workload_replicas: int | None) -> int:
    """How many pods. `workload_replicas`: of the workload that the buffer follows, where it does."""
    desired = -1
    if buffer.replicas is not None:
        desired = max(0, buffer.replicas)
    if buffer.percentage is not None and workload_replicas is not None:
        desired = max(desired, _take_share(buffer.percentage, workload_replicas))
    if buffer.limits is not None:
        most = _count_within(requests, buffer.limits)
        return min(desired, most) if desired >= 0 else most
    if desired < 0:
        raise UndefinedBufferSize(NO_SIZE_DEFINED)
    return desired


def _take_share(percentage: int, replicas: int) -> int:
    """Rounded up."""
    return (percentage * replicas + 99) // 100 if percentage > 0 and replicas > 0 else 0


def _count_within(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> int:
    """How many such pods stay within all limits that concern them, which one at least must."""
    most = [
        limits[name].milli_value() // amount.milli_value()
        for name, amount in requests.items()
        if name in limits and amount.milli_value() > 0 and limits[name].milli_value() > -amount.milli_value()
    ]
    if not most:
        raise UndefinedBufferSize(LIMITS_NOT_IN_TEMPLATE)
    return max(min(*most, 2**31 - 1), 0)


REQUESTS_PREFIX = "requests."

_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class QuotaScope:
    """Which pods a quota counts."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """A ResourceQuota, as its status has it."""

    name: str
    hard: Mapping[str, Quantity]
    used: Mapping[str, Quantity]
    scopes: tuple[QuotaScope, ...] = ()


class UnreadableScope(ValueError):
    """A quota whose scopes cannot be read."""


@dataclass(slots=True)
class QuotaAllowance:
    """Remaining ResourceQuota of one namespace, as buffers consume it."""

    quotas: Sequence[ResourceQuota]
    faults: list[str] = field(default_factory=list)
    _reserved: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def reserve(self, sample: SamplePod, desired: int) -> tuple[int, list[str]]:
        """(how many pods may be kept room for, the quotas that are in the way of more). They are reserved."""
        asked = _name_requests(sample)
        matching = [quota for quota in self.quotas if self._counts(quota, sample)]
        rooms = {quota.name: self._find_room(quota, asked) for quota in matching}
        allowed = min((desired, *rooms.values()))
        if allowed > 0:
            for quota in matching:
                for name in asked.keys() & quota.hard.keys():
                    self._reserved[quota.name, name] += asked[name].nano * allowed
        return allowed, [name for name, room in rooms.items() if room < desired]

    def _counts(self, quota: ResourceQuota, sample: SamplePod) -> bool:
        try:
            return all(_matches(sample, scope) for scope in quota.scopes)
        except UnreadableScope as error:
            self.faults.append(f"quota {quota.name}: {error}")
            return False

    def _find_room(self, quota: ResourceQuota, asked: Mapping[str, Quantity]) -> int:
        most = _MOST
        for name, hard in quota.hard.items():
            if name not in asked or not asked[name].nano:
                continue
            used = quota.used[name].nano if name in quota.used else 0
            remaining = hard.nano - used - self._reserved[quota.name, name]
            if remaining < 0:
                return 0
            most = min(most, remaining // asked[name].nano)
        return most


def _name_requests(sample: SamplePod) -> dict[str, Quantity]:
    """Quota keys of a request: the resource name, and `requests.<resource>`."""
    return {**sample.requests, **{f"{REQUESTS_PREFIX}{name}": amount for name, amount in sample.requests.items()}}


def _matches(sample: SamplePod, scope: QuotaScope) -> bool:
    is_best_effort = "cpu" not in sample.requests and "memory" not in sample.requests
    match scope.name:
        case "NotTerminating":
            return True
        case "BestEffort":
            return is_best_effort
        case "NotBestEffort":
            return not is_best_effort
        case "PriorityClass":
            return _matches_priority(sample.priority_class, scope)
        case "CrossNamespacePodAffinity":
            return sample.crosses_namespaces
    return False


def _matches_priority(found: str, scope: QuotaScope) -> bool:
    match scope.operator:
        case Operator.EXISTS:
            return bool(found)
        case Operator.DOES_NOT_EXIST if not scope.values:
            return not found
        case Operator.IN if scope.values:
            return found in scope.values
        case Operator.NOT_IN if scope.values:
            return not found or found not in scope.values
    raise UnreadableScope(
        f"scope {scope.name}: found {scope.operator} {list(scope.values)}, expected In or NotIn with values"
    )


_LONGEST_NAME = 253

_BEFORE, _AFTER = "capacitybuffer-", "-pod-template"

SUPPORTED_WORKLOADS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("core", "ReplicationController"),
        ("batch", "Job"),
    }
)
"""Workloads whose own template is understood; of all others a pod must exist."""


@dataclass(frozen=True, slots=True)
class ResolvedTemplate:
    """What a buffer keeps room for: such pods, as its own PodTemplate has them."""

    sample: SamplePod
    generation: int = 1
    """Of the buffer's own PodTemplate."""
    workload_replicas: int | None = None
    before: SamplePod | None = None
    """The previous spec of a PodTemplate that was just rewritten. Quotas are computed with it until the next reconcile,
    as with a stale cache."""


@dataclass(frozen=True, slots=True)
class ReconciledBuffers:
    """The new statuses, by key, and whether to requeue because an object was missing."""

    statuses: Mapping[str, BufferStatus]
    try_again: bool


def pod_template_name(buffer: CapacityBuffer) -> str:
    """The PodTemplate that belongs to a buffer."""
    return f"{_BEFORE}{buffer.name[: _LONGEST_NAME - len(_BEFORE) - len(_AFTER)]}{_AFTER}"


def unresolved_message(scalable: ScalableRef, live_fault: str, own_fault: str) -> str:
    """Why neither a pod of a workload nor its own template can be had. `own_fault` only where it has one."""
    if (scalable.group, scalable.kind) not in SUPPORTED_WORKLOADS:
        own_fault = f"kind {scalable.group}/{scalable.kind} is not supported to use pod template"
    own = f"failed to resolve scalable object: {own_fault}"
    return f"failed to resolve live pod: {live_fault}, {own}" if live_fault else own


def reconcile_buffers(
    buffers: Sequence[CapacityBuffer],
    what: Mapping[str, ResolvedTemplate | str],
    quotas: Sequence[ResourceQuota],
    now_s: float,
) -> ReconciledBuffers:
    """The buffers of one namespace, oldest first. `what`: what each keeps room for, or why that cannot be had."""
    ours = sorted(
        (buffer for buffer in buffers if buffer.is_ours),
        key=lambda capacity_buffer: (capacity_buffer.created_s, capacity_buffer.name),
    )
    allowance, statuses, missing = QuotaAllowance(quotas), dict[str, BufferStatus](), False
    for own_buffer in ours:
        kept = what.get(own_buffer.key)
        missing |= isinstance(kept, str)
        status = own_buffer.status if kept is None else _resolve(own_buffer, kept, now_s)
        counted = (kept.before or kept.sample) if isinstance(kept, ResolvedTemplate) else None
        if counted is not None and status.replicas is not None and counted.requests:
            status = _limit(own_buffer, status, counted, allowance, now_s)
        statuses[own_buffer.key] = status
    return ReconciledBuffers(statuses, missing or bool(allowance.faults))


def _resolve(buffer: CapacityBuffer, kept: ResolvedTemplate | str, now_s: float) -> BufferStatus:
    strategy = ACTIVE_STRATEGY if buffer.strategy == "" else buffer.strategy
    status = replace(buffer.status, pod_template=None, pod_template_generation=None, replicas=None, strategy=strategy)
    if isinstance(kept, str):
        return _set_not_ready(status, kept, now_s)
    status = replace(status, pod_template=pod_template_name(buffer), pod_template_generation=kept.generation)
    try:
        count = count_buffer_pods(buffer, kept.sample.requests, kept.workload_replicas)
    except UndefinedBufferSize as error:
        return _set_not_ready(status, f"couldn't get number of replicas for buffer: {error}", now_s)
    status = replace(status, replicas=count)
    return set_buffer_condition(status, READY_FOR_PROVISIONING, True, "AttributesSetSuccessfully", "ready", now_s)


def _set_not_ready(status: BufferStatus, reason: str, now_s: float) -> BufferStatus:
    return set_buffer_condition(
        status, READY_FOR_PROVISIONING, False, "error", f"Buffer not ready for provisioning: {reason}", now_s
    )


def _limit(
    buffer: CapacityBuffer, status: BufferStatus, sample: SamplePod, allowance: QuotaAllowance, now_s: float
) -> BufferStatus:
    desired = status.replicas or 0
    allowed, blocking = allowance.reserve(sample, desired)
    message = ""
    if allowed < desired:
        message = f"Buffer replicas limited from {desired} to {allowed} due to quotas: {', '.join(blocking)}"
        status = replace(status, replicas=allowed)
    return set_buffer_condition(
        status, LIMITED_BY_QUOTAS, allowed < desired, "ResourceQuotasAllocated", message, now_s, buffer.generation
    )


FAKE_POD_ANNOTATION = ("podType", "capacityBufferFakePod")
"""Annotation of injected buffer pods; Cluster Autoscaler's."""


@dataclass(frozen=True, slots=True)
class InjectionResult:
    """One buffer in a loop: its pods, or why there are none."""

    status: BufferStatus
    pods: int = 0
    """Number of pods to inject: at most `settings.MAX_INJECTED_PODS`."""


def inject_buffer(
    buffer: CapacityBuffer, find_generation: Callable[[str], int | None], now_s: float
) -> InjectionResult:
    """`find_generation`: of a PodTemplate of the buffer's namespace, None if there is none."""
    status = buffer.status
    if status.strategy != ACTIVE_STRATEGY:
        return InjectionResult(status)
    if not status.has(READY_FOR_PROVISIONING, "True") and not status.has(PROVISIONING, "True"):
        return InjectionResult(status)
    generation = None if status.pod_template is None else find_generation(status.pod_template)
    pod_template_generation = status.pod_template_generation
    if generation is not None and pod_template_generation is not None and generation != pod_template_generation:
        return InjectionResult(status)
    if status.pod_template is None or status.replicas is None or status.has(READY_FOR_PROVISIONING, "False"):
        return _fail_injection(status, "NotReadyForProvisioning", "CapacityBuffer is not ready for provisioning", now_s)
    if status.replicas == 0:
        return _fail_injection(status, "BufferIsEmpty", "CapacityBuffer has zero replicas", now_s)
    if generation is None:
        message = f'capacity buffer client can\'t get pod template: podtemplates "{status.pod_template}" not found'
        return _fail_injection(
            status, "FailedToGetPodTemplate", f"failed to get pod template with error: {message}", now_s
        )
    done = set_buffer_condition(status, PROVISIONING, True, "FakePodsInjected", "", now_s)
    return InjectionResult(done, min(max(status.replicas, 0), settings.MAX_INJECTED_PODS))


def _fail_injection(status: BufferStatus, reason: str, message: str, now_s: float) -> InjectionResult:
    return InjectionResult(set_buffer_condition(status, PROVISIONING, False, reason, message, now_s))


def name_buffer_pods(buffer: CapacityBuffer, count: int) -> list[str]:
    return [f"capacity-buffer-{buffer.name}-{number}" for number in range(1, count + 1)]


def find_buffer_scale_ups(
    rows_of: Sequence[tuple[BufferPods, range]], proposals: Sequence[scale_up_status.ScaleUpProposal]
) -> Iterator[decision_record.BufferScaleUp]:
    """`rows_of`: the rows of each buffer's pods, one buffer after another."""
    if not rows_of:
        return
    for proposal in proposals:
        if proposal.increases:
            for place, pods in _count_by_buffer(proposal.helped, rows_of).items():
                yield decision_record.BufferScaleUp(rows_of[place][0].like, pods, proposal)
        counts: Counter[int] = Counter()
        remaining: dict[int, list[scale_up_status.PodEquivalenceGroup]] = {}
        for alike in proposal.remaining:
            for place, pods in _count_by_buffer(alike.rows, rows_of).items():
                counts[place] += pods
                remaining.setdefault(place, []).append(alike)
        for place, equivalence_groups in remaining.items():
            yield decision_record.BufferScaleUp(
                rows_of[place][0].like, counts[place], proposal, tuple(equivalence_groups)
            )


def _count_by_buffer(rows: Iterable[int], rows_of: Sequence[tuple[BufferPods, range]]) -> Counter[int]:
    """How many of the rows belong to each buffer, by its position."""
    starts = [own.start for _, own in rows_of]
    places = ((row, bisect.bisect_right(starts, row) - 1) for row in rows if row >= starts[0])
    return Counter(place for row, place in places if row in rows_of[place][1])
