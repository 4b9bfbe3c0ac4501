"""Informers of Cluster API objects and of infrastructure templates.

A resource that is forbidden or not served stays empty with the reason and is retried; nothing else waits for it. Only
changes of fields that node groups are made from wake the loop. The kind of an infrastructure template is looked up and
watched when the first group refers to it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from windlass import errors
from windlass.kube import client, discovery, informers, request_builders, store
from windlass.kube import errors as kube_errors
from windlass.kube.models import clusterapi, meta
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import group_annotations


def has_relevant_change(before: meta.Object, obj: meta.Object) -> bool:
    """True if a field changed that node groups are made from. Machines are stored narrowed to such fields."""
    return _relevant_fields(before) != _relevant_fields(obj)


def _relevant_fields(obj: meta.Object) -> tuple[object, ...]:
    metadata = obj.meta
    owners, spec = metadata.owner_references, getattr(obj, "spec", None)
    identity = (metadata.uid, metadata.deletion_timestamp, metadata.labels, metadata.annotations, owners, spec)
    match obj:
        case clusterapi.MachineSet(status=clusterapi.MachineGroupStatus() as counted):
            return (
                *identity,
                counted.replicas,
                counted.authoritative_api,
                group_annotations.find_paused_condition(counted),
            )
        case clusterapi.MachineDeployment(status=counted) | clusterapi.MachinePool(status=counted):
            return (
                *identity,
                group_annotations.find_paused_condition(counted),
                group_annotations.topology_owns_replicas(obj),
            )
        case clusterapi.InfrastructureTemplate(status=status):
            return (*identity, status)
        case clusterapi.MirroredMachineSet(status=told_twin):
            return (*identity, told_twin)
    return identity


T = TypeVar("T")

Watched = TypeVar("Watched", bound=meta.Object)

_REFUSALS = (kube_errors.Forbidden, kube_errors.NotFound, kube_errors.Unauthorized, kube_errors.MethodNotAllowed)

_POLL_S = 0.05

_PATIENCE = 5
"""Failed attempts after which start-up no longer waits for an optional resource."""

_FINAL_AFTER_S = 30.0
"""Time after which a refusal counts as permanent: a starting API server refuses for a moment."""


class ResourceInformer(Generic[T]):
    """Informer and store of one resource."""

    def __init__(
        self,
        api: client.Client,
        resource: Resource[Any],
        namespaces: Sequence[str],
        handler: store.EventHandler[T],
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        *,
        keeps_partial: bool = False,
        narrow: Callable[[Any], T] | None = None,
    ) -> None:
        """`keeps_partial`: keep the valid part of an object that was never read as a whole.

        `narrow` reduces an object to what is stored.
        """
        self.resource = resource
        self._clock = api.clock
        self._troubled_at_s: float | None = None
        self._stores = {
            namespace: store.Store(indexes, [handler], keeps_partial=keeps_partial, narrow=narrow)
            for namespace in namespaces
        }
        self._informers = [
            informers.Informer(api, resource, held, request_builders.ListOptions(namespace))
            for namespace, held in self._stores.items()
        ]

    def get(self, namespace: str, name: str) -> T | None:
        held = self._stores.get("" if "" in self._stores else namespace)
        return None if held is None else held.get(f"{namespace}/{name}")

    def find(self, index: str, value: str) -> Iterator[T]:
        for held in self._stores.values():
            yield from held.find(index, value)

    def __iter__(self) -> Iterator[T]:
        for held in self._stores.values():
            yield from held

    @property
    def malformed(self) -> list[errors.InvalidObject]:
        """Errors of malformed objects."""
        return [complaint for informer in self._informers for complaint in informer.malformed.values()]

    @property
    def last_error(self) -> kube_errors.KubeError | None:
        """Why the store may be outdated; None if it is current."""
        return next((informer.last_error for informer in self._informers if informer.last_error is not None), None)

    @property
    def synced(self) -> bool:
        """True after the first complete list."""
        return all(informer.synced for informer in self._informers)

    @property
    def settled(self) -> bool:
        """True once listed, refused, or failed often enough: start-up does not wait any longer."""
        return all(
            informer.synced or isinstance(informer.last_error, _REFUSALS) or informer.counts.failures >= _PATIENCE
            for informer in self._informers
        )

    @property
    def is_unreadable(self) -> bool:
        """True if reading has failed for long."""
        now_s = self._clock.monotonic_s()
        if self.last_error is None:
            self._troubled_at_s = None
        elif self._troubled_at_s is None:
            self._troubled_at_s = now_s
        return self._troubled_at_s is not None and now_s - self._troubled_at_s >= _FINAL_AFTER_S

    @property
    def was_never_allowed(self) -> bool:
        """True if nothing was read so far because of a refusal."""
        return not self.synced and isinstance(self.last_error, _REFUSALS)

    @property
    def is_refused(self) -> bool:
        """True if the refusal is permanent."""
        return self.is_unreadable and isinstance(self.last_error, _REFUSALS)

    async def wait_answered(self) -> None:
        """Wait until the resource is listed, or permanently refused."""
        while not (self.synced or self.is_refused):
            await self._clock.sleep(_POLL_S)

    async def wait_synced(self) -> None:
        for informer in self._informers:
            await informer.wait_synced()

    async def wait_settled(self) -> None:
        while not self.settled:
            await self._clock.sleep(_POLL_S)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as together:
            for informer in self._informers:
                together.create_task(informer.run())


class ChangeHandler(Generic[Watched]):
    """Event handler that reports changed objects, if relevant fields changed."""

    def __init__(self, tell: Callable[[Watched], None]) -> None:
        self._notify = tell

    def added(self, watched: Watched) -> None:
        self._notify(watched)

    def modified(self, before: Watched, watched: Watched) -> None:
        if has_relevant_change(before, watched):
            self._notify(watched)

    def deleted(self, before: Watched) -> None:
        self._notify(before)


class NarrowChangeHandler(Generic[T]):
    """Event handler for narrowed objects: reports every change."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._notify = tell

    def added(self, obj: T) -> None:
        self._notify()

    def modified(self, before: T, obj: T) -> None:
        if before != obj:
            self._notify()

    def deleted(self, before: T) -> None:
        self._notify()


