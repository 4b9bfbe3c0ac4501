"""Only groups of which something changed are read again, and what is seen is what reading them all would find."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.providers.clusterapi.management_cluster import CAPACITY, GROUP, Bed, enough, node, play
from windlass import clock
from windlass.engine.model import facts, plan
from windlass.providers.clusterapi import auto_discovery
from windlass.providers.clusterapi import provider as clusterapi_provider

Json = dict[str, Any]

MACHINES = [f"m-{number}" for number in range(5)]
SETS = ("a-1", "a-2", "b-1", "lone")
PAUSED = f"{GROUP}/paused"
A, B, POOL = "MachineDeployment/default/a", "MachineDeployment/default/b", "MachinePool/default/p"


@contextlib.asynccontextmanager
async def another_provider(bed: Bed) -> AsyncIterator[clusterapi_provider.Provider]:
    """One that follows the same objects and has observed nothing yet."""
    provider = clusterapi_provider.Provider(bed.api, auto_discovery.Config())
    running = asyncio.create_task(provider.run())
    try:
        await clock.run_with_timeout(bed.clock, 120.0, provider.wait_synced())
        yield provider
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


# ── Any sequence of changes ──────────────────────────────────────────────────────────────────────────────────────


def paused(draw: st.DrawFn) -> Json:
    return {PAUSED: ""} if draw(st.sampled_from([*[False] * 7, True])) else {}


@st.composite
def machine(draw: st.DrawFn) -> Json:
    owner = draw(st.sampled_from([*SETS, "p"]))
    return {
        "kind": "MachinePool" if owner == "p" else "MachineSet",
        "owner": owner,
        "node": draw(st.booleans()),
        "provider_id": draw(st.sampled_from([True, True, False])),
        "marked": draw(st.booleans()),
        **({"failureMessage": "no such image"} if draw(st.sampled_from([False, False, True])) else {}),
        **({"conditions": [{"type": "Paused", "status": "True"}]} if draw(st.sampled_from([False, True])) else {}),
        # Nothing that can be read: all Machines of the namespace are in doubt.
        **({"nodeRef": 5} if draw(st.sampled_from([*[False] * 9, True])) else {}),
    }


@st.composite
def group(draw: st.DrawFn) -> Json:
    return {
        "replicas": draw(st.integers(0, 4)),
        "bounds": draw(st.sampled_from([*[(0, 10)] * 6, (1, 5), None, ("few", 10)])),
        "annotations": {**paused(draw), **draw(st.sampled_from([*[enough()] * 6, {}, {CAPACITY + "taints": "no"}]))},
    }


@st.composite
def known_node(draw: st.DrawFn) -> Json:
    """Nodes whose ids change, or are those of others, and some that say whose they are."""
    number = draw(st.integers(0, 4))
    told = {f"{GROUP}/machine": draw(st.sampled_from(MACHINES)), f"{GROUP}/cluster-namespace": "default"}
    return {
        "provider_id": draw(
            st.sampled_from([None, None, None, f"fake:///m-{number}", f"fake:////m-{number}", "", "fake:///i-1"])
        ),
        "labels": {facts.ZONE: draw(st.sampled_from(["x", "y"]))},
        "annotations": told if draw(st.booleans()) else {},
        "unreadable": draw(st.sampled_from(["", "", "", "nonsense"])),
    }


NAMES = st.sampled_from(MACHINES)
STEPS = st.one_of(
    st.tuples(st.just("machine"), NAMES, machine()),
    st.tuples(st.just("machine"), NAMES, machine()),
    st.tuples(st.just("machine goes"), NAMES, st.none()),
    st.tuples(st.just("node"), st.sampled_from([*MACHINES, "i-1"]), known_node()),
    st.tuples(st.just("node"), st.sampled_from([*MACHINES, "i-1"]), known_node()),
    st.tuples(st.just("node goes"), st.sampled_from([*MACHINES, "i-1"]), st.none()),
    st.tuples(st.just("group"), st.sampled_from(["a", "b", "lone"]), group()),
    st.tuples(st.just("group goes"), st.sampled_from(["a", "b", "lone"]), st.none()),
    st.tuples(st.just("pool"), st.just("p"), st.lists(st.sampled_from([*MACHINES, "i-1"]), unique=True, max_size=3)),
    st.tuples(st.just("machine set"), st.sampled_from(["a-1", "a-2", "b-1"]), st.integers(0, 2)),
    st.tuples(st.just("template"), st.sampled_from(["a", "b", "lone"]), st.sampled_from(["2", "4", "nonsense"])),
)


class Changes:
    """Makes changes, and knows the nodes as they are now."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.nodes = {name: node(name) for name in (*MACHINES, "i-1")}

    async def make(self, what: str, name: str, how: Any) -> None:
        bed = self.bed
        match what:
            case "machine":
                details = dict(how)
                bed.machine(name, details.pop("owner"), **details)
            case "machine goes":
                await self._remove("Machine", name)
            case "node":
                self.nodes[name] = node(name, **how)
            case "node goes":
                self.nodes.pop(name, None)
            case "group":
                bed.group(name, **how, kind="MachineSet" if name == "lone" else "MachineDeployment")
            case "group goes":
                await self._remove("MachineSet" if name == "lone" else "MachineDeployment", name)
            case "pool":
                listed = [f"fake:///{item}" for item in how]
                bed.group("p", 3, kind="MachinePool", annotations=enough(), providerIDList=listed)
            case "machine set":
                bed.machine_set(name, name[0], how, revision=name[-1])
            case "template":
                bed.apply("FakeMachineTemplate", name, status={"capacity": {"cpu": how, "memory": "8Gi"}})
        await bed.settle()

    async def _remove(self, kind: str, name: str) -> None:
        with contextlib.suppress(Exception):
            await self.bed.remove(kind, name)


