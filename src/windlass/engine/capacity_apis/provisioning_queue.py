"""ProvisioningRequest queue: requests of one loop by creation, selection of the next, and capacity booking.

Booked capacity is kept loop after loop until it expires or is consumed: the request's pods are injected and placed in
the loop's fork, where other requests, scale-up and scale-down see them. Pods that do not fit any more are left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from windlass.engine.capacity_apis import provisioning_conditions
from windlass.engine.model import arrays, plan, provisioning
from windlass.engine.model.provisioning import ProvisioningRequest, consumed_request
from windlass.engine.model.settings import ProvisioningRequestSettings, Settings
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.snapshot.snapshot import Snapshot


class RequestQueue:
    """Requests in the order in which they are served: first come, first served. The peer has no order."""

    def __init__(
        self,
        found: Iterable[ProvisioningRequest],
        known: provisioning.ProvisioningMemory,
        settings: Settings,
        now_s: float,
    ) -> None:
        chosen = settings.provisioning_requests
        enabled = found if chosen.enable_provisioning_requests else ()
        self._before = {one.key: one for one in sorted(enabled, key=lambda one: (one.created_s, one.key))}
        self._current = dict(self._before)
        self._settings, self._chosen, self._now_s = settings, chosen, now_s
        self._known, self._answered = known, dict[str, str]()
        self.instance = chosen.check_capacity_processor_instance
        self._grace_s = settings.deviations.pod_template_grace_s
        self.fails_empty = settings.deviations.fail_empty_requests
        self.explains_rejections = settings.deviations.say_why_not_found
        self.retries = provisioning_conditions.RetryBackoff(known.delays, chosen)
        self.is_next = known.is_next
        self.places: dict[str, str] = {}
        """By uid of its pod: the node on which there is room that was found in this loop."""
        self.picked = ""
        self.ordering = ""
        """The request that nodes are asked for, until it is known what came of it."""
        self.booked: Mapping[str, int] = {}
        self.helped: Counter[str] = Counter()
        self.remaining: Counter[str] = Counter()
        self.ignored: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[ProvisioningRequest]:
        """As they are now; those that were deleted are gone."""
        return iter(tuple(self._current.values()))

    def __bool__(self) -> bool:
        return bool(self._before)

    def set_condition(
        self, request: ProvisioningRequest, saying: provisioning_conditions.ConditionUpdate, *, generation: bool = True
    ) -> ProvisioningRequest:
        """Say something of a request; what is said last is what will be written."""
        said = provisioning_conditions.set_condition(
            self._current[request.key], saying, self._now_s, generation=generation
        )
        self._current[request.key] = said
        if saying is not provisioning_conditions.IS_ACCEPTED:
            self._answered[request.key] = saying.reason
        return said

    def record_places(self, snapshot: Snapshot, rows: Sequence[int]) -> None:
        """Room was found for these pods where they are now: it is to be booked there."""
        if self._settings.deviations.keep_places_found:
            where, names = snapshot.pods.node_rows[list(rows)].tolist(), snapshot.nodes.names
            uids = (snapshot.pods.uids[row] for row in rows)
            self.places |= {uid: names[node] for uid, node in zip(uids, where, strict=True) if node >= 0}

    def awaits_templates(self, request: ProvisioningRequest) -> bool:
        """Is it so young that a template that is missing may still be seen?"""
        return request.lacks_templates and self._now_s < request.created_s + self._grace_s

    def expire(self) -> None:
        """End what is over: first of all in a loop."""
        for request, saying in provisioning_conditions.find_expired(list(self), self.instance, self._now_s):
            self.set_condition(request, saying)
        only_ours = self._settings.deviations.leave_others_requests_alone
        for request in self:
            if provisioning_conditions.is_obsolete(request, self._now_s) and (
                not only_ours or provisioning_conditions.is_handled_by(request, self.instance)
            ):
                del self._current[request.key]

    def intern_shapes(self, snapshot: Snapshot) -> None:
        """Let the snapshot know the shapes of all pods that may be imagined: inside a fork it is too late."""
        for request in self:
            if not provisioning_conditions.is_condition_true(request, provisioning_conditions.FAILED):
                for one in request.pod_sets:
                    if one.pod is not None:
                        snapshot.shape_of(one.pod)

    # What comes of it

    def instructions(self) -> list[plan.Instruction]:
        """What is to be written, in the order of the requests."""
        found: list[plan.Instruction] = []
        for key, before in self._before.items():
            now = self._current.get(key)
            if now is None:
                found.append(plan.DeleteRequest(before.namespace, before.name, before.uid))
            elif now.conditions != before.conditions:
                found.append(plan.SetConditions(now.namespace, now.name, before.version, now.conditions))
        return found

    @property
    def memory(self) -> provisioning.ProvisioningMemory:
        """What to remember; of requests that are gone nothing."""
        present = {one.uid for one in self}
        delays = {uid: delay_s for uid, delay_s in self.retries.delays.items() if uid in present}
        return provisioning.ProvisioningMemory(delays, self.is_next)

    @property
    def report(self) -> provisioning.ProvisioningReport:
        if not self._before and not self.ignored:
            return provisioning.EMPTY_REPORT
        return provisioning.ProvisioningReport(
            self.picked, self.booked, self._answered, self.helped, self.remaining, self.ignored
        )

    def changes_at_s(self) -> Iterator[float]:
        """When time alone changes what is said of a request."""
        for request in self:
            if provisioning_conditions.is_obsolete(request, self._now_s):
                continue
            yield from (one.since_s + provisioning_conditions.RETENTION_S for one in request.conditions)
            if provisioning_conditions.is_handled_by(request, self.instance):
                yield provisioning_conditions.booking_ends_at_s(request)
                yield request.created_s + provisioning_conditions.EXPIRATION_S
                yield request.created_s + self._grace_s
                if self.retries.is_open(request):  # if it is due already, it is the next loop's
                    yield max(self.retries.due_at_s(request), self._now_s)


def name_request_pods(request: ProvisioningRequest) -> Iterator[tuple[int, list[str]]]:
    """The names of the request's pods, by the number of their pod set."""
    for number, one in enumerate(request.pod_sets):
        yield number, [f"{request.name}-{number}-{place}" for place in range(one.count)]


