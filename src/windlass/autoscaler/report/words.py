"""Words: phrases of the peer's events that users filter for, and numbers as Go prints them."""

import math

from windlass.engine import facts, plan
from windlass.engine.repairs import NOT_ACTIONABLE, Stop
from windlass.engine.scale_down.utilization import Utilization
from windlass.engine.scale_up.balancing import Increase

MARKED = "marked the node as toBeDeleted/unschedulable"
REMOVED = "nodes removed by cluster autoscaler"
EVICTING = "deleting pod for node scale down"
NOT_EVICTED = "failed to delete pod for ScaleDown"
UNHEALTHY = "Cluster is unhealthy"
NO_NODES = "Cluster has no nodes."
NO_READY_NODES = "Cluster has no ready nodes."
MAX_TOTAL = "max total nodes in cluster reached"


def not_actionable(stop: Stop | None) -> str:
    """Why a cluster without ready nodes is left alone; empty if it is not."""
    if stop is Stop.NO_NODES:
        return NO_NODES
    return NO_READY_NODES if stop in NOT_ACTIONABLE else ""


def setting_size(one: plan.Resize) -> str:
    return f"Scale-up: setting group {one.group} size to {_sizes(one)}"


def size_set(one: plan.Resize) -> str:
    return f"Scale-up: group {one.group} size set to {_sizes(one)}"


def _sizes(one: plan.Resize) -> str:
    return f"{one.to_size} instead of {one.from_size} (max: {one.max_size})"


def increases(all_: tuple[Increase, ...]) -> str:
    """`[{group 1->6 (max: 10)} {other 0->2 (max: 3)}]`"""
    parts = (f"{{{one.group.id} {one.group.size}->{one.new_size} (max: {one.group.max_size})}}" for one in all_)
    return f"[{' '.join(parts)}]"


def max_total_reached(limit: int) -> str:
    return f"Max total nodes in cluster reached: {limit}"


def not_marked(said: str) -> str:
    return f"failed to mark the node as toBeDeleted/unschedulable: {said}"


def utilization(found: Utilization | None) -> str:
    """Shares of cpu, memory, GPUs and devices, then the one that counts: `{0.25 0 0 0 cpu 0.25}`."""
    if found is None:
        return "{0 0 0 0  0}"
    shares = (found.cpu, found.memory, found.gpu, 0.0)
    return f"{{{' '.join(map(number, shares))} {found.resource} {number(found.utilization)}}}"


def number(value: float) -> str:
    """A float as Go's %v prints it, for what shares can be."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value).removesuffix(".0")


def error_code(error: facts.InstanceError) -> str:
    """Class and code: `OutOfResource.QUOTA_EXCEEDED`."""
    kind = "OutOfResource" if error.kind == "OutOfResources" else error.kind
    return f"{kind}.{error.code}"
