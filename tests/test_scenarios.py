"""Recorded loops of the real Cluster Autoscaler: one scenario of each family always, all where they lie beside us."""

import itertools
from pathlib import Path

import pytest

from tests.conformance import outcome, scenarios

SAMPLE = Path(__file__).parent / "data" / "scenarios"
ALL = Path(__file__).parents[2] / "shared" / "vectors" / "autoscaler"
FAMILIES = {"mixed": 8, "scale_down": 15, "scale_up": 14}


def find_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl.gz"))


def check(path: Path) -> None:
    outcomes = list(scenarios.run(path))
    told = (f"{one.name}: {text}" for one in outcomes for text in one.differences)
    assert list(itertools.islice(told, 10)) == []
    assert sum(one.agreed for one in outcomes) == sum(one.total for one in outcomes) > 0


@pytest.mark.parametrize("path", find_files(SAMPLE), ids=lambda path: path.name.split(".")[0])
def test_the_sampled_loops_come_out_as_recorded(path: Path) -> None:
    check(path)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_sample_holds_a_scenario_of_each_family(name: str) -> None:
    families = [scenario["family"] for scenario in outcome.read_lines(SAMPLE / f"{name}.jsonl.gz")]
    assert len(families) == len(set(families)) == FAMILIES[name]


@pytest.mark.skipif(not ALL.is_dir(), reason="NOT JUDGED: the recorded scenarios are not at ../shared/vectors")
@pytest.mark.parametrize("path", find_files(ALL) or [ALL], ids=lambda path: path.name.split(".")[0])
def test_every_recorded_loop_comes_out_as_recorded(path: Path) -> None:
    check(path)
