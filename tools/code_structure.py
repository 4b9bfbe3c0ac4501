"""How the code is cut: sizes of modules, import chains and cycles, and what one decision runs through.

`python -m tools structure` prints the table that docs/architecture.md holds. A chain is a path of imports, counted in
modules. The chains that have a bound are those of imports that run when a module is imported; a wider count adds
imports inside functions, and the widest also those for type checkers alone, where circles may be. Package files that
hold nothing but a docstring are counted apart: they have no code to read.

Functions of a decision are counted by module and name: methods of one name in one module count once, as do all
comprehensions, generator expressions and lambdas of a module, of which each kind is a name to Python. `def`s are those
among them that have a name in the source.
"""

import ast
import enum
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from types import FrameType

from tools import source_analysis as source

SHORT = 40
"""Lines below which a module belongs to its neighbour."""


MAX_MODULES = 450
MAX_ENGINE_CHAIN = 12
MAX_CHAIN = 25
"""Bounds of what is measured. A change that exceeds one merges modules, or takes a needless layer out of a chain."""


class Scope(enum.Enum):
    """Which imports count."""

    AT_IMPORT = enum.auto()
    """Those that run when the module is imported."""
    AT_RUN_TIME = enum.auto()
    """Those inside functions, too."""
    ALL = enum.auto()
    """Those for type checkers alone, too."""


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
        return self.find_imports(Scope.AT_IMPORT)

    def find_imports(self, scope: Scope) -> dict[str, set[str]]:
        return {
            name: {item for item in self._imported(tree.body, scope) if item != name}
            for name, tree in self.trees.items()
        }

    def _imported(self, body: list[ast.stmt], scope: Scope) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    if whole in self.trees or node.module in self.trees:
                        yield whole if whole in self.trees else node.module
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.trees)
            elif _is_read(node, scope):
                for inner in (value for _, value in ast.iter_fields(node) if isinstance(value, list)):
                    yield from self._imported([item for item in inner if isinstance(item, ast.stmt)], scope)

    def longest_chain(self, prefix: str, scope: Scope = Scope.AT_IMPORT) -> list[str]:
        """The longest path of imports within a package; all modules of a circle of imports count.

        RecursionError where imports that run at import close a circle: Python could not import it either.
        """
        imports = {
            name: {item for item in items if item.startswith(prefix)}
            for name, items in self.find_imports(scope).items()
            if name.startswith(prefix)
        }
        circles = _find_circles(imports)
        if scope is Scope.AT_IMPORT and (circle := next((sorted(item) for item in circles.values()), None)):
            raise RecursionError(f"a circle of imports: {circle}")
        best: dict[str, list[str]] = {}

        def follow(name: str) -> list[str]:
            if name not in best:
                circle = circles.get(name, frozenset({name}))
                beyond = sorted({item for member in circle for item in imports[member]} - circle)
                path = [*sorted(circle), *max((follow(item) for item in beyond), key=len, default=[])]
                best.update(dict.fromkeys(circle, path))
            return best[name]

        return max((follow(name) for name in imports), key=len)


def _find_circles(imports: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    """The modules that import each other, by each of them; modules in no circle are left out."""
    reached: dict[str, set[str]] = {}
    for name in imports:
        seen, pending = set[str](), [name]
        while pending:
            fresh = imports[pending.pop()] - seen
            seen |= fresh
            pending.extend(fresh)
        reached[name] = seen
    return {
        name: frozenset(other for other in items if name in reached[other])
        for name, items in reached.items()
        if name in items
    }


def _is_read(node: ast.stmt, scope: Scope) -> bool:
    """Whether imports within this statement count."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return scope is not Scope.AT_IMPORT
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return scope is Scope.ALL
    return True


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a call ran through, of this package alone."""

    functions: int
    defs: int
    """Those that have a name in the source."""
    modules: int


def trace(call: Callable[[], object]) -> Trace:
    """Run it, and count the distinct functions and their modules."""
    functions = set[tuple[str, str]]()
    root = str(source.ROOT / "src" / "windlass")

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            functions.add((code.co_filename, code.co_name))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    defs = sum(not name.startswith("<") for _, name in functions)
    return Trace(len(functions), defs, len({module for module, _ in functions}))


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

    def chain(scope: Scope) -> int:
        return len(structure.longest_chain("windlass", scope))

    rows = [
        ("modules", f"{len(structure.trees)}, {len(structure.trees) - len(sizes)} of them a package's docstring alone"),
        ("lines", f"{sum(structure.lines.values()):,}"),
        ("lines of a module with code", f"median {median(sizes):.0f}, longest {max(sizes)}"),
        (f"modules with code below {SHORT} lines", f"{short} ({short / len(sizes):.0%})"),
        ("longest import chain inside the engine", f"{len(structure.longest_chain('windlass.engine'))} modules"),
        ("longest import chain", f"{chain(Scope.AT_IMPORT)} modules"),
        ("the same with imports inside functions", f"{chain(Scope.AT_RUN_TIME)} modules"),
        ("the same with imports for type checkers alone", f"{chain(Scope.ALL)} modules"),
        (
            "one decision for one pending pod",
            f"{decision.functions} functions, {decision.defs} of them `def`s, in {decision.modules} modules",
        ),
    ]
    return "\n".join(["| measure | value |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)])
