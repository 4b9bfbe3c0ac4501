"""ProvisioningRequest queue: conditions, the requests of one loop by creation, selection of the next, and booking.

The queue holds the requests with the conditions that this loop sets, and nothing else: what the functions below find
out, they return.

Booked capacity is kept loop after loop until it expires or is consumed: the request's pods are injected and placed in
the loop's fork, where other requests, scale-up and scale-down see them. Pods that do not fit any more are left out.

Reasons and messages of the conditions are Cluster Autoscaler's:

    type            status  reason                          when
    Accepted        True    Accepted                        it was selected
    Provisioned     True    CapacityIsFound                 all its pods fit now
                            CapacityIsProvisioned           nodes were requested that all its pods fit on
                    False   CapacityIsNotFound              neither; retried with exponential backoff
    Failed          True    CapacityIsNotFound              the same, with noRetry
                            FailedToCreatePods              its pods cannot be created
                            FailedToBookCapacity            they cannot be created any more
                            Expired                         no capacity for a week
    BookingExpired  True    CapacityReservationTimeExpired  booked for ten minutes
                            CapacityBookingConsumed         its pods are scheduled

CapacityRevoked is never set here. An instance with a name handles the requests that name it, and no others.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine.model import arrays, plan, provisioning
from windlass.engine.model.provisioning import Condition, ProvisioningRequest, consumed_request
from windlass.engine.model.settings import ProvisioningRequestSettings, Settings
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.snapshot.cluster_snapshot import Snapshot

CHECK_CAPACITY_CLASS = "check-capacity.autoscaling.x-k8s.io"

ATOMIC_SCALE_UP_CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

INSTANCE_PARAMETER = "processorInstance"
"""Parameter: the name of the instance that should handle a check-capacity request."""


def is_handled_by(request: ProvisioningRequest, instance: str) -> bool:
    """Is the request to be handled by the instance of this name (empty: by the one without)?"""
    if request.class_name == ATOMIC_SCALE_UP_CLASS:
        return not instance
    return is_check_capacity(request, instance)


def is_check_capacity(request: ProvisioningRequest, instance: str) -> bool:
    """Is it ours, and one that asks only whether there is room?"""
    desired = request.parameters.get(INSTANCE_PARAMETER, "")
    if desired or not instance:
        return desired == instance and request.class_name == CHECK_CAPACITY_CLASS
    return request.class_name == instance + CHECK_CAPACITY_CLASS


ACCEPTED = "Accepted"

PROVISIONED = "Provisioned"

FAILED = "Failed"

BOOKING_EXPIRED = "BookingExpired"

TRUE, FALSE = "True", "False"


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """A condition to be set."""

    type: str
    status: str
    reason: str
    message: str


IS_ACCEPTED = ConditionUpdate(ACCEPTED, TRUE, "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")

CAPACITY_FOUND = ConditionUpdate(PROVISIONED, TRUE, "CapacityIsFound", "Capacity is found in the cluster")

CAPACITY_PROVISIONED = ConditionUpdate(PROVISIONED, TRUE, "CapacityIsProvisioned", "Capacity is found in the cluster")

CAPACITY_NOT_FOUND = ConditionUpdate(
    PROVISIONED, FALSE, "CapacityIsNotFound", "Capacity is not found, CA will try to find it later."
)

CAPACITY_NOT_FOUND_FINALLY = ConditionUpdate(FAILED, TRUE, "CapacityIsNotFound", "CA could not find requested capacity")

REQUEST_EXPIRED = ConditionUpdate(FAILED, TRUE, "Expired", "ProvisioningRequest is expired")

BOOKING_TIME_EXPIRED = ConditionUpdate(
    BOOKING_EXPIRED, TRUE, "CapacityReservationTimeExpired", "Capacity reservation time is expired"
)

BOOKING_CONSUMED = ConditionUpdate(
    BOOKING_EXPIRED, TRUE, "CapacityBookingConsumed", "Capacity booking consumed: all pods scheduled"
)


def failed_to_create_pods(fault: str) -> ConditionUpdate:
    return ConditionUpdate(FAILED, TRUE, "FailedToCreatePods", fault)


def failed_to_book_capacity(fault: str) -> ConditionUpdate:
    return ConditionUpdate(FAILED, TRUE, "FailedToBookCapacity", f"Couldn't create pods, err: {fault}")


def find_condition(conditions: Sequence[Condition], condition_type: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == condition_type), None)


def is_condition_true(request: ProvisioningRequest, condition_type: str) -> bool:
    condition = find_condition(request.conditions, condition_type)
    return condition is not None and condition.status == TRUE


def set_condition(
    request: ProvisioningRequest, update: ConditionUpdate, now_s: float, *, generation: bool = True
) -> ProvisioningRequest:
    """The request with this condition set or replaced. API times have whole seconds.

    As in Cluster Autoscaler, the transition time is always now. `generation`: set observedGeneration.
    """
    seen = request.generation if generation else None
    new = Condition(update.type, update.status, update.reason, update.message, float(math.floor(now_s)), seen)
    if find_condition(request.conditions, update.type) is None:
        return replace(request, conditions=(*request.conditions, new))
    kept = tuple(new if condition.type == update.type else condition for condition in request.conditions)
    return replace(request, conditions=kept)


def is_booked(request: ProvisioningRequest, instance: str) -> bool:
    """Is room to be kept for it?"""
    if (
        not is_handled_by(request, instance)
        or is_condition_true(request, FAILED)
        or is_condition_true(request, BOOKING_EXPIRED)
    ):
        return False
    return is_condition_true(request, PROVISIONED)


BOOKING_S = 600.0
"""How long room is kept for a request."""

EXPIRATION_S = 7 * 24 * 3600.0
"""How long after its creation a request without capacity is given up."""

RETENTION_S = 7 * 24 * 3600.0
"""How long a request is kept after its last answer."""

MAX_EXPIRED_PER_LOOP = 20
"""Requests that one loop may end for their age."""


def find_expired(
    requests: Sequence[ProvisioningRequest], instance: str, now_s: float
) -> list[tuple[ProvisioningRequest, ConditionUpdate]]:
    """The requests that expire now, with the condition of each: first bookings, then requests without capacity."""
    ended: list[ProvisioningRequest] = []
    given_up: list[ProvisioningRequest] = []
    for request in requests:
        if len(ended) >= MAX_EXPIRED_PER_LOOP:
            break
        if not is_handled_by(request, instance) or _is_over(request):
            continue
        if is_condition_true(request, PROVISIONED):
            if booking_ends_at_s(request) < now_s:
                ended.append(request)
        elif len(given_up) < MAX_EXPIRED_PER_LOOP - len(ended) and request.created_s + EXPIRATION_S < now_s:
            given_up.append(request)
    return [(provisioning_request, BOOKING_TIME_EXPIRED) for provisioning_request in ended] + [
        (request, REQUEST_EXPIRED) for request in given_up
    ]


def is_obsolete(request: ProvisioningRequest, now_s: float) -> bool:
    """Whether its last condition is older than the retention time, for any class, as in Cluster Autoscaler."""
    answers = (find_condition(request.conditions, item) for item in (PROVISIONED, FAILED))
    return any(condition is not None and condition.since_s + RETENTION_S < now_s for condition in answers)


def booking_ends_at_s(request: ProvisioningRequest) -> float:
    """When its booking ends; before all time if it has none."""
    condition = find_condition(request.conditions, PROVISIONED)
    return float("-inf") if condition is None else condition.since_s + BOOKING_S


def _is_over(request: ProvisioningRequest) -> bool:
    return any(is_condition_true(request, item) for item in (BOOKING_EXPIRED, FAILED))


class RetryBackoff:
    """The delays of one loop."""

    def __init__(self, known: Mapping[str, float], settings: ProvisioningRequestSettings) -> None:
        self.delays = dict(known)
        self._settings = settings

    def is_due(self, request: ProvisioningRequest, now_s: float) -> bool:
        """Is it to be tried now? If so, and it was tried before, the next wait is twice as long."""
        tried = find_condition(request.conditions, PROVISIONED)
        if not self.is_open(request):
            if tried is None or tried.status == TRUE or is_condition_true(request, FAILED):
                self.delays.pop(request.uid, None)
            return False
        if tried is None:
            return True
        delay_s = self._find_delay(request.uid)
        if tried.since_s + delay_s >= now_s:
            return False
        self._note(request.uid, min(2 * delay_s, self._settings.provisioning_request_max_backoff_time_s))
        return True

    def is_open(self, request: ProvisioningRequest) -> bool:
        """Whether no condition is final. A condition with status Unknown is left to its writer."""
        tried = find_condition(request.conditions, PROVISIONED)
        return not is_condition_true(request, FAILED) and (tried is None or tried.status == FALSE)

    def due_at_s(self, request: ProvisioningRequest) -> float:
        """When a request that is not answered yet may be tried; before all time if nothing is waited for."""
        tried = find_condition(request.conditions, PROVISIONED)
        first_s = self._settings.provisioning_request_initial_backoff_time_s
        return float("-inf") if tried is None else tried.since_s + self.delays.get(request.uid, first_s)

    def _find_delay(self, uid: str) -> float:
        if uid not in self.delays:
            return self._settings.provisioning_request_initial_backoff_time_s
        self.delays[uid] = self.delays.pop(uid)  # move to the end: most recently used
        return self.delays[uid]

    def _note(self, uid: str, delay_s: float) -> None:
        self.delays.pop(uid, None)
        self.delays[uid] = delay_s
        size = self._settings.provisioning_request_max_backoff_cache_size
        while 0 < size < len(self.delays):
            del self.delays[next(iter(self.delays))]


class RequestQueue:
    """Requests in the order in which they are served: first come, first served. Cluster Autoscaler has no order."""

    def __init__(
        self,
        provisioning_requests: Iterable[ProvisioningRequest],
        known: provisioning.ProvisioningMemory,
        settings: Settings,
        now_s: float,
    ) -> None:
        provisioning_request_settings = settings.provisioning_requests
        enabled = provisioning_requests if provisioning_request_settings.enable_provisioning_requests else ()
        self._before = {
            request.key: request
            for request in sorted(
                enabled, key=lambda provisioning_request: (provisioning_request.created_s, provisioning_request.key)
            )
        }
        self._current = dict(self._before)
        self._settings, self._chosen, self._now_s = settings, provisioning_request_settings, now_s
        self._answered = dict[str, str]()
        self.instance = provisioning_request_settings.check_capacity_processor_instance
        self._grace_s = settings.deviations.pod_template_grace_s
        self.fails_empty = settings.deviations.fail_empty_requests
        self.explains_rejections = settings.deviations.say_why_not_found
        self.retries = RetryBackoff(known.delays, provisioning_request_settings)

    def __iter__(self) -> Iterator[ProvisioningRequest]:
        """As they are now; those that were deleted are gone."""
        return iter(tuple(self._current.values()))

    def find(self, key: str) -> ProvisioningRequest:
        """The request of this key, as it is now."""
        return self._current[key]

    def set_condition(
        self,
        request: ProvisioningRequest,
        update: ConditionUpdate,
        *,
        generation: bool = True,
    ) -> ProvisioningRequest:
        """Set a condition of a request; the last one set is written."""
        updated = set_condition(self._current[request.key], update, self._now_s, generation=generation)
        self._current[request.key] = updated
        if update is not IS_ACCEPTED:
            self._answered[request.key] = update.reason
        return updated

    def find_places(self, snapshot: Snapshot, rows: Sequence[int]) -> dict[str, str]:
        """The nodes that these pods are placed on now, by pod uid: their capacity is booked there."""
        if not self._settings.deviations.keep_places_found:
            return {}
        where, names = snapshot.pods.node_rows[list(rows)].tolist(), snapshot.nodes.names
        uids = (snapshot.pods.uids[row] for row in rows)
        return {uid: names[node] for uid, node in zip(uids, where, strict=True) if node >= 0}

    def awaits_templates(self, request: ProvisioningRequest) -> bool:
        """Is the request so young that its PodTemplate may still appear?"""
        return request.lacks_templates and self._now_s < request.created_s + self._grace_s

    def expire(self) -> None:
        """Set the conditions of expired requests and bookings, and drop obsolete requests."""
        for request, update in find_expired(list(self), self.instance, self._now_s):
            self.set_condition(request, update)
        only_ours = self._settings.deviations.leave_others_requests_alone
        for request in self:
            if is_obsolete(request, self._now_s) and (not only_ours or is_handled_by(request, self.instance)):
                del self._current[request.key]

    def intern_shapes(self, snapshot: Snapshot) -> None:
        """Intern the shapes of all pods that may be injected: a fork cannot take new shapes."""
        for request in self:
            if not is_condition_true(request, FAILED):
                for pod_set in request.pod_sets:
                    if pod_set.pod is not None:
                        snapshot.shape_of(pod_set.pod)

    def instructions(self) -> list[plan.Instruction]:
        """Condition updates and deletions, in the order of the requests."""
        instructions: list[plan.Instruction] = []
        for key, before in self._before.items():
            now = self._current.get(key)
            if now is None:
                instructions.append(plan.DeleteRequest(before.namespace, before.name, before.uid))
            elif now.conditions != before.conditions:
                instructions.append(plan.SetConditions(now.namespace, now.name, before.version, now.conditions))
        return instructions

    def make_memory(self, is_next: bool) -> provisioning.ProvisioningMemory:
        """What the next loop needs: retry delays of requests that still exist, and whether a request is served next."""
        present = {request.uid for request in self}
        delays = {uid: delay_s for uid, delay_s in self.retries.delays.items() if uid in present}
        return provisioning.ProvisioningMemory(delays, is_next)

    def make_report(self, report: provisioning.ProvisioningReport) -> provisioning.ProvisioningReport:
        """The report with the answers of this loop; empty where there are no requests and no consumers."""
        if not self._before and not report.ignored:
            return provisioning.EMPTY_REPORT
        return replace(report, answered=self._answered)

    def changes_at_s(self) -> Iterator[float]:
        """When time alone changes a condition."""
        for request in self:
            if is_obsolete(request, self._now_s):
                continue
            yield from (condition.since_s + RETENTION_S for condition in request.conditions)
            if is_handled_by(request, self.instance):
                yield booking_ends_at_s(request)
                yield request.created_s + EXPIRATION_S
                yield request.created_s + self._grace_s
                if self.retries.is_open(request):  # if it is due already, it is the next loop's
                    yield max(self.retries.due_at_s(request), self._now_s)


def name_request_pods(request: ProvisioningRequest) -> Iterator[tuple[int, list[str]]]:
    """The names of the request's pods, by the number of their pod set."""
    for number, pod_set in enumerate(request.pod_sets):
        yield number, [f"{request.name}-{number}-{place}" for place in range(pod_set.count)]


