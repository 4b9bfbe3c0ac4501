"""Draw the committed sample of vectors anew: `python -m tests.differential.sample SEED`.

Of every scheduler topic, the few fresh cases that together show the most kinds of verdicts for their size; of every
table beside the project, a few cases of each section.
"""

import argparse
import gzip
import json
from pathlib import Path

from tests.conformance.__main__ import FILTER_TOPICS, RUNNERS
from tests.differential import oracle, unparsable_selectors
from tests.differential.oracle import Json

SAMPLE = Path(__file__).parents[1] / "data" / "vectors"
TABLES = oracle.SOURCE.parents[1] / "vectors" / "tables"
FOLDERS = {"1.36": "scheduler", "1.37": "scheduler-1.37"}
"""Where the verdicts of each release of kube-scheduler are."""
_DRAWN, _KEPT, _PER_SECTION = 300, 4, 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.differential.sample", description=__doc__)
    parser.add_argument("seed", type=int)
    seed = parser.parse_args().seed
    for release, folder in FOLDERS.items():
        binary = oracle.find(release)
        if binary is None:
            raise SystemExit(f"NO SAMPLE DRAWN: {oracle.why_absent()}")
        for topic in FILTER_TOPICS:
            cases = _choose(_evaluate(binary, topic, seed, release))
            text = "".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases)
            _folder(folder).joinpath(f"{topic}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    for table in (TABLES / f"{name}.json" for name in RUNNERS if name not in FILTER_TOPICS):
        _folder("tables").joinpath(table.name).write_text(json.dumps(_cut(json.loads(table.read_text()))) + "\n")


def _evaluate(binary: Path, topic: str, seed: int, release: str) -> list[Json]:
    if topic == "unparsable":
        return unparsable_selectors.evaluate(binary, seed, _DRAWN, release)
    return oracle.evaluate(binary, oracle.draw(topic, seed, _DRAWN, release))


def _folder(name: str) -> Path:
    folder = SAMPLE / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _choose(cases: list[Json]) -> list[Json]:
    """One case after another, each the one that adds the most kinds of verdicts per byte."""
    chosen: list[Json] = []
    seen: set[str] = set()
    while len(chosen) < _KEPT:
        best = max(cases, key=lambda case: (1 + len(_kinds(case) - seen)) / len(json.dumps(case)))
        chosen.append(best)
        seen |= _kinds(best)
        cases = [case for case in cases if case is not best]
    return chosen


def _kinds(case: Json) -> set[str]:
    return {json.dumps(verdict) for nodes in case["verdicts"].values() for verdict in nodes.values()}


def _cut(table: Json) -> Json:
    """A table with a few of its smaller cases, from the smallest to the middle one."""
    for section in table["sections"].values():
        by_size = sorted(section["cases"], key=lambda case: len(json.dumps(case)))
        middle = (len(by_size) - 1) // 2
        positions = sorted({middle * step // (_PER_SECTION - 1) for step in range(_PER_SECTION)})
        section["cases"] = [by_size[position] for position in positions]
    return table


if __name__ == "__main__":
    main()
