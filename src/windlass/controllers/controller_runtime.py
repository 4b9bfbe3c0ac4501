"""Controller runtime: what every controller runs on.

`ControllerContext` holds the API client, metrics and leader election of the process. A `ReconcileLoop` owns one
controller's work queue and its `InformerSet`: a watched resource maps each change to the keys to reconcile, and no key
is reconciled before all required informers have synced. A reconcile returns the seconds after which to requeue, or
None, and raises `RequeueError` for a retry with backoff. Status is patched with a resourceVersion precondition.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import prometheus_client

from windlass import clock
from windlass.controllers.controller_interface import Event
from windlass.kube import (
    client,
    discovery,
    errors,
    events,
    informers,
    reflector,
    request_builders,
    store,
    transport,
    unstructured,
)
from windlass.kube.resources import Resource, Unstructured
from windlass.runtime import http_server, leader_election, workqueue

_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class ControllerMetrics:
    """The measures of all controllers of a process."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self.registry = registry
        http_server.register_unexpected_errors(registry)
        self._reconciles = prometheus_client.Counter(
            "windlass_controller_reconcile_total",
            "Objects reconciled, by controller and result (success, error).",
            ["controller", "result"],
            registry=registry,
        )
        self._seconds = prometheus_client.Histogram(
            "windlass_controller_reconcile_time_seconds",
            "Time to reconcile one object, by controller.",
            ["controller"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._queue_depth = prometheus_client.Gauge(
            "windlass_controller_queue_depth",
            "Objects that wait to be reconciled, by controller.",
            ["controller"],
            registry=registry,
        )

    def track_queue(self, controller: str, queue: workqueue.WorkQueue[str]) -> None:
        """Show how many keys wait."""
        self._queue_depth.labels(controller).set_function(lambda: len(queue))

    @contextlib.contextmanager
    def observe_reconcile(self, controller: str) -> Iterator[None]:
        """Count and time what is done in here."""
        since_s = time.perf_counter()
        result = "error"
        try:
            yield
            result = "success"
        finally:
            self._reconciles.labels(controller, result).inc()
            self._seconds.labels(controller).observe(time.perf_counter() - since_s)


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Where the lease is, and how long it lasts."""

    namespace: str = "windlass-system"
    name: str = "windlass-operator"
    settings: leader_election.LeaderElectionSettings = field(default_factory=leader_election.LeaderElectionSettings)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """Where controllers work."""

    api: client.Client
    metrics: ControllerMetrics
    namespace: str = ""
    """The one namespace they look at; empty is all of them."""
    workers: int = 1
    """Objects of one controller that are reconciled at the same time."""
    election: leader_election.LeaderElector | None = None
    """Decides which of several processes works here; None: there is but one."""
    event_window_s: float = events.WINDOW_S
    """How long controllers that say the same at every pass write it once."""

    def fence(self, server: transport.Transport) -> transport.Transport:
        """A server to which nothing is written by a process that does not lead. `api` writes to one like that."""
        return leader_election.fence_writes(server, self.election)


def new_controller_context(
    server: transport.Transport,
    time: clock.Clock,
    settings: client.ClientSettings,
    measures: ControllerMetrics,
    lease: LeaseSettings | None = None,
    *,
    namespace: str = "",
    workers: int = 1,
    event_window_s: float = events.WINDOW_S,
) -> ControllerContext:
    """A site on a server. With a lease nothing is written to it but by the lease's holder.

    The lease has a client of its own: its renewal never waits for others to write.
    """
    election = None
    if lease is not None:
        candidate, identity = client.Client(server, time, settings), leader_election.make_identity()
        election = leader_election.LeaderElector(candidate, lease.namespace, lease.name, identity, lease.settings)
    api = client.Client(leader_election.fence_writes(server, election), time, settings)
    return ControllerContext(api, measures, namespace, workers, election, event_window_s)


T = TypeVar("T")

MapFunc = Callable[[T], Iterable[str]]
"""The keys of the objects that a change of this one concerns."""


@dataclass(frozen=True, slots=True)
class WatchedResource(Generic[T]):
    """A resource that is followed: what is known of it, and how well."""

    store: store.Store[T]
    informer: informers.Informer[T]
    task: asyncio.Task[None] | None = None
    """What keeps it current, if the controller ran already when it began to be followed."""

    def stop(self) -> None:
        """Follow it no longer, if it is not required: what is known of it stays as it is, and wakes nobody."""
        if self.task is not None:
            self.task.cancel()

    @property
    def sync_error(self) -> str:
        """Why what is known may be out of date; empty if it is not."""
        name = self.informer.resource.plural
        if self.informer.last_error is not None:
            return f"{name}: {self.informer.last_error}"
        return "" if self.informer.synced else f"{name}: not read yet"


class InformerSet:
    """What a controller looks at, while it runs."""

    def __init__(self, queue: workqueue.WorkQueue[str], settings: reflector.ReflectorSettings | None = None) -> None:
        self._queue = queue
        self._settings = settings
        self._watched: list[WatchedResource[Any]] = []
        self._pending_tasks: list[Coroutine[Any, Any, None]] = []
        self._group: asyncio.TaskGroup | None = None

    def watch(
        self,
        api: client.Client,
        resource: Resource[T],
        keys: MapFunc[T],
        selection: request_builders.ListOptions = request_builders.ALL_OBJECTS,
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        *,
        sees: Callable[[T], object] | None = None,
        required: bool = True,
    ) -> WatchedResource[T]:
        """Keep a resource at hand. A change wakes the keys that the object had before it and has after it.

        `sees` is what of an object matters: a change of anything else becomes known, and wakes nobody.
        Nothing is reconciled before what is required is known; a hint that only makes things quicker is not.
        """
        held: store.Store[T] = store.Store(indexes, [_EnqueueHandler(self._queue, keys, sees)])
        informer = informers.Informer(api, resource, held, selection, self._settings)
        followed = WatchedResource(held, informer, self.spawn(informer.run()))
        if required:
            self._watched.append(followed)
        return followed

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Do something beside, until the controller ends. None: it does not run yet, and begins with it."""
        if self._group is None:
            self._pending_tasks.append(work)
            return None
        return self._group.create_task(work)

    @property
    def sync_error(self) -> str:
        """What of all this is out of date; empty if nothing is, or if nobody asked for it yet."""
        if self._group is None:
            return ""
        return "; ".join(complaint for each in self._watched if (complaint := each.sync_error))

    async def run(self, reconcile: Callable[[str], Coroutine[Any, Any, float | None]], workers: int = 1) -> None:
        """Follow, and reconcile what is woken, until cancelled. Nothing is reconciled before all is known."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            known = list(self._watched)
            for work in self._pending_tasks:
                group.create_task(work)
            self._pending_tasks.clear()
            for followed in known:
                await followed.informer.wait_synced()
            await workqueue.run_workers(self._queue, reconcile, workers)

    def close(self) -> None:
        """Let go of what never began."""
        for work in self._pending_tasks:
            work.close()
        self._pending_tasks.clear()


class _EnqueueHandler(Generic[T]):
    """Puts the keys that a change concerns on the queue."""

    def __init__(
        self, queue: workqueue.WorkQueue[str], keys: MapFunc[T], sees: Callable[[T], object] | None = None
    ) -> None:
        self._queue = queue
        self._keys = keys
        self._relevant_fields = sees

    def added(self, found: T) -> None:
        self._enqueue(found)

    def modified(self, before: T, found: T) -> None:
        if self._relevant_fields is not None and self._relevant_fields(before) == self._relevant_fields(found):
            return
        self._enqueue(before)
        self._enqueue(found)

    def deleted(self, before: T) -> None:
        self._enqueue(before)

    def _enqueue(self, found: T) -> None:
        for key in self._keys(found):
            self._queue.add(key)


CONFLICT_REQUEUE_S = 5.0
"""When something changed under a controller's hands: the change wakes its key, and this is for the case that it never
becomes known."""

_BACKOFF = workqueue.WorkQueueSettings(first_s=0.25, limit_s=300.0)
"""What stands in an object's way is watched, so that asking again and again is seldom what helps."""


class ReconcileLoop:
    """Where one controller works."""

    def __init__(self, site: ControllerContext, name: str) -> None:
        self._context = site
        self._name = name
        self.queue: workqueue.WorkQueue[str] = workqueue.WorkQueue(site.api.clock, _BACKOFF)
        self.informers = InformerSet(self.queue)
        site.metrics.track_queue(name, self.queue)

    def check_ready(self) -> str:
        return self.informers.sync_error

    async def run(self, reconcile: Callable[[str], Coroutine[Any, Any, float | None]]) -> None:
        """Reconcile what is woken, until cancelled."""

        async def measured(key: str) -> float | None:
            with self._context.metrics.observe_reconcile(self._name):
                return await reconcile(key)

        await self.informers.run(measured, self._context.workers)


async def patch_status(
    api: client.Client, resource: Resource[Unstructured], found: Mapping[str, Any], patch: Mapping[str, Any]
) -> bool:
    """Say what is the case with an object that was found; whether it was said, or need not be any longer.

    Nothing is said of an object that changed since: what was decided may no longer be so.
    """
    if not patch:
        return True
    metadata = found["metadata"]
    body = {**patch, "metadata": {"resourceVersion": metadata["resourceVersion"]}}
    try:
        await api.merge_patch(resource, metadata["name"], body, metadata.get("namespace") or "", subresource="status")
    except errors.NotFound:
        return True
    except errors.Conflict:
        return False
    return True


_DISCOVERY_RETRY_S = 5.0

_log = logging.getLogger(__name__)


async def wait_served_version(api: client.Client, group: str, versions: Sequence[str]) -> str:
    """The apiVersion of the first of these that the server has, as soon as it has one: it may come later."""
    while True:
        try:
            served = await discovery.list_versions(api, group)
        except errors.KubeError as error:
            _log.warning("%s: %s", group, error)
            served = []
        for version in versions:
            if f"{group}/{version}" in served:
                return f"{group}/{version}"
        await api.clock.sleep(_DISCOVERY_RETRY_S)


_LOG_LEVELS = {events.WARNING: logging.WARNING, events.NORMAL: logging.INFO}


def record_event(recorder: events.EventRecorder, about: events.InvolvedObject, event: Event) -> None:
    recorder.record(about, event.type, event.reason, event.message, action=event.action)
    named = f"{about.namespace}/{about.name}"
    _log.log(_LOG_LEVELS[event.type], "%s %s: %s: %s", about.kind, named, event.reason, event.message)


Conditions = tuple[unstructured.Condition, ...]


class PrunedConditions:
    """What was said of objects, by uid, and not kept."""

    def __init__(self) -> None:
        self._conditions: dict[str, Conditions] = {}

    def record(self, uid: str, said: Conditions, kept: object) -> None:
        """What was said of an object, and what its server has of it."""
        if said and not kept:
            self._conditions[uid] = said
        else:
            self._conditions.pop(uid, None)

    def restore(self, uid: str, found: Conditions) -> Conditions:
        """The conditions of an object: those that it has, or else those that it would have."""
        return found or self._conditions.get(uid, ())
