"""Releases of kube-scheduler: which one is meant, and what gates change."""

import pytest

from windlass import scheduler_releases


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("v1.36.3", "1.36"),
        ("v1.37.1", "1.37"),
        ("v1.37.1-eks-1a2b3c", "1.37"),
        ("v1.37.0-rc.1+k3s1", "1.37"),
        ("1.36", "1.36"),
        ("v1.29.0", "1.36"),
        ("v1.99.0", "1.37"),
        ("v2.0.0", "1.37"),
        ("", "1.36"),
        ("devel", "1.36"),
        ("v1.37x", "1.36"),
    ],
)
def test_a_server_is_judged_by_its_release_or_the_nearest_to_it(version: str, release: str) -> None:
    assert scheduler_releases.nearest_release(version).version == release


def test_every_difference_between_the_releases_is_a_field_that_differs() -> None:
    found = scheduler_releases.release_differences(scheduler_releases.OLDEST_RELEASE, scheduler_releases.NEWEST_RELEASE)
    assert "requires_csi_drivers" in found
    assert "version" not in found
    assert (
        scheduler_releases.release_differences(scheduler_releases.NEWEST_RELEASE, scheduler_releases.NEWEST_RELEASE)
        == []
    )


def test_a_gate_changes_its_field_where_the_release_has_it() -> None:
    gates = {"VolumeLimitScaling": False, "DRAFractionalCapacityRange": True, "SomethingElse": True}
    newest = scheduler_releases.with_feature_gates(scheduler_releases.NEWEST_RELEASE, gates)
    assert (newest.requires_csi_drivers, newest.divides_capacity_ranges) == (False, True)
    assert (
        scheduler_releases.with_feature_gates(scheduler_releases.OLDEST_RELEASE, gates)
        == scheduler_releases.OLDEST_RELEASE
    )
    assert scheduler_releases.with_feature_gates(
        scheduler_releases.OLDEST_RELEASE, {"VolumeLimitScaling": True}
    ).requires_csi_drivers


def test_every_gate_names_a_field() -> None:
    for gate in scheduler_releases.FEATURE_GATES.values():
        assert isinstance(getattr(scheduler_releases.DEFAULT_RELEASE, gate.field), bool)
