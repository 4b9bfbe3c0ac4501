"""Devices, where kube-scheduler 1.37 allocates otherwise than 1.36."""

from dataclasses import replace

import pytest

from windlass import releases
from windlass.engine.devices import allocator, constraints, model, sharing
from windlass.engine.devices.in_use import NOTHING
from windlass.engine.devices.outcome import Failed, Found, Outcome
from windlass.engine.devices.pools import look
from windlass.engine.devices.stock import Stock

DRIVER = "gpu.example.com"
CLASSES = {"gpu": model.DeviceClass("gpu")}
UNIT = 10**9
BOTH = pytest.mark.parametrize("release", releases.KNOWN.values(), ids=lambda one: one.version)


def device(name: str, **more: object) -> model.Device:
    return model.Device(name, **more)  # type: ignore[arg-type]


def allocate(
    release: releases.Release, devices: tuple[model.Device, ...], *wanted: model.Wanted, **more: object
) -> Outcome:
    one = model.ResourceSlice("s", DRIVER, "n", devices=devices, reach=model.Reach("n"))
    requests = tuple(model.Request(each.name, each) for each in wanted)
    claim = model.ClaimSpec(requests, **more)  # type: ignore[arg-type]
    sight = look([one], {one.pool_id: (one,)}, lambda reach: True)
    return allocator.allocate(sight, NOTHING, CLASSES, [claim], release)


@BOTH
def test_taint_rules_taint_the_devices_that_they_select(release: releases.Release) -> None:
    stock = Stock(release)
    stock.put(model.ResourceSlice("s", DRIVER, "n", devices=(device("x"), device("y")), reach=model.Reach("n")))
    bad = model.DeviceTaint("bad", "", "NoSchedule")
    stock.put(model.DeviceTaintRule("one", bad, True, DRIVER, None, "x"))
    stock.put(model.DeviceTaintRule("no selector", bad))
    stock.put(model.DeviceTaintRule("another driver", bad, True, "other.example.com"))
    (found,) = stock.local("n")
    tainted = (bad,) if release.applies_device_taint_rules else ()
    assert [one.taints for one in found.devices] == [tainted, ()]
    stock.remove(model.DeviceTaintRule("one", bad))
    assert stock.local("n") == tuple(stock.slices.values())


@BOTH
def test_distinct_devices_differ_from_all_others_or_from_the_last_of_each_request(release: releases.Release) -> None:
    slots = (1, 2, 1)
    devices = tuple(device(f"d{i}", traits=model.Traits((("slot", slot),))) for i, slot in enumerate(slots))
    wanted = model.Wanted("r", "gpu", count=3)
    distinct = (model.Constraint(distinct=f"{DRIVER}/slot"),)
    found = allocate(release, devices, wanted, constraints=distinct)
    assert isinstance(found, Found) is not release.distinguishes_all_devices
    assert constraints.is_known(distinct[0])


@BOTH
def test_too_many_devices_are_named_at_the_request_or_in_sum(release: releases.Release) -> None:
    found = allocate(release, (), model.Wanted("a", "gpu", count=30), model.Wanted("b", "gpu", count=3))
    assert isinstance(found, Failed)
    assert found.text == (
        ", request b: adding 3 devices exceeds the claim limit of 32, with 30 already accounted for"
        if release.limits_devices_by_request
        else ": number of requested devices 33 exceeds the claim limit of 32"
    )


@BOTH
def test_a_selector_that_fails_names_its_device(release: releases.Release) -> None:
    selector = f'device.attributes["{DRIVER}"].absent'
    found = allocate(release, (device("d"),), model.Wanted("r", "gpu", (selector,)))
    assert isinstance(found, Failed)
    hint = (
        ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
        "optional fields"
    )
    assert found.text == (
        f": selector #0 on device {DRIVER}/n/d: CEL runtime error: no such key: absent{hint}"
        if release.names_devices_in_selector_errors
        else ": selector #0: CEL runtime error: no such key: absent"
    )


def shared(amount: int, policy: model.RequestPolicy | None = None) -> model.Device:
    capacity = model.Capacity(amount, policy)
    return device("d", traits=model.Traits((), (("memory", capacity),), is_shared=True))


def test_a_range_is_rounded_in_thousandths_where_the_gate_is_on() -> None:
    policy = model.RequestPolicy(has_range=True, minimum=3 * UNIT // 2, step=3 * UNIT // 2)
    traits, wanted = shared(10 * UNIT, policy).traits, (("memory", 11 * UNIT // 4),)
    divides = releases.with_gates(releases.NEWEST, {"DRAFractionalCapacityRange": True})
    assert sharing.consume(wanted, traits, releases.OLDEST) == (("memory", 4 * UNIT),)
    assert sharing.consume(wanted, traits, releases.NEWEST) == (("memory", 4 * UNIT),)
    assert sharing.consume(wanted, traits, divides) == (("memory", 3 * UNIT),)


def test_capacity_that_cannot_be_rounded_is_an_error_since_1_37() -> None:
    policy = model.RequestPolicy(has_range=True, minimum=UNIT, step=4 * UNIT)
    most = model.Wanted("r", "gpu", capacity=(("memory", (2**63 - 1) * UNIT),))
    assert allocate(releases.OLDEST, (shared(UNIT, policy),), most) is None
    found = allocate(releases.NEWEST, (shared(UNIT, policy),), most)
    assert isinstance(found, Failed)
    assert found.text.startswith(f', request r: checking capacity for device {DRIVER}/n/d: capacity "memory": ')


@BOTH
def test_a_device_that_is_too_full_fails_a_request_for_all_or_is_left_out(release: releases.Release) -> None:
    full, free = shared(4 * UNIT), replace(shared(4 * UNIT), name="e")
    all_of_it = model.Result(model.DeviceId(DRIVER, "n", "d"), is_share=True, consumed=(("memory", 4 * UNIT),))
    taken = NOTHING.take([all_of_it])
    one = model.ResourceSlice("s", DRIVER, "n", devices=(full, free), reach=model.Reach("n"))
    sight = look([one], {one.pool_id: (one,)}, lambda reach: True)
    wanted = model.Wanted("r", "gpu", mode=model.ALL, capacity=(("memory", UNIT),))
    claim = model.ClaimSpec((model.Request("r", wanted),))
    found = allocator.allocate(sight, taken, CLASSES, [claim], release)
    assert isinstance(found, Found) is not release.counts_full_devices_in_all


@BOTH
def test_an_incomplete_pool_with_counters_concerns_its_own_nodes_or_all(release: releases.Release) -> None:
    stock = Stock(release)
    counters = (("set", (("slots", UNIT),)),)
    stock.put(model.ResourceSlice("s", DRIVER, "n", slice_count=2, counters=counters, reach=model.Reach("n")))
    assert bool(stock.shared) is not release.sees_counters_of_own_pools_only
    assert stock.local("n")