_DISCOVERY_RETRY_S = 30.0

_log = logging.getLogger(__name__)

Template = clusterapi.InfrastructureTemplate


@dataclass(frozen=True, slots=True)
class TemplateKind:
    """A kind of a reference: with group (v1beta2), or group and version (v1beta1)."""

    api: str
    kind: str

    @property
    def has_version(self) -> bool:
        return "/" in self.api


def find_template_kind(reference: clusterapi.Reference | None) -> TemplateKind | None:
    """The kind of a reference; None if it is incomplete."""
    if reference is None or not reference.kind:
        return None
    api = reference.api_group if reference.api_group is not None else reference.api_version
    return TemplateKind(api, reference.kind) if api else None


class InfrastructureTemplates:
    """Informers of infrastructure template kinds."""

    def __init__(self, api: client.Client, namespaces: tuple[str, ...], on_change: Callable[[], None]) -> None:
        self._api = api
        self._namespaces = namespaces
        self._on_change = on_change
        self._followed: dict[TemplateKind, ResourceInformer[Template] | None] = {}
        """None while the kind is being discovered."""
        self._missing: dict[TemplateKind, str] = {}
        self._asked: asyncio.Queue[TemplateKind] = asyncio.Queue()

    def request(self, kind: TemplateKind) -> None:
        """Watch a kind, unless it is watched already."""
        if kind not in self._followed:
            self._followed[kind] = None
            self._asked.put_nowait(kind)

    def get(self, kind: TemplateKind, namespace: str, name: str) -> Template | None:
        followed = self._followed.get(kind)
        return None if followed is None else followed.get(namespace, name)

    def explain(self, kind: TemplateKind, namespace: str, name: str) -> str:
        """Why a template is missing."""
        followed = self._followed.get(kind)
        if followed is None:
            return self._missing.get(kind, "not read yet")
        for complaint in followed.malformed:
            if complaint.name == f"{namespace}/{name}":
                return str(complaint)
        if not followed.synced:
            return str(followed.last_error or "not read yet")
        return "no such object"

    @property
    def errors_by_kind(self) -> dict[str, str]:
        """Errors of kinds that cannot be read."""
        error_by_kind = {kind.kind: reason for kind, reason in self._missing.items()}
        for kind, followed in self._followed.items():
            if followed is not None and followed.last_error is not None:
                error_by_kind[kind.kind] = str(followed.last_error)
        return error_by_kind

    async def wait_settled(self) -> None:
        """Wait until every requested kind is listed or has failed."""
        while not all(self._is_settled(kind) for kind in list(self._followed)):
            await self._api.clock.sleep(_POLL_S)

    def _is_settled(self, kind: TemplateKind) -> bool:
        followed = self._followed[kind]
        return kind in self._missing if followed is None else followed.settled

    async def run(self) -> None:
        """Discover and watch requested kinds, until cancelled."""
        async with asyncio.TaskGroup() as together:
            while True:
                together.create_task(self._follow(await self._asked.get()))

    async def _follow(self, kind: TemplateKind) -> None:
        resource = await self._look_up(kind)
        handler = ChangeHandler[Template](lambda _: self._on_change())
        followed = ResourceInformer(self._api, resource, self._namespaces, handler)
        self._followed[kind] = followed
        await followed.run()

    async def _look_up(self, kind: TemplateKind) -> Resource[Template]:
        while True:
            try:
                resource = await self._find(kind)
            except kube_errors.KubeError as error:
                self._set_missing(kind, str(error))
            else:
                if resource is not None:
                    self._missing.pop(kind, None)
                    return resource
                self._set_missing(kind, f"the server has no kind {kind.kind} in {kind.api}")
            await self._api.clock.sleep(_DISCOVERY_RETRY_S)

    async def _find(self, kind: TemplateKind) -> Resource[Template] | None:
        """The resource of a kind, in the given version or else the first that serves it."""
        versions = [kind.api] if kind.has_version else await discovery.list_versions(self._api, kind.api)
        for version in versions:
            resource = await discovery.find_resource(self._api, version, kind.kind)
            if resource is not None:
                return resource.read_as(Template)
        return None

    def _set_missing(self, kind: TemplateKind, reason: str) -> None:
        if self._missing.get(kind) != reason:
            _log.warning("infrastructure templates cannot be read: kind=%s reason=%r", kind.kind, reason)
            self._missing[kind] = reason
            self._on_change()
