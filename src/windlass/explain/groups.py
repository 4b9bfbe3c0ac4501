"""Groups: size and bounds, health, what is on its way, what it backs off for, and what a new node would be like."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine import facts, plan, replicas_owners
from windlass.engine.quarantine import Fault
from windlass.engine.readiness import NOBODY
from windlass.engine.scale_up import templates
from windlass.explain import look, unevaluated


class Source(enum.StrEnum):
    """Where it is known from what a new node looks like."""

    NODE = "a node of the group"
    REMEMBERED = "a node that the group had before"
    PROVIDER = "the provider"
    UNHEALTHY_NODE = "a node of the group that is not healthy, for want of a better one"
    NOWHERE = ""


@dataclass(frozen=True, slots=True)
class TemplateAccount:
    """What a new node of the group is taken to look like."""

    source: Source
    example: str = ""
    """The node it was made from, where one was."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """In each resource's own unit."""
    taken: Mapping[str, int] = field(default_factory=dict)
    """What the pods that it starts with ask for."""
    pods: tuple[str, ...] = ()
    """Those pods."""
    taints: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BackoffAccount:
    """The group is left alone after a failed scale-up."""

    until_s: float
    failed_s: float
    duration_s: float
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class UpcomingAccount:
    """Nodes that were asked for and are not there yet."""

    nodes: int
    since_s: float | None = None
    expected_by_s: float | None = None
    """Later than this, and they count as failed."""


@dataclass(frozen=True, slots=True)
class GroupAccount:
    """All that is to be told of a group."""

    id: str
    at_s: float
    min_size: int
    max_size: int
    target_size: int
    ready: int
    unready: int
    not_started: int
    unregistered: int
    """Instances without a node; `long_unregistered` of them for too long."""
    long_unregistered: int
    deleting: int
    """Nodes on their way out."""
    is_healthy: bool
    lacking: int
    """Nodes that should be ready and are not."""
    unneeded: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    """Of instances that could not be created."""
    is_rolling_out: bool = False
    goes_whole: bool = False
    price_per_hour: float | None = None
    backoff: BackoffAccount | None = None
    upcoming: UpcomingAccount | None = None
    wrong_size_since_s: float | None = None
    added_s: float | None = None
    deleted_s: float | None = None
    failed_s: float | None = None
    grows_to: int | None = None
    """What the next loop raises it to."""
    drains: tuple[str, ...] = ()
    """Nodes that the next loop begins to remove."""
    template: TemplateAccount = field(default_factory=lambda: TemplateAccount(Source.NOWHERE))
    replicas_owner: str = ""
    """Which controller applies its size, and what ends that; empty if none does."""
    is_left_alone: bool = False
    """Its size is left to that controller."""


def describe(at: look.Look, id: str) -> GroupAccount:
    """The group of this id, which exists."""
    group = next(one for one in at.seen.groups if one.id == id)
    found = at.decision.story.health.groups[id]
    seen = found.readiness or NOBODY
    durable = at.decision.memory.durable
    own = at.seen.group_of_nodes()
    activity = at.memory.durable.activities.get(id)
    return GroupAccount(
        id,
        at.now_s,
        group.min_size,
        group.max_size,
        group.target_size,
        len(seen.ready),
        len(seen.unready),
        len(seen.not_started),
        len(seen.unregistered) + len(seen.long_unregistered),
        len(seen.long_unregistered),
        sum(1 for begun in at.memory.durable.drains.values() if begun.group == id),
        found.verdict.is_healthy,
        found.verdict.lacking,
        tuple(name for name in durable.scale_down.since if name in own and own[name].id == id),
        tuple(dict.fromkeys(one.error.said for one in group.instances if one.error is not None)),
        group.is_rolling_out,
        group.options.zero_or_max,
        group.price_per_hour,
        _describe_backoff(at, id),
        _describe_upcoming(at, id),
        found.wrong_size.since_s if found.wrong_size else None,
        activity.added_s if activity else None,
        activity.deleted_s if activity else None,
        activity.failed_s if activity else None,
        find_growth(at).get(id),
        tuple(one.node for one in at.decision.plan if isinstance(one, plan.Drain) and one.group == id),
        describe_template(at, group),
        group.replicas_owner.message if group.replicas_owner is not None else "",
        replicas_owners.is_left_alone(group, at.settings.deviations),
    )


def describe_unevaluated(at: look.Look, fault: Fault) -> GroupAccount:
    """A group that is left out of every decision, and why."""
    group = fault.suspect.value
    assert isinstance(group, facts.NodeGroup), "the fault is a group's"
    return GroupAccount(
        group.id, at.now_s, group.min_size, group.max_size, group.target_size, 0, 0, 0, 0, 0, 0,
        is_healthy=False, lacking=0, errors=(unevaluated.tell(fault),),
    )  # fmt: skip


def find_growth(at: look.Look, rounds: int | None = None) -> dict[str, int]:
    """What groups are raised to, by group: in so many rounds of the scale-up, or in all."""
    proposals = at.decision.story.scale_ups[:rounds]
    return {one.group.id: one.new_size for proposal in proposals for one in proposal.increases}


def _describe_backoff(at: look.Look, id: str) -> BackoffAccount | None:
    found = at.decision.story.health.groups[id].backoff
    if found is None:
        return None
    return BackoffAccount(found.until_s, found.failed_s, found.duration_s, found.error.code, found.error.message)


def _describe_upcoming(at: look.Look, id: str) -> UpcomingAccount | None:
    nodes = at.decision.story.repairs.upcoming.get(id)
    if nodes is None or not nodes.nodes:
        return None
    request = at.decision.story.health.memory.requests.scale_ups.get(id)
    if request is None:
        return UpcomingAccount(nodes.nodes)
    return UpcomingAccount(nodes.nodes, request.requested_s, request.expected_by_s)


def describe_template(at: look.Look, group: facts.NodeGroup) -> TemplateAccount:
    """What a new node is taken to look like, and who says so."""
    made = at.decision.story.templates.get(group.id)
    if made is None:
        return TemplateAccount(Source.NOWHERE)
    taken: dict[str, int] = {}
    for pod in made.pods:
        for resource, amount in pod.spec.requests:
            taken[resource] = taken.get(resource, 0) + amount
    source, example = _find_source(at, group)
    return TemplateAccount(
        source,
        example,
        dict(made.node.allocatable),
        taken,
        tuple(pod.key for pod in made.pods),
        tuple(f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in made.node.taints),
        {key: value for key, value in made.node.labels.items() if key not in _MADE_UP},
    )


_MADE_UP = (facts.HOSTNAME, templates.TEMPLATE_LABEL, *(old for _, old in templates.OLD_LABELS))
"""Labels that tell nobody anything."""


def _find_source(at: look.Look, group: facts.NodeGroup) -> tuple[Source, str]:
    own = at.seen.group_of_nodes()
    members = [node for node in at.decision.story.nodes if node.name in own and own[node.name].id == group.id]
    good = next((node.name for node in members if templates.is_good_example(node, at.now_s)), None)
    if good is not None:
        return Source.NODE, good
    if group.id in at.decision.memory.volatile.templates:
        return Source.REMEMBERED, ""
    if group.template is not None:
        return Source.PROVIDER, ""
    return Source.UNHEALTHY_NODE, members[0].name if members else ""
