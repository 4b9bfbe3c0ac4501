"""The live loop, on the embedded API server and the simulated provider, in virtual time."""

import asyncio
import base64
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.autoscaler.in_process_cluster import NOW_S, Cluster, play
from tests.providers import fake_provider
from tests.providers.fake_provider import Fate
from windlass import clock
from windlass.autoscaler import memory_store
from windlass.autoscaler.shadow_mode import DryRun
from windlass.engine import taints
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.settings import Settings
from windlass.kube import request_builders, resources
from windlass.providers import base

WASTEFUL = (("cpu", 16_000), ("memory", 2**36), ("pods", 110))
"""What nobody chooses if there is something smaller."""


def quick(**deviations: Any) -> Settings:
    """Settings with short times."""
    settings = Settings()
    return replace(
        settings,
        groups=replace(
            settings.groups,
            scale_down_unneeded_time_s=20.0,
            max_node_provision_time_s=57.0,
            max_node_startup_time_s=57.0,
        ),
        scale_down=replace(settings.scale_down, scale_down_delay_after_add_s=10.0),
        deviations=replace(settings.deviations, **deviations),
    )


@contextlib.asynccontextmanager
async def at_rest(cluster: Cluster) -> AsyncIterator[None]:
    """A group of one node, and an autoscaler that has nothing to do."""
    cluster.add_group("a", 1)
    cluster.register_nodes()
    async with cluster.autoscaling():
        await cluster.clock.sleep(3.0)
        yield


def test_pods_that_wait_get_nodes_half_a_second_after_the_last_of_them() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with at_rest(cluster):
            for number in range(8):
                cluster.add_pod(f"p{number}", "2")
                await cluster.clock.sleep(0.3)
            took_s = await cluster.until(lambda: cluster.provider.groups["a"].size > 1)
            assert cluster.provider.groups["a"].size == 4 + 1 - 1
            assert took_s <= 0.5

    play(scenario)


def test_what_one_pod_was_told_need_not_be_told_to_all_that_are_like_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with at_rest(cluster):
            for number in range(8):
                cluster.add_pod(f"p{number}", "2", is_tried=number == 0)
            took_s = await cluster.until(lambda: cluster.provider.groups["a"].size > 1)
            assert (took_s <= 0.7, cluster.provider.groups["a"].size) == (True, 4)

    play(scenario)


def test_pods_that_their_controller_is_still_creating_belong_to_the_burst() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with at_rest(cluster):
            cluster.want_pods(8)
            for number in range(8):
                cluster.add_pod(f"p{number}", "2", is_tried=number == 0)
                await cluster.clock.sleep(1.2 if number == 3 else 0.0)
            assert cluster.provider.groups["a"].size == 1, "it waits for those that are to come"
            await cluster.until(lambda: cluster.provider.groups["a"].size > 1)
            assert cluster.provider.groups["a"].size == 4

    play(scenario)


def test_without_foresight_each_pod_waits_for_its_own_word() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with at_rest(cluster):
            for number in range(8):
                cluster.add_pod(f"p{number}", "2", is_tried=number == 0)
            await cluster.clock.sleep(30.0)
            assert cluster.provider.groups["a"].size == 1

    play(scenario, quick(foresee_alike_pods=False))


def test_a_burst_that_does_not_end_is_answered_all_the_same() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with at_rest(cluster):
            since_s, number = cluster.clock.monotonic_s(), 0
            while cluster.provider.groups["a"].size == 1:
                assert cluster.clock.monotonic_s() < since_s + 12.0
                cluster.add_pod(f"p{number}", "100m")
                number += 1
                cluster.add_pod(f"big{number}", "4")
                await cluster.clock.sleep(0.4)

    play(scenario)


