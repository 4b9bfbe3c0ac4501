"""Devices are taken as pods are placed, and free again when that is undone."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builders
from tests.engine.dra.builders import GPU, asks, claim, device, gpus, pod, pool, wanted
from windlass.engine.model import dynamic_resources, facts
from windlass.engine.model import settings as model_settings
from windlass.engine.placement import hinting, shape_placer
from windlass.engine.scale_up import binpacking_estimator
from windlass.engine.snapshot.cluster_snapshot import Snapshot, build_snapshot

ONE = asks(wanted())


def cluster(nodes: dict[str, int], pods: list[facts.Pod], claims: list[dynamic_resources.ResourceClaim]) -> Snapshot:
    """Nodes by name, with so many devices each."""
    offered: list[dynamic_resources.DeviceFact] = [
        GPU,
        *claims,
        *(gpus(name, count) for name, count in nodes.items() if count),
    ]
    return build_snapshot([builders.node(name) for name in nodes], pods, offered=offered)


def pending(
    count: int, spec: dynamic_resources.ClaimSpec = ONE
) -> tuple[list[facts.Pod], list[dynamic_resources.ResourceClaim]]:
    """So many pods with a claim each."""
    names = [f"p{number}" for number in range(count)]
    return [pod(name, f"c-{name}") for name in names], [claim(f"c-{name}", spec) for name in names]


def place_all(snapshot: Snapshot) -> hinting.SchedulingResult:
    everywhere = np.ones(snapshot.nodes.count, bool)
    placer = shape_placer.Placer(snapshot, model_settings.DEFAULT_FILTER_CONFIG)
    return hinting.try_schedule_pods(placer, snapshot.pending(), hinting.HintingState(), everywhere)


def test_pods_go_where_devices_are_left() -> None:
    snapshot = cluster({"a": 2, "b": 1, "none": 0}, *pending(5))
    snapshot.fork()
    scheduling_result = place_all(snapshot)
    assert (len(scheduling_result.placed), len(scheduling_result.failed)) == (3, 2)
    assert [len(snapshot.pods_on(row)) for row in range(3)] == [2, 1, 0]
    snapshot.revert()
    assert len(snapshot.pending()) == 5
    snapshot.fork()
    assert len(place_all(snapshot).placed) == 3
    snapshot.revert()


def test_a_claim_that_pods_share_is_allocated_once_and_keeps_them_together() -> None:
    pods = [pod(f"p{number}", "shared") for number in range(3)]
    snapshot = cluster({"a": 1, "b": 1}, pods, [claim("shared", ONE)])
    snapshot.fork()
    assert not place_all(snapshot).failed
    assert sorted(len(snapshot.pods_on(row)) for row in range(2)) == [0, 3]
    snapshot.revert()


def test_devices_that_all_nodes_reach_are_taken_once() -> None:
    fabric = dataclasses.replace(
        pool("", device("x"), device("y"), name="fabric"),
        pool="fabric",
        reach=dynamic_resources.NodeReach(all_nodes=True),
    )
    pods, claims = pending(3)
    snapshot = cluster({"a": 0, "b": 0}, pods, claims)
    snapshot.devices.inventory.put(fabric)
    snapshot.fork()
    scheduling_result = place_all(snapshot)
    assert (len(scheduling_result.placed), len(scheduling_result.failed)) == (2, 1)
    snapshot.revert()


def test_a_pod_that_leaves_its_node_gives_its_devices_back_and_takes_others() -> None:
    running = [pod("p", "c", on="a")]
    snapshot = cluster({"a": 1, "b": 1}, running, [claim("c", ONE, on="a", device="gpu-0", by="uid-default-p")])
    waiting = pod("q", "d")
    snapshot.devices.inventory.put(claim("d", ONE))
    verdicts = builders.evaluate(snapshot, waiting)
    assert verdicts["a"] is not None
    assert verdicts["b"] is None
    snapshot.fork()
    snapshot.unbind(snapshot.pods.rows["uid-default-p"])
    assert builders.evaluate(snapshot, waiting)["a"] is None
    snapshot.bind(snapshot.pods.rows["uid-default-p"], snapshot.nodes.rows["b"])
    moved = builders.evaluate(snapshot, waiting)
    assert moved["a"] is None
    assert moved["b"] is not None
    snapshot.revert()
    assert builders.evaluate(snapshot, waiting) == verdicts


def test_a_claim_that_others_still_use_stays_where_it_is() -> None:
    running = [pod("p", "c", on="a"), pod("q", "c", on="a")]
    used = dataclasses.replace(claim("c", ONE, on="a", device="gpu-0"), reserved_for=("uid-default-p", "uid-default-q"))
    snapshot = cluster({"a": 1, "b": 1}, running, [used])
    other = pod("r", "d")
    snapshot.devices.inventory.put(claim("d", ONE))
    snapshot.fork()
    snapshot.unbind(snapshot.pods.rows["uid-default-p"])
    assert builders.evaluate(snapshot, other)["a"] is not None
    snapshot.unbind(snapshot.pods.rows["uid-default-q"])
    assert builders.evaluate(snapshot, other)["a"] is None
    snapshot.revert()


def test_new_nodes_come_with_the_devices_of_their_template() -> None:
    pods, claims = pending(20)
    snapshot = cluster({}, pods, claims)
    template = dataclasses.replace(builders.node("t"), slices=(gpus("t", 8),))
    shape = snapshot.shape_of_row(0)
    group = [binpacking_estimator.ShapeCount(shape, 20)]
    limiter = binpacking_estimator.EstimationLimiter([])
    estimate = binpacking_estimator.estimate(
        snapshot, group, binpacking_estimator.NodeTemplate(template), limiter, model_settings.DEFAULT_FILTER_CONFIG
    )
    assert (estimate.nodes, estimate.placed) == (3, (20,))
    without = binpacking_estimator.NodeTemplate(builders.node("t"))
    none = binpacking_estimator.estimate(
        snapshot, group, without, binpacking_estimator.EstimationLimiter([]), model_settings.DEFAULT_FILTER_CONFIG
    )
    assert none.placed == (0,)


def test_a_pod_that_comes_with_every_node_has_devices_of_its_own_on_each() -> None:
    own = facts.PodClaim("c", "c-daemon", True, True, "daemon", "uid-daemon")
    daemon = builders.pod("daemon", on="n", uid="uid-daemon", spec=facts.PodSpec(claims=(own,)))
    held = claim("c-daemon", ONE, owner="uid-daemon", on="n", device="gpu-0", by="uid-daemon")
    pods, claims = pending(14)
    snapshot = cluster({"n": 1}, [daemon, *pods], [held, *claims])
    template = dataclasses.replace(builders.node("t"), slices=(gpus("t", 8),))
    group = [binpacking_estimator.ShapeCount(snapshot.shape_of(pods[0]), 14)]
    starting = binpacking_estimator.NodeTemplate(template, (snapshot.shape_of(daemon),))
    estimate = binpacking_estimator.estimate(
        snapshot, group, starting, binpacking_estimator.EstimationLimiter([]), model_settings.DEFAULT_FILTER_CONFIG
    )
    assert (estimate.nodes, estimate.placed) == (2, (14,))
    more = [binpacking_estimator.ShapeCount(snapshot.shape_of(pods[0]), 15)]
    assert (
        binpacking_estimator.estimate(
            snapshot, more, starting, binpacking_estimator.EstimationLimiter([]), model_settings.DEFAULT_FILTER_CONFIG
        ).nodes
        == 3
    )


def test_a_resource_that_a_class_stands_for_is_had_from_devices_or_from_the_node() -> None:
    stands_for = dataclasses.replace(GPU, extended_resource_name="example.com/accel")
    asking = facts.PodSpec(
        requests=(("cpu", 100), ("example.com/accel", 2)),
        extended=(facts.ExtendedRequest("container-0-request-0", "example.com/accel", 2),),
    )
    nodes = [builders.node("devices"), builders.node("plugin", more={"example.com/accel": 2}), builders.node("none")]
    snapshot = build_snapshot(nodes, [], offered=[stands_for, gpus("devices", 2)])
    verdicts = builders.evaluate(snapshot, builders.pod("p", spec=asking))
    assert verdicts["devices"] is None
    assert verdicts["plugin"] is None
    assert verdicts["none"] is not None
    shape = snapshot.shape_of(builders.pod("p", spec=asking))
    snapshot.fork()
    snapshot.place(shape, snapshot.nodes.rows["devices"])
    snapshot.place(shape, snapshot.nodes.rows["plugin"])
    assert all(verdict is not None for verdict in builders.evaluate(snapshot, builders.pod("p", spec=asking)).values())
    snapshot.revert()


counts = st.lists(st.integers(0, 4), min_size=1, max_size=5)


@settings(max_examples=60)
@given(nodes=counts, wants=st.lists(st.integers(1, 3), max_size=8), data=st.data())
def test_whatever_is_tried_is_undone_without_a_trace(nodes: list[int], wants: list[int], data: st.DataObject) -> None:
    pods = [pod(f"p{number}", f"c{number}") for number in range(len(wants))]
    claims = [claim(f"c{number}", asks(wanted(count))) for number, count in enumerate(wants)]
    snapshot = cluster({f"n{number}": count for number, count in enumerate(nodes)}, pods, claims)
    asked = pod("asker", "asked")
    snapshot.devices.inventory.put(claim("asked", ONE))
    before = builders.evaluate(snapshot, asked)
    snapshot.fork()
    for row in snapshot.pending():
        feasible = [node for node, why in builders.evaluate(snapshot, snapshot.pod(row)).items() if why is None]
        if feasible:
            snapshot.bind(row, snapshot.nodes.rows[data.draw(st.sampled_from(feasible))])
    held = sum(wants[row] for row in range(len(wants)) if snapshot.pods.node_rows[row] >= 0)
    assert held <= sum(nodes)
    snapshot.fork()
    for row in range(snapshot.nodes.count):
        snapshot.clear_node(row)
    assert builders.evaluate(snapshot, asked) == before
    snapshot.revert()
    snapshot.revert()
    assert builders.evaluate(snapshot, asked) == before


@settings(max_examples=40)
@given(nodes=counts, alike=st.integers(1, 12), each=st.integers(1, 2))
def test_counting_places_comes_to_what_placing_one_by_one_does(nodes: list[int], alike: int, each: int) -> None:
    snapshot = cluster({f"n{n}": count for n, count in enumerate(nodes)}, *pending(alike, asks(wanted(each))))
    snapshot.fork()
    assert len(place_all(snapshot).placed) == min(alike, sum(count // each for count in nodes))
    snapshot.revert()
