"""What is published of a loop agrees with what the loop saw and decided."""

from collections import Counter
from dataclasses import replace

from hypothesis import given

from tests.engine.loop import builders
from tests.engine.loop.builders import NOW_S
from tests.engine.loop.strategies import World, worlds
from windlass.engine.loop import Decision, decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import node_groups, plan
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.explain.decision_view import DecisionView
from windlass.observability import status_builder
from windlass.observability.status_model import NodeState, PendingPods, PendingState, PublishedNode, PublishedStatus


def publish(
    observation: Observation, memory: LoopMemory | None = None, now_s: float = NOW_S
) -> tuple[PublishedStatus, Decision]:
    decision = decide(observation, memory or LoopMemory(), Settings(), now_s)
    return status_builder.build_status(
        DecisionView(decision), status_builder.measure_cluster(observation, now_s)
    ), decision


def find(status: PublishedStatus, name: str) -> PublishedNode:
    return next(node for node in status.nodes if node.name == name)


def only_pending(status: PublishedStatus) -> PendingPods:
    (pending_pods,) = status.pending
    return pending_pods


@given(worlds())
def test_every_node_instance_and_waiting_pod_is_told_once(world: World) -> None:
    observation = world.observe()
    status, _ = publish(observation)
    names = Counter(node.name for node in status.nodes)
    assert set(names.values()) <= {1}
    assert {node.name for node in observation.nodes} <= names.keys()
    registered = {node.provider_id for node in observation.nodes}
    missing = {instance.provider_id for group in observation.groups for instance in group.instances} - registered
    assert names.keys() - {node.name for node in observation.nodes} == missing
    assert (
        sum(pending_pods.count for pending_pods in status.pending)
        == len(observation.snapshot.pending())
        == status.cluster.pending
    )
    assert [group.id for group in status.groups] == sorted(group.id for group in observation.groups)
    assert status.cluster.ready <= status.cluster.nodes == len(observation.nodes)
    assert [node.name for node in status.nodes] == sorted(names)


@given(worlds())
def test_states_of_nodes_are_those_of_the_decision(world: World) -> None:
    observation = world.observe()
    status, decision = publish(observation)
    states = {node.name: node.state for node in status.nodes}
    durable = decision.memory.durable
    for name in durable.drains:
        assert states[name] is NodeState.DRAINING
    for name in durable.scale_down.since:
        assert states[name] in (NodeState.UNNEEDED, NodeState.DRAINING, NodeState.UNREADY, NodeState.BOOTING)
    for instruction in decision.plan:
        if isinstance(instruction, plan.Resize):
            assert (
                next(group for group in status.groups if group.id == instruction.group).target_size
                == instruction.to_size
            )


def test_shares_are_what_pods_ask_for_of_what_the_node_has() -> None:
    members = builders.nodes("a", 2, cpu=4000, memory=1000)
    pods = [builders.running("one", "a-0", 1000, 250), builders.running("two", "a-0", 500, 250)]
    status, _ = publish(builders.observe([builders.group("a", members, min_size=2)], members, pods))
    node = find(status, "a-0")
    assert (node.cpu, node.memory, node.gpu, node.pods) == (0.375, 0.5, None, 2)
    assert (status.cluster.cpu, status.cluster.memory, status.cluster.pods) == (0.188, 0.25, 2)


def test_a_pod_that_no_group_helps_is_told_why() -> None:
    members = builders.nodes("a", 1, cpu=1000)
    small = builders.group("a", members, template=builders.node("t", 1000, provider_id=""))
    status, _ = publish(builders.observe([small], members, [builders.pending("large", 5000)]))
    pending = only_pending(status)
    assert (pending.pod, pending.help, pending.owner) == ("default/large", PendingState.NOWHERE, "ReplicaSet app")
    assert [(rejected_group.group, rejected_group.texts) for rejected_group in pending.reasons] == [
        ("a", ("Insufficient cpu",))
    ]


def test_pods_alike_for_which_a_group_grows_are_told_together() -> None:
    members = builders.nodes("a", 1)
    observation = builders.observe(
        [builders.group("a", members)],
        members,
        [builders.running("full", "a-0", 4000), *(builders.pending(f"p{n}", 1000, age_s=60.0 + n) for n in range(6))],
    )
    pending = only_pending(publish(observation)[0])
    assert (pending.count, pending.help, pending.groups) == (6, PendingState.HELPED, ("a",))
    assert pending.since_s == NOW_S - 65.0


def test_a_node_is_unneeded_since_the_loop_that_first_said_so() -> None:
    members = builders.nodes("a", 2)
    observation = builders.observe([builders.group("a", members)], members)
    _, decision = publish(observation)
    status, _ = publish(observation, decision.memory, NOW_S + 60.0)
    assert {(node.state, node.since_s) for node in status.nodes} == {(NodeState.UNNEEDED, NOW_S)}


def test_instances_without_a_node_boot_or_have_failed() -> None:
    members = builders.nodes("a", 1)
    error = node_groups.InstanceError("OutOfResources", "NoCapacity", "none left")
    instances = (
        node_groups.Instance("id://young", "Creating"),
        node_groups.Instance("id://bad", "Creating", error),
        node_groups.Instance("id://going", "Deleting"),
    )
    status, _ = publish(builders.observe([builders.group("a", members, instances=instances)], members))
    found = {node.name: (node.state, node.why) for node in status.nodes[-3:]}
    assert found == {
        "id://young": (NodeState.BOOTING, ""),
        "id://bad": (NodeState.FAILED, "NoCapacity: none left"),
        "id://going": (NodeState.DRAINING, "deleting"),
    }
    (group,) = status.groups
    assert (group.failed, group.errors) == (1, ("NoCapacity: none left",))


def test_cost_counts_machines_whose_price_is_known() -> None:
    members, others = builders.nodes("a", 3), builders.nodes("b", 2)
    priced = replace(builders.group("a", members), price_per_hour=0.5)
    status, _ = publish(builders.observe([priced, builders.group("b", others)], [*members, *others]))
    assert (status.cluster.cost.per_hour, status.cluster.cost.unpriced) == (1.5, 2)
    assert [group.cost_per_hour for group in status.groups] == [1.5, None]


def test_a_group_whose_replicas_a_topology_owns_says_so() -> None:
    owner = node_groups.ReplicasOwner("capi-topology", "remove replicas")
    owned, other = replace(builders.group("a"), replicas_owner=owner), builders.group("b")
    status, _ = publish(builders.observe([owned, other]))
    assert [group.replicas_owner for group in status.groups] == [owner.message, ""]
