"""The one predicate, the one clamp, the one codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.controllers import machine_deployments
from windlass.controllers.machine_deployments import PoolSize, ReplicaLimits

COUNTS = st.integers(0, 1000)


@given(COUNTS, COUNTS, st.integers(-10, 2000))
def test_a_clamped_size_is_allowed_and_an_allowed_size_stays(one: int, other: int, replicas: int) -> None:
    limits = ReplicaLimits(min(one, other), max(one, other))
    clamped = limits.clamp(replicas)
    assert limits.allow(clamped)
    assert (clamped == replicas) == limits.allow(replicas)
    assert limits.clamp(clamped) == clamped


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_bounds_are_read_as_they_were_spelled(low: int, high: int) -> None:
    assert machine_deployments.limits_from_annotations(
        machine_deployments.limits_to_annotations(ReplicaLimits(low, high))
    ) == ReplicaLimits(low, high)


def test_a_pool_without_bounds_has_no_annotations_and_is_not_autoscaled() -> None:
    assert machine_deployments.limits_to_annotations(None) == {}
    assert machine_deployments.limits_from_annotations({}) is None
    assert not PoolSize(3).is_autoscaled
    assert PoolSize(3, ReplicaLimits(0, 0)).is_autoscaled


@pytest.mark.parametrize("name", [machine_deployments.MIN_SIZE_ANNOTATION, machine_deployments.MAX_SIZE_ANNOTATION])
def test_one_bound_alone_is_none(name: str) -> None:
    assert machine_deployments.limits_from_annotations({name: "3"}) is None


@pytest.mark.parametrize("found", ["", "abc", "1.5", " 3", "0x3", "٣", str(2**31), "1e3"])
def test_a_bound_that_is_no_number_is_said_to_be_none(found: str) -> None:
    with pytest.raises(machine_deployments.InvalidSizeAnnotation) as unreadable:
        machine_deployments.limits_from_annotations(
            {machine_deployments.MIN_SIZE_ANNOTATION: found, machine_deployments.MAX_SIZE_ANNOTATION: "7"}
        )
    expected = (
        f'could not parse the value of the "{machine_deployments.MIN_SIZE_ANNOTATION}" annotation: '
        f"found {found!r}, expected an integer"
    )
    assert str(unreadable.value) == expected
