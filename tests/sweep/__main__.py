"""A sweep of 200 runs, held to its word: `python -m tests.sweep [--runs N]`.

It is played on all cores, with a process killed on the way; interrupted and gone on with; and on a Dask cluster of
three workers. All three must give the same table, to the byte. Prints what it took; exit code 0 if all is well.
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.sweep import command_process, sample_plans
from windlass.sweep import executors

TRIED = ("--try", "--scale-down-unneeded-time=1m..20m", "--try", "--expander=least-waste,least-nodes,price",
         "--try", "--scale-down-utilization-threshold=0.3..0.7:5", "--seeds", "4")  # fmt: skip
TABLES = ("table.csv", "table.json", "report.html")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sweep", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "tiny.yaml").write_text(sample_plans.TINY)
        _play_killed(folder, runs)
        _play_in_parts(folder, runs)
        with command_process.dask_cluster(folder, workers=3) as address:
            _Sweep(folder, "dask", runs, "--dask", address).finish("three Dask workers")
        wanted, *others = (
            [(folder / place / name).read_bytes() for name in TABLES] for place in ("killed", "parts", "dask")
        )
    is_same = all(other == wanted for other in others)
    print("all well: the same table, to the byte" if is_same else "NOT WELL: the tables differ")
    return 0 if is_same else 1


class _Sweep:
    """One that runs."""

    def __init__(self, folder: Path, place: str, runs: int, *more: str) -> None:
        self._began_s = time.monotonic()
        self._ledger = folder / place / "runs.jsonl"
        arguments: list[str | Path] = [
            folder / "tiny.yaml",
            *TRIED,
            "--runs",
            str(runs),
            "--out",
            folder / place,
            *more,
        ]
        self.process = command_process.start_sweep(arguments)

    def wait_for(self, runs: int) -> None:
        """Until so many are kept."""
        command_process.wait_until(lambda: command_process.count_lines(self._ledger) > runs)

    def finish(self, title: str) -> None:
        """Say what it took: processor time of the command and of all that it started, against the time that passed."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _, said = self.process.communicate()
        took_s, after = time.monotonic() - self._began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if self.process.returncode:
            sys.exit(f"{title}: exit code {self.process.returncode}\n{said}")
        cores = executors.count_cores()
        share = f"{used_s:.1f} s of processor time in {took_s:.1f} s, {used_s / took_s / cores:.0%} of {cores} cores"
        print(f"{title}: {said.strip().splitlines()[-1].partition(': ')[2]}; {share}", flush=True)


def _play_killed(folder: Path, runs: int) -> None:
    sweep = _Sweep(folder, "killed", runs)
    sweep.wait_for(runs // 4)
    os.kill(command_process.find_workers(sweep.process.pid)[0], signal.SIGKILL)
    sweep.finish("all cores, a worker killed")


def _play_in_parts(folder: Path, runs: int) -> None:
    for share in (4, 2):
        sweep = _Sweep(folder, "parts", runs)
        sweep.wait_for(runs // share)
        code, said = command_process.interrupt(sweep.process)
        print(f"  exit code {code}: {said.strip().splitlines()[-1].replace(str(folder), '')}", flush=True)
    _Sweep(folder, "parts", runs).finish("interrupted twice, and gone on")


if __name__ == "__main__":
    sys.exit(main())
