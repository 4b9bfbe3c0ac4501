"""Runs on this machine: a process that is killed takes nothing with it but time."""

import os
import signal
import threading

from tests.sweep import command_process, sample_plans
from windlass.sweep import executors, sweep_plan
from windlass.sweep.sweep_plan import SweepPlan, SweepTask


def test_a_killed_process_is_noticed_and_its_run_is_played_again() -> None:
    plan = sample_plans.make_plan("--scale-down-unneeded-time=1m")
    playing_all = executors.ProcessExecutor(2).run(plan, plan.tasks)
    found = dict([next(playing_all)])
    os.kill(command_process.find_workers(os.getpid())[0], signal.SIGKILL)
    found.update(playing_all)
    packed = sweep_plan.serialize(plan.sweep_input)
    assert found == {
        sweep_task: executors.run_task(packed, dict(plan.settings[sweep_task.settings]), sweep_task.seed)
        for sweep_task in plan.tasks
    }
    assert command_process.find_workers(os.getpid()) == []


def test_a_run_whose_process_is_killed_twice_is_reported_and_the_others_go_on() -> None:
    plan = sample_plans.make_plan("--scale-down-unneeded-time=1m", seeds=1)
    killed: list[int] = []

    def kill_two() -> None:
        while len(killed) < 2:
            command_process.wait_until(lambda: bool({*command_process.find_workers(os.getpid())} - {*killed}))
            for pid in {*command_process.find_workers(os.getpid())} - {*killed}:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    killing = threading.Thread(target=kill_two)
    killing.start()
    found = dict(executors.ProcessExecutor(1).run(plan, plan.tasks))
    killing.join()
    first, second = (found[task] for task in plan.tasks)
    assert first.failed == "its process was ended by SIGKILL, 2 times"
    assert second.totals["most_nodes"] >= 4


def test_a_run_that_cannot_be_played_stops_no_other() -> None:
    plan = SweepPlan(sweep_plan.SweepInput(sample_plans.scenario()), ("expander",), ({}, {"expander": "nice"}), (4,))
    found = dict(executors.ProcessExecutor(1).run(plan, plan.tasks))
    assert not found[SweepTask(0, 4)].failed
    assert found[SweepTask(1, 4)].failed.startswith("InvalidInput: ")
    assert "nice" in found[SweepTask(1, 4)].failed


def test_whoever_stops_listening_ends_the_processes() -> None:
    plan = sample_plans.make_plan("--scale-down-unneeded-time=1m,3m")
    playing_all = executors.ProcessExecutor(2).run(plan, plan.tasks)
    next(playing_all)
    assert len(command_process.find_workers(os.getpid())) == 2
    playing_all.close()
    assert command_process.find_workers(os.getpid()) == []
