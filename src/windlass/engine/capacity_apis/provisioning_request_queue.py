"""ProvisioningRequest queue: requests of one loop by creation, selection of the next, and capacity booking.

The queue holds the requests with the conditions that this loop sets, and nothing else: what the functions below find
out, they return.

Booked capacity is kept loop after loop until it expires or is consumed: the request's pods are injected and placed in
the loop's fork, where other requests, scale-up and scale-down see them. Pods that do not fit any more are left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from windlass.engine.capacity_apis import provisioning_request_conditions
from windlass.engine.model import arrays, plan, provisioning
from windlass.engine.model.provisioning import ProvisioningRequest, consumed_request
from windlass.engine.model.settings import ProvisioningRequestSettings, Settings
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.snapshot.cluster_snapshot import Snapshot


class RequestQueue:
    """Requests in the order in which they are served: first come, first served. Cluster Autoscaler has no order."""

    def __init__(
        self,
        found: Iterable[ProvisioningRequest],
        known: provisioning.ProvisioningMemory,
        settings: Settings,
        now_s: float,
    ) -> None:
        provisioning_request_settings = settings.provisioning_requests
        enabled = found if provisioning_request_settings.enable_provisioning_requests else ()
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
        self.retries = provisioning_request_conditions.RetryBackoff(known.delays, provisioning_request_settings)

    def __iter__(self) -> Iterator[ProvisioningRequest]:
        """As they are now; those that were deleted are gone."""
        return iter(tuple(self._current.values()))

    def find(self, key: str) -> ProvisioningRequest:
        """The request of this key, as it is now."""
        return self._current[key]

    def set_condition(
        self,
        request: ProvisioningRequest,
        update: provisioning_request_conditions.ConditionUpdate,
        *,
        generation: bool = True,
    ) -> ProvisioningRequest:
        """Set a condition of a request; the last one set is written."""
        updated = provisioning_request_conditions.set_condition(
            self._current[request.key], update, self._now_s, generation=generation
        )
        self._current[request.key] = updated
        if update is not provisioning_request_conditions.IS_ACCEPTED:
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
        for request, update in provisioning_request_conditions.find_expired(list(self), self.instance, self._now_s):
            self.set_condition(request, update)
        only_ours = self._settings.deviations.leave_others_requests_alone
        for request in self:
            if provisioning_request_conditions.is_obsolete(request, self._now_s) and (
                not only_ours or provisioning_request_conditions.is_handled_by(request, self.instance)
            ):
                del self._current[request.key]

    def intern_shapes(self, snapshot: Snapshot) -> None:
        """Intern the shapes of all pods that may be injected: a fork cannot take new shapes."""
        for request in self:
            if not provisioning_request_conditions.is_condition_true(request, provisioning_request_conditions.FAILED):
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
            if provisioning_request_conditions.is_obsolete(request, self._now_s):
                continue
            yield from (
                condition.since_s + provisioning_request_conditions.RETENTION_S for condition in request.conditions
            )
            if provisioning_request_conditions.is_handled_by(request, self.instance):
                yield provisioning_request_conditions.booking_ends_at_s(request)
                yield request.created_s + provisioning_request_conditions.EXPIRATION_S
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
        if not provisioning_request_conditions.is_handled_by(request, queue.instance) or queue.awaits_templates(
            request
        ):
            continue
        if not queue.retries.is_due(request, now_s):
            continue
        if _has_failed(queue, request):
            continue
        together = settings.check_capacity_batch_processing and provisioning_request_conditions.is_check_capacity(
            request, queue.instance
        )
        return request if together else queue.set_condition(request, provisioning_request_conditions.IS_ACCEPTED)
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
        if not provisioning_request_conditions.is_check_capacity(request, queue.instance) or queue.awaits_templates(
            request
        ):
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
        queue.set_condition(request, provisioning_request_conditions.failed_to_create_pods(fault))
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
        if not provisioning_request_conditions.is_booked(request, queue.instance):
            continue
        there = consumers[request.key]
        if there >= request.pod_count:
            queue.set_condition(request, provisioning_request_conditions.BOOKING_CONSUMED)
        elif request.fault:
            queue.set_condition(request, provisioning_request_conditions.failed_to_book_capacity(request.fault))
        else:
            left = request.pod_count - there if settings.deviations.book_only_what_is_left else None
            rows_of[request.key] = inject_request_pods(snapshot, request, left)
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
    found: Counter[str] = Counter()
    for kind, key in consuming.items():
        found[key] += int(counts[kind])
    return found


def _find_consumers(snapshot: Snapshot) -> dict[int, str]:
    """The request's key by kind of pod, of those that use one's capacity."""
    found: dict[int, str] = {}
    for number, kind in enumerate(snapshot.pods.template_keys):
        if kind.annotations:
            name = consumed_request(dict(kind.annotations))
            if name is not None and not _is_request_pod(kind.owner.kind if kind.owner else ""):
                found[number] = f"{kind.namespace}/{name}"
    return found


def _is_request_pod(owner_kind: str) -> bool:
    """Are such pods the request's own?"""
    return owner_kind == "ProvisioningRequest"
