"""DynamicResources: where claims can be used or allocated, and which pods may be counted rather than tried in turn."""

from dataclasses import replace

import pytest

from tests.builders import evaluate, feasible, node
from tests.engine.dra.builders import (
    ACCEL,
    DRIVER,
    GPU,
    STANDS_FOR,
    accelerated,
    asks,
    claim,
    device,
    gpus,
    pod,
    pool,
    wanted,
)
from windlass.engine.model import dynamic_resources, facts, settings
from windlass.engine.model.scheduling_reasons import StatusCode
from windlass.engine.predicates import dynamic_resources as rule
from windlass.engine.predicates import registry
from windlass.engine.snapshot.cluster_snapshot import Snapshot, build_snapshot
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

ONE = asks(wanted())
NOT_HERE = "resourceclaim not available on the node"
NODES = [node("a", zone="a"), node("b", zone="b")]
ZONE_A = NodeSelector((NodeSelectorTerm((Requirement(facts.ZONE, Operator.IN, ("a",)),)),))


def fabric(reach: dynamic_resources.NodeReach, *names: str) -> dynamic_resources.ResourceSlice:
    """Devices that belong to no node."""
    return replace(pool("", *map(device, names), name="fabric"), pool="fabric", reach=reach)


EVERYWHERE = fabric(dynamic_resources.NodeReach(all_nodes=True), "x")


def cluster(*offered: dynamic_resources.DeviceFact, nodes: list[facts.Node] = NODES) -> Snapshot:
    return build_snapshot(nodes, [], offered=[GPU, *offered])


def why(snapshot: Snapshot, waits: facts.Pod, on: str) -> tuple[StatusCode, list[str]]:
    refusal = evaluate(snapshot, waits)[on]
    assert refusal is not None
    assert refusal.rule == rule.NAME
    return refusal.code, refusal.texts


# Claims that are allocated


def test_a_claim_is_used_only_from_where_its_allocation_says() -> None:
    got = dynamic_resources.ClaimAllocation(
        (dynamic_resources.DeviceAllocation(dynamic_resources.DeviceId(DRIVER, "fabric", "x")),), ZONE_A
    )
    snapshot = cluster(replace(claim("c", ONE), allocation=got), EVERYWHERE)
    assert feasible(snapshot, pod("p", "c")) == {"a"}
    assert why(snapshot, pod("p", "c"), "b") == (StatusCode.UNRESOLVABLE, [NOT_HERE])


def test_a_claim_that_was_allocated_in_thought_is_used_only_from_where_its_devices_reach() -> None:
    snapshot = cluster(claim("c", ONE), fabric(dynamic_resources.NodeReach(node_selector=ZONE_A), "x"))
    snapshot.add_pod(pod("p", "c"))
    snapshot.fork()
    snapshot.bind(snapshot.pods.rows["uid-default-p"], snapshot.nodes.rows["a"])
    assert feasible(snapshot, pod("q", "c")) == {"a"}
    assert why(snapshot, pod("q", "c"), "b") == (StatusCode.UNRESOLVABLE, [NOT_HERE])
    snapshot.revert()


# What is wrong with claims and pools


def test_a_request_of_an_unknown_kind_is_an_error_before_any_node() -> None:
    unknown = dynamic_resources.ClaimSpec((dynamic_resources.DeviceRequest("r0"),))
    snapshot = cluster(claim("c", unknown))
    refusal = rule.pre_filter(snapshot, snapshot.shape_of(pod("p", "c")), settings.DEFAULT_FILTER_CONFIG)
    assert refusal is not None
    assert (refusal.rule, refusal.code) == ("DynamicResources", StatusCode.ERROR)
    assert refusal.texts == ['running PreFilter plugin "DynamicResources": request r0: unsupported request type']


def test_a_pool_that_contradicts_itself_refuses_only_nodes_that_see_it() -> None:
    twice = [pool("a", device("gpu-0"), name=name, of=2) for name in ("one", "two")]
    snapshot = cluster(claim("c", ONE), *twice, gpus("b", 1))
    assert feasible(snapshot, pod("p", "c")) == {"b"}
    assert why(snapshot, pod("p", "c"), "a") == (StatusCode.UNRESOLVABLE, ["invalid resource pools were encountered"])


def test_a_selector_that_fails_names_the_claim() -> None:
    snapshot = cluster(claim("c", asks(wanted(1, "device.attributes['x'].y > 1"))), gpus("a", 1))
    code, (text,) = why(snapshot, pod("p", "c"), "a")
    assert code is StatusCode.ERROR
    assert text.startswith('running "DynamicResources" filter plugin: claim default/c: ')


