"""Flag reference: the help text for a terminal, and docs/flags.md."""

import ast
import functools
import inspect
import itertools
import textwrap
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from windlass.autoscaler.options import flag_values, flags, process_options
from windlass.engine.model import deviations, settings
from windlass.kube import time_formats

USAGE = "Usage: windlass autoscaler [--<flag>=<value> ...]"
INTRODUCTION = (
    "Adds nodes for pods that wait and removes nodes that are not needed, through Cluster API. It takes the flags of "
    "cluster-autoscaler with their types and defaults, and can stand in for it."
)
_RULES = (
    "Flags are read as Cluster Autoscaler reads them: `--flag=value` or `--flag value`; a bool is `--flag` or "
    "`--flag=false` and never takes the next word; underscores are dashes; `--` ends the flags. Durations are Go's: "
    "`1h30m`, `90s`, `500ms`. A flag that does not exist and a value that does not fit end the process with exit "
    "code 2 and say what is accepted. What is told of a flag may refer to the one above it."
)
_TITLES = {
    "deviations": "Where windlass decides otherwise than Cluster Autoscaler, each for itself.",
    "groups": "What holds for a node group that does not override it.",
}
_BEHAVIOR = (
    "windlass, or cluster-autoscaler: decide as the peer does. What is set by the flags below comes on top of either."
)
_SEED = "Where ties are drawn from: the same seed draws the same."


@dataclass(frozen=True, slots=True)
class FlagEntry:
    """One flag."""

    name: str
    takes: str
    default: str
    told: str


def find_sections() -> Iterator[tuple[str, list[FlagEntry]]]:
    """Title and flags of each section: first what a user looks for most."""
    wired = _group(process_options.ProcessOptions, flags.PROCESS_FLAGS)
    decided = _group(settings.Settings, flags.DECISION_FLAGS)
    yield wired.pop("mode")
    yield from decided.values()
    yield from wired.values()
    yield (
        "Old names.",
        [_describe_renamed(old, new) for old, new in flags.RENAMED_FLAGS.items()]
        + [_describe_renamed(old, new) for old, new in flags.FLAG_ALIASES.items()],
    )
    yield (
        "Flags that are accepted and change nothing.",
        [
            FlagEntry(name, flag_values.VALUE_KINDS[flag.read], flag.default, _capitalize(flag.why) + ".")
            for name, flag in sorted(flags.IGNORED_FLAGS.items())
        ],
    )


def format_text(width: int) -> str:
    """For a terminal of so many columns."""
    lines = [USAGE, "", *textwrap.wrap(INTRODUCTION, width)]
    for title, entries in find_sections():
        lines += ["", title]
        for entry in entries:
            default = f" (default {entry.default})" if entry.default else ""
            lines.append(f"  --{entry.name}  {entry.takes}{default}")
            lines += textwrap.wrap(entry.told, width, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines)


def format_markdown() -> str:
    """The document."""
    lines = [
        "# Flags",
        "",
        "<!-- Made by `python -m windlass.autoscaler.options.flag_help`; the texts are the docstrings of `engine/settings.py`,",
        "`engine/deviations.py` and `autoscaler/wiring.py`. -->",
        "",
        *textwrap.wrap(f"`windlass autoscaler` {INTRODUCTION[0].lower()}{INTRODUCTION[1:]}", 120),
        "",
        *textwrap.wrap(_RULES, 120),
    ]
    for title, entries in find_sections():
        lines += ["", f"## {title.rstrip('.')}", "", "| flag | takes | default | what it does |", "|---|---|---|---|"]
        lines += [
            f"| `--{entry.name}` | {entry.takes} | {f'`{entry.default}`' if entry.default else ''} | {entry.told} |"
            for entry in entries
        ]
    return "\n".join(lines) + "\n"


def format_value(read: flag_values.ValueReader, value: object) -> str:
    """A value as it would be given."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return time_formats.format_duration(value) if read is flag_values.read_duration_s else f"{value:g}"
        case settings.Bounds(low, high):
            unit = settings.GIB if read is flag_values.read_gib_bounds else 1
            return f"{low // unit}:{high // unit}"
        case tuple():
            return ",".join(map(str, value))
    return str(value)


def _group(whole: type, table: Mapping[str, flags.Flag]) -> dict[str, tuple[str, list[FlagEntry]]]:
    """Title and flags by group, in the order of the fields."""
    found: dict[str, tuple[str, list[FlagEntry]]] = {}
    for group, kind in typing.get_type_hints(whole).items():
        entries = [_describe_flag(kind, flag) for flag in table.values() if flag.group == group]
        if group == "deviations":
            entries.insert(0, FlagEntry("behavior", "name", "windlass", _BEHAVIOR))
            entries.append(
                FlagEntry("seed", "whole number", format_value(flag_values.read_int, settings.Settings().seed), _SEED)
            )
        if entries:
            found[group] = _TITLES.get(group) or (inspect.getdoc(kind) or group).partition("\n")[0], entries
    return found


def _describe_flag(kind: type, flag: flags.Flag) -> FlagEntry:
    told = _read_docstrings()[kind.__name__, flag.field]
    return FlagEntry(flag.name, flag_values.VALUE_KINDS[flag.read], format_value(flag.read, flag.default), told)


def _describe_renamed(old: str, new: str) -> FlagEntry:
    return FlagEntry(old, flag_values.VALUE_KINDS[flags.READERS[old]], "", f"An old name of --{new}.")


@functools.cache
def _read_docstrings() -> dict[tuple[str, str], str]:
    """What stands under each field, by class and field. Python keeps it in the source only."""
    modules = (settings, deviations, process_options)
    return {found: told for module in modules for found, told in _read_module(module)}


def _read_module(module: ModuleType) -> Iterator[tuple[tuple[str, str], str]]:
    tree = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, under in itertools.pairwise(kind.body):
            match field, under:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(told))):
                    yield (kind.name, name), " ".join(told.split())


def _capitalize(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


if __name__ == "__main__":
    print(format_markdown(), end="")
