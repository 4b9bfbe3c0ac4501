"""Events: what people read of a loop in `kubectl describe`, with the peer's reasons, objects and words.

One kind of event is told where what it is about is known: of a decision (`tell_decision`), of drains that moved on
(`tell_advance`), and of what became of a plan (`tell_outcome`). Some are told before anyone acts, so that they are
there even if acting takes its time or the process dies over it; the others when it has been done.

Everything that belongs to the cluster as a whole is about the status ConfigMap.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass.autoscaler.act.outcome import Outcome
from windlass.autoscaler.report import buffer_events, drain_events, pod_events, repair_events, words
from windlass.engine import advance, decide, facts, plan, repairs, taints
from windlass.engine.draining.progress import Why
from windlass.engine.memory import DrainBegun
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings
from windlass.kube.events import NORMAL, WARNING, About, Occurrence

Occurrences = tuple[Occurrence, ...]
Drains = Mapping[str, DrainBegun]
"""Nodes on their way out, by name."""


@dataclass(frozen=True, slots=True)
class Triggered:
    """Events for pods that are helped by these groups, once all of them were raised."""

    groups: frozenset[str]
    events: Occurrences


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of a decision, or of drains that moved on, before and after it is carried out."""

    before: Occurrences = ()
    after: Occurrences = ()
    triggered: tuple[Triggered, ...] = ()


@dataclass(frozen=True, slots=True)
class Doing:
    """What must be known of a plan to say what became of it."""

    nodes: Mapping[str, About] = field(default_factory=dict)
    drains: Drains = field(default_factory=dict)
    unregistered: frozenset[plan.Instruction] = frozenset()
    """Removals of instances that never registered."""
    reverts: frozenset[plan.Instruction] = frozenset()
    """Sizes lowered because nodes did not come in time."""
    cleaned: frozenset[plan.Instruction] = frozenset()
    """Marks taken off because nobody acts on them."""


def about_node(node: facts.Node) -> About:
    return About("v1", "Node", node.name, uid=node.uid)


def about_nodes(seen: Observation, mentioned: plan.Plan) -> dict[str, About]:
    """The nodes that a plan names, as far as they are there."""
    table = seen.snapshot.nodes
    names = {one.node for one in mentioned if not isinstance(one, plan.OfGroups | plan.OfRequests)}
    return {name: about_node(table.facts[table.rows[name]]) for name in sorted(names) if name in table.rows}


def tell_leading(namespace: str, lease: str, who: str, leads: bool) -> Occurrence:
    """Someone became the leader, or is no longer."""
    about = About("coordination.k8s.io/v1", "Lease", lease, namespace)
    return Occurrence(about, NORMAL, "LeaderElection", f"{who} {'became leader' if leads else 'stopped leading'}")


# ── A decision ───────────────────────────────────────────────────────────────────────────────────────────────────


def tell_decision(
    seen: Observation, decision: decide.Decision, settings: Settings, status: About, now_s: float
) -> Told:
    """What a loop decided. `status` is the status ConfigMap."""
    raised = [
        Occurrence(status, NORMAL, "ScaledUpGroup", words.setting_size(one))
        for one in decision.plan
        if isinstance(one, plan.Resize)
    ]
    before = (
        *repair_events.tell(decision.story, status, now_s),
        *pod_events.tell_limits(seen, decision.story, settings, status),
        *pod_events.tell_priorities(seen, decision.story, status.namespace),
        *pod_events.tell_opinions(seen, status),
        *raised,
        *drain_events.tell_begun(decision, status),
    )
    helped = (*pod_events.tell_helped(seen, decision.story), *buffer_events.tell_helped(decision.story))
    triggered = tuple(
        Triggered(frozenset(one.group.id for one in proposal.increases), tuple(events)) for proposal, events in helped
    )
    left = (
        *pod_events.tell_left(seen, decision.story),
        *buffer_events.tell_left(seen, decision.story),
        *pod_events.tell_consumers(seen, decision.story),
        *pod_events.tell_unevaluated(seen, decision.faults),
    )
    return Told(before, left, triggered)


def doing_decision(seen: Observation, decision: decide.Decision, settings: Settings) -> Doing:
    found, cleaned = decision.story.repairs, {taints.TO_BE_DELETED}
    if settings.scale_down.max_bulk_soft_taint_count == 0:
        cleaned.add(taints.DELETION_CANDIDATE)  # without soft taints, those of an earlier process go at the start
    return Doing(
        about_nodes(seen, decision.plan),
        decision.memory.durable.drains,
        frozenset(one for one in decision.plan if _removes(one, found.unregistered)),
        frozenset(one for one in decision.plan if _lowers(one, found.reverts)),
        frozenset(one for one in decision.plan if isinstance(one, plan.RemoveTaint) and one.key in cleaned),
    )


