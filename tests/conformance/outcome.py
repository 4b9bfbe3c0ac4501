"""What one recorded case came to, and how the files are read."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case: how many of its pairs agree, of how many, and what differs in words."""

    name: str
    agreed: int
    total: int
    differences: tuple[str, ...] = ()


Runner = Callable[[Path], Iterator[Outcome]]


def evaluate(name: str, expected: object, found: object) -> Outcome:
    """A case with one answer."""
    if expected == found:
        return Outcome(name, 1, 1)
    return Outcome(name, 0, 1, (f"expected {expected!r}, found {found!r}",))


def read_lines(path: Path) -> Iterator[Json]:
    """Cases of a `.jsonl.gz` file."""
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield json.loads(line)


def read_sections(path: Path) -> Iterator[tuple[str, Json, Json]]:
    """(section, constants, case) for every case of a table."""
    for section, body in json.loads(path.read_text())["sections"].items():
        for case in body["cases"]:
            yield section, body.get("constants") or {}, case


def by_section(decide: dict[str, Callable[[Json, Json], object]]) -> Runner:
    """A runner that decides each section's cases with a function of (case, constants) and compares with `expect`."""

    def run(path: Path) -> Iterator[Outcome]:
        for section, constants, case in read_sections(path):
            if section not in decide:
                yield Outcome(case["name"], 0, 1, (f"no runner for section {section!r}",))
                continue
            yield evaluate(case["name"], case["expect"], decide[section](case, constants))

    return run
