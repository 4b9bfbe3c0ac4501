"""The command line: one file per command.

Lives here: reading arguments and files, printing. Never here: a decision, or knowledge of how one is made.

A command's module imports what the command needs when it is run, so that `windlass --help` answers at once.
"""

import sys
from collections.abc import Sequence

import cyclopts

from windlass import errors
from windlass.cli import output
from windlass.cli.apiserver import apiserver
from windlass.cli.autoscaler import autoscaler, leave
from windlass.cli.completion import completion
from windlass.cli.explain import explain
from windlass.cli.fit import fit
from windlass.cli.operator import operator
from windlass.cli.plan import plan
from windlass.cli.replay import replay_
from windlass.cli.simulate import simulate
from windlass.cli.status import status
from windlass.cli.sweep import sweep
from windlass.cli.top import top
from windlass.cli.version import tell, version

UNUSABLE = 2
"""Exit code for input that cannot be used, flags and files alike."""

AUTOSCALER = "autoscaler"
"""The command whose words are pflag's: they never pass through the library, which is here to list it."""

app = cyclopts.App(
    name="windlass",
    help="A node autoscaler for Kubernetes that can say why.",
    version=tell,
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
app.command(version)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `windlass` command and exit; `arguments` are those of the process unless told."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    with output.checked():
        try:
            if words[:1] == [AUTOSCALER]:
                # Word for word, empty ones included: `--user-agent "" --dry-run` has to be dry.
                leave(autoscaler(*words[1:]))
            app(words)
        except errors.WindlassError as error:
            print(f"windlass: {error}", file=sys.stderr)
            sys.exit(UNUSABLE)
