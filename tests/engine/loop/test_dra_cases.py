"""Loops of Cluster Autoscaler with devices: nodes for claims, and nodes whose pods' claims fit elsewhere.

The cases are those of its tests of a whole loop with dynamic resource allocation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from tests.engine.dra.builders import DRIVER, asks, device, pool, wanted
from tests.engine.loop.builders import (
    NOW_S,
    PEER,
    choose,
    decide_at,
    drained,
    group,
    node,
    pending,
    reasons,
    running,
    sizes,
)
from windlass.engine.model import dynamic_resources, facts
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot

CLASS = dynamic_resources.DeviceClass("gpu", (f'device.driver == "{DRIVER}"',))
BIG, SMALL = 600, 100
SETTINGS = choose(
    choose(PEER, "groups", scale_down_unneeded_time_s=60.0, scale_down_utilization_threshold=0.7),
    "scale_down", scale_down_delay_after_add_s=0.0, max_drain_parallelism=10,
)  # fmt: skip
SHARED = "shared"


@dataclass(frozen=True)
class Pool:
    """Nodes of a group, each with these devices: name to kind, in so many slices."""

    count: int
    devices: Mapping[str, str]
    slices: int = 1


@dataclass(frozen=True)
class Runs:
    """A pod on a node, by its number, with devices there."""

    pool: str
    on: int
    devices: tuple[str, ...]
    cpu: int = SMALL


@dataclass(frozen=True)
class Case:
    pools: Mapping[str, Pool]
    runs: tuple[Runs, ...] = ()
    waiting: int = 0
    wants: tuple[tuple[str, int], ...] = ()
    """What each pending pod wants: kind and number of devices."""
    shares: str = ""
    """All pending pods share a claim on one device of this kind, that is not allocated."""
    raised: Mapping[str, int] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    kept: Mapping[str, UnremovableReason] = field(default_factory=dict)


def many(kind: str, count: int) -> dict[str, str]:
    return {f"{kind}-{number}": kind for number in range(count)}


ONE, THREE, BOTH = many("a", 1), many("a", 3), {**many("a", 1), **many("nic", 1)}

CASES = {
    "a node for each pod where nodes have one device": Case(
        {"g": Pool(1, ONE)}, (Runs("g", 0, ("a-0",)),), 3, (("a", 1),), raised={"g": 4}
    ),
    "pods share nodes with several devices": Case(
        {"g": Pool(1, THREE)}, (Runs("g", 0, ("a-0",)), Runs("g", 0, ("a-1",))), 10, (("a", 1),), raised={"g": 4}
    ),
    "pods that want two devices of nodes with three": Case(
        {"g": Pool(1, THREE)}, (Runs("g", 0, ("a-0",)),), 4, (("a", 2),), raised={"g": 4}
    ),
    "several devices in a slice": Case(
        {"g": Pool(1, THREE)}, (Runs("g", 0, ("a-0", "a-1")),), 5, (("a", 1),), raised={"g": 3}
    ),
    "devices in several slices": Case(
        {"g": Pool(1, THREE, 3)}, (Runs("g", 0, ("a-0", "a-1")),), 5, (("a", 1),), raised={"g": 3}
    ),
    "pods that want devices of two kinds": Case(
        {"g": Pool(1, BOTH)}, (Runs("g", 0, ("a-0", "nic-0")),), 3, (("a", 1), ("nic", 1)), raised={"g": 4}
    ),
    "a group without nodes": Case({"g": Pool(0, BOTH)}, (), 3, (("a", 1), ("nic", 1)), raised={"g": 3}),
    "the two kinds are on different nodes": Case(
        {"g": Pool(1, ONE), "h": Pool(1, many("nic", 1))}, (), 3, (("a", 1), ("nic", 1))
    ),
    "a claim that pods share binds them to one node": Case(
        {"g": Pool(1, many("b", 1))}, (Runs("g", 0, ("b-0",)),), 13, shares="b", raised={"g": 2}
    ),
    "empty nodes with devices": Case(
        {"g": Pool(3, ONE)}, (Runs("g", 1, ("a-0",), BIG),), removed=("g-0", "g-2"),
        kept={"g-1": UnremovableReason.NOT_UNDERUTILIZED},
    ),
    "pods whose devices are free elsewhere": Case(
        {"g": Pool(3, THREE)},
        (Runs("g", 0, ("a-0", "a-1")), Runs("g", 1, ("a-0", "a-1")), Runs("g", 2, ("a-0",)), Runs("g", 2, ("a-1",))),
        removed=("g-2",),
    ),
    "pods whose devices are not free elsewhere": Case(
        {"g": Pool(3, THREE)},
        (
            Runs("g", 0, ("a-0", "a-1"), BIG), Runs("g", 1, ("a-0", "a-1"), BIG), Runs("g", 1, ("a-2",), BIG),
            Runs("g", 2, ("a-0",)), Runs("g", 2, ("a-1",)),
        ),
        kept={
            "g-0": UnremovableReason.NO_PLACE_TO_MOVE_PODS,
            "g-1": UnremovableReason.NOT_UNDERUTILIZED,
            "g-2": UnremovableReason.NO_PLACE_TO_MOVE_PODS,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_loop_with_devices(case: Case) -> None:
    observation = build(case)
    first = decide_at(observation, SETTINGS, NOW_S)
    assert sizes(first) == case.raised
    if not case.waiting:
        last = decide_at(observation, SETTINGS, NOW_S, NOW_S + 120)
        assert sorted(drained(last)) == sorted(case.removed)
        last = decide_at(observation, SETTINGS, NOW_S)
        assert {name: why for name, why in reasons(last).items() if name in case.kept} == case.kept


def build(case: Case) -> Observation:
    nodes, groups, pods = [], [], []
    offered: list[dynamic_resources.DeviceFact] = [CLASS]
    for id, found in case.pools.items():
        members = [node(f"{id}-{number}", 1000) for number in range(found.count)]
        nodes += members
        offered += [part for one in members for part in _slices(one.name, found)]
        template = replace(node(f"{id}-template", 1000), slices=_slices(f"{id}-template", found))
        groups.append(group(id, members, template=template))
    for number, runs in enumerate(case.runs):
        name, on = f"on-{number}", f"{runs.pool}-{runs.on}"
        pods.append(running(name, on, runs.cpu, spec={"claims": (facts.PodClaim("c", f"c-{name}"),)}))
        offered.append(_claim(f"c-{name}", [(case.pools[runs.pool].devices[runs.devices[0]], len(runs.devices))],
                              on=on, devices=runs.devices, by=f"uid-{name}"))  # fmt: skip
    for number in range(case.waiting):
        own = SHARED if case.shares else f"c-{number}"
        pods.append(pending(f"p{number}", SMALL, spec={"claims": (facts.PodClaim("c", own),)}))
        if not case.shares:
            offered.append(_claim(own, case.wants))
    if case.shares:
        offered.append(_claim(SHARED, [(case.shares, 1)]))
    return Observation(cluster_snapshot.build_snapshot(nodes, pods, offered=offered), tuple(groups))


def _slices(name: str, found: Pool) -> tuple[dynamic_resources.ResourceSlice, ...]:
    made = [device(one, kind=kind) for one, kind in found.devices.items()]
    return tuple(
        pool(name, *made[number :: found.slices], name=f"{name}-{number}", of=found.slices)
        for number in range(found.slices)
    )


def _claim(
    name: str, wants: list[tuple[str, int]] | tuple[tuple[str, int], ...], *, on: str = "",
    devices: tuple[str, ...] = (), by: str = "",
) -> dynamic_resources.ResourceClaim:  # fmt: skip
    spec = asks(*(wanted(count, f'device.attributes["{DRIVER}"].kind == "{kind}"') for kind, count in wants))
    given = tuple(dynamic_resources.DeviceAllocation(dynamic_resources.DeviceId(DRIVER, on, one)) for one in devices)
    allocation = dynamic_resources.ClaimAllocation(given) if given else None
    reserved = (by,) if by else ()
    return dynamic_resources.ResourceClaim(
        "default", name, f"uid-{name}", spec=spec, allocation=allocation, reserved_for=reserved
    )
