"""`windlass plan`: what would the next loop do, and why? Nothing is done."""

import sys
from typing import TYPE_CHECKING

from windlass.cli import asking, style
from windlass.cli.explain import Flags, Output

if TYPE_CHECKING:
    from windlass.explain import look


def plan(*flags: Flags, output: Output = "text") -> int:
    """Read the cluster of the current kubeconfig, decide once, and print what the next loop would do and why.

    Takes the flags of `windlass autoscaler` (--kubeconfig among them) and decides with them. Changes nothing: no size,
    no taint, no pod, no object of its own. Timers, requests and backoffs are those of the windlass that runs there, if
    one does and its memory can be read; otherwise it decides as one that has just started would.

    Parameters
    ----------
    flags
        Flags of `windlass autoscaler`.
    output
        `text` for people, `json` for programs.
    """
    at = asking.take_look(asking.Source(flags=flags))
    _print(at, output)
    return 0


def _print(at: "look.Look", output: str) -> None:
    from windlass.explain import choices, cluster, document
    from windlass.explain.telling import cluster as telling

    account = cluster.describe(at)
    if output == "json":
        print(document.write(account, indented=True).decode())
        return
    chosen = [one for proposal in at.decision.story.scale_ups if (one := choices.describe(proposal)) is not None]
    print(*telling.tell_plan(account, chosen, style.of_stream(sys.stdout)), sep="\n")
