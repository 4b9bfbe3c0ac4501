"""Whole loops with devices: nodes are added for claims, awaited until their devices are there, and removed."""

import dataclasses

import numpy as np
import pytest

from tests import builders
from tests.engine.dra.builders import DRIVER, GPU, asks, claim, gpus, pod, wanted
from windlass.engine import loop
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import dynamic_resources, facts, node_groups, plan
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.scale_down import utilization
from windlass.engine.snapshot.cluster_snapshot import build_snapshot

NOW_S = 1_000_000.0
READY = (facts.Condition("Ready", "True", 0.0),)


def waiting(name: str) -> facts.Pod:
    return dataclasses.replace(pod(name, f"c-{name}"), unschedulable_since_s=NOW_S - 60, created_s=NOW_S - 60)


def group(template: facts.Node, *members: str, target: int | None = None) -> node_groups.NodeGroup:
    instances = tuple(node_groups.Instance(f"machine://{name}") for name in members)
    return node_groups.NodeGroup("g", 0, 50, len(members) if target is None else target, instances, template)


def member(name: str) -> facts.Node:
    return dataclasses.replace(builders.node(name), provider_id=f"machine://{name}", conditions=READY)


def template(devices: int) -> facts.Node:
    return dataclasses.replace(builders.node("t"), conditions=READY, slices=(gpus("t", devices),))


def resized(decision: loop.Decision) -> list[int]:
    return [
        instruction.to_size - instruction.from_size
        for instruction in decision.plan
        if isinstance(instruction, plan.Resize)
    ]


def test_as_many_nodes_are_added_as_devices_are_missing() -> None:
    names = [f"p{number}" for number in range(9)]
    offered: list[dynamic_resources.DeviceFact] = [GPU, *(claim(f"c-{name}", asks(wanted(2))) for name in names)]
    snapshot = build_snapshot([], [waiting(name) for name in names], offered=offered)
    observation = Observation(snapshot, (group(template(8)),))
    assert resized(loop.decide(observation, LoopMemory(), Settings(), NOW_S)) == [3]


def test_a_node_like_one_that_exists_has_its_devices() -> None:
    names = [f"p{number}" for number in range(4)]
    claims = [claim(f"c-{name}", asks(wanted(4))) for name in names]
    snapshot = build_snapshot([member("n")], [waiting(name) for name in names], offered=[GPU, gpus("n", 8), *claims])
    bare = dataclasses.replace(template(0), slices=())
    assert resized(loop.decide(Observation(snapshot, (group(bare, "n"),)), LoopMemory(), Settings(), NOW_S)) == [1]


def test_pods_with_a_broken_claim_get_no_node_and_keep_none_from_the_others() -> None:
    broken = [
        claim("c-cel", asks(wanted(1, "device.driver =="))),
        claim("c-class", asks(wanted(device_class="unheard-of"))),
        claim("c-many", asks(wanted(99))),
    ]
    names = ["cel", "class", "many", "missing", "good"]
    offered: list[dynamic_resources.DeviceFact] = [GPU, *broken, claim("c-good", asks(wanted()))]
    snapshot = build_snapshot([], [waiting(name) for name in names], offered=offered)
    decision = loop.decide(Observation(snapshot, (group(template(8)),)), LoopMemory(), Settings(), NOW_S)
    assert resized(decision) == [1]
    told = str(decision.story)
    for why in (
        "CEL compile error",
        "device class unheard-of does not exist",
        "exceeds the claim limit",
        'could not find ResourceClaim "default/c-missing"',
    ):
        assert why in told


def test_a_node_is_not_ready_before_its_devices_are() -> None:
    snapshot = build_snapshot([member("n")], [waiting("p")], offered=[GPU, claim("c-p", asks(wanted()))])
    observation = Observation(snapshot, (group(template(8), "n"),))
    young = dataclasses.replace(member("n"), created_s=NOW_S - 60)
    snapshot.add_node(young)
    assert resized(loop.decide(observation, LoopMemory(), Settings(), NOW_S)) == []  # it is on its way, and will do
    snapshot.devices.inventory.put(gpus("n", 8))
    assert resized(loop.decide(observation, LoopMemory(), Settings(), NOW_S)) == []  # it is there


