"""What was played is kept, line by line, and never mixed with something else."""

from pathlib import Path

import pytest

from tests.sweep import sample_plans
from windlass import errors
from windlass.sweep import sweep_plan
from windlass.sweep.sweep_plan import RunOutcome, SweepTask

ONE, TWO = RunOutcome({"cost": 1.5}, missed=("x: found 1",)), RunOutcome({"cost": 2.5}, violations=("y",))


def test_outcomes_are_there_again_and_failed_runs_are_not(tmp_path: Path) -> None:
    plan = sample_plans.make_plan("--expander=price")
    with sweep_plan.open_outcomes(tmp_path / "deep" / "folder", plan) as kept:
        kept.add(SweepTask(0, 4), ONE)
        kept.add(SweepTask(0, 5), RunOutcome(failed="its process was ended by SIGKILL, 2 times"))
        kept.add(SweepTask(1, 4), TWO)
    with sweep_plan.open_outcomes(tmp_path / "deep" / "folder", plan) as kept:
        assert kept.outcomes == {SweepTask(0, 4): ONE, SweepTask(1, 4): TWO}


@pytest.mark.parametrize("lost", range(1, 60, 7))
def test_a_line_that_is_not_whole_is_cut_off(tmp_path: Path, lost: int) -> None:
    plan, path = sample_plans.make_plan("--expander=price"), tmp_path / sweep_plan.RESULTS_FILE
    with sweep_plan.open_outcomes(tmp_path, plan) as kept:
        kept.add(SweepTask(0, 4), ONE)
        kept.add(SweepTask(0, 5), TWO)
    path.write_bytes(path.read_bytes()[:-lost])
    with sweep_plan.open_outcomes(tmp_path, plan) as kept:
        assert kept.outcomes == {SweepTask(0, 4): ONE}
        kept.add(SweepTask(1, 4), TWO)
    with sweep_plan.open_outcomes(tmp_path, plan) as kept:
        assert kept.outcomes == {SweepTask(0, 4): ONE, SweepTask(1, 4): TWO}


def test_runs_of_other_arguments_are_not_mixed_in(tmp_path: Path) -> None:
    with sweep_plan.open_outcomes(tmp_path, sample_plans.make_plan("--expander=price")):
        pass
    with pytest.raises(errors.InvalidInput, match="a sweep of tiny with other arguments"):
        sweep_plan.open_outcomes(tmp_path, sample_plans.make_plan("--expander=random")).__enter__()


def test_two_sweeps_do_not_write_to_one_file(tmp_path: Path) -> None:
    plan = sample_plans.make_plan("--expander=price")
    with (
        sweep_plan.open_outcomes(tmp_path, plan),
        pytest.raises(errors.InvalidInput, match="another sweep is writing there"),
    ):
        sweep_plan.open_outcomes(tmp_path, plan).__enter__()


@pytest.mark.parametrize("text", ["hello\n", '{"sweep": 3}\n'])
def test_a_file_that_is_no_sweep_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / sweep_plan.RESULTS_FILE).write_text(text)
    with pytest.raises(errors.InvalidInput, match="found no sweep in it"):
        sweep_plan.open_outcomes(tmp_path, sample_plans.make_plan("--expander=price")).__enter__()
    assert (tmp_path / sweep_plan.RESULTS_FILE).read_text() == text
