"""`windlass status`: the whole cluster on one screen."""

from pathlib import Path

from windlass.cli import asking
from windlass.cli.explain import Flags, Output, answer


def status(
    *flags: Flags,
    output: Output = "text",
    address: str | None = None,
    recording: Path | None = None,
    at: str | None = None,
) -> int:
    """Show groups, pending pods, nodes on their way out, and what the next loop would do.

    Asks a running autoscaler (--address, or WINDLASS_ADDRESS), a recording (--recording, --at), or else reads the
    cluster of the current kubeconfig and decides once what the next loop would do, changing nothing.

    Parameters
    ----------
    flags
        Flags of `windlass autoscaler`, where the cluster itself is read: --kubeconfig, --expander …
    output
        `text` for people, `json` for programs.
    address
        Where an autoscaler serves: HOST:PORT, its own --address.
    recording
        A file that `windlass autoscaler --record` wrote.
    at
        The time within the recording: 2026-11-16T02:30:00Z, or 45m after its beginning. Without: its end.
    """
    # Not before they are needed: `windlass status --help` should not wait for NumPy.
    from windlass.explain.questions import About, Question

    return answer(Question(About.CLUSTER), asking.find_source(address, recording, at, flags), output)