def test_devices_decide_how_much_a_node_is_used_not_its_processors() -> None:
    busy, holder = builders.pod("busy", on="n", cpu=3900), pod("holder", "c", on="n")
    held = claim("c", asks(wanted()), on="n", device="gpu-0", by=holder.uid)
    snapshot = build_snapshot([member("n"), member("m")], [busy, holder], offered=[GPU, held, gpus("n", 4)])
    rows = np.array([snapshot.nodes.rows[name] for name in ("n", "m")])
    used = utilization.measure_utilization(snapshot, rows, np.zeros(2, bool), False, "", NOW_S)
    assert (used.of(0).resource, used.of(0).utilization, used.of(0).devices) == (f"{DRIVER}/n", 0.25, 0.25)
    assert used.utilizations.utilization.tolist() == [0.25, 0.0]
    snapshot.devices.inventory.put(dataclasses.replace(gpus("n", 4), slice_count=2))
    untold = utilization.measure_utilization(snapshot, rows, np.zeros(2, bool), False, "", NOW_S)
    assert untold.utilizations.known.tolist() == [False, True]


def test_pods_with_claims_move_only_where_devices_are_free() -> None:
    specs = {"n": "gpu-0", "m": "gpu-0"}
    pods = [pod(f"on-{name}", f"c-{name}", on=name) for name in specs]
    owned = [dataclasses.replace(one, owner=facts.Owner("apps/v1", "ReplicaSet", "rs", "rs-uid")) for one in pods]
    claims = [
        claim(f"c-{name}", asks(wanted()), on=name, device=device, by=f"uid-default-on-{name}")
        for name, device in specs.items()
    ]
    for devices, removable in ((3, 1), (1, 0)):
        offered: list[dynamic_resources.DeviceFact] = [GPU, *claims, gpus("n", 3), gpus("m", devices)]
        snapshot = build_snapshot([member("n"), member("m")], owned, offered=offered)
        observation = Observation(snapshot, (group(template(3 if removable else 1), "n", "m"),))
        decision = loop.decide(observation, LoopMemory(), Settings(), NOW_S)
        assert len(decision.memory.durable.scale_down.since) == removable


@pytest.mark.parametrize(("asked", "kept"), [(4, UnremovableReason.NOT_UNDERUTILIZED), (1, None)])
def test_devices_that_a_pending_pod_will_get_count_as_used(asked: int, kept: UnremovableReason | None) -> None:
    """There is room for the pod, and the scheduler has not bound it yet: its claim is allocated on no node."""
    waits = dataclasses.replace(
        pod("p", "c-p"), owner=facts.Owner("apps/v1", "ReplicaSet", "app", "u"), unschedulable_since_s=0.0
    )
    offered: list[dynamic_resources.DeviceFact] = [GPU, gpus("n", 4), gpus("m", 4), claim("c-p", asks(wanted(asked)))]
    full = [
        claim(f"c-{number}", asks(wanted()), on="m", device=f"gpu-{number}", by=f"q{number}") for number in range(4)
    ]
    busy = [pod(f"q{number}", f"c-{number}", on="m") for number in range(4)]
    snapshot = build_snapshot([member("n"), member("m")], [waits, *busy], offered=[*offered, *full])
    observation = Observation(snapshot, (group(template(4), "n", "m"),))
    decision = loop.decide(observation, LoopMemory(), Settings.cluster_autoscaler(), NOW_S)
    look = decision.story.scale_down.look
    assert look is not None
    eligibility = {unremovable.node_name: unremovable.reason for unremovable in look.eligibility.kept}
    assert eligibility == {"m": UnremovableReason.NOT_UNDERUTILIZED, **({"n": kept} if kept else {})}
    measured = look.eligibility.utilization_of("n")
    assert measured is not None
    assert measured.utilization == asked / 4
