"""Source: the project's own modules, read and not run, and what strings an expression in them can be."""

import ast
import functools
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PACKAGE = "windlass"


class Module:
    """A module. It is parsed when someone looks into it: most are only asked whether they mention a word."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @functools.cached_property
    def values(self) -> Mapping[str, ast.expr]:
        """What names at its top, and fields of its classes, are set to."""
        return dict(_find_values(self.tree.body))

    @functools.cached_property
    def imports(self) -> Mapping[str, str]:
        """The full name of what each imported name stands for."""
        return dict(_find_imports(self.tree))

    def find_calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Every call, and the last part of what is called."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                match node.func:
                    case ast.Name(id=name) | ast.Attribute(attr=name):
                        yield name, node


@functools.cache
def modules() -> Mapping[str, Module]:
    """All modules of the package, by name."""
    source = ROOT / "src"
    paths = sorted((source / _PACKAGE).rglob("*.py"))
    return {module.name: module for module in (_read(path, source) for path in paths)}


def resolve(module: Module, expression: ast.expr) -> Iterator[str]:
    """The strings that an expression can be, as far as the source tells: constants, by whatever name, and choices."""
    match expression:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=item, orelse=other):
            yield from resolve(module, item)
            yield from resolve(module, other)
        case ast.BoolOp(values=several) | ast.Tuple(elts=several) | ast.Set(elts=several):
            for entry in several:
                yield from resolve(module, entry)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from (one + other for one in resolve(module, left) for other in resolve(module, right))
        case ast.Name(id=name):
            yield from _resolve_name(module, name)
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in module.imports:
            home = modules().get(module.imports[owner])
            if home is not None:
                yield from _resolve_name(home, name)


def find_told(module: str, kind: str) -> Iterator[tuple[str, ast.stmt, str]]:
    """(name, statement, docstring under it) of each field or member of a class; empty where there is none."""
    for node in modules()[module].tree.body:
        if isinstance(node, ast.ClassDef) and node.name == kind:
            for field, under in itertools.zip_longest(node.body, node.body[1:]):
                match field:
                    case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                        yield name, field, _read_docstring(under)


def _read_docstring(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(told))):
            return " ".join(told.split())
    return ""


def _resolve_name(module: Module, name: str) -> Iterator[str]:
    if name in module.values:
        yield from resolve(module, module.values[name])
    elif name in module.imports:
        home, _, imported = module.imports[name].rpartition(".")
        if home in modules():
            yield from _resolve_name(modules()[home], imported)


def _read(path: Path, source: Path) -> Module:
    parts = path.relative_to(source).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path.read_text(encoding="utf-8"))


def _find_values(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=found)):
                pairs = zip(targets, found, strict=False)
                yield from ((target.id, value) for target, value in pairs if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.ClassDef(body=inside):
                yield from _find_values(inside)


def _find_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(home), names=names):
                yield from ((alias.asname or alias.name, f"{home}.{alias.name}") for alias in names)
            case ast.Import(names=names):
                yield from ((alias.asname, alias.name) for alias in names if alias.asname)
