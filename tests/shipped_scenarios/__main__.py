"""Play every scenario that comes with windlass and hold it to its word: `python -m tests.shipped_scenarios [NAME…]`.

A line for each: seconds of one core, speed, what was decided again from the recording, and how large that is. Exit
code 0 if every expectation is met, nothing is breached, every recorded step is decided again as it was, and a second
run gives the same report, to the byte.
"""

import argparse
import concurrent.futures
import os
import sys
import time

from tests.shipped_scenarios import scenario_run
from windlass.cli import scenario_input


def main() -> int:
    known = scenario_input.list_shipped()
    parser = argparse.ArgumentParser(prog="python -m tests.shipped_scenarios", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 2))
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.names} - known.keys()):
        parser.error(f"found {', '.join(unknown)}, accepted are {', '.join(known)}")
    began_s, all_well = time.monotonic(), True
    with concurrent.futures.ProcessPoolExecutor(arguments.processes) as pool:
        told = [pool.submit(scenario_run.report, known[name]) for name in arguments.names or known]
        for item in concurrent.futures.as_completed(told):
            all_well = _print_line(item.result()) and all_well
    print(f"{'all well' if all_well else 'NOT WELL'}, {time.monotonic() - began_s:.0f} s")
    return 0 if all_well else 1


def _print_line(told: scenario_run.Telling) -> bool:
    mark = "✗" if told.complaints else "✓"
    print(
        f"{mark} {told.name:18} {told.took_s:6.1f} s of a core, {told.lasts_s / told.took_s:7,.0f}× · "
        f"{told.steps:6,} steps decided again · {told.recording_bytes / 2**20:5.2f} MiB",
        *(f"    {complaint}" for complaint in told.complaints),
        sep="\n",
        flush=True,
    )
    return not told.complaints


if __name__ == "__main__":
    sys.exit(main())
