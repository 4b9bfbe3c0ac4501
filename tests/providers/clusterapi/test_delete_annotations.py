"""Deleting particular machines: marks, then one change of size."""

import asyncio
from typing import Any

import pytest

from tests.providers.clusterapi.management_cluster import Bed, node, play, refusal
from windlass.engine.model import plan
from windlass.engine.model.node_groups import Instance
from windlass.kube import errors, transport
from windlass.providers import base

G = "MachineDeployment/default/g"
P = "MachinePool/default/p"


def three(bed: Bed, **more: Any) -> None:
    bed.group("g", 3)
    bed.members("g", 3, **more)


def nodes(*numbers: int, group: str = "g") -> list[Any]:
    return [node(f"{group}-{i}") for i in numbers]


def count(bed: Bed, method: str, path: str = "") -> int:
    return sum(request.method == method and path in request.path for request in bed.carrier.sent)


# ── Marked and gone ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_machines_of_a_batch_are_marked_and_the_size_is_lowered_once(version: str) -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(G, nodes(0, 2))
        assert await bed.marked() == {"g-0", "g-2"}
        assert await bed.replicas(G) == 1
        assert (count(bed, "PUT", "/machines/"), count(bed, "PATCH", "/scale")) == (2, 1)
        assert (count(bed, "GET", "/machines/"), count(bed, "GET", "/scale")) == (2, 1)
        assert {request.method for request in bed.carrier.sent} == {"GET", "PUT", "PATCH"}
        written = [one for one in bed.carrier.sent if one.method != "GET"]
        assert all(("fieldManager", "cluster-autoscaler") in one.query for one in written)
        assert [one.method for one in written] == ["PUT", "PUT", "PATCH"]

    play(scenario, three, version=version)


def test_a_size_is_lowered_only_when_marks_have_got_about() -> None:
    """Cluster API hears of both by different watches, and takes any Machine where the size is first."""

    async def scenario(bed: Bed) -> None:
        sent_s = await shrink(bed)
        assert sent_s["PATCH"] > sent_s["PUT"] + 0.1

    play(scenario, three)


def test_a_watch_that_tells_nothing_does_not_hold_a_size_up() -> None:
    async def scenario(bed: Bed) -> None:
        bed.carrier.refuse = lambda request: (
            refusal(503, "ServiceUnavailable") if ("watch", "true") in request.query else None
        )
        await bed.clock.sleep(700.0)  # the longest that a watch lasts
        sent_s = await shrink(bed)
        assert sent_s["PUT"] + 1 < sent_s["PATCH"] < sent_s["PUT"] + 5
        assert await bed.replicas(G) == 2

    play(scenario, three)


async def shrink(bed: Bed) -> dict[str, float]:
    """Delete one, and say when what was sent last."""
    sent_s: dict[str, float] = {}
    before = bed.carrier.refuse

    def note(request: transport.Request) -> transport.Response | None:
        sent_s[request.method] = bed.clock.monotonic_s()
        return before(request)

    bed.carrier.refuse = note
    await bed.provider.delete_nodes(G, nodes(1))
    return sent_s


def test_a_size_is_raised_again_only_when_what_was_told_to_go_goes() -> None:
    """Cluster API may never see the lower size in between: then nothing would go, and nothing come."""

    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(G, nodes(1))
        since_s = bed.clock.monotonic_s()
        raising = asyncio.create_task(bed.provider.resize(plan.Resize(G, 2, 3, 10)))
        await bed.clock.sleep(1.0)
        assert await bed.replicas(G) == 2
        await bed.begin_deleting("g-1")
        await raising
        assert await bed.replicas(G) == 3
        assert bed.clock.monotonic_s() < since_s + 3

    play(scenario, lambda bed: three(bed, finalize=True))


def test_where_nobody_acts_on_sizes_one_is_raised_all_the_same() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(G, nodes(1))
        since_s = bed.clock.monotonic_s()
        await bed.provider.resize(plan.Resize(G, 2, 3, 10))
        assert await bed.replicas(G) == 3
        assert bed.clock.monotonic_s() < since_s + 10

    play(scenario, three)


def test_what_was_told_to_go_is_deleting_before_cluster_api_acts() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(G, nodes(1))
        groups = {group.id: group for group in bed.provider.observe(nodes(0, 1, 2)).groups}
        states = {instance.provider_id: instance.state for instance in groups[G].instances}
        assert states == {"fake:///g-0": "Running", "fake:///g-1": "Deleting", "fake:///g-2": "Running"}

    play(scenario, three)


