"""Where a module can be changed, and what it is called: names that stay the same when lines move."""

import ast
import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.mutation import operators

ROOT = Path(__file__).parents[2]
_SOURCES = ROOT / "src"
_LEFT_ALONE = ("decorator_list", "annotation", "returns", "type_comment", "bases", "ctx")


@dataclass(frozen=True, slots=True)
class Change:
    """One piece of code and what is put in its place, while the change lasts."""

    name: str
    """Module, function, what was there and what is: the same as long as the code is."""
    path: Path
    tree: ast.Module
    function: str | None
    """The outermost function that it is in, by its qualified name; None where the module's own lines change."""
    first_line: int
    last_line: int
    """Of the statement that it is in, without the statements in that."""
    parent: ast.AST
    field: str
    index: int | None
    before: ast.AST
    after: ast.AST

    @property
    def module(self) -> str:
        return module_name(self.path)

    def compile(self) -> object:
        """The module's code with the change in it."""
        with self._made():
            return compile(ast.fix_missing_locations(self.tree), str(self.path), "exec")

    @contextlib.contextmanager
    def _made(self) -> Iterator[None]:
        self._put(ast.copy_location(self.after, self.before))
        try:
            yield
        finally:
            self._put(self.before)

    def _put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


@dataclass(frozen=True, slots=True)
class _Scope:
    """What surrounds a node."""

    names: tuple[str, ...] = ()
    function: str | None = None
    statement: ast.stmt | None = None


def module_name(path: Path) -> str:
    parts = path.relative_to(_SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def changes(path: Path) -> list[Change]:
    """All changes of a module, in the order of its lines."""
    tree = ast.parse(path.read_text("utf-8"))
    seen: Counter[str] = Counter()
    short = module_name(path).split(".", 2)[-1]
    found = []
    for scope, parent, field, index, node in _walk(tree, _Scope()):
        statement = scope.statement
        if statement is None:
            continue
        for after in operators.replacements(node, parent):
            name = f"{'.'.join((short, *scope.names))}: {_to_text(node)} → {_to_text(after)}"
            seen[name] += 1
            if seen[name] > 1:
                name += f" ({seen[name]})"
            function, (first, last) = scope.function, _lines(statement)
            found.append(Change(name, path, tree, function, first, last, parent, field, index, node, after))
    return found


def _walk(node: ast.AST, scope: _Scope) -> Iterator[tuple[_Scope, ast.AST, str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if field in _LEFT_ALONE:
            continue
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if isinstance(child, ast.AST) and not _says_nothing(child):
                inner = _enter(child, _around(node, scope) if field == "args" else scope)
                yield inner, node, field, index, child
                yield from _walk(child, inner)


def _enter(node: ast.AST, scope: _Scope) -> _Scope:
    if isinstance(node, ast.ClassDef):
        return _Scope((*scope.names, node.name), scope.function, node)
    if isinstance(node, ast.FunctionDef):
        names = (*scope.names, node.name)
        return _Scope(names, scope.function or ".".join(names), node)
    return _Scope(scope.names, scope.function, node) if isinstance(node, ast.stmt) else scope


def _around(node: ast.AST, scope: _Scope) -> _Scope:
    """Defaults of arguments are looked at where a function is made, not where it runs."""
    is_outermost = isinstance(node, ast.FunctionDef) and scope.function == ".".join(scope.names)
    return replace(scope, function=None) if is_outermost else scope


def _says_nothing(node: ast.AST) -> bool:
    """Docstrings, imports, types, and what is raised where the code says that it never comes to it."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__")]):
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
        case ast.Call(func=ast.Name(id="TypeVar" | "NewType" | "cast")):
            return True
        case ast.BinOp(op=ast.BitOr(), right=ast.Constant(value=None)):
            return True
    return False


def _lines(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return statement.lineno, max(last, statement.lineno)


def _to_text(node: ast.AST) -> str:
    line = " ".join(ast.unparse(node).split())
    return line if len(line) <= 90 else line[:60] + "…" + line[-25:]
