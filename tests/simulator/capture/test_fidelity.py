"""A scenario captured from a recording plays as the recorded one did."""

from pathlib import Path

import pytest

from tests.simulator.capture import fidelity

MOST_DIFFERENCE = 0.05


@pytest.mark.parametrize("name", ["burst", "gpu", "quiet-night", "stock-out", "tight-budgets", "zone-outage"])
def test_nodes_and_pending_pods_are_as_they_were(name: str, tmp_path: Path) -> None:
    found = fidelity.compare(name, tmp_path / "run.rec")
    assert found.nodes <= MOST_DIFFERENCE
    assert found.pending <= MOST_DIFFERENCE
    assert found.captured.result.is_as_expected


def test_without_names_it_plays_the_same(tmp_path: Path) -> None:
    found = fidelity.compare("zone-outage", tmp_path / "run.rec", b"key")
    assert found.nodes <= MOST_DIFFERENCE
    assert found.pending <= MOST_DIFFERENCE
    assert found.captured.result.is_as_expected


def test_a_buffer_that_follows_its_workload_is_a_percentage(tmp_path: Path) -> None:
    found = fidelity.compare("spare-capacity", tmp_path / "run.rec")
    assert "{workload: shop, percentage: 7" in found.text
    assert found.nodes <= MOST_DIFFERENCE
