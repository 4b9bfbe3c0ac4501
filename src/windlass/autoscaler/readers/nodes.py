"""Node reader: nodes, namespaces and resource quantities as the engine's integers.

`read_fields` reads each field of an object that cannot be read in full.
"""

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from windlass import quantity
from windlass.engine.model import facts
from windlass.kube import fields
from windlass.kube.models import core, meta


def read_fields(readers: Mapping[str, Callable[[], object]]) -> dict[str, Any]:
    """Return the fields that can be read, by name. Errors of the others were reported already."""
    node_fields: dict[str, Any] = {}
    for name, read_part in readers.items():
        with contextlib.suppress(Exception):
            node_fields[name] = read_part()
    return node_fields


_NATIVE_RESOURCES = (facts.CPU, facts.MEMORY, facts.EPHEMERAL_STORAGE)

_NATIVE_DOMAIN = "kubernetes.io/"

_PREFIXES = ("hugepages-", "attachable-volumes-")

_EXTENDED = re.compile(r"(?!requests\.)[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def read_requests(nano: Mapping[str, int]) -> facts.Resources:
    """Return the requests that NodeResourcesFit counts; zero requests are dropped."""
    counted = (
        (name, _to_engine_units(name, amount)) for name, amount in nano.items() if amount and _is_scalar_resource(name)
    )
    return tuple(sorted(counted))


def read_capacity(nano: Mapping[str, int]) -> facts.Resources:
    """Return allocatable resources by resource name."""
    return tuple(sorted((name, _to_engine_units(name, amount)) for name, amount in nano.items()))


def _to_engine_units(name: str, nano: int) -> int:
    return fields.to_engine_amount(name, quantity.Quantity(nano))


def _is_scalar_resource(name: str) -> bool:
    """Whether the resource is native or scalar in kube-scheduler's terms (hugepages, attachable volumes, prefixed
    names).
    """
    if name in _NATIVE_RESOURCES or name.startswith(_PREFIXES) or _NATIVE_DOMAIN in name:
        return True
    return _EXTENDED.fullmatch(name) is not None


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def read_node(node: core.Node) -> facts.Node:
    """Read a node. InvalidObject if it cannot be read."""
    try:
        return _read_node(node)
    except fields.InvalidField as error:
        raise error.of("Node", node.meta.key) from error


def salvage_node(node: core.Node, reason: str) -> facts.Node:
    """Read what is readable of an invalid node. No pod is placed on it, because its taints may be unknown."""
    metadata, spec, status = node.meta, node.spec or core.NodeSpec(), node.status or core.NodeStatus()
    readers: dict[str, Callable[[], object]] = {
        "capacity": lambda: read_capacity(fields.read_valid_capacity(status.capacity)),
        "allocatable": lambda: read_capacity(fields.read_valid_capacity(status.allocatable or status.capacity)),
        "taints": lambda: tuple(_read_taint(taint, "") for taint in spec.taints or ()),
        "conditions": lambda: tuple(_read_condition(condition) for condition in status.conditions or ()),
    }
    return facts.Node(
        name=metadata.name or "",
        uid=metadata.uid or "",
        labels=metadata.labels or facts.NO_LABELS,
        annotations=metadata.annotations or facts.NO_LABELS,
        unschedulable=True,
        provider_id=spec.provider_id or "",
        created_s=meta.seconds(metadata.creation_timestamp) or 0.0,
        unreadable=reason,
        **read_fields(readers),
    )


def read_namespace(namespace: core.Namespace) -> facts.Namespace:
    return facts.Namespace(namespace.meta.name or "", namespace.meta.labels or facts.NO_LABELS)


def _read_node(node: core.Node) -> facts.Node:
    metadata, spec, status = node.meta, node.spec or core.NodeSpec(), node.status or core.NodeStatus()
    capacity = fields.read_capacity(status.capacity, "status.capacity")
    # The API server defaults allocatable to capacity.
    is_told = status.allocatable is not None
    allocatable = fields.read_capacity(status.allocatable, "status.allocatable") if is_told else capacity
    return facts.Node(
        name=metadata.name or "",
        uid=metadata.uid or "",
        labels=metadata.labels or facts.NO_LABELS,
        annotations=metadata.annotations or facts.NO_LABELS,
        taints=tuple(_read_taint(taint, f"spec.taints[{i}]") for i, taint in enumerate(spec.taints or ())),
        unschedulable=bool(spec.unschedulable),
        allocatable=read_capacity(allocatable),
        capacity=read_capacity(capacity),
        declared_features=frozenset(status.declared_features or ()),
        provider_id=spec.provider_id or "",
        created_s=meta.seconds(metadata.creation_timestamp) or 0.0,
        conditions=tuple(_read_condition(condition) for condition in status.conditions or ()),
    )


def _read_taint(taint: core.Taint, at: str) -> facts.Taint:
    if not taint.key:
        raise fields.InvalidField(f"{at}.key", taint.key, "the key of a taint")
    return facts.Taint(taint.key, taint.value or "", fields.read_enum(taint.effect, _EFFECTS, f"{at}.effect"))


def _read_condition(condition: meta.Condition) -> facts.Condition:
    return facts.Condition(
        type=condition.type or "",
        status=condition.status or "",
        since_s=meta.seconds(condition.last_transition_time) or 0.0,
        reason=condition.reason or "",
    )
