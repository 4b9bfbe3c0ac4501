"""Cluster explanation: groups, pending pods, node states and the plan of the next loop, on one screen."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass import formatting
from windlass.engine import taints
from windlass.engine.cluster_state import readiness
from windlass.engine.model import arrays, facts, plan
from windlass.engine.model.decision_record import DecisionRecord
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.explain import explain_context, groups, nodes, pods, verdicts
from windlass.explain.decision_view import DecisionView, PodState
from windlass.explain.groups import GroupExplanation
from windlass.explain.nodes import DrainExplanation


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One instruction, in words."""

    kind: str
    """The instruction's name: Resize, Drain, SetTaint …"""
    target: str
    """The group or node that it concerns."""
    text: str
    why: str = ""


def explain_plan(at: explain_context.ExplainContext) -> Iterator[PlanStep]:
    """What the decision wants done, in its order."""
    for instruction in at.decision.plan:
        text, reason = _describe_instruction(at.view, instruction)
        target = (
            instruction.group if isinstance(instruction, plan.GroupInstruction) else node_of_instruction(instruction)
        )
        yield PlanStep(type(instruction).__name__, target, text, reason)


def node_of_instruction(instruction: plan.Instruction) -> str:
    return str(getattr(instruction, "node", ""))


def _describe_instruction(view: DecisionView, instruction: plan.Instruction) -> tuple[str, str]:
    match instruction:
        case plan.Resize(group=group, from_size=before, to_size=after):
            size = f"from {before} to {formatting.format_count(after, 'node')} (at most {instruction.max_size})"
            return f"grow {group} {size}", _describe_beneficiaries(view.record, group)
        case plan.ReduceTarget(group=group, by=by):
            return f"lower the target size of {group} by {by}", instruction.why
        case plan.DeleteInstances(group=group, provider_ids=ids):
            return (
                f"delete {formatting.format_count(len(ids), 'instance')} of {group}: {', '.join(ids)}",
                instruction.why,
            )
        case plan.Drain(node=node, evict=evicted):
            since_s = view.decision.memory.durable.scale_down.since.get(node, view.record.at_s)
            pods = f"moving {formatting.format_count(len(evicted), 'pod')}" if evicted else "nothing to move"
            return f"remove {node} of {instruction.group}, {pods}", f"unneeded for {view.record.at_s - since_s:.0f}s"
        case plan.SetTaint(node=node, key=key, effect=effect):
            reason = "it is unneeded" if key == taints.DELETION_CANDIDATE_KEY else ""
            return f"taint {node} with {key}:{effect}", reason
        case plan.RemoveTaint(node=node, key=key):
            reason = "it is needed again" if key == taints.DELETION_CANDIDATE_KEY else "its removal was cancelled"
            return f"take {key} off {node}", reason
        case plan.Cordon(node=node, cordoned=cordoned):
            return f"{'cordon' if cordoned else 'uncordon'} {node}", ""
        case plan.Evict():
            return f"evict {instruction.namespace}/{instruction.name} from {instruction.node}", ""
        case plan.DeleteNode(node=node, group=group):
            return f"delete the machine of {node} through {group}", ""
        case plan.TakeBack(group=group, by=by):
            return f"lower {group} again by {by}", instruction.why
        case plan.SetConditions(namespace=namespace, name=name, conditions=conditions):
            texts = ", ".join(f"{condition.type}={condition.status} ({condition.reason})" for condition in conditions)
            return f"say of ProvisioningRequest {namespace}/{name}: {texts}", ""
        case plan.DeleteRequest(namespace=namespace, name=name):
            return f"delete ProvisioningRequest {namespace}/{name}", "it was answered long ago"


def _describe_beneficiaries(record: DecisionRecord, group: str) -> str:
    for proposal in record.scale_ups:
        if any(increase.group.id == group for increase in proposal.increases):
            if proposal.choice is None:
                return "it is below its minimum"
            if record.requests.helped:
                return f"for ProvisioningRequest {', '.join(record.requests.helped)}"
            pods = formatting.format_count(len(proposal.helped), "pending pod")
            return f"for {pods}" if proposal.helped else "for pods to come"
    return ""


_MOST_PODS = 200
"""Maximum number of pod groups that are explained."""


