"""The provider in memory: what it is told, it does, at the time that the clock says."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.providers.fake_provider import STOCKOUT, Fate, Group, Provider
from windlass import clock
from windlass.engine.model import facts, node_groups, plan
from windlass.providers import base

TEMPLATE = facts.Node("template", labels={"a": "b"}, allocatable=(("cpu", 4000),))


def play(scenario: Callable[[Provider, clock.VirtualClock], Awaitable[None]], **group: Any) -> None:
    """A group of two nodes, of one to five, whose machines boot within a minute."""
    virtual = clock.VirtualClock(1_000.0)
    provider: base.Provider = (made := Provider(virtual))
    made.add(Group("g", 1, 5, TEMPLATE, 2, **group))
    assert provider is made

    async def main() -> None:
        await scenario(made, virtual)

    virtual.run(main())


def grow(to_size: int) -> plan.Resize:
    return plan.Resize("g", 0, to_size, 5)


def see(provider: Provider) -> node_groups.NodeGroup:
    (group,) = provider.observe(provider.nodes).groups
    return group


def test_an_instance_becomes_a_node_when_its_time_has_come() -> None:
    async def scenario(provider: Provider, time: clock.VirtualClock) -> None:
        await provider.resize(grow(3))
        assert [instance.state for instance in see(provider).instances] == ["Running", "Running", "Creating"]
        await time.sleep(59.0)
        assert len(provider.nodes) == 2
        await time.sleep(1.0)
        assert [one.state for one in see(provider).instances] == ["Running"] * 3
        new = provider.nodes[-1]
        assert (new.created_s, new.labels["a"], new.allocatable) == (1_060.0, "b", TEMPLATE.allocatable)
        assert {one.provider_id for one in see(provider).instances} == {node.provider_id for node in provider.nodes}

    play(scenario)


@pytest.mark.parametrize(
    ("fate", "instances"),
    [
        (Fate.STUCK, [node_groups.Instance("simulated:///g-3", "Creating")]),
        (Fate.FAILS, [node_groups.Instance("simulated:///g-3", "Creating", STOCKOUT)]),
        (Fate.ABSENT, []),
    ],
)
def test_what_is_told_not_to_come_never_does(fate: Fate, instances: list[node_groups.Instance]) -> None:
    async def scenario(provider: Provider, time: clock.VirtualClock) -> None:
        provider.groups["g"].fate = fate
        await provider.resize(grow(3))
        await time.sleep(1e6)
        group = see(provider)
        assert (group.target_size, list(group.instances[2:])) == (3, instances)
        assert len(provider.nodes) == 2

    play(scenario)


def test_a_machine_that_is_deleted_leaves_when_its_time_has_come_and_is_deleted_once() -> None:
    async def scenario(provider: Provider, time: clock.VirtualClock) -> None:
        doomed = provider.nodes[0]
        await provider.delete_nodes("g", [doomed])
        assert (see(provider).target_size, see(provider).instances[0].state) == (1, "Deleting")
        assert len(provider.nodes) == 2
        await time.sleep(10.0)
        assert doomed not in provider.nodes
        assert len(see(provider).instances) == 1
        await provider.delete_nodes("g", [doomed])
        assert see(provider).target_size == 1

    play(scenario, delete_s=10.0)


def test_bounds_hold_unless_it_is_forced() -> None:
    async def scenario(provider: Provider, time: clock.VirtualClock) -> None:
        with pytest.raises(base.ProviderError, match="at most 5"):
            await provider.resize(grow(6))
        with pytest.raises(base.ProviderError, match="must keep 1 of 2"):
            await provider.delete_nodes("g", provider.nodes)
        with pytest.raises(base.ProviderError, match="2 instances exist"):
            await provider.reduce_target(plan.ReduceTarget("g", 1, "", 2))
        ids = tuple(node.provider_id for node in provider.nodes)
        await provider.delete_instances(plan.DeleteInstances("g", ids, "", force=True))
        assert see(provider).target_size == 0

    play(scenario)


def test_a_target_that_nothing_came_up_to_is_lowered() -> None:
    async def scenario(provider: Provider, time: clock.VirtualClock) -> None:
        provider.groups["g"].fate = Fate.ABSENT
        await provider.resize(grow(4))
        lower = plan.ReduceTarget("g", 2, "", 4)
        for _ in range(2):  # told twice, it lowers once
            await provider.reduce_target(lower)
            assert see(provider).target_size == 2
        await provider.resize(grow(5))
        with pytest.raises(base.ProviderError, match="was raised from 4 to 5 meanwhile"):
            await provider.reduce_target(lower)

    play(scenario)


def test_a_group_that_refuses_says_why_and_changes_nothing() -> None:
    async def scenario(provider: Provider, time: clock.VirtualClock) -> None:
        provider.groups["g"].refuses = STOCKOUT
        with pytest.raises(base.ProviderError) as caught:
            await provider.resize(grow(3))
        assert caught.value.error == STOCKOUT
        assert see(provider).target_size == 2
        with pytest.raises(base.ProviderError, match="no such node group"):
            await provider.resize(plan.Resize("other", 0, 1, 1))

    play(scenario)
