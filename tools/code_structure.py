"""How the code is cut: sizes of modules, import chains and cycles, and what one decision runs through.

`python -m tools structure` prints the table that docs/architecture.md holds. A chain is a path of imports at run time
(what only type checkers import is left out), counted in modules. Package files that hold nothing but a docstring are
counted apart: they have no code to read.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from types import FrameType

from tools import source_analysis as source

SHORT = 40
"""Lines below which a module belongs to its neighbour."""


@dataclass(frozen=True)
class Structure:
    """Modules of the package by their dotted names."""

    trees: Mapping[str, ast.Module]
    lines: Mapping[str, int]

    @classmethod
    def read(cls) -> "Structure":
        texts = {name: module.text for name, module in source.modules().items()}
        return cls(
            {name: ast.parse(text) for name, text in texts.items()},
            {name: text.count("\n") for name, text in texts.items()},
        )

    @cached_property
    def with_code(self) -> list[str]:
        return [name for name, tree in self.trees.items() if any(not _is_docstring(node) for node in tree.body)]

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Modules that each module imports when it is imported itself."""
        return {name: {item for item in self._imported(tree.body) if item != name} for name, tree in self.trees.items()}

    def _imported(self, body: list[ast.stmt]) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    if whole in self.trees or node.module in self.trees:
                        yield whole if whole in self.trees else node.module
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.trees)
            elif isinstance(node, ast.Try | ast.With):
                yield from self._imported(node.body)

    def longest_chain(self, prefix: str) -> list[str]:
        """The longest path of imports within a package; raises RecursionError where there is a cycle."""
        best: dict[str, list[str]] = {}

        def follow(name: str) -> list[str]:
            if name not in best:
                paths = [follow(item) for item in sorted(self.imports[name]) if item.startswith(prefix)]
                best[name] = [name, *max(paths, key=len, default=[])]
            return best[name]

        return max((follow(name) for name in self.trees if name.startswith(prefix)), key=len)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a call ran through, of this package alone."""

    functions: int
    modules: int


def trace(call: Callable[[], object]) -> Trace:
    """Run it, and count the distinct functions and their modules."""
    functions = set[tuple[str, str]]()
    root = str(source.ROOT / "src" / "windlass")

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            functions.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Trace(len(functions), len({module for module, _ in functions}))


def trace_decision() -> Trace:
    """What one decision runs through, for one pending pod and one group of one node."""
    from tests.engine.loop import builders  # here, as no other word needs the tests

    nodes = builders.nodes("group", 1, cpu=1000)
    pods = [builders.running("running", "group-0", cpu=500), builders.pending("pending", cpu=900)]
    observation = builders.observe([builders.group("group", nodes)], nodes, pods)
    return trace(lambda: builders.decide_once(observation))


def describe(structure: Structure, decision: Trace) -> str:
    """The table of docs/architecture.md."""
    sizes = [structure.lines[name] for name in structure.with_code]
    short = sum(size < SHORT for size in sizes)
    rows = [
        ("modules", f"{len(structure.trees)}, {len(structure.trees) - len(sizes)} of them a package's docstring alone"),
        ("lines", f"{sum(structure.lines.values()):,}"),
        ("lines of a module with code", f"median {median(sizes):.0f}, longest {max(sizes)}"),
        (f"modules with code below {SHORT} lines", f"{short} ({short / len(sizes):.0%})"),
        ("longest import chain inside the engine", f"{len(structure.longest_chain('windlass.engine'))} modules"),
        ("longest import chain", f"{len(structure.longest_chain('windlass'))} modules"),
        ("one decision for one pending pod", f"{decision.functions} functions in {decision.modules} modules"),
    ]
    return "\n".join(["| measure | value |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)])
