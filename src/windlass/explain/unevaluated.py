"""What cannot be evaluated: which fault holds a pod, a node or a group, in one sentence."""

from windlass.engine import facts
from windlass.engine.left_out import find_nodes
from windlass.engine.quarantine import Fault, Subject
from windlass.explain import look


def tell(fault: Fault) -> str:
    """A sentence without its full stop."""
    return f"windlass could not evaluate {fault.suspect}: {fault.error}; see its log"


def find_of_pod(at: look.Look, row: int) -> str:
    """Why the pod in this row is left out; empty if it is not."""
    kind = at.snapshot.pods.kind(row)
    for fault in at.decision.faults:
        if fault.suspect.subject is Subject.POD and fault.suspect.value == kind:
            return tell(fault)
        is_named = fault.suspect.name == kind.namespace
        if fault.suspect.subject is Subject.NAMESPACE and is_named:
            return tell(fault)
        if fault.suspect.subject is Subject.PENDING and is_named and at.snapshot.pods.node_rows[row] < 0:
            return tell(fault)
    return ""


def find_of_node(at: look.Look, name: str) -> str:
    """Why the node is left out, or kept for its group or a pod that is; empty if nothing of it is."""
    for fault in at.decision.faults:
        if fault.suspect.subject is Subject.NODE and fault.suspect.name == name:
            return tell(fault)
    row = at.snapshot.nodes.rows[name]
    provider_id = at.snapshot.nodes.facts[row].provider_id
    for fault in at.decision.faults:
        group = fault.suspect.value
        if isinstance(group, facts.NodeGroup) and any(one.provider_id == provider_id for one in group.instances):
            return tell(fault)
    if row not in find_nodes(at.snapshot.pods).tolist():
        return ""
    return next((why for pod in at.snapshot.pods_on(row) if (why := find_of_pod(at, pod))), "")


def find_group(at: look.Look, name: str) -> Fault | None:
    """The fault of a group that is left out, by its id or the end of it."""
    for fault in at.decision.faults:
        own = fault.suspect.name
        if fault.suspect.subject is Subject.GROUP and (own == name or own.endswith(f"/{name}")):
            return fault
    return None