def test_a_claim_made_for_resources_and_never_used_must_go_first() -> None:
    waits = accelerated(1)
    left = replace(
        claim("left-behind", ONE),
        is_for_extended_resources=True, owner_uid=waits.uid, owner_name=waits.name,
    )  # fmt: skip
    snapshot = build_snapshot(NODES, [], offered=[STANDS_FOR, gpus("a", 1), left])
    assert feasible(snapshot, waits) == set()
    assert why(snapshot, waits, "a") == (StatusCode.UNRESOLVABLE, ["cannot schedule extended resource claim"])
    other = replace(waits, uid="another", name="another")
    assert feasible(snapshot, other) == {"a"}


def test_a_waiting_pod_learns_of_a_claim_that_was_left_behind_after_it_was_seen() -> None:
    waits = accelerated(1)
    left = replace(
        claim("left-behind", ONE),
        is_for_extended_resources=True, owner_uid=waits.uid, owner_name=waits.name,
    )  # fmt: skip
    snapshot = build_snapshot(NODES, [waits], offered=[STANDS_FOR, gpus("a", 1)])
    (row,) = snapshot.pending()
    assert registry.find_feasible(snapshot, snapshot.shape_of_row(row), settings.DEFAULT_FILTER_CONFIG).any()
    snapshot.devices.inventory.put(left)
    snapshot.mark_leftover_claims()
    (row,) = snapshot.pending()
    assert not registry.find_feasible(snapshot, snapshot.shape_of_row(row), settings.DEFAULT_FILTER_CONFIG).any()
    snapshot.devices.inventory.remove(left)
    assert registry.find_feasible(snapshot, snapshot.shape_of_row(row), settings.DEFAULT_FILTER_CONFIG).any()


def test_a_claim_that_waits_for_its_devices_too_long_is_of_no_use_anywhere() -> None:
    got = (dynamic_resources.DeviceAllocation(dynamic_resources.DeviceId("gpu.example.com", "a", "gpu-0")),)
    allocation = dynamic_resources.ClaimAllocation(got, waiting_since_s=100.0)
    snapshot = cluster(replace(claim("c", ONE), allocation=allocation), gpus("a", 1))
    snapshot.now_s = 700.0
    assert feasible(snapshot, pod("p", "c")) == {"a", "b"}
    snapshot.now_s = 700.5
    assert feasible(snapshot, pod("p", "c")) == set()
    assert why(snapshot, pod("p", "c"), "a") == (StatusCode.UNRESOLVABLE, ["resourceclaim not available on the node"])


# Counting


def is_countable(snapshot: Snapshot, waits: facts.Pod) -> bool:
    return rule.is_countable(snapshot, snapshot.shape_of(waits))


@pytest.mark.parametrize(
    ("offered", "counted"),
    [
        ([gpus("a", 2)], True),
        ([EVERYWHERE], False),
        ([gpus("a", 2), fabric(dynamic_resources.NodeReach(node_selector=ZONE_A), "x")], True),
        ([], True),
    ],
)
def test_pods_are_counted_unless_they_take_devices_that_several_nodes_see(
    offered: list[dynamic_resources.DeviceFact], counted: bool
) -> None:
    snapshot = cluster(claim("c", ONE), *offered, nodes=[node("a", zone="z")])
    assert is_countable(snapshot, pod("p", "c")) is counted


def test_pods_that_ask_for_nothing_or_that_no_node_helps_are_counted() -> None:
    snapshot = cluster(EVERYWHERE)
    assert is_countable(snapshot, pod("p")) is True
    assert is_countable(snapshot, pod("p", "missing")) is True


def test_pods_whose_claims_are_allocated_take_nothing_more_and_are_counted() -> None:
    snapshot = cluster(claim("c", ONE, on="a", device="gpu-0"), gpus("a", 1), EVERYWHERE)
    assert is_countable(snapshot, pod("p", "c")) is True


def test_pods_that_share_a_claim_are_not_counted() -> None:
    snapshot = cluster(claim("c", ONE), gpus("a", 2))
    for name in "pq":
        snapshot.add_pod(pod(name, "c"))
    assert is_countable(snapshot, pod("p", "c")) is False


def test_nodes_that_have_a_resource_by_themselves_take_no_device_for_it() -> None:
    snapshot = build_snapshot([node("plugin", more={ACCEL: 2})], [], offered=[STANDS_FOR, EVERYWHERE])
    assert is_countable(snapshot, accelerated(1)) is True
    assert feasible(snapshot, accelerated(2)) == {"plugin"}