def _removes(one: plan.Instruction, removals: Iterable[repairs.Removal]) -> bool:
    if not isinstance(one, plan.DeleteInstances):
        return False
    return any((one.group, one.provider_ids) == (removal.group, removal.instances) for removal in removals)


def _lowers(one: plan.Instruction, decreases: Iterable[repairs.Decrease]) -> bool:
    if not isinstance(one, plan.ReduceTarget):
        return False
    return any((one.group, one.by) == (decrease.group, decrease.by) for decrease in decreases)


# ── Drains ───────────────────────────────────────────────────────────────────────────────────────────────────────


def tell_advance(seen: Observation, advanced: advance.Advanced, before: Drains) -> Told:
    """What drains are about to do, and which of them failed. `before` are those that were known until now."""
    evicted = [
        Occurrence(About("v1", "Pod", one.name, one.namespace, one.uid), NORMAL, "ScaleDown", words.EVICTING)
        for one in advanced.plan
        if isinstance(one, plan.Evict)
    ]
    return Told((*evicted, *drain_events.tell_failed(seen, advanced, before)))


def doing_advance(seen: Observation, advanced: advance.Advanced, before: Drains) -> Doing:
    abandoned = {one.node for one in advanced.story if one.failure is not None and one.failure.why is Why.ABANDONED}
    return Doing(
        about_nodes(seen, advanced.plan),
        {**before, **advanced.memory.durable.drains},
        cleaned=frozenset(one for one in advanced.plan if isinstance(one, plan.RemoveTaint) and one.node in abandoned),
    )


# ── What became of it ────────────────────────────────────────────────────────────────────────────────────────────


def tell_outcome(doing: Doing, outcome: Outcome, status: About) -> Occurrences:
    """What was done and what failed, in that order."""
    done = (event for one in outcome.done for event in _tell_done(one, doing, status))
    failed = (event for one, said in outcome.failed.items() for event in _tell_failed(one, said, doing, status))
    return (*done, *failed)


def tell_triggered(told: Told, outcome: Outcome) -> Occurrences:
    """Events for the pods whose groups were raised."""
    refused = {one.group for one in outcome.failed if isinstance(one, plan.Resize)} | set(outcome.refused)
    return tuple(event for one in told.triggered if not one.groups & refused for event in one.events)


def _tell_done(one: plan.Instruction, doing: Doing, status: About) -> Iterator[Occurrence]:
    match one:
        case plan.Resize():
            yield Occurrence(status, NORMAL, "ScaledUpGroup", words.size_set(one))
        case plan.DeleteInstances(provider_ids=instances) if one in doing.unregistered:
            for instance in instances:
                yield Occurrence(status, NORMAL, "DeleteUnregistered", f"Removed unregistered node {instance}")
        case plan.RemoveTaint(node, key) if one in doing.cleaned and node in doing.nodes:
            message = f"removed {key} taint from node {node}"
            yield Occurrence(doing.nodes[node], NORMAL, "ClusterAutoscalerCleanup", message)
        case plan.SetTaint(node, taints.TO_BE_DELETED) if node in doing.nodes:
            yield Occurrence(doing.nodes[node], NORMAL, "ScaleDown", words.MARKED)
        case plan.DeleteNode(node):
            if node in doing.nodes:
                yield Occurrence(doing.nodes[node], NORMAL, "ScaleDown", words.REMOVED)
            yield drain_events.tell_removed(node, doing.drains.get(node), status)


def _tell_failed(one: plan.Instruction, said: str, doing: Doing, status: About) -> Iterator[Occurrence]:
    match one:
        case plan.Resize(group):
            yield Occurrence(status, WARNING, "FailedToScaleUpGroup", f"Scale-up failed for group {group}: {said}")
        case plan.ReduceTarget(group) if one in doing.reverts:
            message = f"Failed to decrease target size for group {group} after scale-up timeout: {said}"
            yield Occurrence(status, WARNING, "FailedToRevertScaleUp", message)
        case plan.DeleteInstances(provider_ids=instances) if one in doing.unregistered:
            for instance in instances:
                message = f"Failed to remove node {instance}: {said}"
                yield Occurrence(status, WARNING, "DeleteUnregisteredFailed", message)
        case plan.RemoveTaint(node, key) if one in doing.cleaned and node in doing.nodes:
            message = f"failed to clean {key} on node {node}: {said}"
            yield Occurrence(doing.nodes[node], WARNING, "ClusterAutoscalerCleanup", message)
        case plan.SetTaint(node, taints.TO_BE_DELETED) | plan.Cordon(node, True) if node in doing.nodes:
            yield Occurrence(doing.nodes[node], WARNING, "ScaleDownFailed", words.not_marked(said))
