"""`python -m tools` writes the pages of docs/reference, the files of deploy/rbac and the copies of the latter anew.

With a word it does something else: `promtool` builds what tries alerts, `licences` checks the terms of dependencies,
`sbom FILE` writes the bill of materials, `audit` asks whether anything is known against a dependency, `coverage FILE`
sums up by package what coverage.py measured, `image [DIRECTORY]` builds the image, `release [DIRECTORY]` all artifacts
of a version, `structure` prints the table of sizes and imports in docs/architecture.md.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed import building, components
from tools import (
    chart_schema,
    code_structure,
    coverage_report,
    licences,
    manifest_copies,
    rbac,
    reference_pages,
    sbom,
    source_analysis,
    vulnerability_audit,
)
from tools.image import build as image_build
from tools.image import release


def write() -> int:
    for path in (*reference_pages.write(), *rbac.write(), *manifest_copies.write(), *chart_schema.write()):
        print(f"written: {path.relative_to(source_analysis.ROOT)}")
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
    print("\n".join(coverage_report.tell(Path(path).read_text("utf-8"))))
    return 0


def print_structure() -> int:
    print(code_structure.describe(code_structure.Structure.read(), code_structure.trace_decision()))
    return 0


WORDS: Mapping[tuple[str, int], Callable[..., int]] = {
    ("", 0): write,
    ("promtool", 0): build_promtool,
    ("licences", 0): licences.main,
    ("sbom", 1): write_sbom,
    ("audit", 0): vulnerability_audit.main,
    ("coverage", 1): sum_up_coverage,
    ("image", 0): image_build.main,
    ("image", 1): image_build.main,
    ("release", 0): release.main,
    ("release", 1): release.main,
    ("structure", 0): print_structure,
}
"""By the first word, and how many more there are."""


def main() -> int:
    word, *more = sys.argv[1:] or [""]
    act = WORDS.get((word, len(more)))
    if act is None:
        words = "promtool | licences | sbom FILE | audit | coverage FILE | image [DIRECTORY] | release [DIRECTORY]"
        print(f"Usage: python -m tools [{words} | structure]", file=sys.stderr)
        return 2
    return act(*more)


if __name__ == "__main__":
    sys.exit(main())
