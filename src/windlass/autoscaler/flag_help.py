"""What is told about flags: for a terminal, and as docs/flags.md.

Everything comes from where the flags come from: the docstring under a field says what its flag does, the docstring of
its class what it has in common with its neighbours. `python -m windlass.autoscaler.flag_help` prints the document.
"""

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

from windlass.autoscaler import flag_names, flag_values, flags, wiring
from windlass.engine import deviations, settings
from windlass.kube import durations

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
class Entry:
    """One flag."""

    name: str
    takes: str
    default: str
    told: str


def find_sections() -> Iterator[tuple[str, list[Entry]]]:
    """Title and flags of each section: first what a user looks for most."""
    wired = _group(wiring.Wiring, flags.WIRING)
    decided = _group(settings.Settings, flags.FLAGS)
    yield wired.pop("mode")
    yield from decided.values()
    yield from wired.values()
    yield (
        "Old names.",
        [_tell_old(old, new) for old, new in flag_names.OLD_NAMES.items()]
        + [_tell_old(old, new) for old, new in flag_names.ADDED_NAMES.items()],
    )
    yield (
        "Flags that are accepted and change nothing.",
        [
            Entry(name, flag_values.KINDS[flag.read], flag.default, _capitalize(flag.why) + ".")
            for name, flag in sorted(flag_names.WITHOUT_EFFECT.items())
        ],
    )


def text(width: int) -> str:
    """For a terminal of so many columns."""
    lines = [USAGE, "", *textwrap.wrap(INTRODUCTION, width)]
    for title, entries in find_sections():
        lines += ["", title]
        for entry in entries:
            default = f" (default {entry.default})" if entry.default else ""
            lines.append(f"  --{entry.name}  {entry.takes}{default}")
            lines += textwrap.wrap(entry.told, width, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines)


def markdown() -> str:
    """The document."""
    lines = [
        "# Flags",
        "",
        "<!-- Made by `python -m windlass.autoscaler.flag_help`; the texts are the docstrings of `engine/settings.py`,",
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


def spell(read: flag_values.Reader, value: object) -> str:
    """A value as it would be given."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return durations.spell(value) if read is flag_values.read_duration_s else f"{value:g}"
        case settings.Bounds(low, high):
            unit = settings.GIB if read is flag_values.read_gib_bounds else 1
            return f"{low // unit}:{high // unit}"
        case tuple():
            return ",".join(map(str, value))
    return str(value)


def _group(whole: type, table: Mapping[str, flags.Flag]) -> dict[str, tuple[str, list[Entry]]]:
    """Title and flags by group, in the order of the fields."""
    found: dict[str, tuple[str, list[Entry]]] = {}
    for group, kind in typing.get_type_hints(whole).items():
        entries = [_tell(kind, flag) for flag in table.values() if flag.group == group]
        if group == "deviations":
            entries.insert(0, Entry("behavior", "name", "windlass", _BEHAVIOR))
            entries.append(Entry("seed", "whole number", spell(flag_values.read_int, settings.Settings().seed), _SEED))
        if entries:
            found[group] = _TITLES.get(group) or (inspect.getdoc(kind) or group).partition("\n")[0], entries
    return found


def _tell(kind: type, flag: flags.Flag) -> Entry:
    told = _read_docstrings()[kind.__name__, flag.field]
    return Entry(flag.name, flag_values.KINDS[flag.read], spell(flag.read, flag.default), told)


def _tell_old(old: str, new: str) -> Entry:
    return Entry(old, flag_values.KINDS[flags.READERS[old]], "", f"An old name of --{new}.")


@functools.cache
def _read_docstrings() -> dict[tuple[str, str], str]:
    """What stands under each field, by class and field. Python keeps it in the source only."""
    modules = (settings, deviations, wiring)
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
    print(markdown(), end="")
