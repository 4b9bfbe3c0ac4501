"""Questions to ask, from a few names."""

from collections.abc import Sequence

from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import BestOptionsResponse, ExpansionOption, SchedulablePods

GIB = 2**30
CREATED_S = 1_700_000_000.0
OWNER = facts.Owner("apps/v1", "ReplicaSet", "web", "uid-web")


def node(name: str, **more: object) -> facts.Node:
    amounts = (("cpu", 4000), ("memory", 16 * GIB), ("pods", 110))
    return facts.Node(name, labels={"group": name}, allocatable=amounts, capacity=amounts, **more)  # type: ignore[arg-type]


def pod(name: str, **more: object) -> facts.Pod:
    spec = facts.PodSpec(requests=(("cpu", 500), ("memory", GIB)))
    fields: dict[str, object] = {"uid": f"uid-{name}", "owner": OWNER, "spec": spec, "created_s": CREATED_S, **more}
    return facts.Pod("default", name, **fields)  # type: ignore[arg-type]


def ask(groups: Sequence[str] = ("a", "b"), pods: Sequence[facts.Pod] = (pod("p0"), pod("p1"))) -> BestOptionsRequest:
    """Each group would help all pods with two nodes; there is a node of each, and one of a group that is no option."""
    options = tuple(
        ExpansionOption(group, node(group), 2, (SchedulablePods(pods[0], len(pods)),), debug=group) for group in groups
    )
    return BestOptionsRequest(
        options, (tuple(pods),) * len(options), {group: node(group) for group in (*groups, "other")}
    )


def opinion(*groups: str) -> BestOptionsResponse:
    return BestOptionsResponse(ask().about, groups)
