"""Measure: `python -m benchmarks NAME` prints one JSON object; `--list` names them all."""

import argparse
import importlib
import json
from collections.abc import Callable

NAMES = ("filters", "packing", "topology", "removal", "memory")
"""One module each, with `run() -> dict`."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES)
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    arguments = parser.parse_args()
    if arguments.list or arguments.name is None:
        print("\n".join(NAMES))
        return
    run: Callable[[], dict[str, float]] = importlib.import_module(f"benchmarks.{arguments.name}").run
    print(json.dumps({"benchmark": arguments.name, **run()}))


if __name__ == "__main__":
    main()
