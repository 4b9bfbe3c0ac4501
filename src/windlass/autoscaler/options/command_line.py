"""Command line: splits arguments by pflag's rules into settings and process options."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from windlass.autoscaler import scheduler_config
from windlass.autoscaler.options import flag_values, flags, process_options
from windlass.engine.model import settings
from windlass.errors import InvalidInput

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
    chosen = flags.parse_settings(given)
    wired = flags.parse_process_options(given)
    if wired.objects.scheduler_config_file:
        try:
            profile = scheduler_config.load_profile(Path(wired.objects.scheduler_config_file))
        except InvalidInput as error:
            raise InvalidInput(f"--scheduler-config-file: {error}") from error
        chosen = replace(chosen, filters=profile.filters)
    return AutoscalerCommand(
        chosen,
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
