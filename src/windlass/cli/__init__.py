"""The command line: one module per command.

Contents: reading arguments and files, printing. No decision is made here. A command's module imports what the command
needs when it runs, so that `windlass --help` starts fast.
"""

import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import cyclopts
from cyclopts import Parameter

from windlass import errors, product
from windlass.cli import error_messages, terminal_output
from windlass.cli.apiserver import apiserver
from windlass.cli.autoscaler import autoscaler, exit_process
from windlass.cli.capture import capture_
from windlass.cli.completion import completion
from windlass.cli.explain import explain, plan, status
from windlass.cli.fit import fit
from windlass.cli.operator import operator
from windlass.cli.replay import replay_
from windlass.cli.simulate import simulate
from windlass.cli.sweep import sweep
from windlass.cli.top import top


def find_program(path: str) -> str:
    """How the command was called, as a user writes it: `kubectl windlass` for the plugin of kubectl."""
    name = Path(path).name.removesuffix(".exe").replace("_", "-")
    return f"kubectl {product.PROGRAM}" if name == f"kubectl-{product.PROGRAM}" else product.PROGRAM


PROGRAM = find_program(sys.argv[0])
"""What usage and help call the program."""

HELP = "help"
"""`windlass help COMMAND` is `windlass COMMAND --help`."""

AUTOSCALER = "autoscaler"
"""The command with pflag's syntax: its arguments bypass cyclopts, which only lists the command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `windlass` command and exit; `arguments` default to those of the process."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == [AUTOSCALER]:
        _run_autoscaler(words[1:])
    if words[:1] == [HELP]:
        words = [*words[1:], "--help"]
    with error_messages.one_line_errors(), terminal_output.checked_stdout():
        app(words, exit_on_error=False, print_error=False)


def _run_autoscaler(words: Sequence[str]) -> None:
    """Arguments are passed on unchanged, empty ones included: `--user-agent "" --dry-run` has to be a dry run."""
    with terminal_output.checked_stdout():
        try:
            exit_process(autoscaler(*words))
        except errors.WindlassError as error:
            error_messages.end(str(error))


def version_line() -> str:
    """The one line of `--version`."""
    return f"windlass {product.version()}"


app = cyclopts.App(
    name=PROGRAM,
    help="A node autoscaler for Kubernetes that can say why.",
    version=version_line,
)

app.command(apiserver)


app.command(autoscaler, name=AUTOSCALER, help_flags=(), version_flags=())


app.command(capture_, name="capture", usage=f"Usage: {PROGRAM} capture [OPTIONS] [FLAGS]")


app.command(completion, usage=f"Usage: {PROGRAM} completion bash|zsh|fish")


app.command(explain, usage=f"Usage: {PROGRAM} explain [OPTIONS] pod|node|group NAME [FLAGS]")


app.command(fit, usage=f"Usage: {PROGRAM} fit [OPTIONS] FILE...")


app.command(operator)


app.command(plan, usage=f"Usage: {PROGRAM} plan [OPTIONS] [FLAGS]")


app.command(replay_, name="replay", usage=f"Usage: {PROGRAM} replay [OPTIONS] FILE")


app.command(simulate, usage=f"Usage: {PROGRAM} simulate [OPTIONS] [SCENARIO...]")


app.command(status, usage=f"Usage: {PROGRAM} status [OPTIONS] [FLAGS]")


app.command(sweep, usage=f"Usage: {PROGRAM} sweep [OPTIONS] SCENARIO --try FLAG=VALUES...")


app.command(top, usage=f"Usage: {PROGRAM} top [OPTIONS] [FLAGS]")


def version(*, output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text") -> int:
    """Print the versions of windlass, Python and NumPy, and the platform.

    Parameters
    ----------
    output
        `text` for people, `json` for programs.
    """
    import json
    import platform

    versions = {
        "windlass": product.version(),
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
        "numpy": importlib.metadata.version("numpy"),
    }
    print(
        json.dumps(versions) if output == "json" else "\n".join(f"{name:9} {value}" for name, value in versions.items())
    )
    return 0


app.command(version)
