"""Play days: `python -m tests.chaos --days 1000`, or one of them again: `--seed 4711`. Exit code 0 if all is well."""

import argparse
import concurrent.futures
import os
import sys
import time
from collections import Counter

from tests.chaos import drawing, judging


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--days", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, help="play this one alone, and tell what happens on it")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        print(*drawing.draw(arguments.seed).tell(), sep="\n")
        return _say(judging.judge(arguments.seed))
    began_s, bad, deaths, hits, nodes = time.monotonic(), 0, 0, Counter[str](), 0.0
    seeds = range(arguments.first, arguments.first + arguments.days)
    with concurrent.futures.ProcessPoolExecutor(arguments.processes) as pool:
        for verdict in pool.map(judging.judge, seeds):
            if verdict.complaints:
                bad += _say(verdict)
            deaths, hits = deaths + verdict.deaths, hits + Counter(verdict.hits)
            nodes += verdict.totals.get("nodes_added", 0.0) + verdict.totals.get("nodes_removed", 0.0)
    struck = ", ".join(f"{count} {kind}" for kind, count in sorted(hits.items()))
    print(
        f"{arguments.days - bad} of {arguments.days} days well in {time.monotonic() - began_s:.0f} s: "
        f"{deaths} deaths, {nodes:g} nodes came or went, requests and watches {struck}"
    )
    return 1 if bad else 0


def _say(verdict: judging.Verdict) -> int:
    for complaint in verdict.complaints[:20]:
        print(f"seed {verdict.seed}: {complaint}", flush=True)
    if not verdict.complaints:
        print(f"seed {verdict.seed}: all well; {verdict.deaths} deaths, {verdict.hits}, {verdict.totals}")
    return 1 if verdict.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
