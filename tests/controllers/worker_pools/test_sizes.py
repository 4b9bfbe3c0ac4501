"""The one predicate, the one clamp, the one codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.controllers.worker_pools import annotations
from windlass.controllers.worker_pools.sizes import Limits, Size

COUNTS = st.integers(0, 1000)


@given(COUNTS, COUNTS, st.integers(-10, 2000))
def test_a_clamped_size_is_allowed_and_an_allowed_size_stays(one: int, other: int, replicas: int) -> None:
    limits = Limits(min(one, other), max(one, other))
    clamped = limits.clamp(replicas)
    assert limits.allow(clamped)
    assert (clamped == replicas) == limits.allow(replicas)
    assert limits.clamp(clamped) == clamped


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_bounds_are_read_as_they_were_spelled(low: int, high: int) -> None:
    assert annotations.read(annotations.spell(Limits(low, high))) == Limits(low, high)


def test_a_pool_without_bounds_has_no_annotations_and_is_not_autoscaled() -> None:
    assert annotations.spell(None) == {}
    assert annotations.read({}) is None
    assert not Size(3).is_autoscaled
    assert Size(3, Limits(0, 0)).is_autoscaled


@pytest.mark.parametrize("name", [annotations.MIN_SIZE, annotations.MAX_SIZE])
def test_one_bound_alone_is_none(name: str) -> None:
    assert annotations.read({name: "3"}) is None


@pytest.mark.parametrize("found", ["", "abc", "1.5", " 3", "0x3", "٣", str(2**31), "1e3"])
def test_a_bound_that_is_no_number_is_said_to_be_none(found: str) -> None:
    with pytest.raises(annotations.Unreadable) as unreadable:
        annotations.read({annotations.MIN_SIZE: found, annotations.MAX_SIZE: "7"})
    expected = (
        f'could not parse the value of the "{annotations.MIN_SIZE}" annotation: found {found!r}, expected an integer'
    )
    assert str(unreadable.value) == expected