def test_an_idle_node_is_marked_drained_and_deleted() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 2, delete_s=1.0)
        cluster.register_nodes()
        cluster.add_pod("p", "3", node="a-1")
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: "a-2" in running.memory.durable.drains)
            assert cluster.provider.groups["a"].size == 2
            took_s = await cluster.until(lambda: cluster.provider.groups["a"].size == 1)
            assert 5.0 <= took_s <= 7.0  # others are given time to see the mark
            await cluster.until(lambda: not running.memory.durable.drains)
            assert [node.name for node in cluster.provider.nodes] == ["a-1"]
            assert taints.TO_BE_DELETED_KEY not in await cluster.taints("a-1")

    play(scenario, quick())


def test_a_group_that_refuses_backs_off_and_another_helps_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        best, other = cluster.add_group("a", 0), cluster.add_group("b", 0)
        best.refuses = node_groups.InstanceError("Other", "cloudProviderError", "no")
        other.template = replace(other.template, allocatable=WASTEFUL, capacity=WASTEFUL)
        cluster.add_pod("p", "3")
        async with cluster.autoscaling() as running:
            took_s = await cluster.until(lambda: other.size == 1)
            assert took_s < 2.0
            assert best.size == 0
            assert running.memory.durable.health.backoffs["a"].until_s > NOW_S + 200

    play(scenario)


@pytest.mark.parametrize("fate", [Fate.STUCK, Fate.ABSENT, Fate.BOOTS], ids=["stuck", "absent", "never ready"])
def test_a_group_whose_nodes_do_not_come_is_left_for_another_when_its_time_is_up(fate: Fate) -> None:
    """At that very moment, not a scan interval later; and it is not tried again soon."""

    async def scenario(cluster: Cluster) -> None:
        best, other = cluster.add_group("a", 0, fate=fate, boot_s=0.0), cluster.add_group("b", 0)
        cluster.unready.add("a")
        other.template = replace(other.template, allocatable=WASTEFUL, capacity=WASTEFUL)
        cluster.add_pod("p", "3")
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: best.size == 1)
            asked_s = running.memory.durable.health.requests.scale_ups["a"].requested_s
            await cluster.until(lambda: other.size == 1)
            took_s = cluster.clock.now_s() - asked_s
            assert 56.0 < took_s < 57.2  # a node's time runs from the second in which it registered
            assert running.memory.durable.health.backoffs["a"].until_s > cluster.clock.now_s() + 200
            await cluster.clock.sleep(100.0)
            assert best.size <= 1

    play(scenario, quick())


def test_however_many_questions_are_asked_a_loop_waits_for_one_answer_at_most() -> None:
    async def scenario(cluster: Cluster) -> None:
        async def think(work: Callable[[], Any]) -> Any:
            await cluster.clock.sleep(1.0)
            return work()

        cluster.add_group("a", 1)
        cluster.register_nodes()
        async with cluster.autoscaling(think=think) as running:
            await cluster.until(lambda: running.loop.succeeded_at_s is not None)
            running.loop.wake()
            asked = [running.query(lambda *_: running.loop.succeeded_at_s or 0.0) for _ in range(4)]
            looped_s = await asyncio.gather(*asked)
            assert looped_s[0] < looped_s[1]

    play(scenario)


def test_a_new_process_goes_on_where_the_old_one_was_killed() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1, boot_s=40.0)
        cluster.register_nodes()
        for number in range(6):
            cluster.add_pod(f"p{number}", "2")
        async with cluster.autoscaling():
            await cluster.until(lambda: cluster.provider.groups["a"].size == 3)
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(30.0)
            assert running.memory.durable.loop > 1
            assert cluster.provider.groups["a"].size == 3

    play(scenario, quick())


class Belated(fake_provider.Provider):
    """Does what is asked, and shows for ever how it was before."""

    def __init__(self, time: clock.Clock) -> None:
        super().__init__(time)
        self.asked_s: list[float] = []
        self._shown: base.ObservedNodeGroups | None = None

    def observe(self, nodes: Sequence[facts.Node]) -> base.ObservedNodeGroups:
        self._shown = self._shown or super().observe(nodes)
        return self._shown

    async def resize(self, order: plan.Resize) -> None:
        self.asked_s.append(self._clock.monotonic_s())
        assert len(self.asked_s) < 100, "without end"
        await super().resize(order)


