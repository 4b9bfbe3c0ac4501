"""A static call graph of Python sources: who refers to a function, a class or a constant, transitively.

    graph = CallGraph.read(root, "windlass")
    graph.find_path("windlass.engine.taints.add", {"windlass.engine.loop.decide"}.__contains__, is_of_the_engine)

It errs on the side of use: a reference counts as a call, and an attribute of a value whose type is not known counts as
one of every method of that name. Names of methods that builtin containers have, as `remove`, say too little for that:
they count only in modules that import the method's module.
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

BUILTIN_METHODS = frozenset(name for kind in (dict, list, set, str, tuple) for name in dir(kind))
BODY = "<body>"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Node:
    """A function, method, class or constant at the top of a module, and what it refers to."""

    name: str
    """With its module: `package.module.Class.method`."""
    module: str
    is_method: bool = False
    is_callable: bool = True
    """A function, a method or a class."""
    names: set[str] = field(default_factory=set)
    """Whole names that it refers to."""
    attributes: set[str] = field(default_factory=set)
    """Of values of unknown type."""


class Module:
    """One source: its nodes, and what its names stand for."""

    def __init__(self, name: str, source: str, modules: Iterable[str]) -> None:
        self.name, self._known = name, frozenset(modules)
        self.imports: dict[str, str] = {}
        self.nodes: dict[str, Node] = {}
        tree = ast.parse(source)
        for statement in ast.walk(tree):
            self._import(statement)
        self._own = {item for statement in tree.body for item in _defined(statement)}
        for statement in tree.body:
            self._read(statement)

    def _import(self, statement: ast.AST) -> None:
        if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            for alias in statement.names:
                self.imports[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.asname:
                    self.imports[alias.asname] = alias.name

    def _read(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            return
        if isinstance(statement, ast.ClassDef):
            whole = self._add(statement.name)
            for part in statement.body:
                if isinstance(part, _FUNCTIONS):
                    self._collect(part, self._add(f"{statement.name}.{part.name}", is_method=True), statement.name)
                else:
                    self._collect(part, whole, statement.name)
            for expression in (*statement.bases, *statement.keywords, *statement.decorator_list):
                self._collect(expression, whole, statement.name)
            return
        for name in _defined(statement) or [BODY]:
            is_callable = isinstance(statement, _FUNCTIONS)
            self._collect(statement, self._add(name, is_callable=is_callable), "")

    def _add(self, name: str, is_method: bool = False, is_callable: bool = True) -> Node:
        node = Node(f"{self.name}.{name}", self.name, is_method, is_callable)
        return self.nodes.setdefault(name, node)

    def _collect(self, tree: ast.AST, into: Node, owner: str) -> None:
        """A module counts as referred to where it is a value, not where an attribute of it is."""
        parts = list(ast.walk(tree))
        within = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
        local = {name for part in parts for name in _bound(part)} if isinstance(tree, _FUNCTIONS) else set[str]()
        for part in parts:
            if isinstance(part, ast.Attribute):
                self._collect_attribute(part, into, owner, local)
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                whole = self._find(part.id, local)
                if whole is not None and (whole not in self._known or id(part) not in within):
                    into.names.add(whole)

    def _collect_attribute(self, part: ast.Attribute, into: Node, owner: str, local: AbstractSet[str]) -> None:
        whole = self._resolve(part, local)
        if whole is not None:
            into.names.add(whole)
        elif isinstance(part.value, ast.Name) and part.value.id in ("self", "cls") and owner:
            into.names.add(f"{self.name}.{owner}.{part.attr}")
            into.attributes.add(part.attr)  # or a base class has it
        else:
            into.attributes.add(part.attr)

    def _resolve(self, part: ast.expr, local: AbstractSet[str]) -> str | None:
        """The whole name that an expression stands for, where it is one of a module, or of a class."""
        if isinstance(part, ast.Name):
            return self._find(part.id, local)
        if isinstance(part, ast.Attribute) and (whole := self._resolve(part.value, local)) is not None:
            is_class = whole.rpartition(".")[2].lstrip("_")[:1].isupper()
            return f"{whole}.{part.attr}" if whole in self._known or is_class else None
        return None

    def _find(self, name: str, local: AbstractSet[str]) -> str | None:
        if name in local:
            return None
        if name in self.imports:
            return self.imports[name]
        return f"{self.name}.{name}" if name in self._own else None


class CallGraph:
    """The nodes of many modules, and who refers to them."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.modules = {name: Module(name, text, sources) for name, text in sources.items()}
        self.nodes = {node.name: node for module in self.modules.values() for node in module.nodes.values()}
        self._named: dict[str, set[str]] = defaultdict(set)
        self._mentioned: dict[str, set[str]] = defaultdict(set)
        for node in self.nodes.values():
            for name in node.names:
                self._named[self.follow(name)].add(node.name)
            for attribute in node.attributes:
                self._mentioned[attribute].add(node.name)

    @classmethod
    def read(cls, root: Path, package: str) -> "CallGraph":
        """The package that lies in this folder."""
        sources = {}
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
        return cls(sources)

    def follow(self, name: str) -> str:
        """The name under which something is defined that another module may pass on."""
        module, _, last = name.rpartition(".")
        while module in self.modules and last not in self.modules[module].nodes and name not in self.modules:
            passed_on = self.modules[module].imports.get(last)
            if passed_on is None or passed_on == name:
                break
            name = passed_on
            module, _, last = name.rpartition(".")
        return name

    def find_direct(self, module: Module) -> Iterator[str]:
        """The functions, methods and classes of this graph that a module outside it refers to.

        Of an attribute, those methods count whose class is in a module that it imports.
        """
        imported = {item for item in self._list_imported(module)}
        attributes = {entry for node in module.nodes.values() for entry in node.attributes}
        names = {self.follow(name) for node in module.nodes.values() for name in node.names}
        for name, node in self.nodes.items():
            is_used = node.is_method and node.module in imported and name.rpartition(".")[2] in attributes
            if node.is_callable and (name in names or is_used):
                yield name

    def _list_imported(self, module: Module) -> Iterator[str]:
        for whole in module.imports.values():
            found = self.follow(whole)
            yield found if found in self.modules else found.rpartition(".")[0]

    def list_referrers(self, name: str) -> set[str]:
        """The nodes that may call this one."""
        found, node = set(self._named[name]), self.nodes[name]
        owner, _, last = name.rpartition(".")
        if node.is_method and last.startswith("__"):
            return found | {owner} | self._named[owner]
        if node.is_method or self._named[node.module]:  # or its module is handed on as a value
            found |= {item for item in self._mentioned[last] if self._may_know(self.nodes[item], node, last)}
        return found - {name}

    def _may_know(self, one: Node, node: Node, attribute: str) -> bool:
        """May a value with this attribute, in one node, be of the other's class or module?"""
        if node.module in (one.module, *self._list_imported(self.modules[one.module])):
            return True
        return attribute not in BUILTIN_METHODS and one.module.split(".")[:2] == node.module.split(".")[:2]

    def find_path(self, name: str, is_root: Callable[[str], bool], passes: Callable[[str], bool]) -> list[str]:
        """How the nearest root refers to a node, by others that pass; empty where none does."""
        paths, left = {name: [name]}, [name]
        while left:
            last = left.pop(0)
            for item in sorted(self.list_referrers(last) - paths.keys()):
                paths[item] = [item, *paths[last]]
                if is_root(item):
                    return paths[item]
                if passes(item):
                    left.append(item)
        return []


def _bound(part: ast.AST) -> Iterator[str]:
    """The names that a part of a function binds: they hide those of the module."""
    if isinstance(part, ast.arg):
        yield part.arg
    elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
        yield part.id


def _defined(statement: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    if isinstance(statement, ast.Assign):
        return [item.id for target in statement.targets for item in ast.walk(target) if isinstance(item, ast.Name)]
    return []
