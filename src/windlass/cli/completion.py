"""`windlass completion`: a shell script that completes commands, options and flags.

cyclopts generates it from the commands. The autoscaler's flags have pflag's syntax, so they are added as options
for completion only.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import cyclopts
from cyclopts import Parameter

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

    told = cyclopts.App(name=cli.app.name, help=cli.app.help, version=cli.app.version)
    for name in cli.app:
        if name == "autoscaler":
            told.command(_autoscaler_command(), name=name)
        elif not name.startswith("-"):
            told.command(cli.app[name], name=name)
    print(told.generate_completion(shell=shell), end="")
    return 0


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
