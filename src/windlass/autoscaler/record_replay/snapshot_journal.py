"""Snapshot journal: a snapshot that logs its changes, and the codec of changes and whole snapshots.

Ties are decided by the rows of pods and nodes and by the order of pods on a node, so a replay applies the same changes
in the same order. Known pods are referred to by row.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from windlass import scheduler_releases
from windlass.autoscaler.record_replay import value_codec
from windlass.autoscaler.record_replay.value_codec import OwnPodFields
from windlass.engine.dra import inventory
from windlass.engine.model import arrays, dynamic_resources, facts
from windlass.engine.snapshot import cluster_snapshot, pod_table, volume_usage
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.engine.snapshot.volume_usage import StorageFact


@dataclass(frozen=True, slots=True)
class NodePut:
    """A node was added or changed."""

    node: facts.Node
    before: facts.Node | None


@dataclass(frozen=True, slots=True)
class NodeDeleted:
    """A node was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class PodPut:
    """A pod was added or changed: its own fields, if changed, and its template."""

    row: int
    """Its previous row; -1 if it was added."""
    kind: int
    """Number of its template in the pod table."""
    own: OwnPodFields | None
    node: int | str
    """Row of its node, the name of a missing node, or "" while pending."""
    deleted_s: float | None
    unschedulable_since_s: float | None
    health: facts.PodHealth = facts.PodHealth.READY
    scheduling_reason: str = ""


