"""Judge fresh random clusters with the engine and with the real kube-scheduler: `python -m tests.differential`.

Draws `--cases` clusters for each of `--seeds` seeds, every topic and each release of kube-scheduler. Stops at the first
disagreement, makes it small, prints it with both verdicts and saves it; else ends with a line `agree N/N` and exit
code 0.

A run is repeated by giving the first seed that it printed.
"""

import argparse
import functools
import gzip
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.__main__ import FILTER_TOPICS
from tests.conformance.scheduler import compare
from tests.differential import devices, oracle, shrink, unparsable_selectors
from tests.differential.oracle import Json
from windlass import scheduler_releases

_WIDE = 2
"""Cases of the topic `wide` for each seed: one has as many pairs as hundreds of others."""

_FILLED_IN = (
    "daemonEndpoints", "dnsPolicy", "enableServiceLinks", "imagePullPolicy", "nodeInfo", "securityContext",
    "terminationGracePeriodSeconds", "terminationMessagePath", "terminationMessagePolicy",
)  # fmt: skip


OWN = "device-kinds"
UNPARSABLE = "unparsable"
"""The topics that are drawn here."""

TOPICS = (*FILTER_TOPICS, OWN, "wide")
"""Those of the oracle's generator, and those drawn here. `wide` has hundreds of nodes to a case."""


class _Disagreed(Exception):
    """A case on which engine and oracle differ was found and reported."""


def main() -> int:
    arguments = _read_arguments()
    last_seed = arguments.first_seed + arguments.seeds - 1
    print(f"seeds {arguments.first_seed} to {last_seed}; to repeat: --first-seed {arguments.first_seed}")
    agreed = 0
    for release in arguments.release or oracle.BUILDS:
        binary = oracle.find(release)
        if binary is None:
            print(f"NOT FUZZED: {oracle.why_absent()}")
            return 0
        for topic in arguments.topic or TOPICS:
            started_s = time.monotonic()
            try:
                pairs = _compare(binary, release, topic, range(arguments.first_seed, last_seed + 1), arguments.cases)
            except _Disagreed:
                print(f"stopped after {agreed} pairs of other topics that agree")
                return 1
            print(f"{release} {topic:20} {pairs}/{pairs}  ({time.monotonic() - started_s:.0f} s)", flush=True)
            agreed += pairs
    print(f"agree {agreed}/{agreed}")
    return 0


def _compare(binary: Path, release: str, topic: str, seeds: Iterable[int], cases: int) -> int:
    """How many pairs agree. `_Disagreed` at the first that does not."""
    pairs = 0
    for seed in seeds:
        for case in _evaluate(binary, topic, seed, cases, release):
            if shrink.signs(case, scheduler_releases.KNOWN_RELEASES[release]):
                _report(binary, release, topic, case)
                raise _Disagreed
            pairs += sum(len(nodes) for nodes in case["verdicts"].values())
    return pairs


def _evaluate(binary: Path, topic: str, seed: int, cases: int, release: str) -> list[Json]:
    if topic == UNPARSABLE:
        return unparsable_selectors.evaluate(binary, seed, cases, release)
    return oracle.evaluate(binary, _draw(topic, seed, cases, release))


def _draw(topic: str, seed: int, cases: int, release: str) -> list[Json]:
    if topic == OWN:
        return devices.draw(seed, cases, release)
    return oracle.draw(topic, seed, min(cases, _WIDE) if topic == "wide" else cases, release)


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="seeds per topic (default 20)")
    parser.add_argument("--first-seed", type=int, default=int(time.time()), help="default: from the clock")
    parser.add_argument("--cases", type=int, default=40, help="clusters per seed (default 40)")
    parser.add_argument("--release", action="append", choices=oracle.BUILDS, help="may be given again (default: all)")
    parser.add_argument("--topic", action="append", choices=TOPICS, help="may be given again (default: all)")
    return parser.parse_args()


def _report(binary: Path, release: str, topic: str, case: Json) -> None:
    print(f"DISAGREEMENT in {case['name']}; making it small ...", flush=True)
    known = scheduler_releases.KNOWN_RELEASES[release]
    small = shrink.shrink(case, functools.partial(oracle.evaluate, binary, stored=True), known)
    print(yaml.safe_dump(_without_defaults({key: small[key] for key in ("objects", "pending")}), sort_keys=False))
    for line in _describe(small, known):
        print(line)
    path = _save("dra" if topic == OWN else topic, small)
    print(f"saved as {path}; to judge it again: python -m tests.conformance --release {release} {path}")


def _without_defaults(value: Any) -> Any:
    """The same without fields that the API server fills in and no filter reads: for the eye only."""
    if isinstance(value, dict):
        return {key: _without_defaults(child) for key, child in value.items() if key not in _FILLED_IN}
    return [_without_defaults(child) for child in value] if isinstance(value, list) else value


def _describe(case: Json, release: scheduler_releases.SchedulerRelease) -> list[str]:
    try:
        set_aside, pairs = compare(case, release)
    except Exception as error:
        return [f"the engine raised {error!r}; the real scheduler said {case['verdicts']}"]
    return [*set_aside, *(str(pair) for pair in pairs if pair.expected != pair.found)]


def _save(topic: str, case: Json) -> Path:
    """Write the case where `tests.conformance` can read it: the topic is the first part of the file's name."""
    path = oracle.cache_folder() / f"{topic}.{case['name']}.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(case) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
