"""`python -m tools` writes docs/reference, deploy/rbac and its copies, and the modules of the gRPC expander anew.

With a word it does something else: `promtool` builds what tries alerts, `licences` checks the terms of dependencies,
`sbom FILE` writes the bill of materials, `audit` asks whether anything is known against a dependency, `image
[DIRECTORY]` builds the image, `release [DIRECTORY]` all artifacts of a version, `structure` prints the table of sizes
and imports in docs/architecture.md.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed import building, components
from tools import (
    chart_schema,
    code_structure,
    licences,
    manifest_copies,
    protobuf_modules,
    rbac,
    reference_pages,
    sbom,
    source_analysis,
    vulnerability_audit,
)
from tools.image import build as image_build
from tools.image import release


def write() -> int:
    written = (
        *protobuf_modules.write(),
        *reference_pages.write(),
        *rbac.write(),
        *manifest_copies.write(),
        *chart_schema.write(),
    )
    for path in written:
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


def print_structure() -> int:
    print(code_structure.describe(code_structure.Structure.read(), code_structure.trace_decision()))
    return 0


WORDS: Mapping[tuple[str, int], Callable[..., int]] = {
    ("", 0): write,
    ("promtool", 0): build_promtool,
    ("licences", 0): licences.main,
    ("sbom", 1): write_sbom,
    ("audit", 0): vulnerability_audit.main,
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
        words = "promtool | licences | sbom FILE | audit | image [DIRECTORY] | release [DIRECTORY] | structure"
        print(f"Usage: python -m tools [{words}]", file=sys.stderr)
        return 2
    return act(*more)


if __name__ == "__main__":
    sys.exit(main())