@dataclass(frozen=True, slots=True)
class PodHealth:
    """A pod's readiness changed."""

    row: int
    health: facts.PodHealth


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod was deleted or has finished."""

    row: int


@dataclass(frozen=True, slots=True)
class NamespacesSet:
    """All namespaces."""

    found: tuple[facts.Namespace, ...]


@dataclass(frozen=True, slots=True)
class StorageChanged:
    """A storage or DRA fact was added, changed or removed."""

    fact: volume_usage.StorageFact | dynamic_resources.DeviceFact
    is_gone: bool = False


SnapshotChange: TypeAlias = NodePut | NodeDeleted | PodPut | PodHealth | PodDeleted | NamespacesSet | StorageChanged


class ChangeLog:
    """Changes since the last call of `take`. Before the first call, none are kept."""

    def __init__(self) -> None:
        self._changes: list[SnapshotChange] = []
        self._is_kept = False

    def add(self, change: SnapshotChange) -> None:
        if self._is_kept:
            self._changes.append(change)

    def take(self) -> list[SnapshotChange]:
        """Return the changes since the last call, and keep changes from now on."""
        taken, self._changes, self._is_kept = self._changes, [], True
        return taken

    def close(self) -> None:
        """Stop keeping changes."""
        self._changes, self._is_kept = [], False


class JournaledSnapshot(cluster_snapshot.Snapshot):
    """A snapshot that logs its changes."""

    def __init__(self) -> None:
        super().__init__()
        self.change_log = ChangeLog()
        self.is_renumbered = False
        """Whether templates were renumbered since the file started."""
        self.storage = _JournaledStorage(self.change_log)
        self.devices.use_inventory(_JournaledInventory(self.change_log))

    def add_node(self, node: facts.Node) -> int:
        row = self.nodes.rows.get(node.name)
        self.change_log.add(NodePut(node, None if row is None else self.nodes.facts[row]))
        return super().add_node(node)

    def remove_node(self, name: str) -> None:
        self.change_log.add(NodeDeleted(name))
        super().remove_node(name)

    def add_pod(self, pod: facts.Pod) -> int | None:
        table = self.pods
        before = table.rows.get(pod_table.pod_identity(pod), -1)
        had = None if before < 0 else self._own(before)
        if before >= 0:
            super().remove_pod(pod_table.pod_identity(pod))
        row = super().add_pod(pod)
        if row is not None:
            node = self.nodes.rows.get(pod.node_name, pod.node_name)
            own, kind = self._own(row), int(table.template_ids[row])
            new = None if own == had else own
            times = pod.deleted_s, pod.unschedulable_since_s
            self.change_log.add(PodPut(before, kind, new, node, *times, pod.health, pod.scheduling_reason))
        elif before >= 0:
            self.change_log.add(PodDeleted(before))
        return row

    def set_health(self, identity: str, health: facts.PodHealth) -> None:
        self.change_log.add(PodHealth(self.pods.rows[identity], health))
        super().set_health(identity, health)

    def remove_pod(self, identity: str) -> None:
        row = self.pods.rows.get(identity)
        if row is not None:
            self.change_log.add(PodDeleted(row))
            super().remove_pod(identity)

    def forget_unused(self) -> None:
        """Forget unused shapes. Recordings refer to templates by number, which this changes: a new file must start."""
        super().forget_unused()
        self.is_renumbered = True

    def set_namespaces(self, namespaces: Iterable[facts.Namespace]) -> None:
        listed = tuple(namespaces)
        self.change_log.add(NamespacesSet(listed))
        super().set_namespaces(listed)

    def _own(self, row: int) -> OwnPodFields:
        table = self.pods
        return table.names[row], table.uids[row], table.labels[row], float(table.created_s[row])


class _JournaledInventory(inventory.DeviceInventory):
    def __init__(self, notes: ChangeLog) -> None:
        super().__init__()
        self._notes = notes

    def put(self, fact: dynamic_resources.DeviceFact) -> None:
        self._notes.add(StorageChanged(fact))
        super().put(fact)

    def remove(self, fact: dynamic_resources.DeviceFact) -> None:
        self._notes.add(StorageChanged(fact, is_gone=True))
        super().remove(fact)


class _JournaledStorage(volume_usage.StorageTable):
    def __init__(self, notes: ChangeLog) -> None:
        super().__init__()
        self._notes = notes

    def put(self, fact: volume_usage.StorageFact) -> None:
        self._notes.add(StorageChanged(fact))
        super().put(fact)

    def remove(self, fact: volume_usage.StorageFact) -> None:
        self._notes.add(StorageChanged(fact, is_gone=True))
        super().remove(fact)


SpecNumbers = dict[facts.PodSpec, int]
"""Numbers of pod specs that were written already."""


def encode_change(change: SnapshotChange) -> value_codec.Plain:
    """Encode a change as a list that starts with its type."""
    match change:
        case NodePut(node, None):
            return ["node", value_codec.encode_value(node)]
        case NodePut(node, before):
            new, old = value_codec.encode_value(node), value_codec.encode_value(before)
            lost = [name for name in old if name not in new]
            return ["change", node.name, {name: item for name, item in new.items() if old.get(name) != item}, lost]
        case NodeDeleted(name):
            return ["no node", name]
        case PodPut(row, kind, own, node, deleted_s, since_s, facts.PodHealth.READY, ""):
            return ["pod", row, kind, own, node, deleted_s, since_s]
        case PodPut(row, kind, own, node, deleted_s, since_s, health, scheduling_reason):
            return ["pod", row, kind, own, node, deleted_s, since_s, health.value, scheduling_reason]
        case PodHealth(row, health):
            return ["health", row, health.value]
        case PodDeleted(row):
            return ["no pod", row]
        case NamespacesSet(namespaces):
            return ["namespaces", value_codec.encode_value(namespaces)]
        case StorageChanged(fact, is_gone):
            return ["not stored" if is_gone else "stored", value_codec.encode_storage_fact(fact)]


class ChangeApplier:
    """Applies changes to a snapshot that has the same rows as the one where they were logged."""

    def __init__(self, snapshot: Snapshot, specs: list[facts.PodSpec], kinds: list[pod_table.PodTemplateKey]) -> None:
        self.specs, self.kinds = specs, kinds
        self._snapshot = snapshot
        self._by_name: Mapping[str, Callable[..., None]] = {
            "node": self._put_node,
            "change": self._change_node,
            "no node": snapshot.remove_node,
            "pod": self._put_pod,
            "health": self._set_health,
            "no pod": self._remove_pod,
            "namespaces": self._set_namespaces,
            "stored": lambda fact: value_codec.put_storage_fact(snapshot, fact),
            "not stored": lambda fact: value_codec.remove_storage_fact(snapshot, fact),
        }

    def add_specs(self, specs: value_codec.Plain, kinds: value_codec.Plain) -> None:
        """Add pod specs and templates that appear for the first time."""
        self.specs += [value_codec.decode_value(facts.PodSpec, spec) for spec in specs]
        self.kinds += [value_codec.decode_pod_template(kind, self.specs) for kind in kinds]

    def apply(self, change: value_codec.Plain) -> None:
        name, *arguments = change
        self._by_name[name](*arguments)

    def _put_node(self, node: value_codec.Plain) -> None:
        self._snapshot.add_node(value_codec.decode_value(facts.Node, node))

    def _change_node(self, name: str, new: dict[str, Any], lost: list[str]) -> None:
        table = self._snapshot.nodes
        before = value_codec.encode_value(table.facts[table.rows[name]])
        self._put_node({**{field: item for field, item in before.items() if field not in lost}, **new})

    def _put_pod(
        self,
        row: int,
        kind: int,
        own: list[Any] | None,
        node: int | str,
        deleted_s: float | None,
        since_s: float | None,
        health: str = facts.PodHealth.READY,
        scheduling_reason: str = "",
    ) -> None:
        table = self._snapshot.pods
        if own is None:
            own_fields: value_codec.OwnPodFields = (
                table.names[row],
                table.uids[row],
                table.labels[row],
                float(table.created_s[row]),
            )
        else:
            name, uid, labels, created_s = own
            own_fields = name, uid, tuple(labels), created_s
        where = self._snapshot.nodes.names[node] if isinstance(node, int) else node
        pod = value_codec.make_pod(self.kinds[kind], own_fields, where, deleted_s, since_s)
        self._snapshot.add_pod(replace(pod, health=facts.PodHealth(health), scheduling_reason=scheduling_reason))

    def _set_health(self, row: int, health: str) -> None:
        self._snapshot.set_health(self._identify(row), facts.PodHealth(health))

    def _remove_pod(self, row: int) -> None:
        self._snapshot.remove_pod(self._identify(row))

    def _identify(self, row: int) -> str:
        table = self._snapshot.pods
        return table.uids[row] or table.key(row)

    def _set_namespaces(self, encoded: value_codec.Plain) -> None:
        self._snapshot.set_namespaces([value_codec.decode_value(facts.Namespace, item) for item in encoded])


def encode_snapshot(snapshot: Snapshot, specs: SpecNumbers) -> value_codec.Plain:
    """Encode the whole snapshot. `specs` then has the numbers of the written specs."""
    table = snapshot.pods
    shapes = [snapshot.shapes[number] for number in range(len(snapshot.shapes))]
    return {
        "release": value_codec.encode_value(snapshot.release),
        "visible": sorted(snapshot.shapes.visible),
        "resources": list(snapshot.nodes.resources),
        "shapes": [
            [
                pod_shape.profile.namespace,
                pod_shape.profile.labels,
                pod_shape.profile.terminating,
                specs.setdefault(pod_shape.spec, len(specs)),
            ]
            for pod_shape in shapes
        ],
        "kinds": [
            value_codec.encode_pod_template(kind, specs.setdefault(kind.spec, len(specs)))
            for kind in table.template_keys
        ],
        "specs": [value_codec.encode_value(spec) for spec in specs],
        "namespaces": [[name, dict(labels)] for name, labels in snapshot.topology_counts.namespaces.items()],
        "stored": [value_codec.encode_storage_fact(fact) for fact in _list_stored(snapshot)],
        "nodes": [value_codec.encode_value(node) for node in snapshot.nodes.facts],
        "vacant_nodes": list(snapshot.nodes.vacant),
        "pods": _encode_pods(snapshot),
    }


def decode_snapshot(plain: value_codec.Plain) -> tuple[Snapshot, list[facts.PodSpec], list[pod_table.PodTemplateKey]]:
    """Decode a snapshot, and the specs and templates that it was written with."""
    snapshot = Snapshot(value_codec.decode_value(scheduler_releases.SchedulerRelease, plain.get("release", {})))
    specs = [value_codec.decode_value(facts.PodSpec, spec) for spec in plain["specs"]]
    kinds = [value_codec.decode_pod_template(kind, specs) for kind in plain["kinds"]]
    snapshot.show_labels(set(plain["visible"]))
    for name in plain["resources"]:
        snapshot.nodes.resource_column(name)
    for namespace, labels, terminating, spec in plain["shapes"]:
        snapshot.shapes.intern(namespace, dict(labels), specs[spec], terminating)
    for kind in kinds:
        snapshot.pods.template_keys.intern(kind)
    snapshot.set_namespaces([facts.Namespace(name, labels) for name, labels in plain["namespaces"]])
    for fact in plain["stored"]:
        value_codec.put_storage_fact(snapshot, fact)
    _add_nodes(snapshot, [value_codec.decode_value(facts.Node, node) for node in plain["nodes"]], plain["vacant_nodes"])
    _add_pods(snapshot, plain["pods"], kinds)
    return snapshot, specs, kinds


def _list_stored(snapshot: Snapshot) -> list[StorageFact | dynamic_resources.DeviceFact]:
    known, offered = snapshot.storage, snapshot.devices.inventory
    return [
        *known.volumes.values(), *known.claims.values(), *known.classes.values(), *known.csi_nodes.values(),
        *known.drivers.values(), *known.capacities.values(), *known.attachments.values(),
        *offered.slices.values(), *offered.taint_rules.values(), *offered.classes.values(),
        *offered.claims.values(),
    ]  # fmt: skip


def _encode_pods(snapshot: Snapshot) -> value_codec.Plain:
    table = snapshot.pods
    return {
        "names": table.names,
        "uids": table.uids,
        "labels": table.labels,
        "kinds": table.template_ids.tolist(),
        "created": table.created_s.tolist(),
        "times": [[row, *times] for row, times in table.times.items()],
        "health": [[row, health.value] for row, health in table.health.items()],
        "scheduling_reasons": list(table.scheduling_reasons.items()),
        "on": [snapshot.pods_on(row) for row in range(snapshot.nodes.count)],
        "homeless": [[name, rows] for name, rows in snapshot.orphaned.items() if rows],
        "vacant": list(table.vacant),
    }


def _add_nodes(snapshot: Snapshot, nodes: Sequence[facts.Node], vacant: Sequence[int]) -> None:
    """Resources of a deleted node still count in the sum of all nodes."""
    gone = set(vacant)
    for row, node in enumerate(nodes):
        snapshot.add_node(replace(node, name=_deleted_node_name(row)) if row in gone else node)
    for row in vacant:
        snapshot.remove_node(_deleted_node_name(row))


def _deleted_node_name(row: int) -> str:
    return f"gone from row {row}"  # not a valid node name; another node of the original name may exist


def _add_pods(snapshot: Snapshot, plain: value_codec.Plain, kinds: Sequence[pod_table.PodTemplateKey]) -> None:
    vacant = set(plain["vacant"])
    times = {row: (deleted_s, since_s) for row, deleted_s, since_s in plain["times"]}
    health = {row: facts.PodHealth(value) for row, value in plain.get("health", ())}
    scheduling_reasons = {row: reason for row, reason in plain.get("scheduling_reasons", ())}
    home = {row: name for name, rows in plain["homeless"] for row in rows}
    columns = zip(plain["names"], plain["uids"], plain["labels"], plain["created"], plain["kinds"], strict=True)
    for row, (name, uid, labels, created_s, kind) in enumerate(columns):
        if row in vacant:
            snapshot.pods.add(value_codec.make_pod(kinds[kind], ("", _deleted_node_name(row), (), 0.0), "", None, None))
            snapshot.pods.shape_ids[row] = arrays.ABSENT
        else:
            own = (name, uid, tuple(labels), created_s)
            pod = value_codec.make_pod(kinds[kind], own, home.get(row, ""), *times.get(row, (None, None)))
            if row in health or row in scheduling_reasons:
                reason = scheduling_reasons.get(row, "")
                pod = replace(pod, health=health.get(row, facts.PodHealth.READY), scheduling_reason=reason)
            snapshot.add_pod(pod)
    for row in plain["vacant"]:
        snapshot.pods.remove(row)
    for name, rows in plain["homeless"]:
        snapshot.orphaned[name][:] = rows
    for node_row, rows in enumerate(plain["on"]):
        for row in rows:
            snapshot.bind(row, node_row)
