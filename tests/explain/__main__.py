"""`python -m tests.explain --examples 3000 --seed 1`: see `tests.explain.agreement`."""

import argparse
import sys
import time
from collections import Counter

from tests.explain import agreement, clusters


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.explain", description=__doc__)
    parser.add_argument("--examples", type=int, default=3000, help="how many random clusters")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one cluster, to be tried alone")
    given = parser.parse_args()
    first = given.seed * 1_000_000
    numbers = [given.only] if given.only is not None else range(first, first + given.examples)
    began_s, failed, loops, states = time.monotonic(), 0, 0, Counter[str]()
    for number in numbers:
        for loop, at in enumerate(clusters.lives(number)):
            loops += 1
            problems = list(agreement.find_disagreements(at, states))
            if problems:
                failed += 1
                print(f"cluster {number}, loop {loop}:", *problems, sep="\n  ")
                break
    lasted_s = time.monotonic() - began_s
    print(f"{failed} of {len(numbers)} clusters disagree; {loops} loops, {states.total()} answers, {lasted_s:.0f} s")
    print(", ".join(f"{state} {count}" for state, count in states.most_common()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
