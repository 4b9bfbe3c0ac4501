"""Informer sinks: keep a snapshot current from watch events, object by object.

Objects are read into facts at once and their JSON is dropped. `ChangeBuffer` buffers changes while a decision runs, so
that the snapshot cannot change under it, and applies them afterwards, in order. An unreadable object still exists: a
bound pod stays with its readable fields, a node counts as used, a PodDisruptionBudget allows no disruption, and for all
other kinds the last readable version stays.
"""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from windlass import errors, klog
from windlass.autoscaler.readers import dra, nodes, pods, workloads
from windlass.engine.model import dynamic_resources, facts, node_groups
from windlass.engine.snapshot import cluster_snapshot
from windlass.engine.snapshot.volume_usage import StorageFact
from windlass.kube import resources
from windlass.kube.models import core, meta
from windlass.kube.models import pods as pod_models
from windlass.kube.resources import Unreadable

Change = Callable[..., object]


class ChangeBuffer:
    """Applies changes at once, or buffers them while frozen. Not thread-safe: used by the event loop only."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Change, tuple[Any, ...]]] = deque()
        self._closed = 0
        self.failed = 0
        """Buffered changes that failed."""

    @property
    def is_frozen(self) -> bool:
        """Whether changes are buffered; then a thread may be using the snapshot, and the event loop must not even read
        it.
        """
        return self._closed > 0

    def apply(self, change: Change, *arguments: Any) -> None:
        """Apply a change: now, or after all buffered ones. An error of an immediate change is raised."""
        if self._closed or self._waiting:
            self._waiting.append((change, arguments))
        else:
            change(*arguments)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Buffer all changes within the block."""
        self._closed += 1
        try:
            yield
        finally:
            self._closed -= 1
            if not self._closed:
                self._let_through()

    def _let_through(self) -> None:
        """Apply all buffered changes, including those that arrive meanwhile. The first stays in the queue until it is
        applied, so that none can overtake it.
        """
        while self._waiting:
            change, arguments = self._waiting[0]
            try:
                change(*arguments)
            except Exception as error:
                self.failed += 1
                klog.report_error(klog.ErrorPlace.INFORMER, _describe_change(change, arguments), "", error)
            finally:
                self._waiting.popleft()


def _describe_change(change: Change, arguments: tuple[Any, ...]) -> str:
    """Describe a change and its object: the first argument of a change is the key."""
    key = arguments[0] if arguments and isinstance(arguments[0], str) else ""
    return f"{getattr(change, '__qualname__', repr(change))} {key}".strip()


Model = TypeVar("Model")

Read = TypeVar("Read")

Read_contra = TypeVar("Read_contra", contravariant=True)

_log = logging.getLogger(__name__)


class FactStore(Protocol[Read_contra]):
    """Storage of a sink's facts by key."""

    def keys(self) -> Iterable[str]: ...

    def put(self, key: str, fact: Read_contra) -> None: ...

    def remove(self, key: str) -> None: ...

    def set_aside(self, key: str, fact: Read_contra | None, reason: str) -> None:
        """Mark an object as invalid. `fact`: its readable part, if any."""


