"""Command line: splits arguments by pflag's rules into settings and process options.

Flag reference: the help text for a terminal, and docs/flags.md.
"""

import ast
import functools
import inspect
import itertools
import textwrap
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

from windlass.autoscaler import scheduler_config
from windlass.autoscaler.options import flag_values, flags, process_options
from windlass.engine.model import deviations, settings
from windlass.errors import InvalidInput
from windlass.kube import time_formats
from windlass.observability import options as observability_options

SHORT_FLAGS = {"v": "v"}
"""Flags that have a name of one letter."""
HELP_FLAGS = ("help", "h")
READ_ONLY_FLAGS = frozenset({"dry-run", "shadow"})
"""Flags that keep windlass from acting. Other flags never consume one of them as a value: pflag would, but Cluster
Autoscaler has neither, so no existing command line is rejected for it."""


@dataclass(slots=True)
class ParsedArguments:
    """Arguments of a command line by flag."""

    given: dict[str, list[str]] = field(default_factory=dict)
    """Values by flag, in order."""
    stray: list[str] = field(default_factory=list)
    """Words that belong to no flag."""
    wants_help: bool = False
    swallowed: list[tuple[str, str]] = field(default_factory=list)
    """(flag, value) where the value is the next word and has the form of a flag."""


@dataclass(frozen=True, slots=True)
class AutoscalerCommand:
    """Settings and process options of a command line."""

    settings: settings.Settings
    options: process_options.ProcessOptions
    behavior: str = ""
    """What the decisions follow, for the log."""
    warnings: tuple[str, ...] = ()
    """Warnings about the command line."""


def split_arguments(arguments: Sequence[str]) -> ParsedArguments:
    """Split arguments by flag. InvalidInput if a flag does not exist or lacks its value."""
    words = ParsedArguments()
    rest = iter(arguments)
    for word in rest:
        if word == "--":
            words.stray.extend(rest)
        elif word.startswith("--"):
            _split_long(word, rest, words)
        elif word.startswith("-") and word != "-":
            _split_short(word, rest, words)
        else:
            words.stray.append(word)
        if words.wants_help:
            break
    return words


def parse_command_line(words: ParsedArguments, default_behavior: str = "windlass") -> AutoscalerCommand:
    """Parse settings and process options. InvalidInput names the flag, the value and what is accepted."""
    given = {"behavior": [default_behavior], **words.given}
    selected = flags.parse_settings(given)
    wired = flags.parse_process_options(given)
    if wired.objects.scheduler_config_file:
        try:
            profile = scheduler_config.load_profile(Path(wired.objects.scheduler_config_file))
        except InvalidInput as error:
            raise InvalidInput(f"--scheduler-config-file: {error}") from error
        selected = replace(selected, filters=profile.filters)
    return AutoscalerCommand(
        selected,
        wired,
        flags.describe_behavior(given),
        (*flags.find_flag_warnings(given), *_describe_stray(words), *_describe_swallowed(words)),
    )


def _split_long(word: str, rest: Iterator[str], words: ParsedArguments) -> None:
    spelled, equals, value = word[2:].partition("=")
    if not spelled or spelled.startswith("-"):
        raise InvalidInput(f"{word}: found no flag name, expected --<flag> or --<flag>=<value>")
    name = spelled.replace("_", "-")
    if name == HELP_FLAGS[0]:
        words.wants_help = True
    elif name not in flags.READERS:
        raise InvalidInput(f"--{spelled}: unknown flag{flags.suggest_flag(name)}")
    else:
        words.given.setdefault(name, []).append(value if equals else _take_value(name, rest, words))


def _split_short(word: str, rest: Iterator[str], words: ParsedArguments) -> None:
    letter, value = word[1], word[2:]
    if letter == HELP_FLAGS[1]:
        words.wants_help = True
    elif letter not in SHORT_FLAGS:
        raise InvalidInput(f"{word}: unknown flag{_suggest_long(word)}")
    else:
        name = SHORT_FLAGS[letter]
        long_enough = value.startswith("=") and len(value) > 1
        words.given.setdefault(name, []).append((value[1:] if long_enough else value) or _take_value(name, rest, words))


def _take_value(name: str, rest: Iterator[str], words: ParsedArguments) -> str:
    if flags.READERS[name] in flag_values.BOOL_READERS:
        return "true"
    value = next(rest, None)
    if value is None:
        raise InvalidInput(f"--{name}: found no value, expected one ({flag_values.VALUE_KINDS[flags.READERS[name]]})")
    spelled = value[2:].partition("=")[0].replace("_", "-") if value.startswith("--") else ""
    if spelled in READ_ONLY_FLAGS:
        raise InvalidInput(f"--{name}: found {value!r}, expected a value; for an empty value write --{name}= {value}")
    if spelled in flags.READERS:
        words.swallowed.append((name, value))
    return value


def _suggest_long(word: str) -> str:
    """Suggest the long form: Go's flags also accept one dash, and klog's documentation uses it."""
    name = word[1:].partition("=")[0].replace("_", "-")
    return f"; did you mean --{name}?" if name in flags.READERS else flags.suggest_flag(name)


