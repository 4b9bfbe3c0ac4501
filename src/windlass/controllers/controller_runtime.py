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
from windlass.controllers.controller_interface import Controller, Event, NotServedError
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
from windlass.kube.resources import EVENTS, LEASES, NAMESPACES, Resource, Unstructured
from windlass.runtime import http_server, leader_election, workqueue

_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class ControllerMetrics:
    """Prometheus metrics of all controllers of a process."""

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

        self._not_ready = prometheus_client.Gauge(
            "windlass_controller_object_not_ready",
            "1 for an object that is not as desired, with the reason of its condition.",
            ["controller", "namespace", "name", "reason"],
            registry=registry,
        )
        self._reasons: dict[tuple[str, str, str], str] = {}
        """The exported reasons, by controller, namespace and name."""

    def set_not_ready(self, controller: str, namespace: str, name: str, reason: str) -> None:
        """Export why an object is not as desired; with an empty reason it is, or it is gone."""
        labels = (controller, namespace, name)
        before = self._reasons.pop(labels, "")
        if before and before != reason:
            self._not_ready.remove(*labels, before)
        if reason:
            self._not_ready.labels(*labels, reason).set(1)
            self._reasons[labels] = reason

    def track_queue(self, controller: str, queue: workqueue.WorkQueue[str]) -> None:
        """Export the depth of a controller's work queue."""
        self._queue_depth.labels(controller).set_function(lambda: len(queue))

    @contextlib.contextmanager
    def observe_reconcile(self, controller: str) -> Iterator[None]:
        """Count and time one reconcile; an exception counts as an error."""
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
    """Namespace, name and timing of the operator's Lease."""

    namespace: str = "windlass-system"
    name: str = "windlass-operator"
    settings: leader_election.LeaderElectionSettings = field(default_factory=leader_election.LeaderElectionSettings)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What controllers of one process share: API client, metrics, leader election."""

    api: client.Client
    metrics: ControllerMetrics
    namespace: str = ""
    """The watched namespace; empty for all namespaces."""
    workers: int = 1
    """Concurrent reconciles per controller."""
    election: leader_election.LeaderElector | None = None
    """Leader election of the process; None if it runs as a single replica."""
    event_window_s: float = events.WINDOW_S
    """Window in which repeated equal events are written once."""
    lease: LeaseSettings | None = None
    """The Lease that the process competes for."""

    def fence(self, server: transport.Transport) -> transport.Transport:
        """A transport that rejects writes while this process is not the leader. `api` uses such a transport."""
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
    """Build the context for a server. With a lease, only the lease holder writes.

    Leader election has its own client, so that its rate limiter never delays the renewal of the lease.
    """
    election = None
    if lease is not None:
        candidate, identity = client.Client(server, time, settings), leader_election.make_identity()
        election = leader_election.LeaderElector(candidate, lease.namespace, lease.name, identity, lease.settings)
    api = client.Client(leader_election.fence_writes(server, election), time, settings)
    return ControllerContext(api, measures, namespace, workers, election, event_window_s, lease)


T = TypeVar("T")

MapFunc = Callable[[T], Iterable[str]]
"""Maps an object to the keys to reconcile, as controller-runtime's MapFunc."""


@dataclass(frozen=True, slots=True)
class WatchedResource(Generic[T]):
    """A watched resource: its informer and the store that the informer fills."""

    store: store.Store[T]
    informer: informers.Informer[T]
    task: asyncio.Task[None] | None = None
    """The informer's task, if the watch was started while the controller was running."""

    def stop(self) -> None:
        """Stop the informer of an optional watch. The store keeps its objects and enqueues nothing."""
        if self.task is not None:
            self.task.cancel()

    @property
    def sync_error(self) -> str:
        """Why the store may be outdated; empty if it is current."""
        name = self.informer.resource.plural
        if self.informer.last_error is not None:
            return f"{name}: {self.informer.last_error}"
        return "" if self.informer.synced else f"{name}: not read yet"