def test_told_twice_it_is_done_once() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(G, nodes(1))
        await bed.provider.delete_nodes(G, nodes(1))
        await bed.settle()
        await bed.provider.delete_nodes(G, nodes(1))
        assert await bed.replicas(G) == 2
        await bed.begin_deleting("g-1")
        await bed.provider.delete_nodes(G, nodes(1))
        assert await bed.replicas(G) == 2

    play(scenario, lambda bed: three(bed, finalize=True))


def test_told_at_the_same_time_both_are_done() -> None:
    async def scenario(bed: Bed) -> None:
        await asyncio.gather(bed.provider.delete_nodes(G, nodes(0)), bed.provider.delete_nodes(G, nodes(1)))
        assert await bed.replicas(G) == 1
        assert await bed.marked() == {"g-0", "g-1"}

    play(scenario, three)


def test_instances_without_nodes_are_deleted_by_the_name_of_their_machine() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 3)
        bed.members("g", 2)
        bed.machine("g-2", "g-1", node=False, provider_id=False)

    async def scenario(bed: Bed) -> None:
        stuck = "pending-machine-default_g-2"
        assert Instance(stuck, "Creating") in (await bed.observe(nodes(0, 1)))[G].instances
        await bed.provider.delete_instances(plan.DeleteInstances(G, (stuck,), ""))
        assert await bed.marked() == {"g-2"}
        assert await bed.replicas(G) == 2
        await bed.remove("Machine", "g-2")
        await bed.provider.delete_instances(plan.DeleteInstances(G, (stuck,), ""))
        assert await bed.replicas(G) == 2

    play(scenario, arrange)


def test_an_instance_that_has_become_a_node_meanwhile_stays() -> None:
    async def scenario(bed: Bed) -> None:
        with pytest.raises(base.ProviderError, match="has become a node"):
            await bed.provider.delete_instances(plan.DeleteInstances(G, ("pending-machine-default_g-0",), ""))
        assert (await bed.marked(), await bed.replicas(G)) == (set(), 3)

    play(scenario, three)


def test_a_machine_with_a_node_reference_is_never_deleted_for_not_having_registered() -> None:
    async def scenario(bed: Bed) -> None:
        with pytest.raises(base.ProviderError, match="has become a node"):
            await bed.provider.delete_instances(plan.DeleteInstances(G, ("fake:///g-0",), "", force=True))
        assert (await bed.marked(), await bed.replicas(G)) == (set(), 3)

    play(scenario, three)


def test_one_instance_that_has_become_a_node_costs_no_other_its_deletion() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 3)
        bed.members("g", 2)
        bed.machine("g-2", "g-1", node=False)

    async def scenario(bed: Bed) -> None:
        ids = ("pending-machine-default_g-0", "pending-machine-default_g-2")
        with pytest.raises(base.ProviderError, match="default_g-0 has become a node"):
            await bed.provider.delete_instances(plan.DeleteInstances(G, ids, ""))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-2"}, 2)

    play(scenario, arrange)


def test_a_batch_that_goes_below_the_minimum_is_refused_whole_unless_it_is_forced() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 3, (2, 10))
        bed.members("g", 1)
        bed.machine("g-1", "g-1", node=False)
        bed.machine("g-2", "g-1", node=False)

    async def scenario(bed: Bed) -> None:
        with pytest.raises(base.ProviderError, match="unable to delete 2 machines"):
            await bed.provider.delete_nodes(G, nodes(0, 1))
        assert (await bed.marked(), await bed.replicas(G)) == (set(), 3)
        ids = ("fake:///g-1", "fake:///g-2")
        await bed.provider.delete_instances(plan.DeleteInstances(G, ids, "", force=True))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-1", "g-2"}, 1)
        with pytest.raises(base.ProviderError, match="min size reached"):
            await bed.provider.delete_nodes(G, nodes(0))

    play(scenario, arrange)


def test_a_node_without_a_machine_costs_no_other_its_deletion() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.remove("Machine", "g-1")
        assert await bed.provider.delete_nodes(G, nodes(0, 1)) == {}
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0"}, 2)

    play(scenario, three)


def test_a_node_of_another_group_is_refused_alone() -> None:
    def arrange(bed: Bed) -> None:
        three(bed)
        bed.group("h", 1)
        bed.members("h", 1)

    async def scenario(bed: Bed) -> None:
        with pytest.raises(base.ProviderError, match="fake:///h-0"):
            await bed.provider.delete_nodes(G, [node("h-0")])
        assert (await bed.marked(), await bed.replicas(G)) == (set(), 3)
        refused = await bed.provider.delete_nodes(G, [*nodes(0), node("h-0")])
        assert {name: "fake:///h-0" in str(why) for name, why in refused.items()} == {"h-0": True}
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0"}, 2)

    play(scenario, arrange)


