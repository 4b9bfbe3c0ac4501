"""Sinks: informers keep a snapshot current, object by object, and nothing else of what they read is kept.

A pod is read into facts and counted in columns at once; its JSON lives no longer than the chunk it came in. Reading
comes first, and complains; what changes the snapshot waits at the gate while a decision is made.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from windlass.autoscaler.observe import gate, nodes, pods
from windlass.engine import facts, snapshot
from windlass.engine.devices import model
from windlass.engine.storage import Fact
from windlass.kube.models import core, meta
from windlass.kube.models import pods as pod_models

Model = TypeVar("Model")
Read = TypeVar("Read")
Read_contra = TypeVar("Read_contra", contravariant=True)


class Keeper(Protocol[Read_contra]):
    """What a sink keeps its facts in, by key."""

    def keys(self) -> Iterable[str]: ...

    def put(self, key: str, fact: Read_contra) -> None: ...

    def remove(self, key: str) -> None: ...


class Sink(Generic[Model, Read]):
    """Keeps facts as the server has them."""

    def __init__(
        self,
        kept: Keeper[Read],
        read: Callable[[Model], Read],
        key: Callable[[meta.ObjectMeta], str],
        behind: gate.Gate,
    ) -> None:
        self._kept, self._read, self._key, self._gate = kept, read, key, behind
        self._unseen: set[str] | None = None

    def begin(self) -> None:
        self._gate.do(self._begin)

    def put(self, metadata: meta.ObjectMeta, found: Model) -> None:
        """InvalidObject if it cannot be read; the informer then has it removed."""
        self._gate.do(self._put, self._key(metadata), self._read(found))

    def remove(self, metadata: meta.ObjectMeta) -> None:
        self._gate.do(self._kept.remove, self._key(metadata))

    def end(self) -> None:
        self._gate.do(self._end)

    def _begin(self) -> None:
        self._unseen = set(self._kept.keys())

    def _put(self, key: str, fact: Read) -> None:
        if self._unseen is not None:
            self._unseen.discard(key)
        self._kept.put(key, fact)

    def _end(self) -> None:
        for key in sorted(self._unseen or ()):
            self._kept.remove(key)
        self._unseen = None


# ── What facts are kept in ───────────────────────────────────────────────────────────────────────────────────────


class _Pods:
    def __init__(self, kept: snapshot.Snapshot) -> None:
        self._snapshot = kept
        self.keys = kept.pods.rows.keys
        self.remove = kept.remove_pod

    def put(self, key: str, fact: facts.Pod) -> None:
        if fact.node_name and fact.phase == "Pending":
            fact = replace(fact, phase="Running")  # it counts from when it is bound: that it starts is no change
        row = self._snapshot.pods.rows.get(key)
        if row is None or self._snapshot.pod(row) != fact:  # much of what pods say of themselves is nobody's business
            self._snapshot.add_pod(fact)


class _Nodes:
    def __init__(self, kept: snapshot.Snapshot) -> None:
        self._snapshot = kept
        self.keys = kept.nodes.rows.keys

    def put(self, key: str, fact: facts.Node) -> None:
        row = self._snapshot.nodes.rows.get(key)
        if row is None or self._snapshot.nodes.facts[row] != fact:  # kubelets say every few minutes that they are alive
            self._snapshot.add_node(fact)

    def remove(self, key: str) -> None:
        if key in self._snapshot.nodes.rows:
            self._snapshot.remove_node(key)


class Kept(Generic[Read]):
    """Facts by key, and all of them as one value that stays the same object while none of them changes."""

    def __init__(self) -> None:
        self._known: dict[str, Read] = {}
        self.keys = self._known.keys
        self._all: tuple[Read, ...] | None = None

    @property
    def all(self) -> tuple[Read, ...]:
        """In the order of their keys."""
        if self._all is None:
            self._all = tuple(self._known[key] for key in sorted(self._known))
        return self._all

    def put(self, key: str, fact: Read | None) -> None:
        """None: it is there, and as good as gone."""
        if fact is None:
            self.remove(key)
        elif self._known.get(key) != fact:
            self._known[key] = fact
            self._all = None

    def remove(self, key: str) -> None:
        if self._known.pop(key, None) is not None:
            self._all = None


class _Namespaces(Kept[facts.Namespace]):
    def __init__(self, kept: snapshot.Snapshot) -> None:
        super().__init__()
        self._snapshot = kept

    def put(self, key: str, fact: facts.Namespace | None) -> None:
        self._tell_if_changed(super().put, key, fact)

    def remove(self, key: str) -> None:
        self._tell_if_changed(super().remove, key)

    def _tell_if_changed(self, change: Callable[..., None], *arguments: object) -> None:
        before = self.all
        change(*arguments)
        if self.all is not before:
            self._snapshot.set_namespaces(self.all)


class _Devices:
    """Facts of one kind in the snapshot's stock of devices."""

    def __init__(self, kept: snapshot.Snapshot) -> None:
        self._stock = kept.devices.stock
        self._known: dict[str, model.Fact] = {}
        self.keys = self._known.keys

    def put(self, key: str, fact: model.Fact) -> None:
        if self._known.get(key) != fact:  # claims say much about devices that nobody asks for
            self._known[key] = fact
            self._stock.put(fact)

    def remove(self, key: str) -> None:
        if key in self._known:
            self._stock.remove(self._known.pop(key))


class _Storage:
    """Facts of one kind in the snapshot's storage, which finds them by what they say of themselves."""

    def __init__(self, kept: snapshot.Snapshot) -> None:
        self._storage = kept.storage
        self._known: dict[str, Fact] = {}
        self.keys = self._known.keys

    def put(self, key: str, fact: Fact) -> None:
        self._known[key] = fact
        self._storage.put(fact)

    def remove(self, key: str) -> None:
        if key in self._known:
            self._storage.remove(self._known.pop(key))


def identity(metadata: meta.ObjectMeta) -> str:
    """As the snapshot names pods."""
    return metadata.uid or metadata.key


def pod_sink(kept: snapshot.Snapshot, behind: gate.Gate) -> Sink[pod_models.Pod, facts.Pod]:
    return Sink(_Pods(kept), pods.read, identity, behind)


def node_sink(kept: snapshot.Snapshot, behind: gate.Gate) -> Sink[core.Node, facts.Node]:
    return Sink(_Nodes(kept), nodes.read, lambda metadata: metadata.name or "", behind)


def namespace_sink(kept: snapshot.Snapshot, behind: gate.Gate) -> Sink[core.Namespace, facts.Namespace]:
    return Sink(_Namespaces(kept), nodes.read_namespace, lambda metadata: metadata.name or "", behind)


def plain_sink(kept: Kept[Read], read: Callable[[Model], Read | None], behind: gate.Gate) -> Sink[Model, Read | None]:
    return Sink(kept, read, lambda metadata: metadata.key, behind)


def storage_sink(kept: snapshot.Snapshot, read: Callable[[Model], Fact], behind: gate.Gate) -> Sink[Model, Fact]:
    return Sink(_Storage(kept), read, lambda metadata: metadata.key, behind)


def device_sink(
    kept: snapshot.Snapshot, read: Callable[[Model], model.Fact], behind: gate.Gate
) -> Sink[Model, model.Fact]:
    return Sink(_Devices(kept), read, lambda metadata: metadata.key, behind)
