"""Devices, where kube-scheduler 1.37 allocates otherwise than 1.36."""

from dataclasses import replace

import pytest

from windlass import scheduler_releases
from windlass.engine.dra import allocation_state, allocator
from windlass.engine.dra.allocation_state import NOTHING_ALLOCATED
from windlass.engine.dra.inventory import DeviceInventory, find_visible_devices
from windlass.engine.model import dynamic_resources
from windlass.engine.model.dynamic_resources import AllocatedClaims, AllocationFailure, AllocationOutcome

DRIVER = "gpu.example.com"
CLASSES = {"gpu": dynamic_resources.DeviceClass("gpu")}
UNIT = 10**9
BOTH = pytest.mark.parametrize("release", scheduler_releases.KNOWN_RELEASES.values(), ids=lambda one: one.version)


def device(name: str, **more: object) -> dynamic_resources.Device:
    return dynamic_resources.Device(name, **more)  # type: ignore[arg-type]


def allocate(
    release: scheduler_releases.SchedulerRelease,
    devices: tuple[dynamic_resources.Device, ...],
    *wanted: dynamic_resources.ExactDeviceRequest,
    **more: object,
) -> AllocationOutcome:
    resource_slice = dynamic_resources.ResourceSlice(
        "s", DRIVER, "n", devices=devices, reach=dynamic_resources.NodeReach("n")
    )
    requests = tuple(
        dynamic_resources.DeviceRequest(exact_device_request.name, exact_device_request)
        for exact_device_request in wanted
    )
    claim = dynamic_resources.ClaimSpec(requests, **more)  # type: ignore[arg-type]
    sight = find_visible_devices([resource_slice], {resource_slice.pool_id: (resource_slice,)}, lambda reach: True)
    return allocator.allocate(sight, NOTHING_ALLOCATED, CLASSES, [claim], release)


@BOTH
def test_taint_rules_taint_the_devices_that_they_select(release: scheduler_releases.SchedulerRelease) -> None:
    stock = DeviceInventory(release)
    stock.put(
        dynamic_resources.ResourceSlice(
            "s", DRIVER, "n", devices=(device("x"), device("y")), reach=dynamic_resources.NodeReach("n")
        )
    )
    bad = dynamic_resources.DeviceTaint("bad", "", "NoSchedule")
    stock.put(dynamic_resources.DeviceTaintRule("one", bad, True, DRIVER, None, "x"))
    stock.put(dynamic_resources.DeviceTaintRule("no selector", bad))
    stock.put(dynamic_resources.DeviceTaintRule("another driver", bad, True, "other.example.com"))
    (resource_slice,) = stock.slices_of_node("n")
    tainted = (bad,) if release.applies_device_taint_rules else ()
    assert [one.taints for one in resource_slice.devices] == [tainted, ()]
    stock.remove(dynamic_resources.DeviceTaintRule("one", bad))
    assert stock.slices_of_node("n") == tuple(stock.slices.values())


@BOTH
def test_distinct_devices_differ_from_all_others_or_from_the_last_of_each_request(
    release: scheduler_releases.SchedulerRelease,
) -> None:
    slots = (1, 2, 1)
    devices = tuple(
        device(f"d{i}", traits=dynamic_resources.DeviceTraits((("slot", slot),))) for i, slot in enumerate(slots)
    )
    wanted = dynamic_resources.ExactDeviceRequest("r", "gpu", count=3)
    distinct = (dynamic_resources.DeviceConstraint(distinct=f"{DRIVER}/slot"),)
    found = allocate(release, devices, wanted, constraints=distinct)
    assert isinstance(found, AllocatedClaims) is not release.distinguishes_all_devices
    assert allocation_state.is_supported_constraint(distinct[0])


@BOTH
def test_too_many_devices_are_named_at_the_request_or_in_sum(release: scheduler_releases.SchedulerRelease) -> None:
    found = allocate(
        release,
        (),
        dynamic_resources.ExactDeviceRequest("a", "gpu", count=30),
        dynamic_resources.ExactDeviceRequest("b", "gpu", count=3),
    )
    assert isinstance(found, AllocationFailure)
    assert found.text == (
        ", request b: adding 3 devices exceeds the claim limit of 32, with 30 already accounted for"
        if release.limits_devices_by_request
        else ": number of requested devices 33 exceeds the claim limit of 32"
    )


