"""`windlass explain`, `windlass status` and `windlass plan`: reasons for pods, nodes and groups, the state of the
cluster, and what the next loop would do.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from windlass import errors
from windlass.cli import answer_output, query_source, terminal_output

if TYPE_CHECKING:
    from windlass.explain import explain_context, queries
    from windlass.explain.cluster import ClusterExplanation

Flags = Annotated[str, Parameter(name="FLAGS", allow_leading_hyphen=True)]

NOT_FOUND = 1
"""Exit code: there is no such object."""


def explain(
    kind: Annotated[Literal["pod", "node", "group"], Parameter(name="KIND")],
    name: Annotated[str, Parameter(name="NAME")],
    /,
    *flags: Flags,
    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = "default",
    output: answer_output.Output = "text",
    watch: answer_output.Watch = False,
    address: str | None = None,
    recording: Path | None = None,
    at: str | None = None,
) -> int:
    """Explain why a pod is pending and what would help, why a node is not removed, or the state of a node group.

    Queries a running autoscaler (--address, or WINDLASS_ADDRESS) or a recording (--recording, --at). Without either,
    asks the leader in the cluster of the current kubeconfig, through the API server; if none can be asked, or with
    flags that change decisions, reads that cluster and runs one decision without acting on it.

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
        `text` for people, `json` or `yaml` for programs, `name` for the object alone. `wide` is `text`.
    watch
        Explain again whenever something changed, until Ctrl-C.
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
    if not name.isprintable() or not namespace.isprintable():
        raise errors.InvalidInput(f"found {namespace!r}, {name!r}: expected the name of a {kind}")
    question = ExplainQuery(SubjectKind(kind), name, namespace if kind == "pod" else "")
    source = query_source.find_source(address, recording, at, flags)
    _check_watch(source, is_watched=watch)
    try:
        answer_output.show(lambda: query_source.run_query(question, source), output, is_watched=watch)
    except query_source.ObjectNotFound as error:
        print(f"windlass: {error}", file=sys.stderr)
        return NOT_FOUND
    return 0


def _check_watch(source: query_source.QuerySource, *, is_watched: bool) -> None:
    if is_watched and source.recording is not None:
        raise errors.InvalidInput("--watch: found with --recording, which does not change; expected one of them")


def status(
    *flags: Flags,
    namespace: Annotated[str | None, Parameter(name="-n")] = None,
    all_namespaces: Annotated[bool, Parameter(name=["--all-namespaces", "-A"], negative=())] = False,
    output: answer_output.Output = "text",
    watch: answer_output.Watch = False,
    address: str | None = None,
    recording: Path | None = None,
    at: str | None = None,
) -> int:
    """Show node groups, pending pods, nodes being removed, and what the next loop would do.

    Queries a running autoscaler (--address, or WINDLASS_ADDRESS) or a recording (--recording, --at). Without either,
    asks the leader in the cluster of the current kubeconfig, through the API server; if none can be asked, or with
    flags that change decisions, reads that cluster and runs one decision without acting on it.

    Parameters
    ----------
    flags
        Flags of `windlass autoscaler`, where the cluster itself is read: --kubeconfig, --expander …
    namespace
        Show pending pods of this namespace alone. (--namespace is the autoscaler's flag: where its own objects are.)
    all_namespaces
        Show pending pods of all namespaces, which is the default.
    output
        `text` for people, `wide` with prices and without limits, `json` or `yaml` for programs, `name` for the names of
        node groups and pending pods.
    watch
        Show the status again whenever it changed, until Ctrl-C.
    address
        Address of a running autoscaler: HOST:PORT, as in its --address flag.
    recording
        File written by `windlass autoscaler --record`.
    at
        Time within the recording: 2026-11-16T02:30:00Z, or 45m after its beginning; its end by default.
    """
    # Imported late, so that `windlass status --help` does not load NumPy.
    from windlass.explain.queries import ExplainQuery, SubjectKind

    source = query_source.find_source(address, recording, at, flags)
    _check_watch(source, is_watched=watch)

    def ask() -> "queries.Explanation":
        account = query_source.run_query(ExplainQuery(SubjectKind.CLUSTER), source)
        return _of_namespace(account, None if all_namespaces else namespace)

    answer_output.show(ask, output, is_watched=watch)
    return 0


def _of_namespace(account: "queries.Explanation", namespace: str | None) -> "queries.Explanation":
    from windlass.explain import cluster

    if namespace is None or not isinstance(account, cluster.ClusterExplanation):
        return account
    return answer_output.of_namespace(account, namespace)


def plan(
    *flags: Flags,
    namespace: Annotated[str | None, Parameter(name="-n")] = None,
    all_namespaces: Annotated[bool, Parameter(name=["--all-namespaces", "-A"], negative=())] = False,
    output: answer_output.Output = "text",
    watch: answer_output.Watch = False,
) -> int:
    """Read the cluster of the current kubeconfig, decide once, and print what the next loop would do and why.

    Takes the flags of `windlass autoscaler` (--kubeconfig among them) and decides with them. Changes nothing: no size,
    no taint, no pod, no object of its own. Timers, requests and backoffs come from the memory of the windlass that runs
    in the cluster, if it can be read; otherwise they start empty.

    Parameters
    ----------
    flags
        Flags of `windlass autoscaler`.
    namespace
        Show pending pods of this namespace alone. (--namespace is the autoscaler's flag: where its own objects are.)
    all_namespaces
        Show pending pods of all namespaces, which is the default.
    output
        `text` for people, `wide` without limits, `json` or `yaml` for programs, `name` for the names of the node groups
        and nodes that the loop would change.
    watch
        Read and decide again, and print the plan whenever it changed, until Ctrl-C.
    """
    source = query_source.QuerySource(flags=flags)
    answer_output.repeat(
        lambda: _plan(source, None if all_namespaces else namespace),
        lambda planned: _print_plan(*planned, output),
        lambda planned: replace(planned[0], at_s=0.0),
        output,
        is_watched=watch,
    )
    return 0


def _plan(
    source: query_source.QuerySource, namespace: str | None
) -> "tuple[ClusterExplanation, explain_context.ExplainContext]":
    from windlass.explain import cluster

    at = query_source.load_explain_context(source)
    account = cluster.explain_cluster(at)
    return account if namespace is None else answer_output.of_namespace(account, namespace), at


def _print_plan(
    account: "ClusterExplanation", at: "explain_context.ExplainContext", output: answer_output.Format
) -> None:
    from windlass.explain import explain_context, render_cluster

    if output == "name":
        print(*answer_output.step_names(account.steps), sep="\n", flush=True)
        return
    if output in ("json", "yaml"):
        answer_output.print_answer(account, output)
        return
    choice_explanations = [
        choice_explanation
        for proposal in at.decision.story.scale_ups
        if (choice_explanation := explain_context.explain_choice(proposal)) is not None
    ]
    style = terminal_output.style_for(sys.stdout)
    lines = render_cluster.render_plan(account, choice_explanations, style, is_wide=output == "wide")
    print(*lines, sep="\n", flush=True)