def inject_request_pods(snapshot: Snapshot, request: ProvisioningRequest, count: int | None = None) -> list[int]:
    """Append the request's pods, the first `count` of them, to the snapshot's fork; return their rows."""
    rows: list[int] = []
    for number, names in name_request_pods(request):
        pod = request.pod_sets[number].pod
        assert pod is not None, "a request whose pods cannot be made is not served"
        injected = names if count is None else names[: max(count - len(rows), 0)]
        rows += snapshot.append_pods(pod, injected)
    return rows


def count_by_request(snapshot: Snapshot, rows: Sequence[int]) -> Counter[str]:
    """Count injected pods by the key of their request."""
    table = snapshot.pods
    kinds = (table.template_key(row) for row in rows)
    owners = ((kind.namespace, kind.owner) for kind in kinds if kind.owner is not None)
    return Counter(f"{namespace}/{owner.name}" for namespace, owner in owners if owner.kind == "ProvisioningRequest")


def select_request(
    queue: RequestQueue, settings: ProvisioningRequestSettings, now_s: float
) -> ProvisioningRequest | None:
    """The next request that is due; it is accepted. Requests before it whose pods cannot be created have failed.

    Check-capacity requests that are served in batches are accepted with their batch.
    """
    for request in queue:
        if not is_handled_by(request, queue.instance) or queue.awaits_templates(request):
            continue
        if not queue.retries.is_due(request, now_s):
            continue
        if _has_failed(queue, request):
            continue
        together = settings.check_capacity_batch_processing and is_check_capacity(request, queue.instance)
        return request if together else queue.set_condition(request, IS_ACCEPTED)
    return None


