"""Objects of a MachinePool: owner references, Machines and Nodes. Pure.

Machines mirror the infrastructure machines and are never deleted here. Nodes are matched by provider ID; a Node is
deleted once its instance has left the pool, unless another pool of the cluster lists the same provider ID.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass import selectors
from windlass.controllers.machine_pool import conversion, model
from windlass.controllers.machine_pool.model import (
    AdoptProviderObject,
    ApplyMachine,
    Cluster,
    Condition,
    DeleteNode,
    InfraMachine,
    Machine,
    MachinePool,
    Node,
    NodeRef,
    ObservedMachinePool,
    OwnerReference,
    PatchNode,
    ProviderObject,
    SetMachineUpToDate,
)


def controller_reference(pool: MachinePool) -> OwnerReference:
    """The controller owner reference to the pool."""
    return OwnerReference(
        pool.api_version, "MachinePool", pool.name, pool.uid, controller=True, block_owner_deletion=True
    )


def set_cluster_owner(pool: MachinePool, cluster: Cluster) -> MachinePool:
    """The pool with its Cluster as owner and its cluster label."""
    owner = OwnerReference(pool.api_version, "Cluster", cluster.name, cluster.uid)
    labels = {**pool.labels, model.CLUSTER_NAME_LABEL: pool.cluster_name}
    return dataclasses.replace(pool, owners=upsert_owner(pool.owners, owner), labels=labels)


def plan_adoption(pool: MachinePool, external: ProviderObject) -> AdoptProviderObject | None:
    """The step that makes the pool the controller of a provider's object; None if it already is."""
    owners = upsert_owner(external.owners, controller_reference(pool))
    labels = {} if external.labels.get(model.CLUSTER_NAME_LABEL) == pool.cluster_name else _cluster_label(pool)
    if owners == external.owners and not labels:
        return None
    return AdoptProviderObject(external, owners, labels)


def find_other_controller(pool: MachinePool, external: ProviderObject) -> OwnerReference | None:
    """Another controller owner of a provider's object."""
    own = controller_reference(pool)
    return next((owner for owner in external.owners if owner.controller and not owner.is_same_object(own)), None)


def upsert_owner(owners: tuple[OwnerReference, ...], desired: OwnerReference) -> tuple[OwnerReference, ...]:
    """The owners with this one added, or replaced if one of the same name exists."""
    if any(owner.is_same_object(desired) for owner in owners):
        return tuple(desired if owner.is_same_object(desired) else owner for owner in owners)
    return (*owners, desired)


def _cluster_label(pool: MachinePool) -> dict[str, str]:
    return {model.CLUSTER_NAME_LABEL: pool.cluster_name}


UP_TO_DATE = Condition("UpToDate", "True", "UpToDate")

NOT_UP_TO_DATE = Condition("UpToDate", "False", "NotUpToDate", "Machine is being deleted")


def is_machine_of(pool: MachinePool, machine: Machine) -> bool:
    """True if a Machine with the pool's labels belongs to the pool: no other controller owns it."""
    controller = next((owner for owner in machine.owners if owner.controller), None)
    return controller is None or controller.uid == pool.uid


def plan_machines(
    pool: MachinePool, infra_machines: Iterable[InfraMachine], machines: Iterable[Machine], nodes: Mapping[str, Node]
) -> list[ApplyMachine]:
    """Steps that create or update a Machine for each infrastructure machine."""
    existing = {machine.infrastructure_name: machine for machine in machines}
    steps = []
    for infra in infra_machines:
        machine = existing.get(infra.reference.name)
        if machine is None and infra.is_deleting:
            continue
        node = nodes.get(infra.provider_id)
        version = (node.kubelet_version if node else "") or (machine.version if machine else "")
        desired = _build_machine(pool, infra, machine, version)
        if machine is None or _machine_differs(machine, desired, version):
            steps.append(ApplyMachine(desired["metadata"]["name"], desired))
    return steps


