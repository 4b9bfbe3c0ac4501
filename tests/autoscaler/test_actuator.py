"""Plans carried out on the embedded API server: what is written, and what is said of what could not be."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.kube.fake_api_server import answer, refusal
from windlass.autoscaler import actuator
from windlass.engine import taints
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.plan import PlanResult
from windlass.engine.model.provisioning import Condition
from windlass.kube import client, request_builders, resources, transport
from windlass.providers import base

MARK = plan.SetTaint("a-1", "k", "v", "NoSchedule")


def acting(cluster: Cluster) -> actuator.Actuator:
    return actuator.Actuator(
        client.Client(cluster.carrier, cluster.clock, client.ClientSettings(qps=0)), cluster.provider
    )


def known(cluster: Cluster) -> dict[str, facts.Node]:
    """The nodes by name; what the API server calls them, the provider does not know."""
    return {node.name: replace(node, uid="") for node in cluster.provider.nodes}


async def change(cluster: Cluster, *ordered: plan.Instruction) -> PlanResult:
    return await acting(cluster).apply_changes(ordered, known(cluster).get)


def test_all_that_is_wanted_of_a_node_is_written_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        outcome = await change(cluster, MARK, plan.Cordon("a-1"))
        assert outcome.done == (MARK, plan.Cordon("a-1"))
        assert cluster.carrier.calls == ["GET /api/v1/nodes/a-1", "PUT /api/v1/nodes/a-1"]
        spec = (await cluster.node("a-1"))["spec"]
        assert spec["unschedulable"] is True
        assert {"key": "k", "value": "v", "effect": "NoSchedule"} in spec["taints"]

    play(scenario)


def test_what_is_so_already_is_not_written() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        await change(cluster, MARK)
        cluster.carrier.sent.clear()
        again = await change(cluster, MARK, plan.RemoveTaint("a-1", "other"), plan.Cordon("a-1", cordoned=False))
        assert len(again.done) == 3
        assert cluster.carrier.calls == ["GET /api/v1/nodes/a-1"]

    play(scenario)


def test_soft_taints_come_last_and_none_is_begun_when_their_time_is_up() -> None:
    """At one request a second, two for each node: five nodes at once begin, others when one is done."""

    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 9)
        cluster.register_nodes()
        names = [f"a-{number}" for number in range(1, 10)]
        marks = [plan.SetTaint(name, taints.DELETION_CANDIDATE_KEY, "1", "PreferNoSchedule") for name in names[:-1]]
        acts = actuator.Actuator(
            client.Client(cluster.carrier, cluster.clock, client.ClientSettings(qps=1, burst=1)), cluster.provider
        )
        urgent = plan.Cordon(names[-1])
        outcome = await acts.apply_changes((*marks, urgent), known(cluster).get, soft_taint_s=3.0)
        assert outcome.done == (urgent, *marks[:5])
        assert outcome.failed == {}, "the next loop orders the rest again"
        assert (await acts.apply_changes(tuple(marks[5:]), known(cluster).get, soft_taint_s=0.0)).done == ()

    play(scenario)


def test_another_writer_s_taint_is_not_lost() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        before = cluster.carrier.refuse

        def interfere(request: transport.Request) -> transport.Response | None:
            if request.method == "PUT":
                cluster.carrier.refuse = before
                patch = {"spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}]}}
                cluster.server.handle(request_builders.build_merge_patch(resources.NODES, "a-1", patch))
            return None

        cluster.carrier.refuse = interfere
        assert (await change(cluster, MARK)).done == (MARK,)
        assert await cluster.taints("a-1") == {"theirs", "k"}

    play(scenario)


def test_nodes_keep_the_mark_of_a_candidate_while_raised_groups_get_their_machines() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        acts, nodes = acting(cluster), known(cluster)
        mark = plan.SetTaint("a-1", taints.DELETION_CANDIDATE_KEY, "1", "PreferNoSchedule")
        unmark = plan.RemoveTaint("a-1", taints.DELETION_CANDIDATE_KEY)
        await acts.resize((plan.Resize("MachineDeployment/default/a", 1, 2, 5),), in_parallel=True)
        assert (await acts.apply_changes((mark,), nodes.get)).done == (mark,), "marks are set as ever"
        assert (await acts.apply_changes((unmark, MARK), nodes.get)).done == (MARK,)
        assert await cluster.taints("a-1") == {"k", taints.DELETION_CANDIDATE_KEY}
        await cluster.clock.sleep(31.0)
        assert (await acts.apply_changes((unmark,), nodes.get)).done == (unmark,)
        assert await cluster.taints("a-1") == {"k"}

    play(scenario)


def test_a_node_that_is_gone_needs_no_change() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert (await change(cluster, MARK)).done == (MARK,)

    play(scenario)


def test_what_fails_is_told_and_keeps_nothing_else_from_being_done() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 2)
        cluster.register_nodes()
        cluster.carrier.forbid("PUT", "nodes/a-1")
        other = replace(MARK, node="a-2")
        outcome = await change(cluster, MARK, other)
        assert outcome.done == (other,)
        assert "403 Forbidden" in outcome.failed[MARK]

    play(scenario)


def test_nodes_of_one_group_are_deleted_together() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = cluster.add_group("a", 3)
        orders = [plan.DeleteNode("a-1", "a"), plan.DeleteNode("a-3", "a")]
        assert (await change(cluster, *orders)).done == tuple(orders)
        assert group.size == 1
        group.refuses = node_groups.InstanceError("Other", "no", "not now")
        last = plan.DeleteNode("a-2", "a")
        assert (await change(cluster, last)).failed == {last: "not now"}

    play(scenario)


def resizes(*groups: str) -> list[plan.Instruction]:
    return [plan.Resize(group, 0, 1, 10) for group in groups]


def test_one_after_the_other_ends_at_the_first_refusal() -> None:
    async def scenario(cluster: Cluster) -> None:
        for id in "abc":
            cluster.add_group(id)
        cluster.provider.groups["b"].refuses = node_groups.InstanceError("Other", "code", "no")
        first, second, third = resizes("a", "b", "c")
        outcome = await acting(cluster).resize((first, second, third), in_parallel=False)
        assert outcome.done == (first,)
        assert outcome.failed == {second: "no", third: actuator.NOT_ATTEMPTED}
        assert [cluster.provider.groups[id].size for id in "abc"] == [1, 0, 0]

    play(scenario)


def test_together_a_refusal_concerns_only_the_group_itself() -> None:
    async def scenario(cluster: Cluster) -> None:
        for id in "abc":
            cluster.add_group(id)
        cluster.provider.groups["b"].refuses = node_groups.InstanceError("Other", "code", "no")
        outcome = await acting(cluster).resize(tuple(resizes("a", "b", "c")), in_parallel=True)
        assert [cluster.provider.groups[id].size for id in "abc"] == [1, 0, 1]
        assert outcome.refused == {"b": node_groups.InstanceError("Other", "code", "no")}

    play(scenario)


def test_a_node_that_the_provider_refuses_fails_alone() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 3)
        cluster.register_nodes()
        delete = cluster.provider.delete_nodes

        async def refuse_one(group: str, nodes: Sequence[facts.Node]) -> Mapping[str, base.ProviderError]:
            await delete(group, [node for node in nodes if node.name != "a-2"])
            return {"a-2": base.ProviderError(node_groups.InstanceError("Other", "x", "not this one"))}

        cluster.provider.delete_nodes = refuse_one  # type: ignore[method-assign]
        outcome = await change(cluster, *(plan.DeleteNode(name, "a") for name in ("a-1", "a-2", "a-3")))
        assert outcome.done == (plan.DeleteNode("a-1", "a"), plan.DeleteNode("a-3", "a"))
        assert outcome.failed == {plan.DeleteNode("a-2", "a"): "not this one"}

    play(scenario)


def order(number: int, type: str = "Failed") -> plan.SetConditions:
    return plan.SetConditions("default", f"r{number}", "1", (Condition(type, "True", "Because", "", 0.0),))


def test_answers_to_hundreds_of_requests_keep_no_loop_waiting_and_all_are_written_in_the_end() -> None:
    """At five writes a second; the tenant's first hundred are refused, the room of one other is given away."""

    async def scenario(cluster: Cluster) -> None:
        tried = list[str]()

        def refuse(request: transport.Request) -> transport.Response | None:
            tried.append(request.path.split("/")[-2])
            if int(tried[-1][1:]) < 100:
                return refusal(404, "NotFound")
            return answer(200, {"metadata": {"name": tried[-1], "namespace": "default"}, "spec": {}})

        cluster.carrier.refuse = refuse
        throttled = client.Client(cluster.carrier, cluster.clock, client.ClientSettings(qps=5, burst=1))
        acts = actuator.Actuator(throttled, cluster.provider)
        left = {order(number) for number in range(200)} | {provisioned := order(200, "Provisioned")}
        longest_s = 0.0
        for _ in range(40):
            began_s = cluster.clock.monotonic_s()
            outcome = await acts.apply_changes(tuple(sorted(left, key=str)), lambda _: None)
            longest_s = max(longest_s, cluster.clock.monotonic_s() - began_s)
            left -= set(outcome.done)
        assert tried[0] == provisioned.name, "others would give its room away"
        assert {set_conditions.name for set_conditions in left} == {f"r{number}" for number in range(100)}
        assert longest_s < 5.0

    play(scenario)


def test_a_node_is_tainted_while_many_requests_are_answered() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        cluster.carrier.refuse = lambda request: (
            refusal(404, "NotFound") if "provisioningrequests" in request.path else None
        )
        throttled = client.Client(cluster.carrier, cluster.clock, client.ClientSettings(qps=5, burst=1))
        acts = actuator.Actuator(throttled, cluster.provider)
        answering = asyncio.create_task(acts.apply_changes(tuple(map(order, range(50))), lambda _: None))
        await cluster.clock.sleep(0.5)
        began_s = cluster.clock.monotonic_s()
        await acts.apply_changes((MARK,), known(cluster).get)
        assert cluster.clock.monotonic_s() - began_s < 1.0
        assert not answering.done()
        await answering

    play(scenario)