# ── Refused ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_refused_size_takes_the_marks_off_again() -> None:
    async def scenario(bed: Bed) -> None:
        bed.carrier.forbid("PATCH", "/scale")
        with pytest.raises(base.ProviderError, match="not today"):
            await bed.provider.delete_nodes(G, nodes(0, 1))
        assert (await bed.marked(), await bed.replicas(G)) == (set(), 3)
        bed.carrier.allow()
        await bed.provider.delete_nodes(G, nodes(0, 1))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0", "g-1"}, 1)

    play(scenario, three)


def test_one_mark_that_is_refused_costs_that_node_only() -> None:
    async def scenario(bed: Bed) -> None:
        bed.carrier.forbid("PUT", "/machines/g-1")
        refused = await bed.provider.delete_nodes(G, nodes(0, 1, 2))
        assert {name: "not today" in str(why) for name, why in refused.items()} == {"g-1": True}
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0", "g-2"}, 1)

    play(scenario, three)


def test_a_mark_that_may_be_there_and_cannot_be_taken_off_keeps_all() -> None:
    """A size lowered beside a mark that nobody meant would take that Machine, and pods with it."""

    async def scenario(bed: Bed) -> None:
        def refuse(request: transport.Request) -> transport.Response | None:
            return refusal(500, "InternalError") if request.path.endswith("/machines/g-1") else None

        bed.carrier.refuse = refuse
        with pytest.raises(base.ProviderError, match="not today"):
            await bed.provider.delete_nodes(G, nodes(0, 1, 2))
        bed.carrier.allow()
        assert (await bed.marked(), await bed.replicas(G)) == (set(), 3)

    play(scenario, three)


def test_a_size_whose_answer_got_lost_is_not_lowered_twice() -> None:
    async def scenario(bed: Bed) -> None:
        lost: list[str] = []

        def lose(request: transport.Request) -> None:
            if request.method == "PATCH" and not lost:
                lost.append(request.path)
                bed.group("g", 2)  # the server took it
                raise errors.ConnectionLost(request.call, "gone")

        bed.carrier.refuse = lose
        await bed.provider.delete_nodes(G, nodes(0))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0"}, 2)

    play(scenario, three)


def test_while_nobody_knows_whether_a_size_was_taken_marks_stay() -> None:
    async def scenario(bed: Bed) -> None:
        def lose(request: transport.Request) -> None:
            if request.method == "PATCH":
                bed.group("g", 2)
                bed.carrier.refuse = break_down
                raise errors.ConnectionLost(request.call, "gone")

        def break_down(request: transport.Request) -> None:
            if "/scale" in request.path:
                raise errors.ConnectionLost(request.call, "gone")

        bed.carrier.refuse = lose
        with pytest.raises(base.ProviderError):
            await bed.provider.delete_nodes(G, nodes(0))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0"}, 2)
        bed.carrier.allow()
        await bed.settle()
        await bed.provider.delete_nodes(G, nodes(0))  # it is on its way: nothing more is to be done
        assert await bed.replicas(G) == 2

    play(scenario, three)


def test_a_conflict_over_a_machine_is_settled_by_reading_it_again() -> None:
    async def scenario(bed: Bed) -> None:
        raced: list[str] = []

        def race(request: transport.Request) -> None:
            if request.method == "PUT" and not raced:
                raced.append(request.path)
                bed.machine("g-0", "g-1", phase="Busy")

        bed.carrier.refuse = race
        await bed.provider.delete_nodes(G, nodes(0))
        assert raced
        assert await bed.marked() == {"g-0"}
        found = await bed.api.get(bed.resource("Machine"), "g-0", "default")
        assert found["status"]["phase"] == "Busy"

    play(scenario, three)


# ── Marks that are good for nothing ──────────────────────────────────────────────────────────────────────────────


def test_d6_a_mark_that_nobody_remembers_is_taken_off_before_another_machine_goes() -> None:
    def arrange(bed: Bed) -> None:
        three(bed)
        bed.machine("g-1", "g-1", marked=True)

    async def scenario(bed: Bed) -> None:
        assert all(instance.state == "Running" for instance in (await bed.observe(nodes(0, 1, 2)))[G].instances)
        await bed.provider.delete_nodes(G, nodes(0))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0"}, 2)
        written = [request.method for request in bed.carrier.sent if request.method != "GET"]
        assert written == ["PUT", "PUT", "PATCH"]

    play(scenario, arrange)


def test_d6_so_it_is_before_a_target_is_lowered() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 3)
        bed.members("g", 2)
        bed.machine("g-1", "g-1", marked=True)

    async def scenario(bed: Bed) -> None:
        await bed.provider.reduce_target(plan.ReduceTarget(G, 1, "", 3))
        assert (await bed.marked(), await bed.replicas(G)) == (set(), 2)

    play(scenario, arrange)


