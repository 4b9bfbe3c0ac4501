"""The chart's schema, list of flags and README: made from values.yaml, tools/chart_schema.yaml and the commands."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml

from tools import cli_reference, markdown_tables, source_analysis
from windlass.autoscaler.options import command_line, flag_values

CHART = source_analysis.ROOT / "deploy" / "helm" / "windlass"
_TYPES = Path(__file__).with_name("chart_schema.yaml")
_README = Path(__file__).with_name("chart_readme.md")
_MARK = "# -- "

_KINDS: Mapping[str, dict[str, Any]] = {
    "bool": {"type": ["boolean", "string"], "pattern": f"^({'|'.join(sorted(flag_values.BOOL_TEXTS))})$"},
    # A number needs its unit, unless it is zero.
    "duration": {
        "type": ["string", "number"],
        "pattern": r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
        "minimum": 0,
        "maximum": 0,
    },
    "whole number": {"type": ["integer", "string"]},
    "number": {"type": ["number", "string"]},
}
"""By what a flag takes; anything else is text, or what YAML reads it as."""
_SCALAR = {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart."""

    path: tuple[str, ...]
    told: str
    """Its comment; empty without one."""
    default: object

    def __str__(self) -> str:
        return ".".join(self.path)


def find_values() -> list[Value]:
    """Every value that has a comment of its own, and every other that has no values below it, in order."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    return list(_find(root, text.splitlines(), ()))


def _find(node: yaml.MappingNode, lines: list[str], above: tuple[str, ...]) -> Iterator[Value]:
    for key, value in node.value:
        path, told = (*above, key.value), _comment(lines, key.start_mark.line)
        if told or not isinstance(value, yaml.MappingNode) or not value.value:
            yield Value(path, told, yaml.safe_load(yaml.serialize(value)))
        else:
            yield from _find(value, lines, path)


def _comment(lines: list[str], at: int) -> str:
    """The lines above a key, from the last that begins with the mark."""
    found: list[str] = []
    while at and lines[at - 1].lstrip().startswith("#"):
        at -= 1
        line = lines[at].strip()
        if line.startswith(_MARK):
            return " ".join([line.removeprefix(_MARK), *reversed(found)])
        found.append(line.removeprefix("#").strip())
    return ""


def find_flags() -> dict[str, dict[str, dict[str, Any]]]:
    """What each flag of each process takes, by name without dashes, as a schema with its sentence."""
    return {
        "autoscaler": {
            entry.name: _flag(entry.takes.partition(",")[0], entry.told, ", repeatable" in entry.takes)
            for _, entries in command_line.find_sections()
            for entry in entries
        },
        "operator": dict(_find_operator_flags()),
    }


def _flag(kind: str, told: str, is_repeatable: bool) -> dict[str, Any]:
    taken = _KINDS.get(kind, _SCALAR)
    if is_repeatable:
        taken = {"anyOf": [taken, {"type": "array", "items": taken}]}
    return {"description": told, **taken}


def _find_operator_flags() -> Iterator[tuple[str, dict[str, Any]]]:
    kinds = {bool: "bool", int: "whole number", float: "number"}
    for argument in cli_reference.find()["operator"].assemble_argument_collection(parse_docstring=True):
        hint = argument.hint
        kind = next((kinds[each] for each in (hint, *get_args(hint)) if each in kinds), "text")
        for name in argument.names:
            if name.startswith("--"):
                yield name.removeprefix("--"), _flag(kind, argument.parameter.help or "", is_repeatable=False)


def make_schema() -> str:
    """values.schema.json."""
    types = yaml.safe_load(_TYPES.read_text(encoding="utf-8"))
    told = {value.path: value.told for value in find_values()}
    taken = find_flags()

    def make(found: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        description = {"description": told[path]} if told.get(path) else {}
        if "flags" in found:
            # Names of flags are judged by the templates, which suggest the nearest one.
            return {"type": "object", **description, "properties": taken[path[0]]}
        if "properties" not in found:
            return {**description, **found}
        below = {name: make(item, (*path, name)) for name, item in found["properties"].items()}
        return {"type": "object", **description, "additionalProperties": False, "properties": below}

    schema = make({"properties": types["properties"]}, ())
    schema["properties"]["global"] = {"type": "object", "description": "Of a chart that has this one as a part."}
    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "windlass",
        "description": "Values of the chart.",
    }
    return json.dumps(head | {"description": "Values of the chart."} | schema, indent=2, ensure_ascii=False) + "\n"


def make_flags() -> str:
    """files/flags.yaml: the names by process, for the templates that refuse others."""
    names = {component: sorted(taken) for component, taken in find_flags().items()}
    return "# Made by `make reference` from the commands.\n" + yaml.safe_dump(names, sort_keys=True)


def make_readme() -> str:
    """README.md of the chart."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    head, _, foot = _README.read_text(encoding="utf-8").partition("<!-- values -->\n")
    lines = head.replace("{kubernetes}", about["kubeVersion"].removeprefix(">=").removesuffix(".0-0")).split("\n", 2)
    lines[1:1] = ["", markdown_tables.MADE]
    rows = [(markdown_tables.code(str(value)), _to_text(value.default), value.told) for value in find_values()]
    lines += markdown_tables.table(("value", "default", "what it is"), rows)
    return "\n".join(lines) + foot


def _to_text(default: object) -> str:
    text = json.dumps(default, ensure_ascii=False)
    return markdown_tables.code(text) if len(text) <= 80 else "see `values.yaml`"


FILES: Mapping[Path, Callable[[], str]] = {
    CHART / "values.schema.json": make_schema,
    CHART / "files" / "flags.yaml": make_flags,
    CHART / "README.md": make_readme,
}


def write() -> list[Path]:
    """Write what is missing or no longer true; which."""
    stale = find_stale()
    for path in stale:
        path.write_text(FILES[path](), encoding="utf-8")
    return stale


def find_stale() -> list[Path]:
    """Files that are missing, or say something else than what they are made from."""
    return [path for path, make in FILES.items() if not path.exists() or path.read_text(encoding="utf-8") != make()]
