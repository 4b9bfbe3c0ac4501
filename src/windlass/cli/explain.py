"""`windlass explain`, `windlass status` and `windlass plan`: reasons for pods, nodes and groups, the state of the
cluster, and what the next loop would do.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from windlass.cli import query_source, terminal_output

if TYPE_CHECKING:
    from windlass.explain import explain_context, queries

Output = Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])]

Flags = Annotated[str, Parameter(name="FLAGS", allow_leading_hyphen=True)]

NOT_FOUND = 1
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
    from windlass.explain.queries import ExplainQuery, SubjectKind

    if kind == "pod" and "/" in name:
        namespace, _, name = name.partition("/")
    question = ExplainQuery(SubjectKind(kind), name, namespace if kind == "pod" else "")
    return print_explanation(question, query_source.find_source(address, recording, at, flags), output)


def print_explanation(question: "queries.ExplainQuery", source: query_source.QuerySource, output: str) -> int:
    """Ask and print."""
    try:
        account = query_source.run_query(question, source)
    except query_source.ObjectNotFound as error:
        print(f"windlass: {error}", file=sys.stderr)
        return NOT_FOUND
    query_source.print_answer(account, output)
    return 0


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
    from windlass.explain.queries import ExplainQuery, SubjectKind

    return print_explanation(
        ExplainQuery(SubjectKind.CLUSTER), query_source.find_source(address, recording, at, flags), output
    )


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
    at = query_source.load_look(query_source.QuerySource(flags=flags))
    _print_plan(at, output)
    return 0


def _print_plan(at: "explain_context.ExplainContext", output: str) -> None:
    from windlass.explain import cluster, explain_context, queries, render_cluster

    account = cluster.explain_cluster(at)
    if output == "json":
        print(queries.encode_explanation(account, indented=True).decode())
        return
    chosen = [
        one for proposal in at.decision.story.scale_ups if (one := explain_context.explain_choice(proposal)) is not None
    ]
    print(*render_cluster.render_plan(account, chosen, terminal_output.style_for(sys.stdout)), sep="\n")