def test_what_was_done_and_does_not_show_is_done_again_in_the_next_loop_and_not_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.provider = provider = Belated(cluster.clock)
        cluster.add_group("a", 0)
        cluster.add_pod("p", "3")
        async with cluster.autoscaling():
            await cluster.clock.sleep(60.0)
        rests_s = [later - sooner for sooner, later in itertools.pairwise(provider.asked_s)]
        assert len(rests_s) >= 4
        assert all(rest_s > 9.0 for rest_s in rests_s[1:]), rests_s  # the second is the look at what the first did

    play(scenario)


def test_without_a_memory_to_be_read_nothing_is_begun() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 0)
        cluster.add_pod("p", "2")
        cluster.carrier.forbid("GET", "configmaps/windlass-memory")
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(20.0)
            assert (running.loop.iterations, cluster.provider.groups["a"].size) == (0, 0)
            cluster.carrier.allow()
            await cluster.until(lambda: cluster.provider.groups["a"].size == 1)

    play(scenario)


def test_a_role_that_does_not_know_of_memory_is_enough() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 0)
        cluster.add_pod("p", "2")
        for method in ("GET", "PUT"):
            cluster.carrier.forbid(method, "configmaps/windlass-memory")
        async with cluster.autoscaling():
            await cluster.clock.sleep(20.0)
            assert cluster.provider.groups["a"].size == 0, "an API server that has just started refuses for a moment"
            await cluster.clock.sleep(20.0)
            assert cluster.provider.groups["a"].size == 1
        written = [call for call in cluster.carrier.calls if call.startswith("PUT") and "windlass-memory" in call]
        assert written == [], "what may not be read is not written"

    play(scenario)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(403, "Forbidden"), (413, "RequestEntityTooLarge"), (422, "Invalid"), (500, "InternalError"), (200, "")],
)
def test_nothing_is_done_whose_memory_cannot_be_saved(code: int, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 2)
        cluster.register_nodes()
        cluster.add_pod("p", "3", node="a-1")
        for method in ("PUT", "POST"):
            cluster.carrier.forbid(method, "configmaps", code, reason)
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(3.0)
            cluster.add_pod("q", "4")
            cluster.add_pod("r", "4")
            await cluster.clock.sleep(120.0)
            assert cluster.provider.groups["a"].size == 2, "neither raised nor lowered"
            assert await cluster.taints("a-2") <= {taints.DELETION_CANDIDATE_KEY}
            assert running.loop.failures > 3, "and every loop says so"
            counted = running._reporter.metrics.registry.get_sample_value
            assert counted("cluster_autoscaler_errors_total", {"type": "apiCallError"}) == running.loop.failures
            assert "ConfigMap kube-system/windlass-memory" in caplog.text
            cluster.carrier.allow()
            await cluster.until(lambda: cluster.provider.groups["a"].size == 3)
            assert running.loop.failures <= 1

    play(scenario, quick())


@pytest.mark.parametrize("after_s", [0.0, 0.1, 3.0, 4.9, 5.3, 7.0])
def test_a_drain_goes_on_after_a_restart_at_any_moment(after_s: float) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 2, delete_s=3.0)
        cluster.register_nodes()
        cluster.add_pod("p", "3", node="a-1")
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: "a-2" in running.memory.durable.drains)
            await cluster.clock.sleep(after_s)
        await cluster.clock.sleep(2.0)
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: cluster.provider.groups["a"].size == 1)
            await cluster.until(lambda: not running.memory.durable.drains)
            assert await cluster.taints("a-1") == set()

    play(scenario, quick())


