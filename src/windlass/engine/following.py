"""Following a request to grow: have its nodes come, are they late, or will they never come?

Looked at once per loop and group. What failed is told as a `Failure`, for which the group backs off: a request whose
time is up, an instance that could not be created and, by `only_ready_nodes_fulfil_requests`, an instance that did not
register or a node that did not become ready in time.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from windlass.engine import deviations, facts, requests
from windlass.engine.readiness import Readiness
from windlass.engine.requests import Ending, ScaleUp

OTHER = "Other"
TIMEOUT = "timeout"
NOT_READY = "notReady"
UNREGISTERED = facts.InstanceError(OTHER, TIMEOUT, "Instances did not register as nodes in time")
UNREADY = facts.InstanceError(OTHER, NOT_READY, "Nodes did not become ready in time")

_MESSAGES = 3
"""More than so many different messages of one cause seem to go on."""

RESOLUTION_S = 1.0
"""The API server cuts the moment at which a node was created down to the second: it may seem older than its request."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Nodes that a group was to get and does not get."""

    group: str
    nodes: int
    error: facts.InstanceError
    requested_s: float


@dataclass(frozen=True, slots=True)
class Known:
    """What the last loop knew of instances and nodes that failed, so that each counts once."""

    uncreated: frozenset[str] = frozenset()
    """Instances that could not be created, by provider id."""
    stuck: frozenset[str] = frozenset()
    """Instances that did not register, by provider id, and nodes that did not become ready, by name."""
    absent: Mapping[str, int] = field(default_factory=dict)
    """How many nodes of each group did not even exist, by the groups that were seen."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What became of a group's request."""

    request: ScaleUp | None
    """What is left of it."""
    ending: Ending | None = None
    failures: tuple[Failure, ...] = ()
    overdue: int = 0
    """Nodes that were asked for here and whose time is up."""


@dataclass(frozen=True, slots=True)
class Course:
    """A group and its nodes at one moment, as far as following a request needs them."""

    group: facts.NodeGroup
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
        """Those of the missing that did not even register."""
        here = self.readiness.registered - len(self.readiness.leaving)
        return self.group.target_size - here - len(self.readiness.long_unregistered)

    def count_since(self, time_s: float) -> int:
        """How many of the ready nodes were created since then."""
        return sum(1 for name in self.readiness.ready if self.created_s[name] + RESOLUTION_S > time_s)

    def find_latest_s(self) -> float:
        """When the youngest of the ready nodes was created."""
        return min(max((self.created_s[name] for name in self.readiness.ready), default=-math.inf), self.now_s)


def follow(course: Course, request: ScaleUp | None, known: Known, chosen: deviations.Deviations) -> Progress:
    """Bring the request up to date."""
    ending, failures, overdue = None, list[Failure](), 0
    if request is not None and chosen.only_ready_nodes_fulfil_requests:
        request, failed = _give_up_stuck(course, request, known)
        failures += failed
    if request is not None and chosen.count_external_resizes_as_upcoming:
        request = _renew(course, request)
    if request is not None:
        ending = requests.end(request, course.missing, course.now_s)
        if ending is Ending.TIMED_OUT:
            failures.append(_time_out(course, request))
            overdue = request.increase
        if ending is not None:
            request = None
    if request is not None and course.missing > 0:
        request, failed = _give_up_uncreated(course, request, known)
        failures += failed
    is_quiet = request is None and ending is None and not failures
    if is_quiet and chosen.count_external_resizes_as_upcoming and _grew_outside(course, known):
        request = requests.await_external(course.missing, course.now_s, course.max_node_provision_time_s)
    return Progress(request, ending, tuple(failures), overdue)


def find_uncreated(group: facts.NodeGroup) -> list[tuple[str, facts.InstanceError]]:
    """Instances of the group that could not be created, and never will be, by provider id, and why."""
    return [
        (instance.provider_id, instance.error)
        for instance in group.instances
        if instance.state == "Creating" and instance.error is not None
    ]


def find_stuck(course: Course, request: ScaleUp) -> Iterator[tuple[str, str]]:
    """(instance or node, error code) for what did not register, or did not become ready, since the group is growing."""
    for provider_id in course.readiness.long_unregistered:
        if course.unregistered_since[provider_id] >= request.began_s:
            yield provider_id, TIMEOUT
    for name in course.readiness.unready:
        if course.created_s[name] + RESOLUTION_S > request.began_s:
            yield name, NOT_READY


def _grew_outside(course: Course, known: Known) -> bool:
    """Does the group lack more than before, though nothing was asked for here? A group seen for the first time may.

    Nodes that registered and are not ready do not count after that: they may have been ready in between.
    """
    lacked = known.absent.get(course.group.id)
    return course.missing > 0 if lacked is None else course.absent > lacked


def _renew(course: Course, request: ScaleUp) -> ScaleUp:
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
        return _await_anew(course, request, course.now_s)
    came_s = course.find_latest_s()
    return (
        _await_anew(course, request, came_s) if course.now_s <= came_s + course.max_node_provision_time_s else request
    )


def _await_anew(course: Course, request: ScaleUp, from_s: float) -> ScaleUp:
    """A request for all that is missing. Instances that are on their way are still its own."""
    anew = requests.await_external(course.missing, from_s, course.max_node_provision_time_s)
    return replace(anew, began_s=max(request.began_s, from_s - course.max_node_provision_time_s))


def _time_out(course: Course, request: ScaleUp) -> Failure:
    took_s = course.now_s - request.requested_s
    message = f"Scale-up timed out for node group {course.group.id} after {took_s:g}s"
    error = facts.InstanceError(OTHER, TIMEOUT, message)
    nodes = max(request.increase + request.external, 0)  # others may have taken back more than was asked for here
    return Failure(course.group.id, nodes, error, request.requested_s)


def _give_up_stuck(course: Course, request: ScaleUp, known: Known) -> tuple[ScaleUp | None, list[Failure]]:
    codes = [code for name, code in find_stuck(course, request) if name not in known.stuck]
    by_error = {error: codes.count(error.code) for error in (UNREGISTERED, UNREADY) if error.code in codes}
    return _give_up(course, request, by_error)


def _give_up_uncreated(course: Course, request: ScaleUp, known: Known) -> tuple[ScaleUp | None, list[Failure]]:
    messages: dict[tuple[str, str], set[str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for provider_id, error in find_uncreated(course.group):
        cause = (error.kind, error.code)
        messages.setdefault(cause, set()).add(error.message)
        counts[cause] = counts.get(cause, 0) + (provider_id not in known.uncreated)
    by_error = {
        facts.InstanceError(*cause, _join(messages[cause])): count
        for cause, count in sorted(counts.items())
        if count > 0
    }
    return _give_up(course, request, by_error)


def _join(messages: Collection[str]) -> str:
    """The messages of one cause. More than three end in dots, as in Cluster Autoscaler."""
    return ", ".join([*sorted(messages), *(["..."] if len(messages) > _MESSAGES else [])])


def _give_up(
    course: Course, request: ScaleUp, by_error: Mapping[facts.InstanceError, int]
) -> tuple[ScaleUp | None, list[Failure]]:
    """Shorten the request by what failed, cause by cause, as long as anything of it is left."""
    left: ScaleUp | None = request
    failures = []
    for error, nodes in by_error.items():
        if left is None:
            break
        failures.append(Failure(course.group.id, nodes, error, left.requested_s))
        left = requests.shorten(left, nodes)
    return left, failures
