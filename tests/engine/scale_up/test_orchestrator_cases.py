"""One scale-up of Cluster Autoscaler: what is raised under limits, quotas and refusals, which pods it is for, and what
becomes of the others.

The cases are those of its tests of the scale-up orchestrator.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.engine.loop.builders import NOW_S, PEER, choose, group, node, observe, pending, resources, running, sizes
from windlass.engine import loop, loop_memory
from windlass.engine.expanders import priority
from windlass.engine.model import facts, node_groups, well_known
from windlass.engine.model.scale_up_status import PodEquivalenceGroup, Quota, ScaleUpResult
from windlass.engine.model.settings import Bounds, Settings
from windlass.engine.observation import Observation
from windlass.selectors import LabelSelector, Operator, Requirement

POOL = "pool"
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Pool:
    """A group of equal nodes that are full unless `used` says otherwise."""

    count: int = 1
    cpu: int = 2000
    memory: int = 1000
    max_size: int = 10
    min_size: int = 0
    zero_or_max: bool = False
    used: int | None = None
    gpus: int = 0


@dataclass(frozen=True)
class Wants:
    """What a pending pod wants."""

    cpu: int
    memory: int = 0
    pool: str = ""
    gpus: int = 0


@dataclass(frozen=True)
class Case:
    pools: Mapping[str, Pool]
    pods: Mapping[str, Wants]
    raised: Mapping[str, int] = field(default_factory=dict)
    """New sizes."""
    helped: str = ""
    remaining: str = ""
    awaiting: str = ""
    result: ScaleUpResult = ScaleUpResult.SUCCESSFUL
    options: str | None = None
    """Groups that the expander chooses from; not checked if None."""
    why: Mapping[str, str] = field(default_factory=dict)
    """Of groups that help no pod: a part of the reason."""
    prefer: str = ""
    """The group that the priority expander chooses."""
    quotas: Sequence[Quota] = ()
    refused: str = ""
    loose: Sequence[facts.Node] = ()
    """Nodes without group."""
    settings: Settings = PEER


def limits(**changes: object) -> Settings:
    return choose(PEER, "limits", **changes)


def quota(name: str, pools: Sequence[str] = (), **most: int) -> Quota:
    return Quota(name, most, LabelSelector.of([Requirement(POOL, Operator.IN, tuple(pools))] if pools else []))


def balanced(*, parallel: bool = False) -> Settings:
    return choose(
        PEER, "scale_up", balance_similar_node_groups=True, balancing_ignore_label=(POOL,), parallel_scale_up=parallel
    )


def alike(count: int, cpu: int, memory: int = 0) -> dict[str, Wants]:
    return {f"p{number}": Wants(cpu, memory) for number in range(count)}


def words(count: int) -> str:
    return " ".join(f"p{number}" for number in range(count))


def whole(max_size: int) -> Pool:
    """An all-or-nothing group without nodes."""
    return Pool(0, 1000, 1000, max_size, zero_or_max=True)


ATOMIC = {"a": Pool(cpu=900, memory=900, max_size=5, zero_or_max=True)}
UNEQUAL = {"a": Pool(cpu=2000, memory=100, used=1000), "b": Pool(cpu=4000, memory=1000, used=3000)}
EQUAL = {"a": Pool(cpu=1500, used=1400, max_size=2), "b": Pool(cpu=1500, used=1400, max_size=2)}
TWINS = {"a": Pool(cpu=1000, used=1000, max_size=2), "b": Pool(cpu=1000, used=1000, max_size=2)}
GPU_POOLS = {"gpu": Pool(cpu=2000, used=0, gpus=1), "plain": Pool(cpu=2000, used=2000)}

CASES = {
    "an all-or-nothing group is raised to its maximum": Case(
        ATOMIC | {"b": whole(5)}, {"p": Wants(1000, 1000)}, {"b": 5}, "p"
    ),
    "an all-or-nothing group that was chosen is not balanced": Case(
        ATOMIC | {"b": whole(5), "c": whole(4)},
        alike(4, 1000, 1000), {"c": 4}, words(4), prefer="c",
    ),
    "pods of other all-or-nothing groups await the next loop": Case(
        {
            "a": Pool(cpu=500, memory=2000, max_size=5, zero_or_max=True),
            "b": Pool(cpu=2000, memory=500, max_size=5, zero_or_max=True),
            "c": whole(5),
        },
        {"p": Wants(1000, 1000), "q": Wants(2000, 2000), "r": Wants(100, 1800)},
        {"c": 5}, "p", "q", "r", prefer="c",
    ),
    "an all-or-nothing group beyond the limit of cores": Case(
        ATOMIC | {"b": whole(3)}, alike(2, 1000, 1000), remaining=words(2),
        result=ScaleUpResult.NO_OPTIONS, settings=limits(cores_total=Bounds(0, 3)),
        why={"b": 'exceeded quota: "cluster-wide", resources: cpu'},
    ),
    "an all-or-nothing group beyond the limit of memory": Case(
        ATOMIC | {"b": whole(3)}, alike(2, 1000, 1000), remaining=words(2),
        result=ScaleUpResult.NO_OPTIONS, settings=limits(memory_total_bytes=Bounds(0, 3000)),
        why={"b": 'exceeded quota: "cluster-wide", resources: memory'},
    ),
    "an all-or-nothing group beyond the limit of nodes": Case(
        {"a": Pool(2, 900, 900, 2, zero_or_max=True), "b": whole(5)},
        alike(2, 1000, 1000), remaining=words(2), result=ScaleUpResult.NO_OPTIONS,
        settings=limits(max_nodes_total=5), why={"b": "atomic scale-up exceeds cluster node count limit"},
    ),
    "as many nodes as the limit of cores allows": Case(
        UNEQUAL, {"p": Wants(2000), "q": Wants(2000)}, {"a": 2}, "p q", prefer="a",
        settings=limits(cores_total=Bounds(0, 9)),
    ),
    "cores of nodes without group count": Case(
        {"b": Pool(cpu=4000, used=3000)}, {"p": Wants(4000), "q": Wants(4000)}, {"b": 2}, "p q",
        loose=(node("loose", 2000),), settings=limits(cores_total=Bounds(0, 10)),
    ),
    "as many nodes as the limit of memory allows": Case(
        {"a": Pool(cpu=2000, memory=100, used=1000), "b": Pool(cpu=4000, memory=1000, used=3000)},
        {"p": Wants(2000, 100), "q": Wants(2000, 100), "r": Wants(2000, 100)}, {"a": 3}, "p q r", prefer="a",
        settings=limits(memory_total_bytes=Bounds(0, 1300)),
    ),
    "all quotas leave room": Case(
        {"a": Pool(used=2000), "b": Pool(used=2000)}, {"p": Wants(1000)}, {"a": 2}, "p", options="a b", prefer="a",
        quotas=(quota("global", cpu=8), quota("of-b", ["b"], cpu=4)),
    ),
    "a group whose quota is used up is no option": Case(
        {"a": Pool(used=2000), "b": Pool(used=2000)}, {"p": Wants(1000)}, {"a": 2}, "p", options="a",
        quotas=(quota("global", cpu=8), quota("of-b", ["b"], cpu=2)),
    ),
    "the quotas of all groups are used up": Case(
        {"a": Pool(), "b": Pool()}, {"p": Wants(1000)}, remaining="p", result=ScaleUpResult.NO_OPTIONS,
        quotas=(quota("of-a", ["a"], cpu=2), quota("of-b", ["b"], cpu=2)),
        why={"a": 'exceeded quota: "of-a", resources: cpu', "b": 'exceeded quota: "of-b", resources: cpu'},
    ),
    "a quota cuts, and all pods of the option count as helped": Case(
        {"a": Pool()}, alike(3, 2000), {"a": 3}, words(3), quotas=(quota("of-a", ["a"], cpu=6),)
    ),
    "--max-nodes-total cuts the estimate, and the pods beyond it are left to the next loop": Case(
        UNEQUAL, alike(3, 4000, 100), {"b": 2}, "p0", settings=limits(max_nodes_total=3)
    ),
    "nodes without group count for --max-nodes-total": Case(
        {"b": Pool(cpu=4000, memory=1000, used=3000)}, alike(3, 4000, 100), {"b": 2}, "p0",
        loose=(node("loose", 2000),), settings=limits(max_nodes_total=3),
    ),
    "two similar groups share two pods": Case(
        EQUAL, alike(2, 1400), {"a": 2, "b": 2}, words(2), settings=balanced()
    ),
    "two similar groups are raised at once": Case(
        EQUAL, alike(2, 1400), {"a": 2, "b": 2}, words(2), settings=balanced(parallel=True)
    ),
    "one after another, the first refusal ends it": Case(
        EQUAL, alike(2, 1400), remaining=words(2), result=ScaleUpResult.ERROR, settings=balanced(), refused="a b"
    ),
    "at once, both refuse": Case(
        EQUAL, alike(2, 1400), remaining=words(2), result=ScaleUpResult.ERROR, settings=balanced(parallel=True),
        refused="a b",
    ),
    "at once, one refuses, and no pod remains": Case(
        EQUAL, alike(2, 1400), {"b": 2}, result=ScaleUpResult.ERROR, settings=balanced(parallel=True), refused="a"
    ),
    "a group that refuses leaves its own pods": Case(
        TWINS, {"p": Wants(900, pool="a"), "q": Wants(900, pool="b")}, remaining="q", result=ScaleUpResult.ERROR,
        settings=balanced(parallel=True), refused="b", prefer="b",
    ),
    "one after another, a group that refuses leaves its own pods": Case(
        TWINS,
        {f"{pod}{number}": Wants(900, pool=pool) for pod, pool in (("p", "a"), ("q", "b")) for number in (1, 2)},
        remaining="q1 q2", result=ScaleUpResult.ERROR, settings=balanced(), refused="b", prefer="b",
    ),
    "a quota of one of three similar groups": Case(
        dict.fromkeys("abc", Pool(cpu=100, used=80, max_size=5)), alike(6, 80), {"a": 3, "b": 2, "c": 3}, words(6),
        settings=balanced(), prefer="a", quotas=(quota("of-b", ["b"], cpu=2),),
    ),
    "a quota of three similar groups": Case(
        {id: Pool(count, 100, used=80) for id, count in (("a", 1), ("b", 2), ("c", 2))}, alike(6, 80), {"a": 2},
        words(6), settings=balanced(), prefer="a", quotas=(quota("of-all", "abc", nodes=6),),
    ),
    "a quota of the groups that are similar to the chosen one": Case(
        {id: Pool(count, 100, used=80) for id, count in (("a", 1), ("b", 1), ("c", 2))}, alike(6, 80),
        {"a": 4, "b": 2}, words(6), settings=balanced(), prefer="a", quotas=(quota("of-b-and-c", "bc", nodes=4),),
    ),
    "a similar group whose quota is used up takes no part": Case(
        dict.fromkeys("abc", Pool(cpu=100, used=80, max_size=5)), alike(6, 80), {"a": 4, "c": 4}, words(6),
        settings=balanced(), prefer="a", quotas=(quota("of-b", ["b"], cpu=1),),
    ),
    "similar groups up to their maximum": Case(
        {"a": Pool(1, 100, used=80, max_size=1), "b": Pool(1, 100, used=80, max_size=2),
         "c": Pool(1, 100, used=80, max_size=5), "d": Pool(3, 100, used=80, max_size=5)},
        alike(2, 80), {"b": 2, "c": 2}, words(2), settings=balanced(),
    ),
    "a pod without GPU may go to either pool": Case(
        GPU_POOLS | {"gpu": Pool(cpu=2000, used=2000, gpus=1)}, {"p": Wants(2000)}, {"plain": 2}, "p",
        options="gpu plain", prefer="plain",
    ),
    "a pod that wants a GPU": Case(
        GPU_POOLS | {"gpu": Pool(cpu=2000, used=2000, gpus=1)}, {"p": Wants(2000, gpus=2), "q": Wants(1, gpus=1)},
        options="gpu", raised={"gpu": 2}, helped="q", remaining="p",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_one_scale_up(case: Case) -> None:
    observation, settings = build(case)
    decision = loop.decide(observation, loop_memory.LoopMemory(), settings, NOW_S)
    (proposal,) = decision.story.scale_ups
    key = observation.snapshot.pods.key

    def names(rows: Iterable[int]) -> list[str]:
        return sorted(key(row).rpartition("/")[2] for row in rows)

    assert proposal.result is case.result
    assert sizes(decision) == case.raised
    if case.options is not None:
        assert proposal.choice is not None
        assert sorted(option.group for option in proposal.choice.options) == case.options.split()
    assert names([row for one in proposal.remaining for row in one.rows]) == case.remaining.split()
    if case.result is ScaleUpResult.SUCCESSFUL:
        assert names(proposal.helped) == case.helped.split()
        assert names(proposal.awaiting) == case.awaiting.split()
    for id, part in case.why.items():
        assert any(part in reason for one in proposal.remaining for reason in _reasons(proposal, one, id)), proposal


def _reasons(proposal: Any, one: PodEquivalenceGroup, id: str) -> Sequence[str]:
    return (*one.rejected.get(id, ()), *proposal.skipped.get(id, ()))


def build(case: Case) -> tuple[Observation, Settings]:
    nodes, groups, pods = [*case.loose], [], []
    for id, pool in case.pools.items():
        members = [_node(f"{id}-{number}", id, pool) for number in range(pool.count)]
        nodes += members
        used = pool.cpu if pool.used is None else pool.used
        pods += [running(f"on-{one.name}", one.name, used) for one in members if used]
        template = _node(f"{id}-template", id, pool)
        groups.append(group(id, members, pool.min_size, pool.max_size, template=template, zero_or_max=pool.zero_or_max))
    for name, wants in case.pods.items():
        spec: dict[str, Any] = {"node_selector": ((POOL, wants.pool),)} if wants.pool else {}
        made = pending(name, wants.cpu, wants.memory, spec=spec, owner=None)
        if wants.gpus:
            requests = resources(wants.cpu, wants.memory, **{GPU: wants.gpus})
            made = replace(made, spec=replace(made.spec, requests=requests), digest=f"{wants}")
        pods.append(made)
    settings = case.settings
    if case.prefer:
        settings = choose(settings, "scale_up", expander=("priority", "least-nodes"))
    refused = {id: node_groups.InstanceError("Other", "no more") for id in case.refused.split()}
    rules = priority.compile_rules({2: [f"^{case.prefer}$"], 1: [".*"]} if case.prefer else {})
    return observe(groups, nodes, pods, quotas=tuple(case.quotas), refused=refused, priorities=rules), settings


def _node(name: str, id: str, pool: Pool) -> facts.Node:
    if not pool.gpus:
        return node(name, pool.cpu, pool.memory, labels={POOL: id})
    has = resources(pool.cpu, pool.memory, pods=100, **{GPU: pool.gpus})
    label = {well_known.CLUSTER_API_GPU_LABEL: "some"}
    return node(name, labels={POOL: id, **label}, allocatable=has, capacity=has)