def inject_request_pods(snapshot: Snapshot, request: ProvisioningRequest, count: int | None = None) -> list[int]:
    """Append the request's pods, the first `count` of them, to the snapshot's fork; return their rows."""
    rows: list[int] = []
    for number, names in name_request_pods(request):
        pod = request.pod_sets[number].pod
        assert pod is not None, "a request whose pods cannot be made is not served"
        wanted = names if count is None else names[: max(count - len(rows), 0)]
        rows += snapshot.append_pods(pod, wanted)
    return rows


def count_by_request(snapshot: Snapshot, rows: Sequence[int]) -> Counter[str]:
    """How many of these imagined pods are whose."""
    table = snapshot.pods
    kinds = (table.template_key(row) for row in rows)
    mine = ((kind.namespace, kind.owner) for kind in kinds if kind.owner is not None)
    return Counter(f"{namespace}/{owner.name}" for namespace, owner in mine if owner.kind == "ProvisioningRequest")


def select_request(
    docket: RequestQueue, settings: ProvisioningRequestSettings, now_s: float
) -> ProvisioningRequest | None:
    """The next request that is due; it is accepted. Those before it whose pods cannot be made have failed.

    Check-capacity requests that are served in batches are accepted with their batch.
    """
    for request in docket:
        if not provisioning_conditions.is_handled_by(request, docket.instance) or docket.awaits_templates(request):
            continue
        if not docket.retries.is_due(request, now_s):
            continue
        if _has_failed(docket, request):
            continue
        docket.picked = request.key
        together = settings.check_capacity_batch_processing and provisioning_conditions.is_check_capacity(
            request, docket.instance
        )
        return request if together else docket.set_condition(request, provisioning_conditions.IS_ACCEPTED)
    return None


def is_batched(settings: ProvisioningRequestSettings) -> bool:
    """A batch of one is none."""
    return settings.check_capacity_batch_processing and settings.check_capacity_provisioning_request_max_batch_size > 1


def select_batch(
    docket: RequestQueue, settings: ProvisioningRequestSettings, now_s: float
) -> Sequence[ProvisioningRequest]:
    """The check-capacity requests that are due, as many as one loop serves."""
    batch: list[ProvisioningRequest] = []
    for request in docket:
        if len(batch) >= settings.check_capacity_provisioning_request_max_batch_size:
            break
        if not provisioning_conditions.is_check_capacity(request, docket.instance) or docket.awaits_templates(request):
            continue
        if not docket.retries.is_due(request, now_s):
            continue
        if not _has_failed(docket, request):
            batch.append(request)
    return batch


def _has_failed(docket: RequestQueue, request: ProvisioningRequest) -> bool:
    """Are there no pods to ask for? Then it is told why."""
    fault = request.fault
    if not fault and docket.fails_empty and not request.pod_count:
        fault = "spec.podSets: found no pods, expected a count of 1 or more"
    if fault:
        docket.set_condition(request, provisioning_conditions.failed_to_create_pods(fault))
    return bool(fault)


def filter_out_consumers(docket: RequestQueue, snapshot: Snapshot, rows: Sequence[int]) -> list[int]:
    """Those of these pending pods that ask for room of their own."""
    consuming = _find_consumers(snapshot)
    if not consuming:
        return list(rows)
    docket.ignored = tuple(row for row in rows if int(snapshot.pods.template_ids[row]) in consuming)
    ignored = set(docket.ignored)
    return [row for row in rows if row not in ignored]


def book_capacity(docket: RequestQueue, snapshot: Snapshot, search: hinting.HintingState, settings: Settings) -> None:
    """Keep room for all requests that have a right to it. The room of requests whose pods are all there is free."""
    rows_of: dict[str, list[int]] = {}
    consumers = count_consumers(snapshot)
    for request in docket:
        if not provisioning_conditions.is_booked(request, docket.instance):
            continue
        there = consumers[request.key]
        if there >= request.pod_count:
            docket.set_condition(request, provisioning_conditions.BOOKING_CONSUMED)
        elif request.fault:
            docket.set_condition(request, provisioning_conditions.failed_to_book_capacity(request.fault))
        else:
            left = request.pod_count - there if settings.deviations.book_only_what_is_left else None
            rows_of[request.key] = inject_request_pods(snapshot, request, left)
    _find_places(snapshot, rows_of, search, settings)
    placed = {key: int((snapshot.pods.node_rows[rows] != arrays.ABSENT).sum()) for key, rows in rows_of.items()}
    docket.booked = {key: count for key, count in placed.items() if count}


def _find_places(
    snapshot: Snapshot, rows_of: Mapping[str, Sequence[int]], search: hinting.HintingState, settings: Settings
) -> None:
    """First those that had a place keep it, then the others find one: the first who asked first."""
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
