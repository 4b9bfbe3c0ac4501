"""Scale requests: nodes that were requested and are awaited, and nodes that are being deleted.

A group has at most one scale-up request. Asking for more extends it and starts its time anew, because the provider
starts anew; instances that fail shorten it. It ends when nothing is missing, when its time is up, or when nothing of it
is left. `update_scale_request` runs once per loop and group; each `ScaleUpFailure` makes the group back off.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from windlass.engine.model import cluster_health, deviations, node_groups
from windlass.engine.model.cluster_health import Readiness, RequestOutcome, ScaleUpRequest

MAX_NODE_DELETION_S = 300.0
"""How long the provider may take to delete a node."""


def register_scale_up(
    requests: cluster_health.ScaleRequests, group: str, by: int, now_s: float, max_node_provision_time_s: float
) -> cluster_health.ScaleRequests:
    """Register a scale-up of the group."""
    request = extend_scale_up(requests.scale_ups.get(group), by, now_s, max_node_provision_time_s)
    return replace(requests, scale_ups={**requests.scale_ups, group: request})


def extend_scale_up(
    request: cluster_health.ScaleUpRequest | None, by: int, now_s: float, max_node_provision_time_s: float
) -> cluster_health.ScaleUpRequest:
    """The request with more nodes, and a new deadline for all of them."""
    if request is None:
        return cluster_health.ScaleUpRequest(by, now_s, now_s, now_s + max_node_provision_time_s)
    return replace(
        request,
        increase=request.increase + by,
        requested_s=now_s,
        expected_by_s=now_s + max_node_provision_time_s,
    )


def shorten_scale_up(request: cluster_health.ScaleUpRequest, by: int) -> cluster_health.ScaleUpRequest | None:
    """The request with fewer nodes, its own first; None if none is left."""
    own = max(request.increase - by, 0)
    others = max(request.external - max(by - request.increase, 0), 0)
    return replace(request, increase=own, external=others) if own + others > 0 else None


def make_external_request(nodes: int, now_s: float, max_node_provision_time_s: float) -> cluster_health.ScaleUpRequest:
    """A request for nodes that another client ordered."""
    return cluster_health.ScaleUpRequest(0, now_s, now_s, now_s + max_node_provision_time_s, external=nodes)


def find_outcome(
    request: cluster_health.ScaleUpRequest, missing: int, now_s: float
) -> cluster_health.RequestOutcome | None:
    """The end of the request, if it ended. At its deadline it may still be fulfilled."""
    if missing <= 0:
        return cluster_health.RequestOutcome.FULFILLED
    return cluster_health.RequestOutcome.TIMED_OUT if request.expected_by_s < now_s else None


def register_scale_down(
    requests: cluster_health.ScaleRequests, group: str, node: str, now_s: float
) -> cluster_health.ScaleRequests:
    """Register the deletion of a node of the group."""
    return register_scale_downs(requests, [(group, node)], now_s)


def register_scale_downs(
    requests: cluster_health.ScaleRequests, going: Iterable[tuple[str, str]], now_s: float
) -> cluster_health.ScaleRequests:
    """Register deletions of nodes: (group, node)."""
    begun = (cluster_health.ScaleDownRequest(group, node, now_s, now_s + MAX_NODE_DELETION_S) for group, node in going)
    return replace(requests, scale_downs=(*requests.scale_downs, *begun))


def drop_expired_scale_downs(
    scale_downs: tuple[cluster_health.ScaleDownRequest, ...], now_s: float
) -> tuple[cluster_health.ScaleDownRequest, ...]:
    """Deletions that the provider may not have finished."""
    return tuple(request for request in scale_downs if request.expected_by_s > now_s)


OTHER_ERROR_KIND = "Other"

TIMEOUT_CODE = "timeout"

NOT_READY_CODE = "notReady"

UNREGISTERED_ERROR = node_groups.InstanceError(
    OTHER_ERROR_KIND, TIMEOUT_CODE, "Instances did not register as nodes in time"
)

UNREADY_ERROR = node_groups.InstanceError(OTHER_ERROR_KIND, NOT_READY_CODE, "Nodes did not become ready in time")

_MESSAGES = 3
"""More than so many different messages of one cause seem to go on."""

RESOLUTION_S = 1.0
"""The API server cuts the moment at which a node was created down to the second: it may seem older than its request."""


@dataclass(frozen=True, slots=True)
class GroupTracker:
    """A group and its nodes at one moment, as far as following a request needs them."""

    group: node_groups.NodeGroup
    readiness: Readiness
    created_s: Mapping[str, float]
    """By node name."""
    unregistered_since: Mapping[str, float]
    """By provider id."""
    max_node_provision_time_s: float
    now_s: float

    @property
    def missing(self) -> int:
        """Nodes that the group should have and does not have yet; negative if it has too many."""
        return self.group.target_size - self.readiness.arrived

    @property
    def absent(self) -> int:
        """Missing nodes without an instance that registers."""
        here = self.readiness.registered - len(self.readiness.leaving)
        return self.group.target_size - here - len(self.readiness.long_unregistered)

    def count_since(self, time_s: float) -> int:
        """How many of the ready nodes were created since then."""
        return sum(1 for name in self.readiness.ready if self.created_s[name] + RESOLUTION_S > time_s)

    def find_latest_s(self) -> float:
        """When the youngest of the ready nodes was created."""
        return min(max((self.created_s[name] for name in self.readiness.ready), default=-math.inf), self.now_s)


def update_scale_request(
    course: GroupTracker,
    request: ScaleUpRequest | None,
    known_failures: cluster_health.KnownFailures,
    active_deviations: deviations.Deviations,
) -> cluster_health.ScaleUpProgress:
    """Update the request: fulfilled, failed, extended or expired."""
    ending, failures, overdue = None, list[cluster_health.ScaleUpFailure](), 0
    if request is not None and active_deviations.only_ready_nodes_fulfil_requests:
        request, failed = _give_up_stuck(course, request, known_failures)
        failures += failed
    if request is not None and active_deviations.count_external_resizes_as_upcoming:
        request = _renew(course, request)
    if request is not None:
        ending = find_outcome(request, course.missing, course.now_s)
        if ending is RequestOutcome.TIMED_OUT:
            failures.append(_time_out(course, request))
            overdue = request.increase
        if ending is not None:
            request = None
    if request is not None and course.missing > 0:
        request, failed = _give_up_uncreated(course, request, known_failures)
        failures += failed
    is_quiet = request is None and ending is None and not failures
    if is_quiet and active_deviations.count_external_resizes_as_upcoming and _grew_outside(course, known_failures):
        request = make_external_request(course.missing, course.now_s, course.max_node_provision_time_s)
    return cluster_health.ScaleUpProgress(request, ending, tuple(failures), overdue)


def find_uncreated(group: node_groups.NodeGroup) -> list[tuple[str, node_groups.InstanceError]]:
    """Instances of the group that could not be created, and never will be, by provider id, and why."""
    return [
        (instance.provider_id, instance.error)
        for instance in group.instances
        if instance.state == "Creating" and instance.error is not None
    ]


def find_stuck(course: GroupTracker, request: ScaleUpRequest) -> Iterator[tuple[str, str]]:
    """(instance or node, error code) for what did not register, or did not become ready, since the group is growing."""
    for provider_id in course.readiness.long_unregistered:
        if course.unregistered_since[provider_id] >= request.began_s:
            yield provider_id, TIMEOUT_CODE
    for name in course.readiness.unready:
        if course.created_s[name] + RESOLUTION_S > request.began_s:
            yield name, NOT_READY_CODE


def _grew_outside(course: GroupTracker, known_failures: cluster_health.KnownFailures) -> bool:
    """Does the group lack more than before, though nothing was asked for here? A group seen for the first time may.

    Nodes that registered and are not ready do not count after that: they may have been ready in between.
    """
    lacked = known_failures.absent.get(course.group.id)
    return course.missing > 0 if lacked is None else course.absent > lacked


def _renew(course: GroupTracker, request: ScaleUpRequest) -> ScaleUpRequest:
    """The request with a new deadline, where what is missing has not been missing since it was made.

    Nodes that others replace come and go, one after another: a rollout without surge, spot instances. Such a request
    begins anew where its time is up while instances are on their way, each with a time of its own, or a node came
    within that time. Nodes that were asked for here must have come.
    """
    if course.missing <= 0 or course.now_s <= request.expected_by_s:
        return request
    if course.count_since(request.requested_s) < request.increase:
        return request
    if course.missing <= len(course.readiness.unregistered) + len(course.readiness.not_started):
        return _renew_for_missing(course, request, course.now_s)
    came_s = course.find_latest_s()
    return (
        _renew_for_missing(course, request, came_s)
        if course.now_s <= came_s + course.max_node_provision_time_s
        else request
    )


def _renew_for_missing(course: GroupTracker, request: ScaleUpRequest, from_s: float) -> ScaleUpRequest:
    """A request for all that is missing. Instances that are on their way are still its own."""
    anew = make_external_request(course.missing, from_s, course.max_node_provision_time_s)
    return replace(anew, began_s=max(request.began_s, from_s - course.max_node_provision_time_s))


def _time_out(course: GroupTracker, request: ScaleUpRequest) -> cluster_health.ScaleUpFailure:
    took_s = course.now_s - request.requested_s
    message = f"Scale-up timed out for node group {course.group.id} after {took_s:g}s"
    error = node_groups.InstanceError(OTHER_ERROR_KIND, TIMEOUT_CODE, message)
    nodes = max(request.increase + request.external, 0)  # others may have taken back more than was asked for here
    return cluster_health.ScaleUpFailure(course.group.id, nodes, error, request.requested_s)


def _give_up_stuck(
    course: GroupTracker, request: ScaleUpRequest, known_failures: cluster_health.KnownFailures
) -> tuple[ScaleUpRequest | None, list[cluster_health.ScaleUpFailure]]:
    codes = [code for name, code in find_stuck(course, request) if name not in known_failures.stuck]
    by_error = {error: codes.count(error.code) for error in (UNREGISTERED_ERROR, UNREADY_ERROR) if error.code in codes}
    return _give_up(course, request, by_error)


def _give_up_uncreated(
    course: GroupTracker, request: ScaleUpRequest, known_failures: cluster_health.KnownFailures
) -> tuple[ScaleUpRequest | None, list[cluster_health.ScaleUpFailure]]:
    messages: dict[tuple[str, str], set[str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for provider_id, error in find_uncreated(course.group):
        cause = (error.kind, error.code)
        messages.setdefault(cause, set()).add(error.message)
        counts[cause] = counts.get(cause, 0) + (provider_id not in known_failures.uncreated)
    by_error = {
        node_groups.InstanceError(*cause, _join_messages(messages[cause])): count
        for cause, count in sorted(counts.items())
        if count > 0
    }
    return _give_up(course, request, by_error)


def _join_messages(messages: Collection[str]) -> str:
    """The messages of one cause. More than three end in dots, as in Cluster Autoscaler."""
    return ", ".join([*sorted(messages), *(["..."] if len(messages) > _MESSAGES else [])])


def _give_up(
    course: GroupTracker, request: ScaleUpRequest, by_error: Mapping[node_groups.InstanceError, int]
) -> tuple[ScaleUpRequest | None, list[cluster_health.ScaleUpFailure]]:
    """Shorten the request by what failed, cause by cause, as long as anything of it is left."""
    remaining: ScaleUpRequest | None = request
    failures = []
    for error, nodes in by_error.items():
        if remaining is None:
            break
        failures.append(cluster_health.ScaleUpFailure(course.group.id, nodes, error, remaining.requested_s))
        remaining = shorten_scale_up(remaining, nodes)
    return remaining, failures
