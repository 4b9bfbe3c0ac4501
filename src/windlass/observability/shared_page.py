"""Shared page files: the scripts and the style of the history, for the dashboard and for reports.

The dashboard serves them as modules. A report has to be one file: `bundle_scripts` joins modules into one script.
"""

import importlib.resources
import re
from collections.abc import Iterator
from importlib.resources.abc import Traversable

_FOLDER = "page"

_MODULES = (
    # Each imports earlier ones only.
    "dom",
    "format",
    "turns",
    "time_axis",
    "view_state",
    "plot",
    "history_filter",
    "history_curves",
    "history_tools",
    "decision_lanes",
    "story_marks",
    "history_view",
    "decision_detail",
)

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([a-z_]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function) ([\w$]+))", re.MULTILINE)


def list_files() -> Iterator[Traversable]:
    """All files."""
    yield from importlib.resources.files(__package__).joinpath(_FOLDER).iterdir()


def read_file(name: str) -> str:
    """The text of one file."""
    return importlib.resources.files(__package__).joinpath(_FOLDER, name).read_text(encoding="utf-8")


def bundle_scripts(script: str) -> str:
    """All shared modules and a script that imports them, as one script. Each keeps its names to itself."""
    parts = [
        '"use strict";',
        *(_wrap_module(name) for name in _MODULES),
        f"(() => {{\n{_resolve_imports(script)}}})();",
    ]
    return "\n".join(parts)


def _wrap_module(name: str) -> str:
    text = read_file(f"{name}.js")
    exported = ", ".join(_EXPORT.findall(text))
    return f"const {name}_js = (() => {{\n{_EXPORT.sub('', _resolve_imports(text))}return {{ {exported} }};\n}})();"


def _resolve_imports(text: str) -> str:
    return _IMPORT.sub(r"const \1 = \2_js;", text)