def _build_machine(pool: MachinePool, infra: InfraMachine, machine: Machine | None, version: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": machine.name if machine else infra.reference.name,
        "namespace": pool.namespace,
        "labels": {
            **pool.template_labels,
            model.POOL_NAME_LABEL: model.label_value(pool.name),
            model.CLUSTER_NAME_LABEL: pool.cluster_name,
        },
        "annotations": dict(pool.template_annotations),
        "ownerReferences": [conversion.encode_owner(controller_reference(pool))],
    }
    if machine is not None:
        metadata["uid"] = machine.uid
    if not pool.template_annotations:
        del metadata["annotations"]
    return {
        "metadata": metadata,
        "spec": {
            "clusterName": pool.cluster_name,
            "bootstrap": {"dataSecretName": ""},
            "infrastructureRef": _build_infrastructure_ref(pool, infra),
            **({"version": version} if version else {}),
        },
    }


def _build_infrastructure_ref(pool: MachinePool, infra: InfraMachine) -> dict[str, str]:
    reference = {"kind": infra.reference.kind, "name": infra.reference.name}
    if pool.api_version == model.V1BETA1:
        return {"apiVersion": infra.api_version, **reference, "namespace": pool.namespace}
    return {"apiGroup": infra.reference.group, **reference}


def _machine_differs(machine: Machine, desired: Mapping[str, Any], version: str) -> bool:
    metadata = desired["metadata"]
    labels, annotations = metadata["labels"], metadata.get("annotations", {})
    owned = {("labels", key) for key in labels} | {("annotations", key) for key in annotations}
    return (
        not labels.items() <= machine.labels.items()
        or not annotations.items() <= machine.annotations.items()
        or not machine.applied <= owned
        or metadata["ownerReferences"][0] not in [conversion.encode_owner(owner) for owner in machine.owners]
        or machine.version != version
    )


def plan_up_to_date_conditions(machines: Iterable[Machine]) -> list[SetMachineUpToDate]:
    """Steps that set UpToDate of all Machines: True unless a Machine is being deleted."""
    return [
        SetMachineUpToDate(machine.name, desired)
        for machine in machines
        if not _has_condition(machine, desired := _up_to_date_condition(machine))
    ]


def with_up_to_date_conditions(machines: Iterable[Machine]) -> list[Machine]:
    """The Machines with the planned conditions."""
    return [dataclasses.replace(machine, up_to_date=_up_to_date_condition(machine)) for machine in machines]


def _up_to_date_condition(machine: Machine) -> Condition:
    desired = NOT_UP_TO_DATE if machine.is_deleting else UP_TO_DATE
    return dataclasses.replace(desired, observed_generation=machine.generation)


def _has_condition(machine: Machine, desired: Condition) -> bool:
    condition = machine.up_to_date
    return condition is not None and dataclasses.replace(condition, last_transition_time="") == desired


def count_versions(found: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Counts by version, lowest version first; objects without version are left out."""
    counted = Counter(version for version in found if version)
    return tuple(sorted(counted.items(), key=lambda item: _version_precedence(item[0])))


def _version_precedence(version: str) -> tuple[list[int], str]:
    core = version.removeprefix("v").partition("-")[0].partition("+")[0]
    numbers = map(selectors.parse_int64, core.split("."))
    return [-1 if number is None else number for number in numbers], version


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """The Nodes of the pool's provider IDs."""

    found: tuple[Node, ...] = ()
    """In the order of the provider IDs."""
    ready: int = 0
    available: int = 0
    next_available_s: float | None = None
    """When the next ready Node becomes available; None if no Node is waiting for it."""

    @property
    def refs(self) -> tuple[NodeRef, ...]:
        return tuple(NodeRef(node.name, node.uid) for node in self.found)


def index_by_provider_id(nodes: Iterable[Node]) -> dict[str, Node]:
    """Nodes by provider ID. Of several with one ID the ready one counts, otherwise the first by name."""
    found: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: (not node.is_ready, node.name)):
        if node.provider_id:
            found.setdefault(node.provider_id, node)
    return found