@BOTH
def test_a_selector_that_fails_names_its_device(release: scheduler_releases.SchedulerRelease) -> None:
    selector = f'device.attributes["{DRIVER}"].absent'
    found = allocate(release, (device("d"),), dynamic_resources.ExactDeviceRequest("r", "gpu", (selector,)))
    assert isinstance(found, AllocationFailure)
    hint = (
        ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
        "optional fields"
    )
    assert found.text == (
        f": selector #0 on device {DRIVER}/n/d: CEL runtime error: no such key: absent{hint}"
        if release.names_devices_in_selector_errors
        else ": selector #0: CEL runtime error: no such key: absent"
    )


def shared(amount: int, policy: dynamic_resources.CapacityRequestPolicy | None = None) -> dynamic_resources.Device:
    capacity = dynamic_resources.DeviceCapacity(amount, policy)
    return device("d", traits=dynamic_resources.DeviceTraits((), (("memory", capacity),), is_shared=True))


def test_a_range_is_rounded_in_thousandths_where_the_gate_is_on() -> None:
    policy = dynamic_resources.CapacityRequestPolicy(has_range=True, minimum=3 * UNIT // 2, step=3 * UNIT // 2)
    traits, wanted = shared(10 * UNIT, policy).traits, (("memory", 11 * UNIT // 4),)
    divides = scheduler_releases.with_feature_gates(
        scheduler_releases.NEWEST_RELEASE, {"DRAFractionalCapacityRange": True}
    )
    assert allocation_state.consume_capacity(wanted, traits, scheduler_releases.OLDEST_RELEASE) == (
        ("memory", 4 * UNIT),
    )
    assert allocation_state.consume_capacity(wanted, traits, scheduler_releases.NEWEST_RELEASE) == (
        ("memory", 4 * UNIT),
    )
    assert allocation_state.consume_capacity(wanted, traits, divides) == (("memory", 3 * UNIT),)


def test_capacity_that_cannot_be_rounded_is_an_error_since_1_37() -> None:
    policy = dynamic_resources.CapacityRequestPolicy(has_range=True, minimum=UNIT, step=4 * UNIT)
    most = dynamic_resources.ExactDeviceRequest("r", "gpu", capacity=(("memory", (2**63 - 1) * UNIT),))
    assert allocate(scheduler_releases.OLDEST_RELEASE, (shared(UNIT, policy),), most) is None
    found = allocate(scheduler_releases.NEWEST_RELEASE, (shared(UNIT, policy),), most)
    assert isinstance(found, AllocationFailure)
    assert found.text.startswith(f', request r: checking capacity for device {DRIVER}/n/d: capacity "memory": ')


@BOTH
def test_a_device_that_is_too_full_fails_a_request_for_all_or_is_left_out(
    release: scheduler_releases.SchedulerRelease,
) -> None:
    full, free = shared(4 * UNIT), replace(shared(4 * UNIT), name="e")
    all_of_it = dynamic_resources.DeviceAllocation(
        dynamic_resources.DeviceId(DRIVER, "n", "d"), is_share=True, consumed=(("memory", 4 * UNIT),)
    )
    taken = NOTHING_ALLOCATED.allocate([all_of_it])
    resource_slice = dynamic_resources.ResourceSlice(
        "s", DRIVER, "n", devices=(full, free), reach=dynamic_resources.NodeReach("n")
    )
    sight = find_visible_devices([resource_slice], {resource_slice.pool_id: (resource_slice,)}, lambda reach: True)
    wanted = dynamic_resources.ExactDeviceRequest(
        "r", "gpu", mode=dynamic_resources.ALLOCATION_MODE_ALL, capacity=(("memory", UNIT),)
    )
    claim = dynamic_resources.ClaimSpec((dynamic_resources.DeviceRequest("r", wanted),))
    found = allocator.allocate(sight, taken, CLASSES, [claim], release)
    assert isinstance(found, AllocatedClaims) is not release.counts_full_devices_in_all


@BOTH
def test_an_incomplete_pool_with_counters_concerns_its_own_nodes_or_all(
    release: scheduler_releases.SchedulerRelease,
) -> None:
    stock = DeviceInventory(release)
    counters = (("set", (("slots", UNIT),)),)
    stock.put(
        dynamic_resources.ResourceSlice(
            "s", DRIVER, "n", slice_count=2, counters=counters, reach=dynamic_resources.NodeReach("n")
        )
    )
    assert bool(stock.shared_slices) is not release.sees_counters_of_own_pools_only
    assert stock.slices_of_node("n")
