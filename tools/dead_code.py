"""Unused: functions, methods, classes and constants of the package that nothing in the package mentions.

What only tests use is code that no user runs, and a rule that only tests apply is no rule. A definition is found by its
name: one that is mentioned anywhere else, as a name, an attribute, an argument or a string, counts as used.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tools import source_analysis

_FOREIGN = (
    "windlass.autoscaler.grpc_expander.expander_pb2",
    "windlass.autoscaler.grpc_expander.kubernetes_pb2",
    "windlass.kube.scheme",
    "windlass.tui",
)
"""Read by libraries, by name: fields and methods, and what is generated."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Something with a name."""

    module: str
    name: str
    """With its class, if it is inside one."""
    node: ast.stmt

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def word(self) -> str:
        return self.name.rpartition(".")[2]


def find() -> Iterator[Definition]:
    """What nothing else in the package mentions."""
    own = {name: Counter(_find_mentions(module.tree)) for name, module in source_analysis.modules().items()}
    mentions: Counter[str] = Counter()
    for counted in own.values():
        mentions.update(counted)
    for text in _read_tools():
        mentions.update(_find_mentions(ast.parse(text)))
    for name, module in source_analysis.modules().items():
        if name.startswith(_FOREIGN):
            continue
        for definition in _find_definitions(name, module.tree.body):
            word = definition.word
            if mentions[word] == own[name][word] and own[name][word] == _count(word, definition.node):
                yield definition


def find_unimported() -> Iterator[str]:
    """Modules that no other imports, and that are no command and no package."""
    imported: set[str] = set()
    for tree in (*(module.tree for module in source_analysis.modules().values()), *map(ast.parse, _read_tools())):
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    imported.update(item.name for item in names)
                case ast.ImportFrom(module=str(home), names=names):
                    imported.update((home, *(f"{home}.{entry.name}" for entry in names)))
    scripts = (source_analysis.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in source_analysis.modules():
        is_file = (source_analysis.ROOT / "src" / name.replace(".", "/")).with_suffix(".py").exists()
        if is_file and name not in imported and not name.endswith("__main__") and f'"{name}:' not in scripts:
            yield name


def _read_tools() -> Iterator[str]:
    """The generators of documents and manifests, which read some constants for users."""
    return (path.read_text(encoding="utf-8") for path in sorted((source_analysis.ROOT / "tools").glob("*.py")))


def _count(word: str, node: ast.AST) -> int:
    return sum(1 for mentioned in _find_mentions(node) if mentioned == word)


def find_unread(module: str, kind: str) -> Iterator[str]:
    """Fields of a class of settings that are read nowhere: an attribute of this name is loaded in no other module."""
    fields = {name for name, *_ in source_analysis.find_told(module, kind)}
    for name, other in source_analysis.modules().items():
        if name != module and any(field in other.text for field in fields):
            fields -= {
                node.attr for node in ast.walk(other.tree)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
            }  # fmt: skip
    own = source_analysis.modules()[module].tree
    fields -= {node.attr for node in ast.walk(own) if isinstance(node, ast.Attribute)}
    yield from sorted(fields)


def _find_definitions(module: str, body: list[ast.stmt], owner: str = "") -> Iterator[Definition]:
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not _is_dunder(name) and not statement.decorator_list:
                    yield Definition(module, owner + name, statement)
            case ast.ClassDef(name=name, body=inside):
                yield Definition(module, owner + name, statement)
                if not any("Protocol" in ast.dump(base) for base in statement.bases):
                    functions = [item for item in inside if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
                    yield from _find_definitions(module, list(functions), f"{name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if not owner:
                if not _is_dunder(name):
                    yield Definition(module, name, statement)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _find_mentions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.ImportFrom(names=names):
                yield from (item.name for item in names)
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield text
            case ast.AnnAssign(annotation=ast.Constant(value=str(text))):
                yield from _find_quoted(text)
            case ast.arg(annotation=ast.Constant(value=str(text))):
                yield from _find_quoted(text)


def _find_quoted(annotation: str) -> Iterator[str]:
    """What an annotation in quotes mentions, unless it is a plain word, which is found as it is."""
    if not annotation.isidentifier():
        yield from _find_mentions(ast.parse(annotation, mode="eval"))
