"""Judge fresh random clusters with the engine and with the real kube-scheduler: `python -m tests.fuzz`.

Draws `--cases` clusters for each of `--seeds` seeds and every topic. Stops at the first disagreement, makes it small,
prints it with both verdicts and saves it; else ends with a line `agree N/N` and exit code 0.

A run is repeated by giving the first seed that it printed.
"""

import argparse
import functools
import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.__main__ import FILTER_TOPICS
from tests.conformance.scheduler import compare
from tests.fuzz import devices, oracle, shrinking
from tests.fuzz.oracle import Json

_FILLED_IN = (
    "daemonEndpoints", "dnsPolicy", "enableServiceLinks", "imagePullPolicy", "nodeInfo", "securityContext",
    "terminationGracePeriodSeconds", "terminationMessagePath", "terminationMessagePolicy",
)  # fmt: skip


TOPICS = (*FILTER_TOPICS, "devices")
"""Those of the oracle's generator, and those drawn here."""


def main() -> int:
    arguments = _read_arguments()
    binary = oracle.find()
    if binary is None:
        print(f"NOT FUZZED: {oracle.why_absent()}")
        return 0
    last_seed = arguments.first_seed + arguments.seeds - 1
    print(f"seeds {arguments.first_seed} to {last_seed}; to repeat: --first-seed {arguments.first_seed}")
    agreed = 0
    for topic in arguments.topic or TOPICS:
        started_s = time.monotonic()
        pairs = 0
        for seed in range(arguments.first_seed, last_seed + 1):
            for case in oracle.judge(binary, _draw(topic, seed, arguments.cases)):
                if shrinking.signs(case):
                    _report(binary, topic, case)
                    print(f"stopped after {agreed + pairs} pairs that agree")
                    return 1
                pairs += sum(len(nodes) for nodes in case["verdicts"].values())
        print(f"{topic:20} {pairs}/{pairs}  ({time.monotonic() - started_s:.0f} s)", flush=True)
        agreed += pairs
    print(f"agree {agreed}/{agreed}")
    return 0


def _draw(topic: str, seed: int, cases: int) -> list[Json]:
    return devices.draw(seed, cases) if topic == "devices" else oracle.draw(topic, seed, cases)


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="seeds per topic (default 20)")
    parser.add_argument("--first-seed", type=int, default=int(time.time()), help="default: from the clock")
    parser.add_argument("--cases", type=int, default=40, help="clusters per seed (default 40)")
    parser.add_argument("--topic", action="append", choices=TOPICS, help="may be given again (default: all)")
    return parser.parse_args()


def _report(binary: Path, topic: str, case: Json) -> None:
    print(f"DISAGREEMENT in {case['name']}; making it small ...", flush=True)
    small = shrinking.shrink(case, functools.partial(oracle.judge, binary, stored=True))
    print(yaml.safe_dump(_without_defaults({key: small[key] for key in ("objects", "pending")}), sort_keys=False))
    for line in _describe(small):
        print(line)
    path = _save("dra" if topic == "devices" else topic, small)
    print(f"saved as {path}; to judge it again: python -m tests.conformance {path}")


def _without_defaults(value: Any) -> Any:
    """The same without fields that the API server fills in and no filter reads: for the eye only."""
    if isinstance(value, dict):
        return {key: _without_defaults(child) for key, child in value.items() if key not in _FILLED_IN}
    return [_without_defaults(child) for child in value] if isinstance(value, list) else value


def _describe(case: Json) -> list[str]:
    try:
        set_aside, pairs = compare(case)
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