class FactSink(Generic[Model, Read]):
    """Keeps the facts of one kind current.

    An error of one object, now or when buffered changes are applied, affects that object only and becomes a complaint.
    """

    def __init__(
        self,
        kept: FactStore[Read],
        read: Callable[[Model], Read],
        key: Callable[[meta.ObjectMeta], str],
        behind: ChangeBuffer,
        salvage: Callable[[Model, str], Read] | None = None,
        blank: Callable[[meta.ObjectMeta], Model] | None = None,
    ) -> None:
        """`salvage` reads the readable part of an object; `blank` makes an object from its metadata alone."""
        self._kept, self._read, self._key, self._gate = kept, read, key, behind
        self._salvage, self._blank = salvage, blank
        self._unseen: set[str] | None = None
        self.complaints: dict[str, errors.InvalidObject] = {}
        """Warnings by key, about objects that could be read: ignored fields, or why a change could not be stored."""

    def begin(self) -> None:
        self._gate.apply(self._begin)

    def put(self, metadata: meta.ObjectMeta, found: Model) -> None:
        """Store an object. InvalidObject if it cannot be read; the informer then calls `set_aside`."""
        self._gate.apply(self._put, metadata, self._read(found))

    def set_aside(self, unreadable: Unreadable[Model]) -> None:
        partial, fact = unreadable.partial, None
        if partial is None and self._blank is not None:
            partial = self._blank(unreadable.metadata)
        if partial is not None and self._salvage is not None:
            try:
                fact = self._salvage(partial, str(unreadable.error))
            except Exception as error:  # any error: the last known version stays
                self._report(unreadable.metadata, error)
        self._gate.apply(self._set_aside, unreadable.metadata, fact, str(unreadable.error))

    def remove(self, metadata: meta.ObjectMeta) -> None:
        self._gate.apply(self._remove, metadata)

    def end(self) -> None:
        self._gate.apply(self._end)

    # Changes that may be buffered

    def _begin(self) -> None:
        self._unseen = set(self._kept.keys())

    def _put(self, metadata: meta.ObjectMeta, fact: Read, complaint: errors.InvalidObject | None = None) -> None:
        key = self._key(metadata)
        if self._unseen is not None:
            self._unseen.discard(key)
        if complaint is not None:
            self._add_complaint(key, complaint)
        elif self.complaints:
            self.complaints.pop(key, None)
        try:
            self._kept.put(key, fact)
        except Exception as error:
            self._fail(metadata, key, fact, error)

    def _set_aside(self, metadata: meta.ObjectMeta, fact: Read | None, reason: str) -> None:
        key = self._key(metadata)
        if self._unseen is not None:
            self._unseen.discard(key)
        try:
            self._kept.set_aside(key, fact, reason)
        except Exception as error:
            self._fail(metadata, key, fact, error)

    def _remove(self, metadata: meta.ObjectMeta) -> None:
        self._drop(self._key(metadata), metadata)

    def _end(self) -> None:
        for key in sorted(self._unseen or ()):
            self._drop(key, meta.ObjectMeta(name=key))
        self._unseen = None

    def _drop(self, key: str, metadata: meta.ObjectMeta) -> None:
        self.complaints.pop(key, None)
        try:
            self._kept.remove(key)
        except Exception as error:
            self._add_complaint(key, self._report(metadata, error))

    def _fail(self, metadata: meta.ObjectMeta, key: str, fact: Read | None, error: Exception) -> None:
        """Handle a failed change: keep the part of the object that is safe to keep."""
        complaint = self._report(metadata, error, fact)
        self._add_complaint(key, complaint)
        rescue = getattr(self._kept, "rescue", None)
        if rescue is None or fact is None:
            return
        try:
            rescue(key, fact, str(complaint))
        except Exception as again:
            self._report(metadata, again, fact)

    def _report(self, metadata: meta.ObjectMeta, error: Exception, fact: object = None) -> errors.InvalidObject:
        kind = "object" if fact is None else type(fact).__name__
        return resources.to_invalid_object(kind, metadata, error)

    def _add_complaint(self, key: str, complaint: errors.InvalidObject) -> None:
        if self.complaints.get(key) != complaint:
            _log.warning("ignored invalid part of object: error=%s", complaint)
        self.complaints[key] = complaint


class ValidatingSink(FactSink[Model, Read]):
    """The same for objects that can be read although some of their fields are ignored."""

    def __init__(
        self,
        kept: FactStore[Read],
        read: Callable[[Model], tuple[Read, errors.InvalidObject | None]],
        key: Callable[[meta.ObjectMeta], str],
        behind: ChangeBuffer,
        salvage: Callable[[Model, str], Read] | None = None,
    ) -> None:
        super().__init__(kept, lambda found: read(found)[0], key, behind, salvage)
        self._read_complaining = read

    def put(self, metadata: meta.ObjectMeta, found: Model) -> None:
        fact, complaint = self._read_complaining(found)
        self._gate.apply(self._put, metadata, fact, complaint)


# Fact stores


