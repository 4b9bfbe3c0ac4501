"""The journal: a snapshot that notes every change of facts, in order.

Which row a pod or a node gets, and in which order pods came to a node, decides ties. So a replay makes the same changes
in the same order, those that change nothing included: they, too, end what stood before them. Pods that are known go by
their row, which both sides give alike.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from windlass.autoscaler.recording.values import Own
from windlass.engine import facts, pods, storage
from windlass.engine import snapshot as snapshots
from windlass.engine.devices import model, stock


@dataclass(frozen=True, slots=True)
class NodePut:
    """A node came, or changed."""

    node: facts.Node
    before: facts.Node | None


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node went."""

    name: str


@dataclass(frozen=True, slots=True)
class PodPut:
    """A pod came, or changed: what it has for itself, if that is new, and the rest."""

    row: int
    """That it had before; -1 if it came."""
    kind: int
    """Its number among the kinds of the pod table."""
    own: Own | None
    node: int | str
    """The row of its node, the name of one that is not there, or "" while it waits."""
    deleted_s: float | None
    unschedulable_since_s: float | None
    health: facts.Health = facts.Health.READY


@dataclass(frozen=True, slots=True)
class PodHealth:
    """A pod became Ready, or is no longer."""

    row: int
    health: facts.Health


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod went, or has finished."""

    row: int


@dataclass(frozen=True, slots=True)
class Namespaces:
    """All of them."""

    found: tuple[facts.Namespace, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """Something about storage or devices came, changed or went."""

    fact: storage.Fact | model.Fact
    is_gone: bool = False


Change: TypeAlias = NodePut | NodeGone | PodPut | PodHealth | PodGone | Namespaces | Stored


class Notes:
    """Changes since someone last asked. Until someone asks for the first time, none are kept."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._is_kept = False

    def add(self, change: Change) -> None:
        if self._is_kept:
            self._changes.append(change)

    def take(self) -> list[Change]:
        """What changed since the last time. From now on all is kept."""
        taken, self._changes, self._is_kept = self._changes, [], True
        return taken

    def close(self) -> None:
        """Nobody will ask any more."""
        self._changes, self._is_kept = [], False


class Journal(snapshots.Snapshot):
    """A snapshot with notes."""

    def __init__(self) -> None:
        super().__init__()
        self.notes = Notes()
        self.is_renumbered = False
        """Were kinds numbered anew since a file began?"""
        self.storage = _Storage(self.notes)
        self.devices.use_stock(_Stock(self.notes))

    def add_node(self, node: facts.Node) -> int:
        row = self.nodes.rows.get(node.name)
        self.notes.add(NodePut(node, None if row is None else self.nodes.facts[row]))
        return super().add_node(node)

    def remove_node(self, name: str) -> None:
        self.notes.add(NodeGone(name))
        super().remove_node(name)

    def add_pod(self, pod: facts.Pod) -> int | None:
        table = self.pods
        before = table.rows.get(pods.identity(pod), -1)
        had = None if before < 0 else self._own(before)
        if before >= 0:
            super().remove_pod(pods.identity(pod))
        row = super().add_pod(pod)
        if row is not None:
            node = self.nodes.rows.get(pod.node_name, pod.node_name)
            own, kind = self._own(row), int(table.kind_ids[row])
            new = None if own == had else own
            self.notes.add(PodPut(before, kind, new, node, pod.deleted_s, pod.unschedulable_since_s, pod.health))
        elif before >= 0:
            self.notes.add(PodGone(before))
        return row

    def set_health(self, identity: str, health: facts.Health) -> None:
        self.notes.add(PodHealth(self.pods.rows[identity], health))
        super().set_health(identity, health)

    def remove_pod(self, identity: str) -> None:
        row = self.pods.rows.get(identity)
        if row is not None:
            self.notes.add(PodGone(row))
            super().remove_pod(identity)

    def forget_unused(self) -> None:
        """As ever. A recording names kinds by their numbers, which this changes: a new file must begin."""
        super().forget_unused()
        self.is_renumbered = True

    def set_namespaces(self, found: Iterable[facts.Namespace]) -> None:
        listed = tuple(found)
        self.notes.add(Namespaces(listed))
        super().set_namespaces(listed)

    def _own(self, row: int) -> Own:
        table = self.pods
        return table.names[row], table.uids[row], table.labels[row], float(table.created_s[row])


class _Stock(stock.Stock):
    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes

    def put(self, fact: model.Fact) -> None:
        self._notes.add(Stored(fact))
        super().put(fact)

    def remove(self, fact: model.Fact) -> None:
        self._notes.add(Stored(fact, is_gone=True))
        super().remove(fact)


class _Storage(storage.Storage):
    def __init__(self, notes: Notes) -> None:
        super().__init__()
        self._notes = notes

    def put(self, fact: storage.Fact) -> None:
        self._notes.add(Stored(fact))
        super().put(fact)

    def remove(self, fact: storage.Fact) -> None:
        self._notes.add(Stored(fact, is_gone=True))
        super().remove(fact)
