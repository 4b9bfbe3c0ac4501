"""The command line: one module per command.

Lives here: reading arguments and files, printing. Never here: a decision, or knowledge of how one is made. A command's
module imports what the command needs when it runs, so that `windlass --help` answers at once.
"""

import importlib.metadata
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import cyclopts
from cyclopts import Parameter

from windlass import errors
from windlass.cli import terminal_output
from windlass.cli.apiserver import apiserver
from windlass.cli.autoscaler import autoscaler, exit_process
from windlass.cli.completion import completion
from windlass.cli.explain import explain, plan, status
from windlass.cli.fit import fit
from windlass.cli.operator import operator
from windlass.cli.replay import replay_
from windlass.cli.simulate import simulate
from windlass.cli.sweep import sweep
from windlass.cli.top import top

UNUSABLE = 2
"""Exit code for input that cannot be used, flags and files alike."""

AUTOSCALER = "autoscaler"
"""The command whose words are pflag's: they never pass through the library, which is here to list it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `windlass` command and exit; `arguments` are those of the process unless told."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    with terminal_output.checked_stdout():
        try:
            if words[:1] == [AUTOSCALER]:
                # Word for word, empty ones included: `--user-agent "" --dry-run` has to be dry.
                exit_process(autoscaler(*words[1:]))
            app(words)
        except errors.WindlassError as error:
            print(f"windlass: {error}", file=sys.stderr)
            sys.exit(UNUSABLE)


def version_line() -> str:
    """The one line of `--version`."""
    return f"windlass {importlib.metadata.version('windlass')}"


app = cyclopts.App(
    name="windlass",
    help="A node autoscaler for Kubernetes that can say why.",
    version=version_line,
)

app.command(apiserver)


app.command(autoscaler, name=AUTOSCALER, help_flags=(), version_flags=())


app.command(completion, usage="Usage: windlass completion bash|zsh|fish")


app.command(explain, usage="Usage: windlass explain [OPTIONS] pod|node|group NAME [FLAGS]")


app.command(fit, usage="Usage: windlass fit [OPTIONS] FILE...")


app.command(operator)


app.command(plan, usage="Usage: windlass plan [OPTIONS] [FLAGS]")


app.command(replay_, name="replay", usage="Usage: windlass replay [OPTIONS] FILE")


app.command(simulate, usage="Usage: windlass simulate [OPTIONS] SCENARIO...")


app.command(status, usage="Usage: windlass status [OPTIONS] [FLAGS]")


app.command(sweep, usage="Usage: windlass sweep [OPTIONS] SCENARIO --try FLAG=VALUES...")


app.command(top, usage="Usage: windlass top [OPTIONS]")


def version(*, output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text") -> int:
    """Print the version of windlass, of Python, and of what decisions depend on.

    Parameters
    ----------
    output
        `text` for people, `json` for programs.
    """
    import json
    import platform

    found = {
        "windlass": importlib.metadata.version("windlass"),
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
        "numpy": importlib.metadata.version("numpy"),
    }
    print(json.dumps(found) if output == "json" else "\n".join(f"{name:9} {value}" for name, value in found.items()))
    return 0


app.command(version)
