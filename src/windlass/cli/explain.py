"""`windlass explain`: why does this pod wait, why does this node stay, what is this group doing?"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from windlass.cli import asking, servers

if TYPE_CHECKING:
    from windlass.explain import questions

Output = Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])]
Flags = Annotated[str, Parameter(name="FLAGS", allow_leading_hyphen=True)]

UNKNOWN = 1
"""Exit code: there is no such object."""


def explain(
    kind: Annotated[Literal["pod", "node", "group"], Parameter(name="KIND")],
    name: Annotated[str, Parameter(name="NAME")],
    /,
    *flags: Flags,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = "default",
    output: Output = "text",
    address: str | None = None,
    recording: Path | None = None,
    at: str | None = None,
) -> int:
    """Say why a pod waits and what would help it, why a node stays or what it waits for, or what a group is doing.

    Asks a running autoscaler (--address, or WINDLASS_ADDRESS), a recording (--recording, --at), or else reads the
    cluster of the current kubeconfig and decides once what the next loop would do, changing nothing.

    Exit code: 0 if it could be said, 1 if there is no such object, 2 if nobody could be asked.

    Parameters
    ----------
    kind
        `pod`, `node` or `group`.
    name
        Its name. A pod may be given as namespace/name, a group by the end of its id.
    flags
        Flags of `windlass autoscaler`, where the cluster itself is read: --kubeconfig, --expander …
    namespace
        The pod's namespace.
    output
        `text` for people, `json` for programs.
    address
        Where an autoscaler serves: HOST:PORT, its own --address.
    recording
        A file that `windlass autoscaler --record` wrote.
    at
        The time within the recording: 2026-11-16T02:30:00Z, or 45m after its beginning. Without: its end.
    """
    # Not before they are needed: `windlass explain --help` should not wait for NumPy.
    from windlass.explain.questions import About, Question

    if kind == "pod" and "/" in name:
        namespace, _, name = name.partition("/")
    question = Question(About(kind), name, namespace if kind == "pod" else "")
    return answer(question, asking.find_source(address, recording, at, flags), output)


def answer(question: "questions.Question", source: asking.Source, output: str) -> int:
    """Ask and print."""
    try:
        account = asking.ask(question, source)
    except servers.NotFound as error:
        print(f"windlass: {error}", file=sys.stderr)
        return UNKNOWN
    asking.print_answer(account, output)
    return 0
