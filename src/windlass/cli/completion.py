"""`windlass completion`: a shell script that completes commands, options and flags.

cyclopts generates it from the commands. The autoscaler's flags have pflag's syntax, so they are added as options
for completion only. kubectl completes `kubectl windlass` by a program of its own, `kubectl_complete-windlass`.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import cyclopts
from cyclopts import Parameter

from windlass import product

if TYPE_CHECKING:
    from windlass.autoscaler.options import command_line


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a script that completes commands, options and flags with the Tab key.

    For this shell alone: `source <(windlass completion bash)`. For good: write it where the shell looks for such
    scripts, as ~/.local/share/bash-completion/completions/windlass, _windlass in a directory of zsh's $fpath, or
    ~/.config/fish/completions/windlass.fish.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from windlass import cli

    told = cyclopts.App(name=product.PROGRAM, help=cli.app.help, version=cli.app.version)
    for name in cli.app:
        if name == "autoscaler":
            told.command(_autoscaler_command(), name=name)
        elif not name.startswith("-"):
            told.command(cli.app[name], name=name)
    print(told.generate_completion(shell=shell), end="")
    return 0


_NO_FILES, _FILES = ":4", ":0"
"""Last line of what kubectl reads: whether names of files are offered as well."""

_FLAGS_OF_THE_AUTOSCALER = ("autoscaler", "capture", "explain", "plan", "status", "top")
"""Commands that take them."""

_WORDS = {"explain": ("pod", "node", "group"), "completion": ("bash", "zsh", "fish")}
"""First words after a command."""


def kubectl_complete(words: Sequence[str] | None = None) -> None:
    """Run as `kubectl_complete-windlass`: kubectl passes the words after `kubectl windlass`, the last one unfinished.

    It prints one candidate per line, with a description after a tab, and a directive in the last line.
    """
    *before, last = (sys.argv[1:] if words is None else words) or [""]
    candidates, directive = _find_candidates(before, last)
    for name, told in candidates.items():
        if name.startswith(last):
            print(f"{name}\t{told}" if told else name)
    print(directive)


def _find_candidates(before: Sequence[str], last: str) -> tuple[dict[str, str], str]:
    from windlass import cli
    from windlass.cli import scenario_input

    commands = {name: _first_line(cli.app[name].help) for name in cli.app if not name.startswith("-")}
    if not before:
        return {**commands, cli.HELP: "Help for a command"}, _NO_FILES
    command = before[0]
    if command == cli.HELP and len(before) == 1:
        return commands, _NO_FILES
    if command not in commands:
        return {}, _NO_FILES
    if last.startswith("-"):
        return _options_of(command), _NO_FILES
    if len(before) == 1 and command in _WORDS:
        return dict.fromkeys(_WORDS[command], ""), _NO_FILES
    if command in ("simulate", "sweep") and not before[-1].startswith("-"):
        return dict.fromkeys(scenario_input.list_shipped(), ""), _FILES
    return {}, _FILES


def _options_of(command: str) -> dict[str, str]:
    from windlass import cli

    found: dict[str, str] = {}
    if command != cli.AUTOSCALER:
        for argument in cli.app[command].assemble_argument_collection():
            found |= {name: _first_line(argument.parameter.help) for name in argument.names if name.startswith("--")}
    if command in _FLAGS_OF_THE_AUTOSCALER:
        from windlass.autoscaler.options import command_line

        for _, entries in command_line.find_sections():
            found |= {f"--{entry.name}": _first_line(entry.told) for entry in entries}
    return found


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _autoscaler_command() -> Callable[..., None]:
    """The autoscaler as a command with an option for each of its flags."""
    # Imported late, so that `windlass --help` does not load NumPy.
    from windlass.autoscaler.options import command_line
    from windlass.cli.autoscaler import autoscaler

    def command(**flags: object) -> None:
        """Never called: only its signature is read."""

    entries = {entry.name: entry for _, flag_entries in command_line.find_sections() for entry in flag_entries}
    command.__doc__ = inspect.getdoc(autoscaler)
    command.__signature__ = inspect.Signature(list(map(_flag_parameter, entries.values())))  # type: ignore[attr-defined]
    return command


def _flag_parameter(entry: "command_line.FlagEntry") -> inspect.Parameter:
    told = Parameter(name=f"--{entry.name}", help=entry.told, negative=())
    option = Annotated[bool | None, told] if entry.takes == "bool" else Annotated[str | None, told]
    name = entry.name.replace("-", "_")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
