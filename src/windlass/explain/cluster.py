"""The cluster: everything on one screen."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from windlass.engine import dtypes, plan, readiness, replicas_owners
from windlass.explain import groups, look, nodes, pods, steps, verdicts
from windlass.explain.drains import DrainAccount
from windlass.explain.groups import GroupAccount
from windlass.explain.nodes import NodeState
from windlass.explain.pods import PodState
from windlass.explain.steps import Step

_MOST_PODS = 200
"""Sets of pods alike that are told one by one, at most."""


@dataclass(frozen=True, slots=True)
class Waiting:
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
class ClusterAccount:
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
    groups: tuple[GroupAccount, ...]
    waiting: tuple[Waiting, ...]
    """Sets of pending pods, those that wait longest first."""
    pending: int
    node_states: Mapping[str, int]
    """How many nodes stand how; see `NodeState`."""
    drains: Mapping[str, DrainAccount]
    """Nodes on their way out, by name."""
    steps: tuple[Step, ...]
    """What the next loop would do."""
    quiet_until_s: float | None
    """Before this time nothing else is decided unless something changes; None: it may be at once, or never."""
    held: tuple[tuple[str, str], ...] = ()
    """Groups that are left alone for now: (id, why)."""
    unevaluated: tuple[str, ...] = ()
    """Objects that everything is decided without, because evaluating them raises, and what."""


def describe(at: look.Look) -> ClusterAccount:
    """Everything."""
    story, durable = at.decision.story, at.memory.durable
    told = {name: nodes.describe(at, name) for name in durable.drains if _exists(at, name)}
    ready = sum(1 for node in story.nodes if readiness.judge(node).is_ready)
    until_s = at.decision.quiet_until_s
    rows = at.snapshot.waiting()
    return ClusterAccount(
        at.now_s,
        durable.loop,
        story.health.verdict.is_healthy,
        len(at.seen.nodes),
        ready,
        len(at.snapshot.pods) - len(rows),
        str(story.repairs.stop or ""),
        str(story.scale_ups[0].result if story.scale_ups else ""),
        str(story.scale_down.result),
        tuple(nodes.find_pauses(at)),
        tuple(groups.describe(at, group.id) for group in at.seen.groups),
        tuple(_describe_waiting(at, rows)),
        len(rows),
        _count_states(at),
        {name: one.drain for name, one in told.items() if one.drain is not None},
        tuple(steps.describe(at)),
        until_s if at.now_s < until_s < float("inf") else None,
        (
            *((one.id, one.why) for one in at.seen.held),
            *replicas_owners.list_left_alone(at.seen.groups, at.settings.deviations),
        ),
        tuple(str(fault) for fault in at.decision.faults),
    )


def _exists(at: look.Look, name: str) -> bool:
    row = at.snapshot.nodes.rows.get(name)
    return row is not None and bool(at.snapshot.nodes.alive[row])


def _describe_waiting(at: look.Look, rows: list[int]) -> list[Waiting]:
    """Pods of one shape and owner that stand alike, together."""
    with at.scale_up() as context:
        standings = pods.Standings(at, context)
        stands = {row: standings.find(row, at.snapshot.pods.fact(row, "")) for row in rows}
    unserved = [row for row, standing in stands.items() if standing is None]
    if unserved:
        growth, judged = groups.find_growth(at), dict[tuple[int, int], pods.Standing]()
        with at.scale_up_round() as context:
            for row in unserved:
                # A pod that an earlier round placed does not count against itself, but against others of its shape.
                is_placed = int(context.snapshot.pods.node_rows[row]) != dtypes.ABSENT
                key = int(at.snapshot.pods.shape_ids[row]), row if is_placed else dtypes.ABSENT
                if key not in judged:
                    judged[key] = standings.conclude(verdicts.judge(at, context, row, growth))
                stands[row] = judged[key]
    found: dict[tuple[object, ...], list[int]] = {}
    for row, standing in stands.items():
        assert standing is not None, "the groups were asked"
        pod, shape = at.snapshot.pods.fact(row, ""), int(at.snapshot.pods.shape_ids[row])
        found.setdefault((shape, pod.owner, standing.state, standing.group, standing.node), []).append(row)
    told = []
    for (_, owner, state, group, node), members in found.items():
        first = at.snapshot.pod(members[0])
        since_s = min(float(at.snapshot.pods.created_s[row]) for row in members)
        name = f"{first.owner.kind} {first.owner.name}" if owner and first.owner else ""
        told.append(
            Waiting(
                first.key, len(members), PodState(str(state)), name, dict(first.spec.requests), since_s, str(group),
                str(node),
            )
        )  # fmt: skip
    return sorted(told, key=lambda one: (one.since_s, one.pod))[:_MOST_PODS]


def _count_states(at: look.Look) -> dict[str, int]:
    """Without asking each node's pods: only where nodes stand."""
    story = at.decision.story.scale_down
    leaving = {name for name in at.memory.durable.drains if _exists(at, name)}
    going = {one.node for one in at.decision.plan if isinstance(one, plan.Drain)}
    own = at.seen.group_of_nodes()
    looked = story.look if at.decision.story.repairs.stop is None else None
    unneeded = {one.node_name for one in looked.trials.removals} if looked else set()
    kept = {one.node_name for one in looked.kept} if looked else set()
    skipped = set(looked.trials.skipped) if looked else set()
    counted: Counter[str] = Counter()
    for node in at.seen.nodes:
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
