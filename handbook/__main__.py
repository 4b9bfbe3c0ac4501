"""`python -m handbook` writes the pages of docs/reference, the files of deploy/rbac and the copies of the latter anew.

With a word it does something else: `promtool` builds what tries alerts, `licences` checks the terms of dependencies,
`sbom FILE` writes the bill of materials, `audit` asks whether anything is known against a dependency, `coverage FILE`
sums up by package what coverage.py measured.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from handbook import audit, copies, covered, licences, pages, rights, sbom, source
from testbed import building, components


def write() -> int:
    for path in (*pages.write(), *rights.write(), *copies.write()):
        print(f"written: {path.relative_to(source.ROOT)}")
    return 0


def build_promtool() -> int:
    try:
        building.build_tool(components.PROMTOOL)
    except building.BuildFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    return 0


def write_sbom(path: str) -> int:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(sbom.make(), "utf-8")
    print(f"written: {path}")
    return 0


def sum_up_coverage(path: str) -> int:
    print("\n".join(covered.tell(Path(path).read_text("utf-8"))))
    return 0


WORDS: Mapping[tuple[str, int], Callable[..., int]] = {
    ("", 0): write,
    ("promtool", 0): build_promtool,
    ("licences", 0): licences.main,
    ("sbom", 1): write_sbom,
    ("audit", 0): audit.main,
    ("coverage", 1): sum_up_coverage,
}
"""By the first word, and how many more there are."""


def main() -> int:
    word, *more = sys.argv[1:] or [""]
    act = WORDS.get((word, len(more)))
    if act is None:
        print("Usage: python -m handbook [promtool | licences | sbom FILE | audit | coverage FILE]", file=sys.stderr)
        return 2
    return act(*more)


if __name__ == "__main__":
    sys.exit(main())