class _PodStore:
    def __init__(self, kept: cluster_snapshot.Snapshot) -> None:
        self._snapshot = kept
        self.keys = kept.pods.rows.keys
        self.remove = kept.remove_pod

    def put(self, key: str, fact: facts.Pod) -> None:
        row = self._snapshot.pods.rows.get(key)
        if row is not None:
            # Health is the most frequent change. It is updated separately, because no filter depends on it.
            if self._snapshot.pods.health.get(row, facts.PodHealth.READY) is not fact.health:
                self._snapshot.set_health(key, fact.health)
            if self._snapshot.pod(row) == fact:  # ignore updates that do not change scheduling-relevant fields
                return
        self._snapshot.add_pod(fact)

    def set_aside(self, key: str, fact: facts.Pod | None, reason: str) -> None:
        """Keep a bound pod with its readable fields, so that its node counts as used; drop a pending one."""
        if fact is None and (row := self._snapshot.pods.rows.get(key)) is not None:
            fact = replace(self._snapshot.pod(row), unreadable=reason)
        if fact is not None and fact.node_name:
            self.put(key, fact)
        else:
            self.remove(key)

    def rescue(self, key: str, fact: facts.Pod, reason: str) -> None:
        """After a failed put: keep the pod as a name on its node."""
        self.remove(key)
        if fact.node_name and fact.phase not in cluster_snapshot.FINISHED_PHASES:
            spec = facts.PodSpec(requests=fact.spec.requests, priority=fact.spec.priority)
            self._snapshot.add_pod(
                facts.Pod(
                    fact.namespace, fact.name, fact.uid, fact.labels, owner=fact.owner, spec=spec, digest=fact.digest,
                    node_name=fact.node_name, phase="Running", created_s=fact.created_s, deleted_s=fact.deleted_s,
                    grace_s=fact.grace_s, unreadable=reason,
                )
            )  # fmt: skip


class _NodeStore:
    def __init__(self, kept: cluster_snapshot.Snapshot) -> None:
        self._snapshot = kept
        self.keys = kept.nodes.rows.keys

    def put(self, key: str, fact: facts.Node) -> None:
        row = self._snapshot.nodes.rows.get(key)
        if row is None or self._snapshot.nodes.facts[row] != fact:  # ignore kubelet heartbeats: they change no fact
            self._snapshot.add_node(fact)

    def remove(self, key: str) -> None:
        if key in self._snapshot.nodes.rows:
            self._snapshot.remove_node(key)

    def set_aside(self, key: str, fact: facts.Node | None, reason: str) -> None:
        """The node is registered and counts as used."""
        row = self._snapshot.nodes.rows.get(key)
        if fact is None and row is not None:
            fact = replace(self._snapshot.nodes.facts[row], unschedulable=True, unreadable=reason)
        self.put(key, fact or facts.Node(key, unschedulable=True, unreadable=reason))

    def rescue(self, key: str, fact: facts.Node, reason: str) -> None:
        """After a failed put: keep the node as a name."""
        self._snapshot.add_node(
            facts.Node(
                fact.name, fact.uid, unschedulable=True, provider_id=fact.provider_id, created_s=fact.created_s,
                unreadable=reason,
            )
        )  # fmt: skip


class FactCache(Generic[Read]):
    """Facts by key, and all of them as one tuple, the same object while none changes."""

    def __init__(self) -> None:
        self._known: dict[str, Read] = {}
        self.keys = self._known.keys
        self._all: tuple[Read, ...] | None = None

    @property
    def all(self) -> tuple[Read, ...]:
        """All facts in the order of their keys."""
        if self._all is None:
            self._all = tuple(self._known[key] for key in sorted(self._known))
        return self._all

    def put(self, key: str, fact: Read | None) -> None:
        """Store a fact. None: the object exists but has no effect."""
        if fact is None:
            self.remove(key)
        elif self._known.get(key) != fact:
            self._known[key] = fact
            self._all = None

    def remove(self, key: str) -> None:
        if self._known.pop(key, None) is not None:
            self._all = None

    def set_aside(self, key: str, fact: Read | None, reason: str) -> None:
        """Store the readable part; otherwise the last known version stays."""
        if fact is not None:
            self.put(key, fact)


class _NamespaceCache(FactCache[facts.Namespace]):
    def __init__(self, kept: cluster_snapshot.Snapshot) -> None:
        super().__init__()
        self._snapshot = kept

    def put(self, key: str, fact: facts.Namespace | None) -> None:
        self._apply_if_changed(super().put, key, fact)

    def remove(self, key: str) -> None:
        self._apply_if_changed(super().remove, key)

    def _apply_if_changed(self, change: Callable[..., None], *arguments: object) -> None:
        before = self.all
        change(*arguments)
        if self.all is not before:
            self._snapshot.set_namespaces(self.all)


