"""Nodes: which belong to the pool, how they fare, which are to be marked as its own, and which are to go."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass.controllers.machine_pool import names
from windlass.controllers.machine_pool.facts import Node, NodeRef, Pool, Seen
from windlass.controllers.machine_pool.plan import DeleteNode, PatchNode


@dataclass(frozen=True, slots=True)
class Counted:
    """The Nodes behind provider IDs."""

    found: tuple[Node, ...] = ()
    """In the order of the IDs."""
    ready: int = 0
    available: int = 0
    next_available_s: float | None = None
    """When the next one will have been ready for long enough, if one is on its way there."""

    @property
    def refs(self) -> tuple[NodeRef, ...]:
        return tuple(NodeRef(node.name, node.uid) for node in self.found)


def by_provider_id(nodes: Iterable[Node]) -> dict[str, Node]:
    """Of several Nodes with one provider ID the one that is ready counts, otherwise the first by name."""
    found: dict[str, Node] = {}
    for node in sorted(nodes, key=lambda node: (not node.is_ready, node.name)):
        if node.provider_id:
            found.setdefault(node.provider_id, node)
    return found


def shared_ids(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """Provider IDs that several Nodes have, and the names of those."""
    owners: dict[str, list[str]] = {}
    for node in nodes:
        if node.provider_id:
            owners.setdefault(node.provider_id, []).append(node.name)
    return {each: sorted(found) for each, found in owners.items() if len(found) > 1}


def count(provider_ids: Iterable[str], nodes: Mapping[str, Node], min_ready_s: float, now_s: float) -> Counted:
    found = [nodes[each] for each in provider_ids if each in nodes]
    ready = [node for node in found if node.is_ready]
    due_s = [_available_at_s(node, min_ready_s) for node in ready]
    later_s = [due for due in due_s if due is not None and due > now_s]
    available = sum(1 for due in due_s if due is not None and due <= now_s)
    return Counted(tuple(found), len(ready), available, min(later_s, default=None))


def _available_at_s(node: Node, min_ready_s: float) -> float | None:
    """None: it does not say since when it is ready."""
    if min_ready_s <= 0:
        return 0.0
    return None if node.ready_since_s is None else node.ready_since_s + min_ready_s


def mark(pool: Pool, found: Iterable[Node]) -> list[PatchNode]:
    """Say on every Node of the pool whose it is; the taint that waited for this goes."""
    wanted = {
        names.CLUSTER_NAME_ANNOTATION: pool.cluster_name,
        names.CLUSTER_NAMESPACE_ANNOTATION: pool.namespace,
        names.OWNER_KIND_ANNOTATION: "MachinePool",
        names.OWNER_NAME_ANNOTATION: pool.name,
    }
    patches = []
    for node in found:
        annotations = {key: value for key, value in wanted.items() if node.annotations.get(key) != value}
        kept = tuple(taint for taint in node.taints if taint.key != names.UNINITIALIZED_TAINT)
        if annotations or kept != node.taints:
            patches.append(PatchNode(node, annotations, kept if kept != node.taints else None))
    return patches


def retire(seen: Seen, nodes: Iterable[Node], provider_ids: Iterable[str]) -> list[DeleteNode]:
    """Nodes that the pool refers to and whose instances have left it."""
    kept = set(provider_ids)
    return [
        DeleteNode(node.name, node.uid)
        for node in _referred(seen.pool, nodes)
        if node.provider_id and node.provider_id not in kept and _is_free(seen, node)
    ]


def abandon(seen: Seen, nodes: Iterable[Node]) -> list[DeleteNode]:
    """All Nodes of a pool that goes: those it refers to, and those that came since with an ID it names."""
    nodes = list(nodes)
    referred = {node.name: node for node in _referred(seen.pool, nodes)}
    listed = {node.name: node for node in nodes if node.provider_id in set(seen.pool.provider_ids)}
    gone = {**referred, **listed}
    return [DeleteNode(node.name, node.uid) for node in gone.values() if _is_free(seen, node)]


def _referred(pool: Pool, nodes: Iterable[Node]) -> list[Node]:
    refs = {ref.name: ref.uid for ref in pool.status.node_refs}
    return [node for node in nodes if node.name in refs and refs[node.name] in ("", node.uid)]


def _is_free(seen: Seen, node: Node) -> bool:
    """Nobody else names it, and it is not on its way out already."""
    return not node.is_deleting and node.provider_id not in seen.rivals and node.provider_id not in seen.claimed