def is_batched(settings: ProvisioningRequestSettings) -> bool:
    """Are check-capacity requests served in batches? A batch of one is none."""
    return settings.check_capacity_batch_processing and settings.check_capacity_provisioning_request_max_batch_size > 1


def select_batch(
    queue: RequestQueue, settings: ProvisioningRequestSettings, now_s: float
) -> Sequence[ProvisioningRequest]:
    """The check-capacity requests that are due, as many as one loop serves."""
    batch: list[ProvisioningRequest] = []
    for request in queue:
        if len(batch) >= settings.check_capacity_provisioning_request_max_batch_size:
            break
        if not is_check_capacity(request, queue.instance) or queue.awaits_templates(request):
            continue
        if not queue.retries.is_due(request, now_s):
            continue
        if not _has_failed(queue, request):
            batch.append(request)
    return batch


def _has_failed(queue: RequestQueue, request: ProvisioningRequest) -> bool:
    """Has the request no pods that could be created? Then its Failed condition is set."""
    fault = request.fault
    if not fault and queue.fails_empty and not request.pod_count:
        fault = "spec.podSets: found no pods, expected a count of 1 or more"
    if fault:
        queue.set_condition(request, failed_to_create_pods(fault))
    return bool(fault)


def find_consumer_pods(snapshot: Snapshot, rows: Sequence[int]) -> tuple[int, ...]:
    """Rows of the pending pods that consume booked capacity: they ask for no nodes of their own."""
    consuming = _find_consumers(snapshot)
    if not consuming:
        return ()
    return tuple(row for row in rows if int(snapshot.pods.template_ids[row]) in consuming)


