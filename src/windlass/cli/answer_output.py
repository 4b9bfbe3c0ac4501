"""Output of explanations, in kubectl's formats: text, wide text, JSON, YAML and names; once, or at every change."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Parameter

from windlass.cli import terminal_output

if TYPE_CHECKING:
    from windlass.explain import queries
    from windlass.explain.cluster import ClusterExplanation, PlanStep

T = TypeVar("T")

Format = Literal["text", "wide", "json", "yaml", "name"]

Output = Annotated[Format, Parameter(name=["--output", "-o"])]

Watch = Annotated[bool, Parameter(name=["--watch", "-w"], negative=())]

WATCH_PERIOD_S = 2.0
"""Time between two queries of --watch."""

_API_GROUPS = {
    "MachineDeployment": "machinedeployment.cluster.x-k8s.io",
    "MachinePool": "machinepool.cluster.x-k8s.io",
    "MachineSet": "machineset.cluster.x-k8s.io",
}


def print_answer(account: "queries.Explanation", output: Format) -> None:
    """Print an explanation on standard output."""
    print(*_format_answer(account, output), sep="\n", flush=True)


def _format_answer(account: "queries.Explanation", output: Format) -> Iterable[str]:
    from windlass.explain import cluster, queries, render_cluster

    if output in ("json", "yaml"):
        return [format_json(queries.encode_explanation(account), output)]
    if output == "name":
        return _names_of(account)
    style = terminal_output.style_for(sys.stdout)
    if output == "wide" and isinstance(account, cluster.ClusterExplanation):
        return render_cluster.render_cluster_explanation(account, style, is_wide=True)
    return queries.render_explanation(account, style)


def format_json(encoded: bytes, output: str) -> str:
    """JSON for people, or the same as YAML."""
    import msgspec
    import yaml

    if output == "json":
        return msgspec.json.format(encoded, indent=2).decode()
    text: str = yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=False, allow_unicode=True)
    return text.rstrip("\n")


def _names_of(account: "queries.Explanation") -> Iterator[str]:
    """Names as kubectl takes them: of the object, or of all node groups and pending pods of a cluster."""
    from windlass.explain import cluster, groups, nodes, pods

    match account:
        case pods.PodExplanation():
            yield f"pod/{account.key.partition('/')[2]}"
        case nodes.NodeExplanation():
            yield f"node/{account.name}"
        case groups.GroupExplanation():
            yield group_name(account.id)
        case cluster.ClusterExplanation():
            yield from (group_name(group.id) for group in account.groups)
            yield from (f"pod/{pending.pod.partition('/')[2]}" for pending in account.waiting)


def group_name(id_: str) -> str:
    """The name of a node group's object: `machinedeployment.cluster.x-k8s.io/workers`."""
    kind, _, rest = id_.partition("/")
    return f"{_API_GROUPS.get(kind, kind.lower())}/{rest.rpartition('/')[2]}"


def step_names(steps: "Iterable[PlanStep]") -> list[str]:
    """Names of the objects that a plan changes, each once."""
    targets = [step.target for step in steps if step.target]
    return list(dict.fromkeys(group_name(target) if "/" in target else f"node/{target}" for target in targets))


def of_namespace(account: "ClusterExplanation", namespace: str) -> "ClusterExplanation":
    """The cluster with pending pods of one namespace alone."""
    waiting = tuple(pending for pending in account.waiting if pending.pod.startswith(f"{namespace}/"))
    return replace(account, waiting=waiting, pending=sum(pending.count for pending in waiting))


def show(ask: "Callable[[], queries.Explanation]", output: Format, *, is_watched: bool) -> None:
    """Print an explanation; with `is_watched` again whenever it changed, until Ctrl-C."""
    repeat(ask, lambda account: print_answer(account, output), lambda account: replace(account, at_s=0.0), output,
           is_watched=is_watched)  # fmt: skip


def repeat(
    ask: Callable[[], T], print_: Callable[[T], None], compared: Callable[[T], object], output: Format, *,
    is_watched: bool,
) -> None:  # fmt: skip
    """Ask and print; with `is_watched` again whenever `compared` of what was asked differs, until Ctrl-C."""
    last: object = None
    while True:
        found = ask()
        if not is_watched:
            print_(found)
            return
        if (now := compared(found)) != last:
            if last is not None and output != "name":
                print("---" if output == "yaml" else "")
            print_(found)
            last = now
        time.sleep(WATCH_PERIOD_S)
