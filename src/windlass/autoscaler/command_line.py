"""The command line of Cluster Autoscaler, read as it reads it: by pflag's rules.

    --flag=value  --flag value      any flag but a bool
    --flag  --flag=false            a bool, which never takes the next word
    -v=4  -v 4  -v4                 the one flag with a short name
    --a_flag                        as --a-flag
    --                              ends the flags

Of a flag given several times all values count where it takes several, the last elsewhere. Words that belong to no flag
are passed over, with a warning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from windlass.autoscaler import flag_values, flags, scheduler_config, wiring
from windlass.engine import settings
from windlass.errors import InvalidInput

SHORT = {"v": "v"}
"""Flags that have a name of one letter."""
HELP = ("help", "h")
HARMLESS = frozenset({"dry-run", "shadow"})
"""Flags that keep windlass from acting. No other flag takes one of them for its value: pflag would, but Cluster
Autoscaler has neither, so no command line of its own is refused for that."""


@dataclass(slots=True)
class Words:
    """What the words of a command line spell."""

    given: dict[str, list[str]] = field(default_factory=dict)
    """Values by flag, in order."""
    stray: list[str] = field(default_factory=list)
    """Words that belong to no flag."""
    wants_help: bool = False
    swallowed: list[tuple[str, str]] = field(default_factory=list)
    """(flag, value) where the value is the next word and spells a flag itself."""


@dataclass(frozen=True, slots=True)
class Command:
    """What the user wants."""

    settings: settings.Settings
    wiring: wiring.Wiring
    warnings: tuple[str, ...] = ()
    """What is worth telling about how it was said."""


def split(arguments: Sequence[str]) -> Words:
    """The words sorted out. InvalidInput if a flag does not exist or lacks its value."""
    words = Words()
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


def read(words: Words) -> Command:
    """The settings and the wiring. InvalidInput says which flag, what was found and what is accepted."""
    chosen = flags.read_flags(words.given)
    wired = flags.read_wiring(words.given)
    if wired.objects.scheduler_config_file:
        try:
            profile = scheduler_config.load(Path(wired.objects.scheduler_config_file))
        except InvalidInput as error:
            raise InvalidInput(f"--scheduler-config-file: {error}") from error
        chosen = replace(chosen, filters=profile.filters)
    return Command(chosen, wired, (*flags.find_warnings(words.given), *_tell_stray(words), *_tell_swallowed(words)))


def _split_long(word: str, rest: Iterator[str], words: Words) -> None:
    spelled, equals, value = word[2:].partition("=")
    if not spelled or spelled.startswith("-"):
        raise InvalidInput(f"{word}: found no name of a flag, expected --<flag> or --<flag>=<value>")
    name = spelled.replace("_", "-")
    if name == HELP[0]:
        words.wants_help = True
    elif name not in flags.READERS:
        raise InvalidInput(f"--{spelled}: there is no such flag{flags.suggest(name)}")
    else:
        words.given.setdefault(name, []).append(value if equals else _take_value(name, rest, words))


def _split_short(word: str, rest: Iterator[str], words: Words) -> None:
    letter, value = word[1], word[2:]
    if letter == HELP[1]:
        words.wants_help = True
    elif letter not in SHORT:
        raise InvalidInput(f"{word}: there is no such flag{_suggest_long(word)}")
    else:
        name = SHORT[letter]
        long_enough = value.startswith("=") and len(value) > 1
        words.given.setdefault(name, []).append((value[1:] if long_enough else value) or _take_value(name, rest, words))


def _take_value(name: str, rest: Iterator[str], words: Words) -> str:
    if flags.READERS[name] in flag_values.BOOLS:
        return "true"
    value = next(rest, None)
    if value is None:
        raise InvalidInput(f"--{name}: found no value, expected one ({flag_values.KINDS[flags.READERS[name]]})")
    spelled = value[2:].partition("=")[0].replace("_", "-") if value.startswith("--") else ""
    if spelled in HARMLESS:
        raise InvalidInput(f"--{name}: found {value!r}, expected a value; without one write --{name}= and then {value}")
    if spelled in flags.READERS:
        words.swallowed.append((name, value))
    return value


def _suggest_long(word: str) -> str:
    """Go's own flags are spelled with one dash, and klog's documentation still says so."""
    name = word[1:].partition("=")[0].replace("_", "-")
    return f"; did you mean --{name}?" if name in flags.READERS else flags.suggest(name)


def _tell_stray(words: Words) -> Iterator[str]:
    for word in words.stray:
        note = "; the value of a bool is given as --flag=false" if word in flag_values.TRUTHS else ""
        yield f"{word!r} belongs to no flag and is ignored{note}"


def _tell_swallowed(words: Words) -> Iterator[str]:
    for name, value in words.swallowed:
        yield (
            f"--{name}: takes {value!r}, which spells a flag, for its value, as pflag does; that flag is not set "
            f"(write --{name}= for an empty value)"
        )