def book_capacity(
    queue: RequestQueue, snapshot: Snapshot, search: hinting.HintingState, settings: Settings
) -> dict[str, int]:
    """Inject and place the pods of all requests with a booking; returns how many have a place, by request.

    The capacity of requests whose pods all exist is consumed, and free for them.
    """
    rows_of: dict[str, list[int]] = {}
    consumers = count_consumers(snapshot)
    for request in queue:
        if not is_booked(request, queue.instance):
            continue
        there = consumers[request.key]
        if there >= request.pod_count:
            queue.set_condition(request, BOOKING_CONSUMED)
        elif request.fault:
            queue.set_condition(request, failed_to_book_capacity(request.fault))
        else:
            remaining = request.pod_count - there if settings.deviations.book_only_what_is_left else None
            rows_of[request.key] = inject_request_pods(snapshot, request, remaining)
    _find_places(snapshot, rows_of, search, settings)
    placed = {key: int((snapshot.pods.node_rows[rows] != arrays.ABSENT).sum()) for key, rows in rows_of.items()}
    return {key: count for key, count in placed.items() if count}


def _find_places(
    snapshot: Snapshot, rows_of: Mapping[str, Sequence[int]], search: hinting.HintingState, settings: Settings
) -> None:
    """Pods that had a place keep it, then the others find one, in the order of the requests."""
    placer, usable = shape_placer.Placer(snapshot, settings.filters), snapshot.nodes.alive.copy()
    had, uids = search.hints.old, snapshot.pods.uids
    known = [row for rows in rows_of.values() for row in rows if uids[row] in had]
    if known:
        hinting.try_schedule_pods(placer, known, search, usable)
    for rows in rows_of.values():
        others = [row for row in rows if uids[row] not in had]
        if others:
            hinting.try_schedule_pods(placer, others, search, usable)
    search.hints.drop_old()


def count_consumers(snapshot: Snapshot) -> Counter[str]:
    """Pods on nodes that use a request's capacity, by the request's key."""
    consuming, table = _find_consumers(snapshot), snapshot.pods
    if not consuming:
        return Counter()
    bound = table.template_ids[table.node_rows != arrays.ABSENT]
    counts = np.bincount(bound, minlength=len(table.template_keys))
    consumers: Counter[str] = Counter()
    for kind, key in consuming.items():
        consumers[key] += int(counts[kind])
    return consumers


def _find_consumers(snapshot: Snapshot) -> dict[int, str]:
    """The request's key by kind of pod, of those that use one's capacity."""
    consumers: dict[int, str] = {}
    for number, kind in enumerate(snapshot.pods.template_keys):
        if kind.annotations:
            name = consumed_request(dict(kind.annotations))
            if name is not None and not _is_request_pod(kind.owner.kind if kind.owner else ""):
                consumers[number] = f"{kind.namespace}/{name}"
    return consumers


def _is_request_pod(owner_kind: str) -> bool:
    """Are such pods the request's own?"""
    return owner_kind == "ProvisioningRequest"
