"""What the allocator chooses, in small cases. That it chooses as kube-scheduler does is held by recorded verdicts."""

import dataclasses

import pytest

from tests.engine.dra.builders import DRIVER, GI, GPU, asks, device, pool, wanted
from windlass.engine.dra import allocator, inventory
from windlass.engine.dra.allocation_state import NOTHING_ALLOCATED, AllocatedState
from windlass.engine.model import dynamic_resources
from windlass.engine.model.dynamic_resources import AllocationFailure


def allocate(
    claims: list[dynamic_resources.ClaimSpec],
    *slices: dynamic_resources.ResourceSlice,
    in_use: AllocatedState = NOTHING_ALLOCATED,
    gpu: dynamic_resources.DeviceClass = GPU,
) -> list[list[str]] | str | None:
    """The names of the devices of each claim; what is wrong; or None."""
    every: dict[dynamic_resources.PoolId, dynamic_resources.ResourceSlices] = {}
    for resource_slice in slices:
        every[resource_slice.pool_id] = (*every.get(resource_slice.pool_id, ()), resource_slice)
    found = allocator.allocate(
        inventory.find_visible_devices(slices, every, lambda reach: True), in_use, {"gpu": gpu}, claims
    )
    if isinstance(found, AllocationFailure):
        return found.describe([f"default/claim-{number}" for number in range(len(claims))])
    return None if found is None else [[result.device.device for result in results] for results in found.results]


def taken(node: str, *names: str) -> AllocatedState:
    return NOTHING_ALLOCATED.allocate(
        [dynamic_resources.DeviceAllocation(dynamic_resources.DeviceId(DRIVER, node, name)) for name in names]
    )


A, B, C = (device(name, numa=numa) for name, numa in (("a", 0), ("b", 1), ("c", 0)))


def test_the_first_free_devices_are_taken_in_order() -> None:
    assert allocate([asks(wanted(2))], pool("n", A, B, C)) == [["a", "b"]]
    assert allocate([asks(wanted(2))], pool("n", A, B, C), in_use=taken("n", "a")) == [["b", "c"]]


def test_claims_of_one_pod_do_not_get_the_same_device() -> None:
    assert allocate([asks(wanted()), asks(wanted())], pool("n", A, B)) == [["a"], ["b"]]
    assert allocate([asks(wanted()), asks(wanted()), asks(wanted())], pool("n", A, B)) is None


def test_an_earlier_choice_is_given_up_for_a_later_request() -> None:
    picky = wanted(1, f'device.attributes["{DRIVER}"].numa == 0')
    assert allocate([asks(wanted(), picky)], pool("n", A, B)) == [["b", "a"]]


def test_all_devices_means_all_that_are_selected_or_none() -> None:
    every = wanted(mode=dynamic_resources.ALLOCATION_MODE_ALL)
    assert allocate([asks(every)], pool("n", A, B)) == [["a", "b"]]
    assert allocate([asks(every)], pool("n", A, B), in_use=taken("n", "b")) is None
    assert allocate([asks(every)], pool("n")) is None


def test_admin_access_looks_at_devices_that_others_have_and_takes_none() -> None:
    looking = wanted(admin_access=True)
    assert allocate([asks(looking)], pool("n", A), in_use=taken("n", "a")) == [["a"]]
    assert taken("n", "a").allocate(
        [dynamic_resources.DeviceAllocation(dynamic_resources.DeviceId(DRIVER, "n", "b"), admin_access=True)]
    ) == taken("n", "a")


def test_the_first_alternative_that_can_be_had_is_taken() -> None:
    large, small = wanted(3), wanted(1)
    request = dynamic_resources.DeviceRequest(
        "r", None, (dataclasses.replace(large, name="l"), dataclasses.replace(small, name="s"))
    )
    assert allocate([dynamic_resources.ClaimSpec((request,))], pool("n", A, B)) == [["a"]]
    assert allocate([dynamic_resources.ClaimSpec((request,))], pool("n", A, B, C)) == [["a", "b", "c"]]


