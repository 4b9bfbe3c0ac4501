"""Events of drains: begun, failed, and done."""

from collections.abc import Iterator, Mapping

from windlass.autoscaler.report import words
from windlass.engine import advance, decide, facts, plan
from windlass.engine.draining.progress import Failure, Why
from windlass.engine.draining.story import DrainStory
from windlass.engine.memory import DrainBegun
from windlass.engine.observation import Observation
from windlass.kube.events import NORMAL, WARNING, About, Occurrence

UNTOLD = frozenset({Why.MARK_REFUSED, Why.BATCH_FAILED, Why.ABANDONED})
"""What was refused has been told already; nodes that only went with another one's failure, or were only cleaned up,
have not failed."""


def tell_begun(decision: decide.Decision, status: About) -> Iterator[Occurrence]:
    """Which nodes are chosen to go."""
    drains, look = decision.memory.durable.drains, decision.story.scale_down.look
    for one in decision.plan:
        if not isinstance(one, plan.Drain):
            continue
        if drains[one.node].is_empty:
            yield Occurrence(status, NORMAL, "ScaleDownEmpty", f'Scale-down: removing empty node "{one.node}"')
            continue
        used = look.eligibility.utilization_of(one.node) if look is not None else None
        pods = ",".join(key.partition("/")[2] for key in one.evict)
        message = (
            f"Scale-down: removing node {one.node}, utilization: {words.utilization(used)}, pods to reschedule: {pods}"
        )
        yield Occurrence(status, NORMAL, "ScaleDown", message)


def tell_removed(node: str, drain: DrainBegun | None, status: About) -> Occurrence:
    """The provider agreed to delete a node's machine."""
    if drain is not None and drain.is_empty:
        return Occurrence(status, NORMAL, "ScaleDownEmpty", f"Scale-down: empty node {node} removed")
    return Occurrence(status, NORMAL, "ScaleDown", f"Scale-down: node {node} removed with drain")


# ── Failures ─────────────────────────────────────────────────────────────────────────────────────────────────────


def find_failed(
    advanced: advance.Advanced, before: Mapping[str, DrainBegun]
) -> Iterator[tuple[DrainStory, Failure, bool]]:
    """Drains that failed just now, and whether their nodes were empty. `before` are those known until now."""
    for told in advanced.story:
        begun = advanced.memory.durable.drains.get(told.node) or before.get(told.node)
        known = before.get(told.node)
        if told.failure is not None and (known is None or known.progress.failure != told.failure):
            yield told, told.failure, begun is not None and begun.is_empty


def find_unevicted(failure: Failure) -> list[str]:
    """Pods, as namespace/name, whose eviction was refused for too long."""
    if failure.why is not Why.EVICTION_REFUSED:
        return []
    return [detail.partition(": ")[0] for detail in failure.details]


def tell_failed(
    seen: Observation, advanced: advance.Advanced, before: Mapping[str, DrainBegun]
) -> Iterator[Occurrence]:
    """Why nodes that were to go are given back: to the node, and to pods that would not leave."""
    table = seen.snapshot.nodes
    for told, failure, is_empty in find_failed(advanced, before):
        for key in find_unevicted(failure):
            yield Occurrence(_about_pod(seen, told.node, key), WARNING, "ScaleDownFailed", words.NOT_EVICTED)
        if failure.why in UNTOLD or told.node not in table.rows:
            continue
        node = table.facts[table.rows[told.node]]
        about = About("v1", "Node", node.name, uid=node.uid)
        yield Occurrence(about, WARNING, "ScaleDownFailed", _describe(node, told.group, failure, is_empty))


def _about_pod(seen: Observation, node: str, key: str) -> About:
    snapshot = seen.snapshot
    namespace, _, name = key.partition("/")
    row = snapshot.nodes.rows.get(node)
    found = [] if row is None else [pod for pod in snapshot.pods_on(row) if snapshot.pods.key(pod) == key]
    return About("v1", "Pod", name, namespace, snapshot.pods.uids[found[0]] if found else "")


def _describe(node: facts.Node, group: str, failure: Failure, is_empty: bool) -> str:
    if failure.why is Why.MARK_NOT_SEEN:
        return words.not_marked("the taint was set and does not appear")
    did = "failed to delete empty node" if is_empty else "failed to drain and delete node"
    return f"{did}: {_explain(node.name, group, failure)}"


def _explain(node: str, group: str, failure: Failure) -> str:
    """What failed, in the peer's words where it has any."""
    details = ", ".join(failure.details)
    match failure.why:
        case Why.EVICTION_REFUSED:
            refused = " ".join(map(_explain_eviction, failure.details))
            return f"Failed to drain node /{node}, due to following errors: [{refused}]"
        case Why.PODS_STAYED:
            return f"Failed to drain node /{node}: pods remaining after timeout"
        case Why.BLOCKED_BY_POD:
            return f'GetPodsToMove for "{node}" returned error: {details}'
        case Why.NO_PLACE_TO_MOVE_PODS:
            return f"no place to move pod {details}"
        case Why.NOT_EMPTY:
            return f'failed to delete empty node "{node}", new pods scheduled'
        case Why.GROUP_FAILED:
            return "couldn't scale down other nodes in this node group"
        case Why.DELETION_REFUSED:
            return f"failed to delete nodes from group {group}: {details}"
        case Why.MIN_SIZE_REACHED:
            return f"failed to delete nodes from group {group}: min size reached, nodes will not be deleted"
        case Why.GROUP_MISSING:
            return f"picked node that doesn't belong to a node group: {node}"
        case Why.DELETION_TIMED_OUT:
            return f"group {group} agreed to delete the node, and it is still there"
        case Why.MACHINE_STAYED:
            return f"group {group} was deleting the node and is not any more: another machine went, or it grew again"
        case Why.MARK_REMOVED:
            return "someone else removed the taint"
        case _:
            return f"{failure.why}: {details}" if details else str(failure.why)


def _explain_eviction(detail: str) -> str:
    pod, _, said = detail.partition(": ")
    return f"failed to evict pod {pod} within allowed timeout (last error: {said or '<nil>'})"
