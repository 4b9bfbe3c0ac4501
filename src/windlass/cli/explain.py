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
    """Explain why a pod is pending and what would help, why a node is not removed, or the state of a node group.

    Queries a running autoscaler (--address, or WINDLASS_ADDRESS) or a recording (--recording, --at). Without either,
    reads the cluster of the current kubeconfig and runs one decision without acting on it.

    Exit code: 0 for an explanation, 1 if there is no such object, 2 if no source could be queried.

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
        Address of a running autoscaler: HOST:PORT, as in its --address flag.
    recording
        File written by `windlass autoscaler --record`.
    at
        Time within the recording: 2026-11-16T02:30:00Z, or 45m after its beginning; its end by default.
    """
    # Imported late, so that `windlass explain --help` does not load NumPy.
    from windlass.explain.queries import ExplainQuery, SubjectKind

    if kind == "pod" and "/" in name:
        namespace, _, name = name.partition("/")
    question = ExplainQuery(SubjectKind(kind), name, namespace if kind == "pod" else "")
    return print_explanation(question, query_source.find_source(address, recording, at, flags), output)


def print_explanation(question: "queries.ExplainQuery", source: query_source.QuerySource, output: str) -> int:
    """Run a query and print the answer."""
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
    """Show node groups, pending pods, nodes being removed, and what the next loop would do.

    Queries a running autoscaler (--address, or WINDLASS_ADDRESS) or a recording (--recording, --at). Without either,
    reads the cluster of the current kubeconfig and runs one decision without acting on it.

    Parameters
    ----------
    flags
        Flags of `windlass autoscaler`, where the cluster itself is read: --kubeconfig, --expander …
    output
        `text` for people, `json` for programs.
    address
        Address of a running autoscaler: HOST:PORT, as in its --address flag.
    recording
        File written by `windlass autoscaler --record`.
    at
        Time within the recording: 2026-11-16T02:30:00Z, or 45m after its beginning; its end by default.
    """
    # Imported late, so that `windlass status --help` does not load NumPy.
    from windlass.explain.queries import ExplainQuery, SubjectKind

    return print_explanation(
        ExplainQuery(SubjectKind.CLUSTER), query_source.find_source(address, recording, at, flags), output
    )


def plan(*flags: Flags, output: Output = "text") -> int:
    """Read the cluster of the current kubeconfig, decide once, and print what the next loop would do and why.

    Takes the flags of `windlass autoscaler` (--kubeconfig among them) and decides with them. Changes nothing: no size,
    no taint, no pod, no object of its own. Timers, requests and backoffs come from the memory of the windlass that runs
    in the cluster, if it can be read; otherwise they start empty.

    Parameters
    ----------
    flags
        Flags of `windlass autoscaler`.
    output
        `text` for people, `json` for programs.
    """
    at = query_source.load_explain_context(query_source.QuerySource(flags=flags))
    _print_plan(at, output)
    return 0


def _print_plan(at: "explain_context.ExplainContext", output: str) -> None:
    from windlass.explain import cluster, explain_context, queries, render_cluster

    account = cluster.explain_cluster(at)
    if output == "json":
        print(queries.encode_explanation(account, indented=True).decode())
        return
    choice_explanations = [
        choice_explanation
        for proposal in at.decision.story.scale_ups
        if (choice_explanation := explain_context.explain_choice(proposal)) is not None
    ]
    print(*render_cluster.render_plan(account, choice_explanations, terminal_output.style_for(sys.stdout)), sep="\n")
