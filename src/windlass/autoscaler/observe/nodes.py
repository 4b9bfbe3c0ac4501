"""Nodes and namespaces."""

from collections.abc import Callable

from windlass.autoscaler.observe import parts, resources
from windlass.engine import facts
from windlass.kube import capacity as node_capacity
from windlass.kube import fields
from windlass.kube.models import core, meta

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def read(node: core.Node) -> facts.Node:
    """The node as the engine sees it. InvalidObject if it cannot be read."""
    try:
        return _read(node)
    except fields.InvalidField as error:
        raise error.of("Node", node.meta.key) from error


def salvage(node: core.Node, why: str) -> facts.Node:
    """What can be read of a node that cannot be read in full. Nothing is placed on it: nobody knows what it refuses."""
    metadata, spec, status = node.meta, node.spec or core.NodeSpec(), node.status or core.NodeStatus()
    readers: dict[str, Callable[[], object]] = {
        "capacity": lambda: resources.read_capacity(node_capacity.salvage(status.capacity)),
        "allocatable": lambda: resources.read_capacity(node_capacity.salvage(status.allocatable or status.capacity)),
        "taints": lambda: tuple(_read_taint(taint, "") for taint in spec.taints or ()),
        "conditions": lambda: tuple(_read_condition(condition) for condition in status.conditions or ()),
    }
    return facts.Node(
        name=metadata.name or "",
        uid=metadata.uid or "",
        labels=metadata.labels or facts.NOTHING,
        annotations=metadata.annotations or facts.NOTHING,
        unschedulable=True,
        provider_id=spec.provider_id or "",
        created_s=meta.seconds(metadata.creation_timestamp) or 0.0,
        unreadable=why,
        **parts.read(readers),
    )


def read_namespace(namespace: core.Namespace) -> facts.Namespace:
    return facts.Namespace(namespace.meta.name or "", namespace.meta.labels or facts.NOTHING)


def _read(node: core.Node) -> facts.Node:
    metadata, spec, status = node.meta, node.spec or core.NodeSpec(), node.status or core.NodeStatus()
    capacity = node_capacity.read(status.capacity, "status.capacity")
    # The API server fills in the capacity for a node that does not tell what is allocatable.
    is_told = status.allocatable is not None
    allocatable = node_capacity.read(status.allocatable, "status.allocatable") if is_told else capacity
    return facts.Node(
        name=metadata.name or "",
        uid=metadata.uid or "",
        labels=metadata.labels or facts.NOTHING,
        annotations=metadata.annotations or facts.NOTHING,
        taints=tuple(_read_taint(taint, f"spec.taints[{i}]") for i, taint in enumerate(spec.taints or ())),
        unschedulable=bool(spec.unschedulable),
        allocatable=resources.read_capacity(allocatable),
        capacity=resources.read_capacity(capacity),
        declared_features=frozenset(status.declared_features or ()),
        provider_id=spec.provider_id or "",
        created_s=meta.seconds(metadata.creation_timestamp) or 0.0,
        conditions=tuple(_read_condition(condition) for condition in status.conditions or ()),
    )


def _read_taint(taint: core.Taint, at: str) -> facts.Taint:
    if not taint.key:
        raise fields.InvalidField(f"{at}.key", taint.key, "the key of a taint")
    return facts.Taint(taint.key, taint.value or "", fields.choose(taint.effect, _EFFECTS, f"{at}.effect"))


def _read_condition(condition: meta.Condition) -> facts.Condition:
    return facts.Condition(
        type=condition.type or "",
        status=condition.status or "",
        since_s=meta.seconds(condition.last_transition_time) or 0.0,
        reason=condition.reason or "",
    )