def _describe_stray(words: ParsedArguments) -> Iterator[str]:
    for word in words.stray:
        note = "; the value of a bool needs an equals sign: --flag=false" if word in flag_values.BOOL_TEXTS else ""
        yield f"{word!r} belongs to no flag and is ignored{note}"


def _describe_swallowed(words: ParsedArguments) -> Iterator[str]:
    for name, value in words.swallowed:
        yield (
            f"--{name}: takes the flag {value!r} as its value, like pflag; that flag is not set "
            f"(write --{name}= for an empty value)"
        )


USAGE = {
    "windlass": "Usage: windlass autoscaler [--<flag>=<value> ...]",
    "cluster-autoscaler": "Usage: cluster-autoscaler [--<flag>=<value> ...]",
}
"""Usage by default behavior: `cluster-autoscaler` is the entry point that decides as Cluster Autoscaler."""
INTRODUCTION = (
    "Adds nodes for unschedulable pods and removes unneeded nodes, through Cluster API. It accepts the flags of "
    "cluster-autoscaler with their types and defaults, and is a drop-in replacement for it."
)
_RULES = (
    "Flags are parsed like those of Cluster Autoscaler: `--flag=value` or `--flag value`; a bool is `--flag` or "
    "`--flag=false` and never takes the next word; underscores equal dashes; `--` ends the flags. Durations have Go's "
    "format: `1h30m`, `90s`, `500ms`. An unknown flag or an invalid value ends the process with exit code 2 and a "
    "message that says what is accepted."
)
_TITLES = {
    "deviations": "Deviations from Cluster Autoscaler, one flag each.",
    "groups": "Defaults of node groups, which annotations of a group override.",
}
_BEHAVIOR = (
    "windlass, or cluster-autoscaler to decide as Cluster Autoscaler does. Flags of single deviations override either. "
    "The entry point `cluster-autoscaler` has the second as its default, `windlass autoscaler` the first."
)
_SEED = "Seed for breaking ties: equal seeds give equal decisions."


@dataclass(frozen=True, slots=True)
class FlagEntry:
    """One flag of the reference."""

    name: str
    takes: str
    default: str
    told: str


def find_sections() -> Iterator[tuple[str, list[FlagEntry]]]:
    """Yield title and flags of each section, most used first."""
    wired = _group(process_options.ProcessOptions, flags.PROCESS_FLAGS)
    decided = _group(settings.Settings, flags.DECISION_FLAGS)
    yield wired.pop("mode")
    yield from decided.values()
    yield from wired.values()
    yield (
        "Deprecated names.",
        [_describe_renamed(old, new) for old, new in flags.RENAMED_FLAGS.items()]
        + [_describe_renamed(old, new) for old, new in flags.FLAG_ALIASES.items()],
    )
    yield (
        "Flags without effect, accepted for compatibility.",
        [
            FlagEntry(name, flag_values.VALUE_KINDS[flag.read], flag.default, _capitalize(flag.why) + ".")
            for name, flag in sorted(flags.IGNORED_FLAGS.items())
        ],
    )


def format_text(width: int, default_behavior: str) -> str:
    """Format the help text of the entry point with this default behavior, for a terminal of this width."""
    lines = [USAGE[default_behavior], "", *textwrap.wrap(INTRODUCTION, width)]
    for title, entries in find_sections():
        lines += ["", title]
        for entry in entries:
            shown = _default_with(default_behavior, entry)
            default = f" (default {shown})" if shown else ""
            lines.append(f"  --{entry.name}  {entry.takes}{default}")
            lines += textwrap.wrap(entry.told, width, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines)


def _default_with(default_behavior: str, entry: FlagEntry) -> str:
    if entry.name == "behavior":
        return default_behavior
    flag = flags.DECISION_FLAGS.get(entry.name)
    if flag is None or flag.group != "deviations":
        return entry.default
    return format_value(flag.read, getattr(flags.BEHAVIOR_PRESETS[default_behavior], flag.field))


def format_markdown() -> str:
    """Format docs/flags.md."""
    lines = [
        "# Flags",
        "",
        "<!-- Generated by `python -m windlass.autoscaler.options.command_line` from the docstrings of",
        "`engine/model/settings.py`, `engine/model/deviations.py`, `autoscaler/options/process_options.py` and",
        "`observability/options.py`. -->",
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
    """Format a value as a flag takes it."""
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
    """Return title and flags by group, in the order of the fields."""
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
    """Return the docstring under each field, by class and field. Python keeps it in the source only."""
    modules = (settings, deviations, process_options, observability_options)
    return {found: told for module in modules for found, told in _read_module(module)}


def _read_module(module: ModuleType) -> Iterator[tuple[tuple[str, str], str]]:
    tree = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for statement, under in itertools.pairwise(kind.body):
            match statement, under:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(told))):
                    yield (kind.name, name), " ".join(told.split())


def _capitalize(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


if __name__ == "__main__":
    print(format_markdown(), end="")