class InformerSet:
    """The informers of one controller."""

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
        """Watch a resource. A change enqueues the keys of the object before and after the change.

        `sees` selects the relevant fields: an update that leaves them equal updates the store and enqueues nothing. No
        key is reconciled before all `required` informers have synced.
        """
        held: store.Store[T] = store.Store(indexes, [_EnqueueHandler(self._queue, keys, sees)])
        informer = informers.Informer(api, resource, held, selection, self._settings)
        followed = WatchedResource(held, informer, self.spawn(informer.run()))
        if required:
            self._watched.append(followed)
        return followed

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Run a coroutine until the controller ends. None if the controller has not started: it is started with it."""
        if self._group is None:
            self._pending_tasks.append(work)
            return None
        return self._group.create_task(work)

    @property
    def sync_error(self) -> str:
        """Why stores may be outdated; empty if all are current or if the controller does not run."""
        if self._group is None:
            return ""
        return "; ".join(complaint for watched_resource in self._watched if (complaint := watched_resource.sync_error))

    async def run(self, reconcile: Callable[[str], Coroutine[Any, Any, float | None]], workers: int = 1) -> None:
        """Run informers, and reconcile queued keys after all required informers have synced, until cancelled."""
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
        """Close coroutines that were never started."""
        for work in self._pending_tasks:
            work.close()
        self._pending_tasks.clear()


class _EnqueueHandler(Generic[T]):
    """Event handler of a store: enqueues the keys of changed objects."""

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


_DISCOVERY_RETRY_S = 5.0

_NAMESPACE_CHECK_S = 60.0

CONFLICT_REQUEUE_S = 5.0
"""Requeue after a conflict. The watch enqueues the key anyway; this covers an update that the watch does not
deliver."""

_BACKOFF = workqueue.WorkQueueSettings(first_s=0.25, limit_s=300.0)
"""Retry backoff of work queues. The causes of most failures are watched, so retries may be rare."""


class ReconcileLoop:
    """Work queue, informers and metrics of one controller."""

    def __init__(self, context: ControllerContext, name: str, namespace: str | None = None) -> None:
        self._context = context
        self._name = name
        self._namespace = context.namespace if namespace is None else namespace
        self._missing_namespace = ""
        self.queue: workqueue.WorkQueue[str] = workqueue.WorkQueue(context.api.clock, _BACKOFF)
        self.informers = InformerSet(self.queue)
        context.metrics.track_queue(name, self.queue)

    def check_ready(self) -> str:
        """Why the controller cannot do its work: a missing namespace, a failing watch."""
        return "; ".join(filter(None, (self._missing_namespace, self.informers.sync_error)))

    async def _watch_namespace(self) -> None:
        """Notice that the namespace which the controller looks at does not exist."""
        while True:
            try:
                await self._context.api.get(NAMESPACES, self._namespace)
                self._missing_namespace = ""
            except errors.NotFound:
                self._missing_namespace = f"namespace {self._namespace} does not exist"
            except errors.KubeError:
                self._missing_namespace = ""  # whether it exists is unknown: it may not be read
            await self._context.api.clock.sleep(_NAMESPACE_CHECK_S)

    async def run(self, reconcile: Callable[[str], Coroutine[Any, Any, float | None]]) -> None:
        """Run informers and reconcile queued keys, until cancelled."""
        if self._namespace:
            self.informers.spawn(self._watch_namespace())

        async def measured(key: str) -> float | None:
            with self._context.metrics.observe_reconcile(self._name):
                return await reconcile(key)

        await self.informers.run(measured, self._context.workers)


async def patch_status(
    api: client.Client, resource: Resource[Unstructured], found: Mapping[str, Any], patch: Mapping[str, Any]
) -> bool:
    """Write a status patch with the observed resourceVersion as precondition. False on a conflict.

    An empty patch or a deleted object counts as written.
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


Step = TypeVar("Step")


@dataclass(frozen=True, slots=True)
class StepsResult(Generic[Step]):
    """Outcome of the steps of a plan."""

    failures: tuple[tuple[Step, errors.KubeError], ...] = ()
    conflict: Exception | None = None
    """The last conflict: the plan was made from stale objects, and the key is reconciled again."""

    @property
    def is_conflict(self) -> bool:
        return self.conflict is not None


async def execute_steps(
    steps: Iterable[Step],
    execute: Callable[[Step], Coroutine[Any, Any, None]],
    conflicts: tuple[type[Exception], ...],
    *,
    stop_at_error: bool = False,
) -> StepsResult[Step]:
    """Execute the steps of a plan in order.

    `conflicts` are the errors that mean a stale plan; any other KubeError is a failure of its step. With
    `stop_at_error` the steps after the first error are not executed.
    """
    failures: list[tuple[Step, errors.KubeError]] = []
    conflict: Exception | None = None
    for step in steps:
        try:
            await execute(step)
        except conflicts as error:
            conflict = error
        except errors.KubeError as error:
            failures.append((step, error))
        else:
            continue
        if stop_at_error:
            break
    return StepsResult(tuple(failures), conflict)


_log = logging.getLogger(__name__)

_COMPONENT = "windlass-operator"

_READINESS_LOOK_S = 5.0

_REPEATED_S = 300.0
"""Period after which a controller that still is not ready is reported again."""


