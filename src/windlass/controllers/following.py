"""Following: informers whose changes put keys on a work queue.

A controller names the resources it looks at and which of its own objects each change concerns. Resources that it learns
of under way, such as the kinds that its objects refer to, may be followed later.

    following = Following(queue)
    pools = following.follow(api, MACHINE_POOLS, lambda pool: [pool.meta.key])
    await following.run(...)
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from windlass.kube import client, informers, prepare, reflector, store
from windlass.kube.resources import Resource
from windlass.runtime import workqueue

T = TypeVar("T")

Keys = Callable[[T], Iterable[str]]
"""The keys of the objects that a change of this one concerns."""


@dataclass(frozen=True, slots=True)
class Followed(Generic[T]):
    """A resource that is followed: what is known of it, and how well."""

    store: store.Store[T]
    informer: informers.Informer[T]
    running: asyncio.Task[None] | None = None
    """What keeps it current, if the controller ran already when it began to be followed."""

    def stop(self) -> None:
        """Follow it no longer, if it is not required: what is known of it stays as it is, and wakes nobody."""
        if self.running is not None:
            self.running.cancel()

    @property
    def complaint(self) -> str:
        """Why what is known may be out of date; empty if it is not."""
        name = self.informer.resource.plural
        if self.informer.trouble is not None:
            return f"{name}: {self.informer.trouble}"
        return "" if self.informer.synced else f"{name}: not read yet"


class Following:
    """What a controller looks at, while it runs."""

    def __init__(self, queue: workqueue.WorkQueue[str], settings: reflector.Settings | None = None) -> None:
        self._queue = queue
        self._settings = settings
        self._followed: list[Followed[Any]] = []
        self._waiting: list[Coroutine[Any, Any, None]] = []
        self._group: asyncio.TaskGroup | None = None

    def follow(
        self,
        api: client.Client,
        resource: Resource[T],
        keys: Keys[T],
        selection: prepare.Selection = prepare.EVERYTHING,
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        *,
        sees: Callable[[T], object] | None = None,
        required: bool = True,
    ) -> Followed[T]:
        """Keep a resource at hand. A change wakes the keys that the object had before it and has after it.

        `sees` is what of an object matters: a change of anything else becomes known, and wakes nobody.
        Nothing is reconciled before what is required is known; a hint that only makes things quicker is not.
        """
        held: store.Store[T] = store.Store(indexes, [_Waker(self._queue, keys, sees)])
        informer = informers.Informer(api, resource, held, selection, self._settings)
        followed = Followed(held, informer, self.spawn(informer.run()))
        if required:
            self._followed.append(followed)
        return followed

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Do something beside, until the controller ends. None: it does not run yet, and begins with it."""
        if self._group is None:
            self._waiting.append(work)
            return None
        return self._group.create_task(work)

    @property
    def complaint(self) -> str:
        """What of all this is out of date; empty if nothing is, or if nobody asked for it yet."""
        if self._group is None:
            return ""
        return "; ".join(complaint for each in self._followed if (complaint := each.complaint))

    async def run(self, reconcile: Callable[[str], Coroutine[Any, Any, float | None]], workers: int = 1) -> None:
        """Follow, and reconcile what is woken, until cancelled. Nothing is reconciled before all is known."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            known = list(self._followed)
            for work in self._waiting:
                group.create_task(work)
            self._waiting.clear()
            for followed in known:
                await followed.informer.wait_synced()
            await workqueue.work(self._queue, reconcile, workers)

    def close(self) -> None:
        """Let go of what never began."""
        for work in self._waiting:
            work.close()
        self._waiting.clear()


class _Waker(Generic[T]):
    """Puts the keys that a change concerns on the queue."""

    def __init__(
        self, queue: workqueue.WorkQueue[str], keys: Keys[T], sees: Callable[[T], object] | None = None
    ) -> None:
        self._queue = queue
        self._keys = keys
        self._sees = sees

    def added(self, found: T) -> None:
        self._wake(found)

    def modified(self, before: T, found: T) -> None:
        if self._sees is not None and self._sees(before) == self._sees(found):
            return
        self._wake(before)
        self._wake(found)

    def deleted(self, before: T) -> None:
        self._wake(before)

    def _wake(self, found: T) -> None:
        for key in self._keys(found):
            self._queue.add(key)
