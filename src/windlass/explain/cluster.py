"""Cluster explanation: groups, pending pods, node states and the plan of the next loop, on one screen."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.engine import taints
from windlass.engine.cluster_state import readiness, remediation
from windlass.engine.model import arrays, plan
from windlass.explain import explain_context, groups, nodes, pods, verdicts
from windlass.explain.groups import GroupExplanation
from windlass.explain.nodes import DrainExplanation, NodeState
from windlass.explain.pods import PodState


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
        text, why = _describe_instruction(at, instruction)
        target = (
            instruction.group if isinstance(instruction, plan.GroupInstruction) else node_of_instruction(instruction)
        )
        yield PlanStep(type(instruction).__name__, target, text, why)


def node_of_instruction(instruction: plan.Instruction) -> str:
    return str(getattr(instruction, "node", ""))


def _describe_instruction(at: explain_context.ExplainContext, instruction: plan.Instruction) -> tuple[str, str]:
    match instruction:
        case plan.Resize(group=group, from_size=before, to_size=after):
            size = f"from {before} to {_count_items(after, 'node')} (at most {instruction.max_size})"
            return f"grow {group} {size}", _describe_beneficiaries(at, group)
        case plan.ReduceTarget(group=group, by=by):
            return f"lower the target size of {group} by {by}", instruction.why
        case plan.DeleteInstances(group=group, provider_ids=ids):
            return f"delete {_count_items(len(ids), 'instance')} of {group}: {', '.join(ids)}", instruction.why
        case plan.Drain(node=node, evict=moved):
            since_s = at.decision.memory.durable.scale_down.since.get(node, at.now_s)
            pods = f"moving {_count_items(len(moved), 'pod')}" if moved else "nothing to move"
            return f"remove {node} of {instruction.group}, {pods}", f"unneeded for {at.now_s - since_s:.0f}s"
        case plan.SetTaint(node=node, key=key, effect=effect):
            why = "it is unneeded" if key == taints.DELETION_CANDIDATE_KEY else ""
            return f"taint {node} with {key}:{effect}", why
        case plan.RemoveTaint(node=node, key=key):
            why = "it is needed again" if key == taints.DELETION_CANDIDATE_KEY else "its removal was cancelled"
            return f"take {key} off {node}", why
        case plan.Cordon(node=node, cordoned=cordoned):
            return f"{'cordon' if cordoned else 'uncordon'} {node}", ""
        case plan.Evict():
            return f"evict {instruction.namespace}/{instruction.name} from {instruction.node}", ""
        case plan.DeleteNode(node=node, group=group):
            return f"delete the machine of {node} through {group}", ""
        case plan.TakeBack(group=group, by=by):
            return f"lower {group} again by {by}", instruction.why
        case plan.SetConditions(namespace=namespace, name=name, conditions=conditions):
            told = ", ".join(f"{condition.type}={condition.status} ({condition.reason})" for condition in conditions)
            return f"say of ProvisioningRequest {namespace}/{name}: {told}", ""
        case plan.DeleteRequest(namespace=namespace, name=name):
            return f"delete ProvisioningRequest {namespace}/{name}", "it was answered long ago"


def _describe_beneficiaries(at: explain_context.ExplainContext, group: str) -> str:
    for proposal in at.decision.story.scale_ups:
        if any(increase.group.id == group for increase in proposal.increases):
            if proposal.choice is None:
                return "it is below its minimum"
            asked = at.decision.story.requests.helped
            if asked:
                return f"for ProvisioningRequest {', '.join(asked)}"
            return f"for {_count_items(len(proposal.helped), 'pending pod')}" if proposal.helped else "for pods to come"
    return ""


def _count_items(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


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
    """How many nodes stand how; see `NodeState`."""
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
    """Everything."""
    story, durable = at.decision.story, at.memory.durable
    node_explanations = {name: nodes.explain_node(at, name) for name in durable.drains if _exists(at, name)}
    ready = sum(1 for node in story.nodes if readiness.assess_node(node).is_ready)
    until_s = at.decision.quiet_until_s
    rows = at.snapshot.pending()
    return ClusterExplanation(
        at.now_s,
        durable.loop,
        story.health.verdict.is_healthy,
        len(at.observation.nodes),
        ready,
        len(at.snapshot.pods) - len(rows),
        str(story.repairs.stop or ""),
        str(story.scale_ups[0].result if story.scale_ups else ""),
        str(story.scale_down.result),
        tuple(nodes.find_pauses(at)),
        tuple(groups.explain_group(at, group.id) for group in at.observation.groups),
        tuple(_explain_pending(at, rows)),
        len(rows),
        _count_states(at),
        {
            name: node_explanation.drain
            for name, node_explanation in node_explanations.items()
            if node_explanation.drain is not None
        },
        tuple(explain_plan(at)),
        until_s if at.now_s < until_s < float("inf") else None,
        (
            *((held_group.id, held_group.why) for held_group in at.observation.held),
            *remediation.list_owned_elsewhere(at.observation.groups, at.settings.deviations),
        ),
        tuple(str(fault) for fault in at.decision.faults),
    )


def _exists(at: explain_context.ExplainContext, name: str) -> bool:
    row = at.snapshot.nodes.rows.get(name)
    return row is not None and bool(at.snapshot.nodes.alive[row])


def _explain_pending(at: explain_context.ExplainContext, rows: list[int]) -> list[PendingPods]:
    """Pods of one shape and owner that stand alike, together."""
    with at.scale_up() as context:
        standings = pods.PodStateResolver(at, context)
        stands = {row: standings.find(row, at.snapshot.pods.fact(row, "")) for row in rows}
    unserved = [row for row, standing in stands.items() if standing is None]
    if unserved:
        growth, judged = groups.find_growth(at), dict[tuple[int, int], pods.PodStateDetails]()
        with at.scale_up_round() as context:
            for row in unserved:
                # A pod that an earlier round placed does not count against itself, but against others of its shape.
                is_placed = int(context.snapshot.pods.node_rows[row]) != arrays.ABSENT
                key = int(at.snapshot.pods.shape_ids[row]), row if is_placed else arrays.ABSENT
                if key not in judged:
                    judged[key] = standings.conclude(verdicts.find_verdicts(at, context, row, growth))
                stands[row] = judged[key]
    found: dict[tuple[object, ...], list[int]] = {}
    for row, standing in stands.items():
        assert standing is not None, "the groups were asked"
        pod, shape = at.snapshot.pods.fact(row, ""), int(at.snapshot.pods.shape_ids[row])
        found.setdefault((shape, pod.owner, standing.state, standing.group, standing.node), []).append(row)
    pending_podses = []
    for (_, owner, state, group, node), members in found.items():
        first = at.snapshot.pod(members[0])
        since_s = min(float(at.snapshot.pods.created_s[row]) for row in members)
        name = f"{first.owner.kind} {first.owner.name}" if owner and first.owner else ""
        pending_podses.append(
            PendingPods(
                first.key, len(members), PodState(str(state)), name, dict(first.spec.requests), since_s, str(group),
                str(node),
            )
        )  # fmt: skip
    return sorted(pending_podses, key=lambda pending_pods: (pending_pods.since_s, pending_pods.pod))[:_MOST_PODS]


def _count_states(at: explain_context.ExplainContext) -> dict[str, int]:
    """Without asking each node's pods: only where nodes stand."""
    story = at.decision.story.scale_down
    leaving = {name for name in at.memory.durable.drains if _exists(at, name)}
    going = {instruction.node for instruction in at.decision.plan if isinstance(instruction, plan.Drain)}
    own = at.observation.group_of_nodes()
    looked = story.look if at.decision.story.repairs.stop is None else None
    unneeded = {removal.node_name for removal in looked.trials.removals} if looked else set()
    kept = {unremovable.node_name for unremovable in looked.kept} if looked else set()
    skipped = set(looked.trials.skipped) if looked else set()
    counted: Counter[str] = Counter()
    for node in at.observation.nodes:
        name = node.name
        if name not in own:
            counted[NodeState.NOT_AUTOSCALED.value] += 1
        elif name in leaving:
            counted[NodeState.LEAVING.value] += 1
        elif name in going:
            counted[NodeState.GOING.value] += 1
        elif name in unneeded:
            counted[NodeState.UNNEEDED.value] += 1
        elif name in kept:
            counted[NodeState.NEEDED.value] += 1
        else:
            counted[(NodeState.NOT_TRIED if name in skipped else NodeState.NO_CANDIDATE).value] += 1
    return dict(counted)
