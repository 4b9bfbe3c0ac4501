"""`python -m tests.malformed_input --objects 20000 --seed 1`: see the package."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.malformed_input import harness, shrink

_SHOWN = 3000
"""Characters of an object that are printed; the whole of it is in a file."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.malformed_input", description=__doc__)
    parser.add_argument("--objects", type=int, default=20_000, help="how many malformed objects")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1000, help="how many of them exist at a time")
    parser.add_argument("--health-within", type=float, default=1.0, help="seconds that /health-check may take")
    parser.add_argument("--directory", type=Path, help="where logs are kept; a temporary one unless told")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for the smallest failing input")
    given = parser.parse_args()
    settings = harness.Settings(health_within_s=given.health_within)
    with tempfile.TemporaryDirectory(prefix="malformed-input-") as temporary:
        directory = given.directory or Path(temporary)
        began_s = time.monotonic()
        report, failure, batch = asyncio.run(
            harness.play(directory / "run", given.objects, given.seed, settings, given.batch)
        )
        took_s = time.monotonic() - began_s
        print(
            f"{report.objects} objects ({report.admitted} admitted by the API server, {report.broken} not JSON, "
            f"own objects edited {report.edited} times, everything listed anew {report.lists} times) "
            f"in {took_s:.0f} s, {report.loops} loops; ordinary pods with a node: {report.ordinary}; "
            f"nodes removed: {report.removed}, pods evicted: {report.evicted}; "
            f"slowest /health-check {report.slowest_health_s:.2f} s ({report.slowest_health_by_clock_s:.2f} s "
            f"with time in which other processes had the processor), oldest lease {report.oldest_lease_s:.1f} s; "
            f"unexpected errors: {report.unexpected or 'none'}"
        )
        if not failure:
            return 0
        print(f"FAILED with --seed {given.seed}: {failure}", file=sys.stderr)
        if not given.no_shrink and batch:
            _show(*shrink.shrink(directory / "shrink", batch, given.seed, settings))
    return 1


def _show(left: list[harness.Item], failure: str) -> None:
    if not left:
        print("its last batch alone does not fail again", file=sys.stderr)
        return
    print(f"{len(left)} objects are left: {failure}", file=sys.stderr)
    with tempfile.NamedTemporaryFile("wb", prefix="malformed-", suffix=".jsonl", delete=False) as file:
        file.writelines(item.raw + b"\n" for item in left)
    print(f"written to {file.name}", file=sys.stderr)
    for item in left[:3]:
        print(f"{item.kind.kind} {item.name}: {item.raw.decode()[:_SHOWN]}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
