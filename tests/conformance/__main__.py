"""Run recorded vectors: `python -m tests.conformance PATH…`, files or folders.

Ends with a line `agree N/M`, where M counts every pair or case in the files, those without a runner included.
Exit code 0 only when N = M.
"""

import argparse
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conformance import (
    authority,
    backoff,
    balancing,
    capacity_buffer,
    cluster_autoscaler,
    cluster_state,
    clusterapi,
    deletion_budgets,
    dra_utilization,
    drain,
    eks_anywhere,
    eligibility,
    equivalence,
    estimator,
    expanders,
    lattice,
    machine_autoscaler,
    machinepool,
    machinepool_stories,
    machineset_sync,
    planner,
    pod_disruption_budgets,
    proactive_injection,
    provisioning_request,
    quotas,
    removal,
    replicas_defaulting,
    scenarios,
    scheduler,
    similarity,
    taints,
    unneeded,
    utilization,
)
from tests.conformance.outcome import Outcome, Runner, read_lines, read_sections
from windlass import scheduler_releases


def run_recorded(
    path: Path, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
) -> Iterator[Outcome]:
    """Scenarios of the autoscaler and cases of the scheduler have one file format: the first case tells which."""
    first = next(read_lines(path), {})
    return scenarios.run(path) if "steps" in first else scheduler.run(path, release)


FILTER_TOPICS = (
    "resources", "taints", "nodeaffinity", "ports", "spread", "interpod", "volumes", "names", "mixed", "dra",
    "preset", "resize", "drivers", "namespaces", "devices", "nominated", "migrated", "numbers",
    "unparsable",
)  # fmt: skip

RUNNERS: dict[str, Runner] = {
    **dict.fromkeys(FILTER_TOPICS, run_recorded),
    "estimator": estimator.run,
    "expanders": expanders.run,
    "similarity": similarity.run,
    "balancing": balancing.run,
    "quotas": quotas.run,
    "dra_utilization": dra_utilization.run,
    "drain_rules": drain.run_rules,
    "drain_chain": drain.run_chain,
    "utilization": utilization.run,
    "equivalence": equivalence.run,
    "budget_tracker": pod_disruption_budgets.run,
    "removal_simulation": removal.run,
    "backoff": backoff.run,
    "cluster_state": cluster_state.run,
    "clusterapi": clusterapi.run,
    "deletion_budgets": deletion_budgets.run,
    "eligibility": eligibility.run,
    "planner": planner.run,
    "capacity_buffer": capacity_buffer.run,
    "proactive_injection": proactive_injection.run,
    "provisioning_request": provisioning_request.run,
    "unneeded": unneeded.run,
    "machinepool": machinepool.run,
    "machineset_sync": machineset_sync.run,
    "authority": authority.run,
    "eks_anywhere": eks_anywhere.run,
    "lattice": lattice.run,
    "machine_autoscaler": machine_autoscaler.run,
    "cluster_autoscaler": cluster_autoscaler.run,
    "replicas_defaulting": replicas_defaulting.run,
    "taints.json": taints.run,  # by its whole name: the scheduler's vectors have a topic of that name, too
}


def find_runner(
    path: Path, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
) -> Runner | None:
    """By its whole name, by its topic, or by what is in it: scenarios and life stories are named after what happens."""
    found = RUNNERS.get(path.name) or RUNNERS.get(path.name.split(".")[0])
    if found is None and path.name.endswith(".jsonl.gz"):
        first = next(read_lines(path), {})
        found = run_recorded if "steps" in first or "verdicts" in first else None
    if found is run_recorded:
        return functools.partial(run_recorded, release=release)
    return found or (machinepool_stories.run if machinepool_stories.is_part_of_one(path) else None)


def expand(paths: list[Path]) -> list[Path]:
    """Files as given, folders as the vector files in them."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(p for p in path.iterdir() if p.name.endswith((".json", ".jsonl.gz")))
        elif path.exists():
            files.append(path)
        else:
            raise SystemExit(f"tests.conformance: {path}: no such file or folder")
    return files


def count_cases(path: Path) -> int:
    """How many answers a file without a runner holds, so that it is not passed over in silence."""
    if path.name.endswith(".json"):
        return sum(1 for _ in read_sections(path))
    return sum(len(nodes) for case in read_lines(path) for nodes in case.get("verdicts", {"": [0]}).values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument(
        "--release", choices=scheduler_releases.KNOWN_RELEASES, default=scheduler_releases.DEFAULT_RELEASE.version,
        help="kube-scheduler's release whose verdicts the files hold (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--show", type=int, default=10, help="differences to print per file (default 10)")
    arguments = parser.parse_args()
    agreed = total = 0
    for path in expand(arguments.paths):
        topic = path.name.split(".")[0]
        runner = find_runner(path, scheduler_releases.KNOWN_RELEASES[arguments.release])
        if runner is None:
            missing = count_cases(path)
            print(f"{topic:20} NO RUNNER: {missing} not judged")
            total += missing
            continue
        file_agreed = file_total = shown = 0
        for outcome in runner(path):
            file_agreed += outcome.agreed
            file_total += outcome.total
            for difference in outcome.differences:
                if shown < arguments.show:
                    print(f"  {outcome.name}: {difference}")
                shown += 1
        print(f"{topic:20} {file_agreed}/{file_total}")
        agreed += file_agreed
        total += file_total
    print(f"agree {agreed}/{total}")
    return 0 if agreed == total else 1


if __name__ == "__main__":
    sys.exit(main())