@given(st.lists(STEPS, min_size=1, max_size=10))
@settings(max_examples=150, deadline=None)
def test_what_is_observed_step_by_step_is_what_a_first_observation_finds(steps: list[tuple[str, str, Any]]) -> None:
    async def scenario(bed: Bed) -> None:
        changes = Changes(bed)
        async with another_provider(bed) as other:
            observed = bed.provider.observe(list(changes.nodes.values()))
            for what, name, how in steps:
                await changes.make(what, name, how)
                observed = bed.provider.observe(list(changes.nodes.values()))
            fresh = other.observe(list(changes.nodes.values()))
        assert observed == fresh
        event(f"{len(observed.groups)} groups, {sum(len(node_group.instances) for node_group in observed.groups) > 0}")

    def arrange(bed: Bed) -> None:
        for name in ("a", "b"):
            bed.group(name, 2, annotations=enough())
        bed.group("lone", 1, kind="MachineSet", annotations=enough())
        bed.group("p", 3, kind="MachinePool", annotations=enough(), providerIDList=["fake:///m-4", "fake:///i-1"])
        for name, owner in zip(MACHINES, ("a-1", "a-1", "b-1", "lone", "lone"), strict=True):
            bed.machine(name, owner)

    play(scenario, arrange)


# ── What is read again ───────────────────────────────────────────────────────────────────────────────────────────


def arrange_two(bed: Bed) -> None:
    for name in ("a", "b"):
        bed.group(name, 2, annotations=enough())
        bed.members(name, 2)


def both_nodes(bed: Bed) -> list[facts.Node]:
    return [node(f"{name}-{number}") for name in ("a", "b") for number in range(2)]


def test_one_machine_that_changes_has_its_own_group_read_again_and_no_other() -> None:
    async def scenario(bed: Bed) -> None:
        nodes = both_nodes(bed)
        before = await bed.observe(nodes)
        bed.machine("a-0", "a-1", failureMessage="gone", node=False, provider_id=False)
        after = await bed.observe(nodes)

        assert after[B] is before[B]
        assert after[A] != before[A]

    play(scenario, arrange_two)


def test_one_node_that_changes_has_its_own_group_read_again_and_no_other() -> None:
    async def scenario(bed: Bed) -> None:
        nodes = both_nodes(bed)
        before = await bed.observe(nodes)
        labelled = node("a-0", labels={facts.ZONE: "x"})
        after = await bed.observe([labelled, *nodes[1:]])

        assert after[B] is before[B]
        template = after[A].template
        assert template is not None
        assert template.labels[facts.ZONE] == "x"

    play(scenario, arrange_two)


def test_a_node_that_a_machine_pool_lists_without_a_machine_has_the_pool_read_again() -> None:
    async def scenario(bed: Bed) -> None:
        before = await bed.observe([node("i-1"), node("i-2")])
        spelled_otherwise = node("i-1", "fake:////i-1")
        after = await bed.observe([spelled_otherwise, node("i-2")])

        assert [instance.provider_id for instance in before[POOL].instances] == ["fake:///i-1"]
        assert [one.provider_id for one in after[POOL].instances] == ["fake:////i-1"]

    def arrange(bed: Bed) -> None:
        bed.group("p", 1, kind="MachinePool", annotations=enough(), providerIDList=["fake:///i-1"])

    play(scenario, arrange)


def test_a_node_with_the_id_of_another_has_the_groups_of_both_read_again() -> None:
    async def scenario(bed: Bed) -> None:
        claims = {f"{GROUP}/machine": "a-0", f"{GROUP}/cluster-namespace": "default"}
        claimed = node("x", "fake:///shared", annotations=claims, labels={facts.ZONE: "x"})
        before = await bed.observe([claimed])
        nodes = [claimed, node("y", "fake:///shared", labels={facts.ZONE: "y"})]
        after = await bed.observe(nodes)
        async with another_provider(bed) as other:
            fresh = {node_group.id: node_group for node_group in other.observe(nodes).groups}

        assert before != after == fresh

    def arrange(bed: Bed) -> None:
        bed.group("a", 1, annotations=enough())
        bed.machine("a-0", "a-1")

    play(scenario, arrange)


def test_machines_that_were_told_to_go_are_leaving_in_the_next_observation() -> None:
    async def scenario(bed: Bed) -> None:
        nodes = both_nodes(bed)
        before = await bed.observe(nodes)
        await bed.provider.delete_nodes(A, [nodes[0]])
        after = await bed.observe(nodes)

        assert {instance.provider_id: instance.state for instance in after[A].instances} == {
            "fake:///a-0": "Deleting", "fake:///a-1": "Running",
        }  # fmt: skip
        assert after[A].target_size == 1
        assert after[B] is before[B]

    play(scenario, arrange_two)


def test_a_size_that_was_written_counts_before_it_is_seen() -> None:
    async def scenario(bed: Bed) -> None:
        nodes = both_nodes(bed)
        await bed.observe(nodes)
        await bed.provider.resize(plan.Resize(A, 2, 4, 10))

        assert {node_group.id: node_group.target_size for node_group in bed.provider.observe(nodes).groups} == {
            A: 4,
            B: 2,
        }

    play(scenario, arrange_two)
