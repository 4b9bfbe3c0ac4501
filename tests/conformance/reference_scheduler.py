"""Run recorded verdicts against the simulator's scheduler: `python -m tests.conformance.reference_scheduler PATH…`.

Compares plugin, code and reasons of every pair. Ends with a line `agree N/M`; exit code 0 only when N = M. Nothing of
the engine is imported here, so that the one can be asked while the other is being taken apart.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.outcome import Json, Outcome, read_lines
from windlass.simulator.reference_scheduler import scheduling_cycle
from windlass.simulator.reference_scheduler.cluster_view import ClusterView
from windlass.simulator.reference_scheduler.framework import Rejection


def run(path: Path) -> Iterator[Outcome]:
    for case in read_lines(path):
        yield run_case(case)


def run_case(case: Json) -> Outcome:
    cluster = ClusterView.of(case["objects"])
    agreed = total = 0
    differences = []
    for pod in case["pending"]:
        name = pod["metadata"]["name"]
        found = {node: to_text(refusal) for node, refusal in scheduling_cycle.run_filters(cluster, pod).items()}
        for node, expected in case["verdicts"][name].items():
            total += 1
            if found.get(node, "node missing") == expected:
                agreed += 1
            else:
                differences.append(f"{name} on {node}: expected {expected}, found {found.get(node)}")
    return Outcome(case["name"], agreed, total, tuple(differences))


def to_text(refusal: Rejection | None) -> Json | None:
    if refusal is None:
        return None
    return {"plugin": refusal.plugin, "code": str(refusal.code), "reasons": list(refusal.reasons)}


def _expand(paths: list[Path]) -> list[Path]:
    """Files as given, folders as the vector files in them."""
    return [file for path in paths for file in (sorted(path.glob("*.jsonl.gz")) if path.is_dir() else [path])]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.reference_scheduler", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--show", type=int, default=10, help="differences to print per file (default 10)")
    arguments = parser.parse_args()
    agreed = total = 0
    for path in _expand(arguments.paths):
        outcomes = list(run(path))
        differences = [f"  {outcome.name}: {text}" for outcome in outcomes for text in outcome.differences]
        print(*differences[: arguments.show], sep="\n", end="\n" if differences else "")
        file_agreed, file_total = sum(one.agreed for one in outcomes), sum(one.total for one in outcomes)
        print(f"{path.name.split('.')[0]:20} {file_agreed}/{file_total}")
        agreed += file_agreed
        total += file_total
    print(f"agree {agreed}/{total}")
    return 0 if agreed == total else 1


if __name__ == "__main__":
    sys.exit(main())