def find_shared_provider_ids(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """Provider IDs of several Nodes, with the names of those Nodes."""
    owners: dict[str, list[str]] = {}
    for node in nodes:
        if node.provider_id:
            owners.setdefault(node.provider_id, []).append(node.name)
    return {item: sorted(found) for item, found in owners.items() if len(found) > 1}


def summarize_nodes(
    provider_ids: Iterable[str], nodes: Mapping[str, Node], min_ready_s: float, now_s: float
) -> NodeSummary:
    found = [nodes[item] for item in provider_ids if item in nodes]
    ready = [node for node in found if node.is_ready]
    due_s = [_available_at_s(node, min_ready_s) for node in ready]
    later_s = [due for due in due_s if due is not None and due > now_s]
    available = sum(1 for due in due_s if due is not None and due <= now_s)
    return NodeSummary(tuple(found), len(ready), available, min(later_s, default=None))


def _available_at_s(node: Node, min_ready_s: float) -> float | None:
    """When a Node becomes available; None if its Ready condition has no transition time."""
    if min_ready_s <= 0:
        return 0.0
    return None if node.ready_since_s is None else node.ready_since_s + min_ready_s


def plan_node_patches(pool: MachinePool, nodes: Iterable[Node]) -> list[PatchNode]:
    """Steps that annotate the pool's Nodes and remove the uninitialized taint."""
    desired = {
        model.CLUSTER_NAME_ANNOTATION: pool.cluster_name,
        model.CLUSTER_NAMESPACE_ANNOTATION: pool.namespace,
        model.OWNER_KIND_ANNOTATION: "MachinePool",
        model.OWNER_NAME_ANNOTATION: pool.name,
    }
    patches = []
    for node in nodes:
        annotations = {key: value for key, value in desired.items() if node.annotations.get(key) != value}
        kept = tuple(taint for taint in node.taints if taint.key != model.UNINITIALIZED_TAINT)
        if annotations or kept != node.taints:
            patches.append(PatchNode(node, annotations, kept if kept != node.taints else None))
    return patches


def plan_node_retirements(
    observed: ObservedMachinePool, nodes: Iterable[Node], provider_ids: Iterable[str]
) -> list[DeleteNode]:
    """Steps that delete Nodes in nodeRefs whose instance has left the pool."""
    kept = set(provider_ids)
    return [
        DeleteNode(node.name, node.uid)
        for node in _referenced_nodes(observed.pool, nodes)
        if node.provider_id and node.provider_id not in kept and _is_deletable(observed, node)
    ]


def plan_node_deletions(observed: ObservedMachinePool, nodes: Iterable[Node]) -> list[DeleteNode]:
    """Steps that delete all Nodes of a deleted pool: those in nodeRefs and those of its provider IDs."""
    nodes = list(nodes)
    referred = {node.name: node for node in _referenced_nodes(observed.pool, nodes)}
    listed = {node.name: node for node in nodes if node.provider_id in set(observed.pool.provider_ids)}
    gone = {**referred, **listed}
    return [DeleteNode(node.name, node.uid) for node in gone.values() if _is_deletable(observed, node)]


def _referenced_nodes(pool: MachinePool, nodes: Iterable[Node]) -> list[Node]:
    refs = {ref.name: ref.uid for ref in pool.status.node_refs}
    return [node for node in nodes if node.name in refs and refs[node.name] in ("", node.uid)]


def _is_deletable(observed: ObservedMachinePool, node: Node) -> bool:
    """True if no other pool lists the Node and it is not being deleted already."""
    return (
        not node.is_deleting
        and node.provider_id not in observed.older_pools
        and node.provider_id not in observed.younger_pools
    )
