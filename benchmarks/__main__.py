"""Measure: `python -m benchmarks NAME` prints one JSON object; `--list` names them all."""

import argparse
import importlib
import json
from collections.abc import Callable

NAMES = (
    "filters",
    "packing",
    "topology",
    "removal",
    "memory",
    "daemonsets",
    "machines",
    "loop-up",
    "loop-down",
    "loop-mixed",
    "loop-affinity",
    "loop-15k",
    "loop-dra",
    "provreq",
    "ingest",
    "apiserver",
    "machinepool",
    "openshift",
    "reaction",
    "simulate",
    "dashboard",
    "dashboard-15k",
)
"""One module each (with underscores for dashes), with `run() -> dict`."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES)
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    parser.add_argument("--peer-seconds", type=float, help="what the peer took for the same: adds `ratio`")
    arguments = parser.parse_args()
    if arguments.list or arguments.name is None:
        print("\n".join(NAMES))
        return
    module = importlib.import_module(f"benchmarks.{arguments.name.replace('-', '_')}")
    run: Callable[[], dict[str, float]] = module.run
    found = run()
    if arguments.peer_seconds is not None:
        found["ratio"] = arguments.peer_seconds / found["seconds"]
    print(json.dumps({"benchmark": arguments.name, **found}))


if __name__ == "__main__":
    main()