def test_who_does_not_lead_any_more_does_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 0)
        cluster.add_pod("p", "2")
        async with cluster.autoscaling(may_act=lambda: False) as running:
            await cluster.clock.sleep(30.0)
            assert running.loop.failures > 0
            assert cluster.provider.groups["a"].size == 0
            assert not [call for call in cluster.carrier.calls if not call.startswith("GET")]

    play(scenario)


def test_a_dry_run_decides_the_same_again_and_again_and_changes_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 0)
        cluster.add_pod("p", "2")
        async with cluster.autoscaling(observer=DryRun()) as running:
            await cluster.clock.sleep(65.0)
            assert running.decision is not None
            assert [type(instruction).__name__ for instruction in running.decision.plan] == ["Resize"]
            assert running.memory.durable.health.requests.scale_ups == {}
            assert cluster.provider.groups["a"].size == 0
            assert not [call for call in cluster.carrier.calls if not call.startswith("GET")]

    play(scenario, quick())


def test_memory_is_kept_in_one_config_map() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 0)
        cluster.add_pod("p", "2")
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: cluster.provider.groups["a"].size == 1)
            await cluster.clock.sleep(1.0)
            found = await cluster.api.get(resources.CONFIG_MAPS.untyped(), "windlass-memory", "kube-system")
            assert memory_store.decode_memory(base64.b64decode(found["binaryData"]["memory"])) == running.memory.durable
            kept = running.memory.durable.health.requests
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: running.memory.durable.loop > 0)
            assert running.memory.durable.health.requests == kept

    play(scenario)


def test_a_memory_that_is_garbage_is_begun_anew() -> None:
    async def scenario(cluster: Cluster) -> None:
        name = {"name": "windlass-memory", "namespace": "kube-system"}
        cluster.server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"memory": "garbage"}})
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: running.memory.durable.loop > 0)

    play(scenario)


def test_a_loop_after_nothing_changed_decides_nothing_anew() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        cluster.add_pod("p", "3", node="a-1")
        async with cluster.autoscaling() as running:
            await cluster.clock.sleep(25.0)
            first, turns = running.decision, running.loop.iterations
            await cluster.clock.sleep(60.0)
            assert running.loop.iterations >= turns + 5
            assert first is not None
            assert running.decision is not None
            assert running.decision.story is first.story

    play(scenario)


def test_everything_is_watched_and_nothing_is_asked_for() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        async with cluster.autoscaling():
            await cluster.clock.sleep(5.0)
            cluster.carrier.sent.clear()
            await cluster.clock.sleep(100.0)
            assert [call for call in cluster.carrier.calls if call.startswith("GET") and "nodes" not in call] == []

    play(scenario)


def test_nothing_is_decided_on_what_may_be_over_by_now() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 2)
        cluster.register_nodes()
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: running.memory.durable.loop > 1)
            cluster.carrier.forbid("GET", "/pods", 500, "InternalError")
            cluster.server.compact()
            await cluster.clock.sleep(700.0)  # the watch has ended, and there is no other
            failed, decided = running.loop.failures, running.decision
            assert failed > 0
            await cluster.clock.sleep(60.0)
            assert running.decision is decided
            cluster.carrier.allow()
            await cluster.until(lambda: running.decision is not decided)

    play(scenario)


def test_a_mark_that_nobody_remembers_is_taken_off_though_nothing_drains() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        cluster.add_pod("p", "3", node="a-1")
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: running.memory.durable.loop > 0)
            mark = {"key": taints.TO_BE_DELETED_KEY, "value": str(int(cluster.clock.now_s())), "effect": "NoSchedule"}
            patch = {"spec": {"taints": [mark]}}
            assert (
                cluster.server.handle(request_builders.build_merge_patch(resources.NODES, "a-1", patch)).status == 200
            )
            await cluster.clock.sleep(200.0)
            assert await cluster.taints("a-1") == {taints.TO_BE_DELETED_KEY}
            await cluster.clock.sleep(150.0)
            assert await cluster.taints("a-1") == set()

    play(scenario)
