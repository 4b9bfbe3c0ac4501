"""Random histories of drains: worlds with pods, budgets and agents, and everything that may go wrong in them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from hypothesis import strategies as st

from tests.engine.actuation.drain_cluster import WINDLASS, Run, World, budget_of, with_drain
from tests.engine.scale_down.builders import AGENT, PEER, node, pod
from windlass.engine.actuation import node_deletion
from windlass.engine.model import facts, node_groups, plan, well_known
from windlass.engine.model.settings import PriorityGrace, Settings

NODES = ("a", "b", "c", "d", "e")
KINDS = (plan.SetTaint, plan.Cordon, plan.Evict, plan.DeleteNode, plan.RemoveTaint)
EVERYTHING = (facts.Toleration("", "Exists", "", ""),)


@dataclass(frozen=True)
class Member:
    """A pod as a history wants it."""

    on: str
    cpu: int
    grace_s: float | None
    ends_after_s: float
    app: str
    priority: int
    kind: str

    def make(self, name: str) -> facts.Pod:
        made = pod(name, self.on, self.cpu, grace_s=self.grace_s, labels={"app": self.app})
        made = replace(made, spec=replace(made.spec, priority=self.priority))
        if self.kind == "agent":
            return replace(made, owner=AGENT)
        if self.kind == "kept":
            return replace(made, annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "false"})
        if self.kind == "careless":
            return replace(made, spec=replace(made.spec, tolerations=EVERYTHING))
        return made


@dataclass(frozen=True)
class History:
    """Everything that is decided before a run begins; equal histories run alike."""

    preset: str
    pods: tuple[Member, ...]
    empty: tuple[str, ...]
    drained: tuple[str, ...]
    allowed: dict[str, int]
    held: dict[str, float]
    """Nodes whose deletion is delayed, until when."""
    refusals: frozenset[tuple[str, int]]
    """Which instructions fail: their kind, and how many of that kind came before."""
    late: tuple[tuple[float, Member], ...]
    unmarked: tuple[tuple[float, str], ...]
    vanishing: tuple[tuple[float, str], ...]
    whole: bool
    machine_takes_s: float
    recovers_s: float

    def start(self) -> Run:
        """A world with this history before it, and the drains begun."""
        made = {f"p{number}": member for number, member in enumerate(self.pods)}
        notes = {name: {f"{node_deletion.DELAY_DELETION_PREFIX}x": ""} if name in self.held else {} for name in NODES}
        nodes = [node(name, 2000, 2000, uid=f"uid-{name}", annotations=notes[name]) for name in NODES]
        world = World(nodes, [member.make(name) for name, member in made.items()])
        world.budgets = {name: budget_of(name, allowed) for name, allowed in self.allowed.items()}
        world.ends_after_s = {f"uid-{name}": member.ends_after_s for name, member in made.items()}
        world.machine_takes_s, world.budget_recovers_s = self.machine_takes_s, self.recovers_s
        if self.whole:
            options = node_groups.GroupOptions(zero_or_max=True)
            world.groups["g"] = replace(world.groups["g"], options=options)
        world.refuse = self._make_refusals()
        self._plan_events(world)
        return Run(world, CHOICES[self.preset]).begin(*self.empty, is_empty=True).begin(*self.drained)

    def _make_refusals(self) -> Callable[[plan.Instruction], str | None]:
        counts = dict.fromkeys((kind.__name__ for kind in KINDS), 0)

        def refuse(instruction: plan.Instruction) -> str | None:
            kind = type(instruction).__name__
            counts[kind] += 1
            return "refused" if (kind, counts[kind]) in self.refusals else None

        return refuse

    def _plan_events(self, world: World) -> None:
        for name, until_s in self.held.items():
            world.later(until_s, partial(_change, world, name, annotations={}))
        for number, (at_s, member) in enumerate(self.late):
            made = member.make(f"late{number}")
            world.ends_after_s[made.uid] = member.ends_after_s
            world.later(at_s, partial(_arrive, world, made))
        for at_s, name in self.unmarked:
            world.later(at_s, partial(_change, world, name, taints=()))
        for at_s, name in self.vanishing:
            world.later(at_s, partial(world.lose, name))


def _change(world: World, name: str, **changes: object) -> None:
    if name in world.nodes:
        world.change(name, **changes)


def _arrive(world: World, made: facts.Pod) -> None:
    if made.node_name in world.nodes:
        world.put(made)


TURNS = (PriorityGrace(0, 20), PriorityGrace(100, 50))
CHOICES: dict[str, Settings] = {
    "peer": PEER,
    "windlass": WINDLASS,
    "no patience": with_drain(WINDLASS, max_pod_eviction_time_s=0.0),
    "peer with turns": with_drain(PEER, drain_priority_config=TURNS),
    "windlass with turns": with_drain(WINDLASS, drain_priority_config=TURNS),
    "gathering": with_drain(WINDLASS, node_deletion_batcher_interval_s=7.0, daemonset_eviction_for_empty_nodes=True),
    "no delay": with_drain(WINDLASS, node_delete_delay_after_taint_s=0.0, cordon_node_before_terminating=False),
}


def members(kinds: tuple[str, ...]) -> st.SearchStrategy[Member]:
    return st.builds(
        Member,
        on=st.sampled_from(NODES),
        cpu=st.sampled_from([0, 100, 700]),
        grace_s=st.sampled_from([None, 0.0, 10.0, 700.0]),
        ends_after_s=st.sampled_from([0.0, 1.0, 25.0, 300.0, math.inf]),
        app=st.sampled_from(["x", "y", "z"]),
        priority=st.sampled_from([0, 50, 100]),
        kind=st.sampled_from(kinds),
    )


@st.composite
def histories(draw: st.DrawFn) -> History:
    kinds = ("plain", "plain", "plain", "agent", "careless")
    times = st.sampled_from([0.0, 2.0, 5.0, 6.0, 11.0, 40.0])
    roles = draw(st.lists(st.sampled_from(["stays", "empty", "drained"]), min_size=4, max_size=4))
    empty = tuple(name for name, role in zip(NODES, roles, strict=False) if role == "empty")
    on_others = members(kinds).filter(lambda member: member.kind == "agent" or member.on not in empty)
    return History(
        draw(st.sampled_from(sorted(CHOICES))),
        tuple(draw(st.lists(on_others, max_size=8))),
        empty,
        tuple(name for name, role in zip(NODES, roles, strict=False) if role == "drained"),
        draw(st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 2))),
        draw(st.dictionaries(st.sampled_from(NODES), st.sampled_from([3.0, 60.0, 1000.0]), max_size=2)),
        draw(
            st.frozensets(st.tuples(st.sampled_from([kind.__name__ for kind in KINDS]), st.integers(1, 6)), max_size=4)
        ),
        tuple(draw(st.lists(st.tuples(times, members((*kinds, "kept"))), max_size=2))),
        tuple(draw(st.lists(st.tuples(times, st.sampled_from(NODES)), max_size=1))),
        tuple(draw(st.lists(st.tuples(times, st.sampled_from(NODES)), max_size=1))),
        draw(st.booleans()),
        draw(st.sampled_from([0.0, 20.0, 400.0])),
        draw(st.sampled_from([0.0, 3.0, 50.0])),
    )