def test_d6_a_mark_that_cannot_be_taken_off_keeps_the_group_from_shrinking() -> None:
    def arrange(bed: Bed) -> None:
        three(bed)
        bed.machine("g-1", "g-1", marked=True)

    async def scenario(bed: Bed) -> None:
        bed.carrier.forbid("PUT", "/machines/g-1")
        with pytest.raises(base.ProviderError, match="not today"):
            await bed.provider.delete_nodes(G, nodes(0))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-1"}, 3)

    play(scenario, arrange)


def test_d6_a_mark_of_our_own_that_a_scale_up_made_useless_is_taken_off() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(G, nodes(0))
        await bed.provider.resize(plan.Resize(G, 2, 3, 10))  # before Cluster API acted
        assert all(instance.state == "Running" for instance in (await bed.observe(nodes(0, 1, 2)))[G].instances)
        await bed.provider.delete_nodes(G, nodes(1))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-1"}, 2)

    play(scenario, three)


def test_a_mark_that_was_acted_on_stays_while_the_next_machine_is_told_to_go() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(G, nodes(0))
        await bed.settle()
        await bed.provider.delete_nodes(G, nodes(1))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0", "g-1"}, 1)

    play(scenario, three)


def test_so_it_does_after_a_restart() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 2)
        bed.members("g", 3)
        bed.machine("g-0", "g-1", marked=True)

    async def scenario(bed: Bed) -> None:
        group = (await bed.observe(nodes(0, 1, 2)))[G]
        assert [instance.state for instance in group.instances] == ["Deleting", "Running", "Running"]
        await bed.provider.delete_nodes(G, nodes(0))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0"}, 2)
        await bed.provider.delete_nodes(G, nodes(1))
        assert (await bed.marked(), await bed.replicas(G)) == ({"g-0", "g-1"}, 1)

    play(scenario, arrange)


# ── MachinePools ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_machines_of_a_pool_are_marked_like_any_others() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("p", 2, kind="MachinePool", providerIDList=["fake:///p-0", "fake:///p-1"])
        for name in ("p-0", "p-1"):
            bed.machine(name, "p", kind="MachinePool")

    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(P, nodes(0, group="p"))
        assert (await bed.marked(), await bed.replicas(P)) == ({"p-0"}, 1)

    play(scenario, arrange)


def test_d7_a_pool_without_machines_says_that_it_cannot_choose() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("p", 2, kind="MachinePool", providerIDList=["fake:///p-0", "fake:///p-1"])
        bed.group(
            "q",
            0,
            kind="MachinePool",
            annotations={f"capacity.cluster-autoscaler.kubernetes.io/{what}": "1" for what in ("cpu", "memory")},
        )
        three(bed)

    async def scenario(bed: Bed) -> None:
        groups = await bed.observe()
        assert {id: group.can_choose for id, group in groups.items()} == {
            P: False,
            "MachinePool/default/q": True,
            G: True,
        }

    play(scenario, arrange)


def test_the_last_instance_of_a_pool_without_machines_goes_once() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("p", 1, kind="MachinePool", providerIDList=["fake:///p-0"])

    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(P, nodes(0, group="p"))
        assert await bed.replicas(P) == 0
        await bed.observe(nodes(0, group="p"))
        await bed.provider.delete_nodes(P, nodes(0, group="p"))
        assert await bed.replicas(P) == 0
        with pytest.raises(base.ProviderError, match="providerIDList"):
            await bed.provider.delete_nodes(P, nodes(7, group="p"))

    play(scenario, arrange)


# ── Rollouts ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_d8_nothing_of_a_group_that_is_rolled_out_is_deleted_whoever_asks() -> None:
    def arrange(bed: Bed) -> None:
        three(bed)
        bed.machine_set("g-2", "g", 1, revision="2")
        bed.machine("g-surge", "g-2", node=False, provider_id=False)

    async def scenario(bed: Bed) -> None:
        group = (await bed.observe(nodes(0, 1, 2)))[G]
        assert group.is_rolling_out
        surge = plan.DeleteInstances(G, ("pending-machine-default_g-surge",), "")
        for ask in (
            bed.provider.delete_instances(surge),
            bed.provider.delete_nodes(G, nodes(0)),
            bed.provider.reduce_target(plan.ReduceTarget(G, 1, "", 3)),
        ):
            with pytest.raises(base.ProviderError, match="rolling out"):
                await ask
        assert (await bed.marked(), await bed.replicas(G)) == (set(), 3)
        await bed.provider.resize(plan.Resize(G, 3, 4, 10))
        assert await bed.replicas(G) == 4

    play(scenario, arrange)