@dataclass(frozen=True, slots=True)
class PendingPods:
    """Pending pods that are alike and stand alike."""

    pod: str
    """One of them."""
    count: int
    state: PodState
    owner: str
    requests: Mapping[str, int]
    since_s: float
    """When the first of them was created."""
    group: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class ClusterExplanation:
    """The whole cluster at one moment."""

    at_s: float
    loop: int
    """How many loops were decided before."""
    is_healthy: bool
    nodes: int
    ready: int
    running: int
    """Pods on nodes."""
    stop: str
    """Why nothing else is decided; empty if everything is."""
    scale_up: str
    """What came of scaling up, in Cluster Autoscaler's word."""
    scale_down: str
    pauses: tuple[tuple[str, float], ...]
    """What holds scale-down back, and until when."""
    groups: tuple[GroupExplanation, ...]
    waiting: tuple[PendingPods, ...]
    """Sets of pending pods, those that wait longest first."""
    pending: int
    node_states: Mapping[str, int]
    """How many nodes stand how; see `RemovalState`."""
    drains: Mapping[str, DrainExplanation]
    """Nodes on their way out, by name."""
    steps: tuple[PlanStep, ...]
    """What the next loop would do."""
    quiet_until_s: float | None
    """Before this time nothing else is decided unless something changes; None: it may be at once, or never."""
    held: tuple[tuple[str, str], ...] = ()
    """Groups that are left alone for now: (id, why)."""
    unevaluated: tuple[str, ...] = ()
    """Objects that everything is decided without, because evaluating them raises, and what."""


def explain_cluster(at: explain_context.ExplainContext) -> ClusterExplanation:
    """Explain the whole cluster."""
    view, record, durable = at.view, at.view.record, at.memory.durable
    draining = {name: nodes.explain_node(at, name) for name in durable.drains if _exists(at, name)}
    ready = sum(1 for node in record.nodes if readiness.assess_node(node).is_ready)
    until_s = at.decision.quiet_until_s
    rows = at.snapshot.pending()
    return ClusterExplanation(
        at.now_s,
        durable.loop,
        record.health.verdict.is_healthy,
        len(at.observation.nodes),
        ready,
        len(at.snapshot.pods) - len(rows),
        view.stop,
        view.scale_up_result,
        str(record.scale_down.result),
        tuple(nodes.find_pauses(at)),
        tuple(groups.explain_group(at, group.id) for group in at.observation.groups),
        tuple(_explain_pending(at, rows)),
        len(rows),
        dict(Counter(str(view.removal_state(node.name)) for node in at.observation.nodes)),
        {name: explanation.drain for name, explanation in draining.items() if explanation.drain is not None},
        tuple(explain_plan(at)),
        until_s if at.now_s < until_s < float("inf") else None,
        tuple((group.id, group.why) for group in view.held_groups(at.settings.deviations)),
        tuple(str(fault) for fault in at.decision.faults),
    )


def _exists(at: explain_context.ExplainContext, name: str) -> bool:
    row = at.snapshot.nodes.rows.get(name)
    return row is not None and bool(at.snapshot.nodes.alive[row])


def _explain_pending(at: explain_context.ExplainContext, rows: list[int]) -> list[PendingPods]:
    """Group pods with the same shape, owner and state."""
    with at.scale_up() as context:
        resolver = pods.PodStateResolver(at, context)
        states = {row: resolver.find(row, at.snapshot.pods.fact(row, "")) for row in rows}
    unserved = [row for row, state in states.items() if state is None]
    if unserved:
        by_shape = dict[tuple[int, int], pods.PodStateDetails]()
        with at.scale_up_round() as context:
            for row in unserved:
                # A pod that an earlier round placed does not count against itself, but against others of its shape.
                is_placed = int(context.snapshot.pods.node_rows[row]) != arrays.ABSENT
                key = int(at.snapshot.pods.shape_ids[row]), row if is_placed else arrays.ABSENT
                if key not in by_shape:
                    by_shape[key] = resolver.conclude(verdicts.find_verdicts(at, context, row, at.view.new_sizes))
                states[row] = by_shape[key]
    members: dict[tuple[int, facts.Owner | None, PodState, str, str], list[int]] = {}
    for row, state in states.items():
        assert state is not None, "the verdicts of the groups gave one"
        pod, shape = at.snapshot.pods.fact(row, ""), int(at.snapshot.pods.shape_ids[row])
        members.setdefault((shape, pod.owner, state.state, state.group, state.node), []).append(row)
    pending = [
        _describe_pending(at.snapshot, same, state, group, node) for (_, _, state, group, node), same in members.items()
    ]
    return sorted(pending, key=lambda same: (same.since_s, same.pod))[:_MOST_PODS]


def _describe_pending(snapshot: Snapshot, rows: list[int], state: PodState, group: str, node: str) -> PendingPods:
    first, since_s = snapshot.pod(rows[0]), min(float(snapshot.pods.created_s[row]) for row in rows)
    owner = f"{first.owner.kind} {first.owner.name}" if first.owner else ""
    return PendingPods(first.key, len(rows), state, owner, dict(first.spec.requests), since_s, group, node)
