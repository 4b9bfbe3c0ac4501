"""Group explanation: size and bounds, health, upcoming nodes, backoff, and the template of a new node."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.cluster_state import remediation
from windlass.engine.model import facts, node_groups
from windlass.engine.model.cluster_health import Backoff
from windlass.engine.quarantine import Fault
from windlass.engine.scale_up import node_templates
from windlass.explain import decision_view, explain_context


class TemplateSource(enum.StrEnum):
    """Where it is known from what a new node looks like."""

    NODE = "a node of the group"
    REMEMBERED = "a node that the group had before"
    PROVIDER = "the provider"
    UNHEALTHY_NODE = "a node of the group that is not healthy, for want of a better one"
    NOWHERE = ""


@dataclass(frozen=True, slots=True)
class TemplateExplanation:
    """What a new node of the group is taken to look like."""

    source: TemplateSource
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
class BackoffExplanation:
    """The group is left alone after a failed scale-up."""

    until_s: float
    failed_s: float
    duration_s: float
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class UpcomingExplanation:
    """Nodes that were asked for and are not there yet."""

    nodes: int
    since_s: float | None = None
    expected_by_s: float | None = None
    """Later than this, and they count as failed."""


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """The explanation of one group."""

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
    backoff: BackoffExplanation | None = None
    upcoming: UpcomingExplanation | None = None
    wrong_size_since_s: float | None = None
    added_s: float | None = None
    deleted_s: float | None = None
    failed_s: float | None = None
    grows_to: int | None = None
    """What the next loop raises it to."""
    drains: tuple[str, ...] = ()
    """Nodes that the next loop begins to remove."""
    template: TemplateExplanation = field(default_factory=lambda: TemplateExplanation(TemplateSource.NOWHERE))
    replicas_owner: str = ""
    """Which controller applies its size, and what ends that; empty if none does."""
    is_left_alone: bool = False
    """Its size is left to that controller."""


def explain_group(at: explain_context.ExplainContext, id: str) -> GroupExplanation:
    """Explain the group of this id, which exists."""
    view = at.view.groups[id]
    group, group_health, readiness = view.group, view.health, view.readiness
    assert group_health is not None, "the health of every group is assessed"
    activity = at.memory.durable.activities.get(id)
    return GroupExplanation(
        id,
        at.now_s,
        group.min_size,
        group.max_size,
        group.target_size,
        len(readiness.ready),
        len(readiness.unready),
        len(readiness.not_started),
        len(readiness.unregistered) + len(readiness.long_unregistered),
        len(readiness.long_unregistered),
        sum(1 for drain in at.memory.durable.drains.values() if drain.group == id),
        group_health.verdict.is_healthy,
        group_health.verdict.lacking,
        view.unneeded,
        view.errors,
        group.is_rolling_out,
        group.options.zero_or_max,
        group.price_per_hour,
        _explain_backoff(group_health.backoff),
        _explain_upcoming(at, id),
        group_health.wrong_size.since_s if group_health.wrong_size else None,
        activity.added_s if activity else None,
        activity.deleted_s if activity else None,
        activity.failed_s if activity else None,
        view.new_size,
        view.deletions,
        explain_template(at, group),
        view.replicas_owner,
        remediation.is_owned_elsewhere(group, at.settings.deviations),
    )


def explain_unevaluated_group(at: explain_context.ExplainContext, fault: Fault) -> GroupExplanation:
    """A group that is left out of every decision, and why."""
    group = fault.suspect.value
    assert isinstance(group, node_groups.NodeGroup), "the fault is a group's"
    return GroupExplanation(
        group.id, at.now_s, group.min_size, group.max_size, group.target_size, 0, 0, 0, 0, 0, 0,
        is_healthy=False, lacking=0, errors=(decision_view.describe_fault(fault),),
    )  # fmt: skip


def _explain_backoff(backoff: Backoff | None) -> BackoffExplanation | None:
    if backoff is None:
        return None
    return BackoffExplanation(
        backoff.until_s, backoff.failed_s, backoff.duration_s, backoff.error.code, backoff.error.message
    )


def _explain_upcoming(at: explain_context.ExplainContext, id: str) -> UpcomingExplanation | None:
    nodes = at.decision.story.repairs.upcoming.get(id)
    if nodes is None or not nodes.nodes:
        return None
    request = at.decision.story.health.memory.requests.scale_ups.get(id)
    if request is None:
        return UpcomingExplanation(nodes.nodes)
    return UpcomingExplanation(nodes.nodes, request.requested_s, request.expected_by_s)


def explain_template(at: explain_context.ExplainContext, group: node_groups.NodeGroup) -> TemplateExplanation:
    """The node template of the group, and its source."""
    made = at.decision.story.templates.get(group.id)
    if made is None:
        return TemplateExplanation(TemplateSource.NOWHERE)
    taken: dict[str, int] = {}
    for pod in made.pods:
        for resource, amount in pod.spec.requests:
            taken[resource] = taken.get(resource, 0) + amount
    source, example = _find_source(at, group)
    return TemplateExplanation(
        source,
        example,
        dict(made.node.allocatable),
        taken,
        tuple(pod.key for pod in made.pods),
        tuple(f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in made.node.taints),
        {key: value for key, value in made.node.labels.items() if key not in _TEMPLATE_LABELS},
    )


_TEMPLATE_LABELS = (facts.HOSTNAME, node_templates.TEMPLATE_LABEL, *(old for _, old in node_templates.BETA_LABELS))
"""Labels that are omitted from output."""


def _find_source(at: explain_context.ExplainContext, group: node_groups.NodeGroup) -> tuple[TemplateSource, str]:
    group_of = at.view.group_of
    members = [node for node in at.decision.story.nodes if node.name in group_of and group_of[node.name].id == group.id]
    good = next((node.name for node in members if node_templates.is_good_example(node, at.now_s)), None)
    if good is not None:
        return TemplateSource.NODE, good
    if group.id in at.decision.memory.volatile.templates:
        return TemplateSource.REMEMBERED, ""
    if group.template is not None:
        return TemplateSource.PROVIDER, ""
    return TemplateSource.UNHEALTHY_NODE, members[0].name if members else ""