def test_devices_match_in_an_attribute_or_differ_in_it() -> None:
    same = dynamic_resources.DeviceConstraint(match=f"{DRIVER}/numa")
    differ = dynamic_resources.DeviceConstraint(distinct=f"{DRIVER}/numa")
    assert allocate([asks(wanted(2), constraints=(same,))], pool("n", A, B, C)) == [["a", "c"]]
    assert allocate([asks(wanted(), wanted(), constraints=(differ,))], pool("n", A, C, B)) == [["a", "b"]]
    assert allocate([asks(wanted(2), constraints=(same,))], pool("n", A, B)) is None


def test_counters_limit_devices_that_draw_on_the_same() -> None:
    parts = [
        dataclasses.replace(device(name), consumes=(("card", (("memory", amount * GI),)),))
        for name, amount in (("half", 20), ("other-half", 20), ("whole", 40))
    ]
    offered = pool("n", *parts, of=2)
    card = dataclasses.replace(pool("n", name="counters", of=2), counters=(("card", (("memory", 40 * GI),)),))
    assert allocate([asks(wanted(2))], offered, card) == [["half", "other-half"]]
    assert allocate([asks(wanted(3))], offered, card) is None
    assert allocate([asks(wanted())], offered, card, in_use=taken("n", "whole")) is None


def test_a_shared_device_is_given_out_while_capacity_is_left() -> None:
    shared = pool("n", device("big", shared=True, memory=10))
    slice_of = wanted(capacity=(("memory", 4 * GI),))
    assert allocate([asks(slice_of), asks(slice_of)], shared) == [["big"], ["big"]]
    assert allocate([asks(slice_of), asks(slice_of), asks(slice_of)], shared) is None
    assert allocate([asks(wanted(capacity=(("cores", 10**9),)))], shared) is None


def test_a_tainted_device_is_for_those_who_tolerate_it() -> None:
    sick = dataclasses.replace(device("sick"), taints=(dynamic_resources.DeviceTaint("bad", "x", "NoSchedule"),))
    patient = wanted(tolerations=(dynamic_resources.DeviceToleration("bad", "Exists", "", ""),))
    assert allocate([asks(wanted())], pool("n", sick)) is None
    assert allocate([asks(patient)], pool("n", sick)) == [["sick"]]


def test_nothing_is_taken_from_a_pool_that_is_incomplete_or_contradicts_itself() -> None:
    assert allocate([asks(wanted())], pool("n", A, of=2)) is None
    twice = (pool("n", A, of=2, name="one"), pool("n", A, of=2, name="two"))
    assert allocate([asks(wanted())], *twice) == "invalid resource pools were encountered"
    every = asks(wanted(mode=dynamic_resources.ALLOCATION_MODE_ALL))
    assert "currently being updated" in str(allocate([every], pool("n", A, of=2)))


def test_slices_of_an_older_generation_do_not_count() -> None:
    assert allocate([asks(wanted(2))], pool("n", A, B, name="old"), pool("n", C, name="new", generation=2)) is None


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        (
            "device.driver ==",
            "claim default/claim-0: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:17",
        ),
        ("nobody.knows", "undeclared reference to 'nobody'"),
        ('device.attributes["x"].y', "CEL runtime error: no such key: y"),
        ('"text"', "CEL compile error: must evaluate to bool or the unknown type, not string"),
        ('cel.bind(text, "text", text)', "CEL result of type string could not be converted to bool"),
    ],
)
def test_a_selector_that_is_broken_says_so_and_whose_it_is(expression: str, complaint: str) -> None:
    assert complaint in str(allocate([asks(wanted(1, expression))], pool("n", A)))
    of_class = allocate([asks(wanted())], pool("n", A), gpu=dynamic_resources.DeviceClass("gpu", (expression,)))
    assert str(of_class).startswith("class gpu: selector #0: CEL ")


def test_a_search_without_end_is_given_up() -> None:
    many = pool("n", *(device(f"d-{number}", numa=number) for number in range(24)))
    same = dynamic_resources.DeviceConstraint(match=f"{DRIVER}/numa")
    apart = [asks(wanted(10)), asks(wanted(10)), asks(wanted(2), constraints=(same,))]
    assert allocate(apart, many) == "timed out trying to allocate devices"
