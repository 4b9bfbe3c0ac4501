"""Following: one resource in the namespaces chosen, and the whole of it read from memory.

A resource that may not be read, or that the server does not have, stays empty and says why; it is asked for again until
it can be read, and nothing else waits for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from windlass import errors
from windlass.kube import client, informers, prepare, store
from windlass.kube import errors as kube_errors
from windlass.kube.models import meta
from windlass.kube.resources import Resource
from windlass.providers.clusterapi import changes

T = TypeVar("T")
Watched = TypeVar("Watched", bound=meta.Object)

_REFUSALS = (kube_errors.Forbidden, kube_errors.NotFound, kube_errors.Unauthorized, kube_errors.MethodNotAllowed)
_LOOK_S = 0.05
_PATIENCE = 5
"""Failures after which nobody waits any longer for a first list of something that is not decisive."""
_FINAL_AFTER_S = 30.0
"""A refusal that lasts so long is meant: an API server that has just started refuses for a moment."""


class Following(Generic[T]):
    """Objects of a resource as they are now."""

    def __init__(
        self,
        api: client.Client,
        resource: Resource[Any],
        namespaces: Sequence[str],
        handler: store.Handler[T],
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        *,
        keeps_partial: bool = False,
        narrow: Callable[[Any], T] | None = None,
    ) -> None:
        """`keeps_partial`: one that was never read as a whole is there with what can be read of it.

        `narrow` makes of an object what is kept of it.
        """
        self.resource = resource
        self._clock = api.clock
        self._troubled_at_s: float | None = None
        self._stores = {
            namespace: store.Store(indexes, [handler], keeps_partial=keeps_partial, narrow=narrow)
            for namespace in namespaces
        }
        self._informers = [
            informers.Informer(api, resource, held, prepare.Selection(namespace))
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
        """Objects that exist and cannot be read."""
        return [complaint for informer in self._informers for complaint in informer.malformed.values()]

    @property
    def trouble(self) -> kube_errors.KubeError | None:
        """What keeps it from being current; None while all is well."""
        return next((informer.trouble for informer in self._informers if informer.trouble is not None), None)

    @property
    def synced(self) -> bool:
        """All there was has been read, at least once."""
        return all(informer.synced for informer in self._informers)

    @property
    def settled(self) -> bool:
        """Read, refused, or tried often enough: nobody should wait for it any longer."""
        return all(
            informer.synced or isinstance(informer.trouble, _REFUSALS) or informer.counts.failures >= _PATIENCE
            for informer in self._informers
        )

    @property
    def is_unreadable(self) -> bool:
        """Has it been in trouble for long, as far as anybody looked?"""
        now_s = self._clock.monotonic_s()
        if self.trouble is None:
            self._troubled_at_s = None
        elif self._troubled_at_s is None:
            self._troubled_at_s = now_s
        return self._troubled_at_s is not None and now_s - self._troubled_at_s >= _FINAL_AFTER_S

    @property
    def was_never_allowed(self) -> bool:
        """Was nothing read so far because it is refused, for a moment or for good?"""
        return not self.synced and isinstance(self.trouble, _REFUSALS)

    @property
    def is_refused(self) -> bool:
        """Is it refused, and meant to be?"""
        return self.is_unreadable and isinstance(self.trouble, _REFUSALS)

    async def wait_answered(self) -> None:
        """Until it was read, or is refused for good."""
        while not (self.synced or self.is_refused):
            await self._clock.sleep(_LOOK_S)

    async def wait_synced(self) -> None:
        for informer in self._informers:
            await informer.wait_synced()

    async def wait_settled(self) -> None:
        while not self.settled:
            await self._clock.sleep(_LOOK_S)

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as together:
            for informer in self._informers:
                together.create_task(informer.run())


class Notify(Generic[Watched]):
    """A handler that passes on which object is different now, if the difference matters, and no more."""

    def __init__(self, tell: Callable[[Watched], None]) -> None:
        self._tell = tell

    def added(self, found: Watched) -> None:
        self._tell(found)

    def modified(self, before: Watched, found: Watched) -> None:
        if changes.matter(before, found):
            self._tell(found)

    def deleted(self, before: Watched) -> None:
        self._tell(before)


class NotifyNarrow(Generic[T]):
    """A handler that says that something is different now, for objects of which only what matters is kept."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def added(self, found: T) -> None:
        self._tell()

    def modified(self, before: T, found: T) -> None:
        if before != found:
            self._tell()

    def deleted(self, before: T) -> None:
        self._tell()
