"""Groups that must be left alone for a while, through the live loop: nothing is done to them, and nothing is lost."""

import contextlib
from collections.abc import AsyncIterator

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.test_autoscaler import quick
from tests.providers import fake_provider
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.engine import taints
from windlass.explain import explain_context, queries
from windlass.explain.queries import ExplainQuery, ObjectNotFound, SubjectKind

WHY = "condition Paused: Cluster spec.paused is set to true"


def evictions(cluster: Cluster) -> list[str]:
    return [call for call in cluster.carrier.calls if call.endswith("/eviction")]


def three_nodes(cluster: Cluster) -> fake_provider.Group:
    """Of which a-2 and a-3 can be emptied onto the others."""
    group = cluster.add_group("a", 3)
    cluster.register_nodes()
    cluster.add_pod("p", "3", "a-1")
    return group


def test_nothing_of_a_held_group_is_drained_or_raised() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = three_nodes(cluster)
        group.held = WHY
        cluster.add_pod("q", "1", "a-2")
        async with cluster.autoscaling() as running:
            cluster.add_pod("w", "4")
            cluster.add_pod("v", "4")
            await cluster.clock.sleep(120.0)
            assert (group.size, evictions(cluster), dict(running.memory.durable.drains)) == (3, [], {})
            assert all([taints.TO_BE_DELETED_KEY not in await cluster.taints(f"a-{i}") for i in (1, 2, 3)])
            assert list(running.memory.durable.held) == ["a"]
            for question, told in (
                (ExplainQuery(SubjectKind.CLUSTER), f"a is left alone: {WHY}"),
                (ExplainQuery(SubjectKind.NODE, "a-2"), f"belongs to a, which is left alone: {WHY}"),
                (ExplainQuery(SubjectKind.GROUP, "a"), f"group a is left alone: {WHY}"),
            ):
                answer = await running.query(
                    lambda *at, asked=question: queries.answer_query(asked, explain_context.evaluate(*at))
                )
                assert told in (
                    str(answer) if isinstance(answer, ObjectNotFound) else "\n".join(queries.render_explanation(answer))
                )
            group.held = ""
            await cluster.until(lambda: group.size > 3)

    play(scenario, quick())


def test_the_time_for_which_a_node_was_unneeded_goes_on_where_it_was() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = three_nodes(cluster)
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(12.0)  # of 20
            before = dict(running.memory.durable.scale_down.since)
            assert before.keys() == {"a-2", "a-3"}
            group.held = WHY
            await cluster.clock.sleep(600.0)
            assert dict(running.memory.durable.scale_down.since) == before
            group.held = ""
            await cluster.clock.sleep(11.0)  # a scan interval
            after = running.memory.durable.scale_down.since
            assert all(590.0 < after[name] - before[name] < 622.0 for name in before)

    play(scenario, quick())


def test_nodes_that_were_asked_for_before_a_pause_are_neither_late_nor_asked_for_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = cluster.add_group("a", 1, boot_s=900.0)
        cluster.register_nodes()
        cluster.add_pod("p", "3", "a-1")
        async with cluster.autoscaling() as running:
            cluster.add_pod("w", "3")
            await cluster.until(lambda: group.size == 2)
            await cluster.clock.sleep(5.0)
            group.held = WHY
            await cluster.clock.sleep(850.0)  # far beyond --max-node-provision-time
            assert list(running.memory.durable.health.requests.scale_ups) == ["a"]
            group.held = ""
            await cluster.clock.sleep(30.0)
            assert (group.size, dict(running.memory.durable.health.backoffs)) == (2, {})
            assert list(running.memory.durable.health.requests.scale_ups) == ["a"]

    play(scenario, quick())


@contextlib.asynccontextmanager
async def held_while_draining(cluster: Cluster) -> AsyncIterator[tuple[Autoscaler, fake_provider.Group, str]]:
    """A group that is held just when the drain of one of its nodes has begun."""
    group = cluster.add_group("a", 2)
    cluster.register_nodes()
    cluster.add_pod("p", "1", "a-1")
    cluster.add_pod("q", "1", "a-2")
    async with cluster.autoscaling() as running:
        await cluster.wait(lambda: running.memory.durable.drains)
        (name,) = running.memory.durable.drains
        group.held = WHY
        yield running, group, name


def test_a_drain_rests_while_its_group_is_held_and_goes_on_afterwards() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with held_while_draining(cluster) as (running, group, name):
            await cluster.clock.sleep(200.0)
            assert (evictions(cluster), list(running.memory.durable.drains)) == ([], [name])
            assert taints.TO_BE_DELETED_KEY in await cluster.taints(name)
            group.held = ""
            await cluster.until(lambda: evictions(cluster), 30.0)
            assert running.memory.durable.activity.failed_s is None

    play(scenario, quick())


def test_a_drain_that_rested_for_five_minutes_gives_its_node_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with held_while_draining(cluster) as (running, _, name):
            await cluster.clock.sleep(330.0)
            assert (evictions(cluster), dict(running.memory.durable.drains)) == ([], {})
            assert taints.TO_BE_DELETED_KEY not in await cluster.taints(name)
            assert "unschedulable" not in (await cluster.node(name))["spec"]

    play(scenario, quick())


def test_a_node_that_was_to_be_deleted_is_waited_for_however_long_its_group_is_held() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = three_nodes(cluster)
        group.delete_s = 10_000.0
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: group.size == 1)
            await cluster.clock.sleep(1.0)
            group.held = WHY
            await cluster.clock.sleep(1200.0)
            assert running.memory.durable.drains.keys() == {"a-2", "a-3"}
            group.held = ""
            await cluster.clock.sleep(60.0)
            assert all([taints.TO_BE_DELETED_KEY in await cluster.taints(name) for name in ("a-2", "a-3")])

    play(scenario, quick())


def test_a_restart_while_a_group_is_held_forgets_nothing_of_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = three_nodes(cluster)
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(12.0)
            before = dict(running.memory.durable.scale_down.since)
            group.held = WHY
            await cluster.clock.sleep(60.0)
            held = dict(running.memory.durable.held)
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(60.0)
            assert (dict(running.memory.durable.scale_down.since), dict(running.memory.durable.held)) == (before, held)

    play(scenario, quick())