class _DeviceStore:
    """DRA facts of one kind in the snapshot's inventory."""

    def __init__(self, kept: cluster_snapshot.Snapshot) -> None:
        self._inventory = kept.devices.inventory
        self._known: dict[str, dynamic_resources.DeviceFact] = {}
        self.keys = self._known.keys

    def put(self, key: str, fact: dynamic_resources.DeviceFact) -> None:
        if self._known.get(key) != fact:  # ignore changes of claims that do not affect allocation
            self._known[key] = fact
            self._inventory.put(fact)

    def remove(self, key: str) -> None:
        if key in self._known:
            self._inventory.remove(self._known.pop(key))

    def set_aside(self, key: str, fact: dynamic_resources.DeviceFact | None, reason: str) -> None:
        """The last known version stays: devices of an unreadable claim are not free."""


class _StorageStore:
    """Storage facts of one kind in the snapshot; they carry their own keys."""

    def __init__(self, kept: cluster_snapshot.Snapshot) -> None:
        self._storage = kept.storage
        self._known: dict[str, StorageFact] = {}
        self.keys = self._known.keys

    def put(self, key: str, fact: StorageFact) -> None:
        self._known[key] = fact
        self._storage.put(fact)

    def remove(self, key: str) -> None:
        if key in self._known:
            self._storage.remove(self._known.pop(key))

    def set_aside(self, key: str, fact: StorageFact | None, reason: str) -> None:
        """The last known version stays. A volume that was never readable does not exist, and pods that need it do not
        move.
        """


def pod_identity(metadata: meta.ObjectMeta) -> str:
    """Return the pod identity used by the snapshot."""
    return metadata.uid or metadata.key


def pod_sink(kept: cluster_snapshot.Snapshot, behind: ChangeBuffer) -> FactSink[pod_models.Pod, facts.Pod]:
    def read(pod: pod_models.Pod) -> tuple[facts.Pod, errors.InvalidObject | None]:
        return pods.read_pod_with_warning(pod, kept.release, cloud_tpus=False)

    return ValidatingSink(_PodStore(kept), read, pod_identity, behind, pods.salvage_pod)


def daemon_set_sink(
    kept: FactCache[node_groups.DaemonSet], behind: ChangeBuffer
) -> FactSink[pod_models.DaemonSet, node_groups.DaemonSet]:
    return ValidatingSink(kept, workloads.read_daemon_set_with_warning, lambda metadata: metadata.key, behind)


def node_sink(kept: cluster_snapshot.Snapshot, behind: ChangeBuffer) -> FactSink[core.Node, facts.Node]:
    return FactSink(
        _NodeStore(kept), nodes.read_node, lambda metadata: metadata.name or "", behind, nodes.salvage_node, core.Node
    )


def namespace_sink(kept: cluster_snapshot.Snapshot, behind: ChangeBuffer) -> FactSink[core.Namespace, facts.Namespace]:
    return FactSink(_NamespaceCache(kept), nodes.read_namespace, lambda metadata: metadata.name or "", behind)


def plain_sink(
    kept: FactCache[Read], read: Callable[[Model], Read | None], behind: ChangeBuffer
) -> FactSink[Model, Read | None]:
    return FactSink(kept, read, lambda metadata: metadata.key, behind)


def budget_sink(
    kept: FactCache[facts.PodDisruptionBudget], behind: ChangeBuffer
) -> FactSink[pod_models.PodDisruptionBudget, facts.PodDisruptionBudget | None]:
    return FactSink(
        kept, workloads.read_budget, lambda metadata: metadata.key, behind,
        workloads.salvage_budget, pod_models.PodDisruptionBudget,
    )  # fmt: skip


def storage_sink(
    kept: cluster_snapshot.Snapshot, read: Callable[[Model], StorageFact], behind: ChangeBuffer
) -> FactSink[Model, StorageFact]:
    return FactSink(_StorageStore(kept), read, lambda metadata: metadata.key, behind)


def device_sink(
    kept: cluster_snapshot.Snapshot, read: Callable[[Model], dynamic_resources.DeviceFact], behind: ChangeBuffer
) -> FactSink[Model, dynamic_resources.DeviceFact]:
    def read_complaining(found: Model) -> tuple[dynamic_resources.DeviceFact, errors.InvalidObject | None]:
        fact = read(found)
        return fact, dra.find_complaint(fact)

    return ValidatingSink(_DeviceStore(kept), read_complaining, lambda metadata: metadata.key, behind)
