"""Play days: `python -m tests.chaos --days 1000`, or one of them again: `--seed 4711`. Exit code 0 if all is well."""

import argparse
import concurrent.futures
import logging
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tests.chaos import day_generator, invariants, run_summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--days", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, help="play this one alone, and tell what happens on it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="days at a time (default: one per core)")
    parser.add_argument("--to", type=Path, help="write a line for each day to this file, and pass over those in it")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        print(*day_generator.draw(arguments.seed).tell(), sep="\n")
        return _play([arguments.seed], 1, None)
    return _play(range(arguments.first, arguments.first + arguments.days), arguments.jobs, arguments.to)


def _play(seeds: Iterable[int], jobs: int, to: Path | None) -> int:
    """All of them, whatever came of the others."""
    began_s, kept = time.monotonic(), run_summary.Account()
    for verdict in run_summary.read(to):
        kept.add(verdict)
    left = [seed for seed in seeds if seed not in kept.seeds]
    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=_be_quiet) as pool:
        waiting = {pool.submit(invariants.evaluate, seed): seed for seed in left}
        for done in concurrent.futures.as_completed(waiting):
            try:
                verdict = done.result()
            except Exception as error:  # the process that played it is gone
                verdict = invariants.Verdict(waiting[done], (repr(error),), 0, {}, {})
            kept.add(verdict)
            run_summary.write(to, verdict)
            _print_line(verdict)
    print(f"{kept.tell()}; {time.monotonic() - began_s:.0f} s for the last {len(left)}")
    return 1 if kept.bad else 0


def _be_quiet() -> None:
    """Tens of thousands of lines tell of faults that were meant; whatever nobody foresaw is a complaint."""
    logging.getLogger().addHandler(logging.NullHandler())
    logging.getLogger("windlass").setLevel(logging.ERROR)


def _print_line(verdict: invariants.Verdict) -> None:
    for complaint in verdict.complaints[:20]:
        print(f"seed {verdict.seed}: {complaint}", flush=True)
    if verdict.complaints:
        print(f"again with: python -m tests.chaos --seed {verdict.seed}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