class ReadinessReporter:
    """Reports whether a running controller is ready: in the log, and as an event about the operator's Lease.

    A controller whose kinds are not served has no object that could carry a condition. A reason that is gone at the
    next look, such as a list that still runs, is not reported.
    """

    def __init__(self, context: ControllerContext, controller: Controller) -> None:
        self._context = context
        self._controller = controller
        self._was_ready: bool | None = None
        """What was reported last; None before the first report."""

    async def run(self) -> None:
        """Report until cancelled."""
        looks, time = 0, self._context.api.clock
        repeated = round(_REPEATED_S / _READINESS_LOOK_S)
        while True:
            await time.sleep(_READINESS_LOOK_S)
            reason = self._controller.check_ready()
            looks = looks + 1 if reason else 0
            if reason and looks % repeated == 2:
                await self._report_failure(reason)
            elif not reason and not self._was_ready:
                await self._report_ready()

    async def _report_failure(self, reason: str) -> None:
        self._was_ready = False
        _log.warning("controller not ready: controller=%s reason=%s", self._controller.name, reason)
        await self._write_event(Event(events.WARNING, "ControllerNotReady", f"{self._controller.name}: {reason}"))

    async def _report_ready(self) -> None:
        self._was_ready = True
        _log.info("controller ready: controller=%s", self._controller.name)
        await self._write_event(Event(events.NORMAL, "ControllerReady", f"{self._controller.name} is ready"))

    async def _write_event(self, event: Event) -> None:
        lease, api = self._context.lease, self._context.api
        if lease is None:
            return
        about = events.InvolvedObject(LEASES.api_version, LEASES.kind, lease.name, lease.namespace)
        occurrence = events.EventOccurrence(about, event.type, event.reason, event.message)
        time = api.clock
        write = events.EventCorrelator().correlate(occurrence, time.now_s(), time.monotonic_s())
        if write is None:
            return
        try:
            await api.create(EVENTS.untyped(), write.body(_COMPONENT), lease.namespace)
        except errors.KubeError as error:
            _log.warning("failed to write event: reason=%s object=%s error=%s", event.reason, lease.name, error)


_LOG_LEVELS = {events.WARNING: logging.WARNING, events.NORMAL: logging.INFO}


def record_event(recorder: events.EventRecorder, about: events.InvolvedObject, event: Event) -> None:
    recorder.record(about, event.type, event.reason, event.message, action=event.action)
    level, name = _LOG_LEVELS[event.type], f"{about.namespace}/{about.name}"
    _log.log(
        level, "recorded event: kind=%s object=%s reason=%s message=%r", about.kind, name, event.reason, event.message
    )


Conditions = tuple[unstructured.Condition, ...]


class PrunedConditions:
    """Conditions that the server's CRD schema pruned, by uid of the object.

    An older CRD may have no `status.conditions`; transitions are then computed from these.
    """

    def __init__(self) -> None:
        self._conditions: dict[str, Conditions] = {}

    def record(self, uid: str, conditions: Conditions, kept: object) -> None:
        """Remember the conditions of a written status, unless the server kept them."""
        if conditions and not kept:
            self._conditions[uid] = conditions
        else:
            self._conditions.pop(uid, None)

    def restore(self, uid: str, found: Conditions) -> Conditions:
        """The conditions of an object, or those last written for it if the server pruned them."""
        return found or self._conditions.get(uid, ())


_SERVED_RECHECK_S = 30.0


class ServedApis(Generic[T]):
    """Runs a controller with the APIs that the server serves, and anew whenever those change.

    `discover` finds them, or raises NotServedError while the controller cannot run. APIs that are no longer found, or a
    discovery that fails, leave the controller as it is: its informers report what they cannot read.
    """

    def __init__(self, time: clock.Clock, discover: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._clock, self._discover = time, discover
        self._unserved = ""

    @property
    def sync_error(self) -> str:
        """What is not served; empty if the controller runs."""
        return self._unserved

    async def run(self, run: Callable[[T], Coroutine[Any, Any, None]]) -> None:
        """Run until cancelled."""
        served = await self._wait_for_change(None)
        while True:
            running = asyncio.ensure_future(run(served))
            changing = asyncio.ensure_future(self._wait_for_change(served))
            try:
                await asyncio.wait((running, changing), return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()
                    return
                served = changing.result()
            finally:
                running.cancel()
                changing.cancel()
                await asyncio.gather(running, changing, return_exceptions=True)
            _log.info("API versions changed, informers are started anew: served=%s", served)

    async def _wait_for_change(self, before: T | None) -> T:
        while True:
            if before is not None:
                await self._clock.sleep(_SERVED_RECHECK_S)
            try:
                found = await self._discover()
            except (NotServedError, errors.KubeError) as error:
                await self._note_unserved(error, is_running=before is not None)
                continue
            if found != before:
                self._unserved = ""
                return found

    async def _note_unserved(self, error: Exception, *, is_running: bool) -> None:
        """A controller that does not run says why, and discovers again soon."""
        if is_running:
            _log.warning("failed to discover APIs: error=%s", error)
            return
        if self._unserved != str(error):
            _log.warning("APIs are not served, waiting for them: error=%s", error)
        self._unserved = str(error)
        await self._clock.sleep(_DISCOVERY_RETRY_S)


async def find_served_version(api: client.Client, group: str, versions: Sequence[str]) -> str:
    """The first of `versions` that the server serves, as apiVersion. NotServedError if it serves none."""
    expected = f"API group {group}: expected {' or '.join(versions)}"
    try:
        served = await discovery.list_versions(api, group)
    except errors.KubeError as error:
        raise NotServedError(f"{expected}, discovery failed: {error}") from error
    for version in versions:
        if f"{group}/{version}" in served:
            return f"{group}/{version}"
    raise NotServedError(f"{expected}, the server serves {', '.join(sorted(served)) or 'none'}")
