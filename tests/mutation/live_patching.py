"""Changes in a running process: a function is given other code, or a module is imported with other code in it."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

from tests.mutation import mutation_sites


def put_in(change: mutation_sites.Change) -> None:
    """Give the function in which the change is its changed code; whoever holds the function runs that from now on."""
    assert change.function is not None
    code = _find_code(change.compile(), change.function)
    _find_function(change.module, change.function).__code__ = code


def _find_function(module: str, qualname: str) -> types.FunctionType:
    found: Any = sys.modules[module]
    for name in qualname.split("."):
        found = vars(found)[name]
    while not isinstance(found, types.FunctionType):  # a property, a cached or a static function
        found = getattr(found, "fget", None) or getattr(found, "func", None) or found.__wrapped__
    return found


def _find_code(code: object, qualname: str) -> types.CodeType:
    if isinstance(code, types.CodeType):
        if code.co_qualname == qualname and code.co_name != "<module>":
            return code
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType) and (qualname + ".").startswith(_prefix(inner)):
                return _find_code(inner, qualname)
    raise LookupError(qualname)


def _prefix(code: types.CodeType) -> str:
    return code.co_qualname + "."


def import_anew(change: mutation_sites.Change) -> None:
    """Let everything of ours be imported once more, one module with a change in it."""
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("windlass", "tests", "testbed") and not name.startswith("tests.mutation"):
            del sys.modules[name]
    sys.meta_path.insert(0, _Importing(change))


class _Importing(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports one module with a change in it."""

    def __init__(self, change: mutation_sites.Change) -> None:
        self._change = change
        self._code = change.compile()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._change.module:
            return None
        where = self._change.path
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=str(where))
        if where.name == "__init__.py":
            spec.submodule_search_locations = [str(where.parent)]
        return spec

    def get_source(self, fullname: str) -> str:
        return self._change.path.read_text("utf-8")

    def exec_module(self, module: types.ModuleType) -> None:
        exec(self._code, vars(module))  # type: ignore[arg-type]  # compiled from a tree
