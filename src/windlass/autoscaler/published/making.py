"""Making a status from what a loop saw and decided."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from windlass.autoscaler.published import nodes, pods
from windlass.autoscaler.published.model import Backoff, Cluster, Cost, Group, Sample, State, Status
from windlass.engine import dtypes, facts
from windlass.engine.decide import Decision
from windlass.engine.memory import Durable
from windlass.engine.nodes import CPU_COLUMN, MEMORY_COLUMN
from windlass.engine.observation import Observation

_PAYS = ("Running", "Creating")
"""States of instances that are paid for."""
_READY = (State.READY, State.UNNEEDED)
"""States of nodes that are ready and stay."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a status says of the one who publishes it."""

    mode: str = "live"
    name: str = ""
    speed: float = 1.0


LIVE = Setting()


@dataclass(frozen=True, slots=True)
class Figures:
    """The few numbers that are noted after every loop, whoever watches."""

    sample: Sample
    unpriced: int
    waiting: list[int] = field(compare=False, default_factory=list)
    """Rows of the pods that wait."""


def measure(seen: Observation, now_s: float) -> Figures:
    """How large the cluster is, what waits and what it costs."""
    snapshot, waiting = seen.snapshot, seen.snapshot.waiting()
    count = int(snapshot.nodes.alive.sum())
    priced = [(group, paid_for(group)) for group in seen.groups if group.price_per_hour is not None]
    cost = sum((group.price_per_hour or 0.0) * paid for group, paid in priced)
    sample = Sample(
        now_s,
        count,
        len(waiting),
        nodes.total_share(snapshot, CPU_COLUMN),
        nodes.total_share(snapshot, MEMORY_COLUMN),
        round(cost, 6),
    )
    known = sum(len(group.instances) for group, _ in priced)
    return Figures(sample, max(count - known, 0), waiting)


def paid_for(group: facts.NodeGroup) -> int:
    """How many machines of the group there are, or will be in a moment."""
    return sum(1 for one in group.instances if one.state in _PAYS and one.error is None)


def make(
    seen: Observation,
    decision: Decision,
    figures: Figures,
    setting: Setting = LIVE,
    phases: Mapping[str, str] | None = None,
) -> Status:
    """How everything stands after the loop, but for what is kept from loop to loop: decisions, samples, what was spent.

    To be called while the snapshot is as it was decided on. `phases`: how far nodes on their way out are, by name.
    """
    story, durable = decision.story, decision.memory.durable
    told = nodes.describe(seen, durable, story.health, story.scale_down, phases or {})
    states = Counter((node.group, node.state) for node in told)
    sample, snapshot = figures.sample, seen.snapshot
    cluster = Cluster(
        sample.at_s,
        durable.loop,
        setting.name,
        setting.mode,
        False,
        setting.speed,
        story.health.verdict.is_healthy,
        str(story.repairs.stop or ""),
        str(story.scale_ups[0].result) if story.scale_ups else "",
        str(story.scale_down.result),
        sample.nodes,
        sum(node.state in _READY for node in told),
        int((snapshot.pods.node_rows != dtypes.ABSENT).sum()),
        sample.pending,
        sample.cpu,
        sample.memory,
        nodes.total_gpu_share(snapshot),
        Cost(sample.cost_per_hour, unpriced=figures.unpriced),
    )
    groups = sorted((_describe_group(group, decision, states) for group in seen.groups), key=lambda one: one.id)
    return Status(cluster, tuple(groups), told, pods.describe(seen, decision, figures.waiting))


def move_drains(
    before: Status, seen: Observation, decision: Decision, durable: Durable, phases: Mapping[str, str], now_s: float
) -> Status:
    """The same after drains moved on. `decision`: the last one, on which everything else still stands."""
    story = decision.story
    told = nodes.describe(seen, durable, story.health, story.scale_down, phases)
    cluster = msgspec.structs.replace(before.cluster, at_s=now_s)
    return msgspec.structs.replace(before, cluster=cluster, nodes=told)


def _describe_group(group: facts.NodeGroup, decision: Decision, states: Counter[tuple[str, State]]) -> Group:
    story, id = decision.story, group.id
    size, found = story.repairs.sizes.get(id), story.health.groups.get(id)
    grown = {one.group.id: one.new_size for proposal in story.scale_ups for one in proposal.increases}
    target = grown.get(id, size.target if size is not None else group.target_size)
    backoff = found.backoff if found is not None else None
    ready = sum(states[id, state] for state in _READY)
    here = ready + sum(states[id, state] for state in (State.UNREADY, State.BOOTING, State.FAILED, State.DRAINING))
    price = group.price_per_hour
    return Group(
        id,
        group.min_size,
        group.max_size,
        target,
        ready,
        states[id, State.UNREADY],
        states[id, State.BOOTING] + max(target - here, 0),
        states[id, State.FAILED],
        states[id, State.UNNEEDED],
        states[id, State.DRAINING],
        id not in story.unhealthy,
        None if backoff is None else Backoff(backoff.until_s, backoff.error.code, backoff.error.message),
        price,
        None if price is None else round(price * paid_for(group), 6),
        tuple(dict.fromkeys(one.error.said for one in group.instances if one.error is not None)),
        group.replicas_owner.message if group.replicas_owner is not None else "",
    )
