"""What the node affinity of DaemonSet pods costs: `ingest`, `memory` and `loop-15k` with it and without, in turns.

Each is a process of its own, twice with and twice without the affinity, alternating; of each figure the lesser of two
counts. `ROUNDS` and `ONLY` (a list of names) in the environment make it shorter, and so do those of the benchmarks.
"""

import json
import os
import subprocess
import sys

ROUNDS = int(os.environ.get("ROUNDS", "2"))
FIGURES = {
    "memory": ("cpu_seconds", "read_cpu_seconds", "rss_mb"),
    "ingest": ("list_cpu_seconds", "cpu_percent", "rss_mb"),
    "loop-15k": ("cpu_seconds", "changed_cpu_seconds", "rss_mb"),
}
"""What is compared, by benchmark; less is better."""


def run() -> dict[str, float]:
    found: dict[str, float] = {}
    for name in os.environ.get("ONLY", ",".join(FIGURES)).split(","):
        told: dict[str, list[dict[str, float]]] = {"0": [], "1": []}
        for _ in range(ROUNDS):
            for affinity in told:
                told[affinity].append(_measure(name, affinity))
        for figure in FIGURES[name]:
            without, with_affinity = (min(item[figure] for item in told[affinity]) for affinity in ("0", "1"))
            key = f"{name} {figure}"
            found |= {f"{key} without": without, key: with_affinity, f"{key} ratio": with_affinity / without}
    return {key: round(value, 3) for key, value in found.items()}


def _measure(name: str, affinity: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name],
        env={**os.environ, "NODE_AFFINITY": affinity},
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(json.loads(done.stdout))
