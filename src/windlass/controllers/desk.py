"""A controller's desk: keys that changes put on it, what is followed for them, and how its work is measured."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from windlass.controllers import controller, following
from windlass.kube import client, errors
from windlass.kube.resources import Resource, Unstructured
from windlass.runtime import workqueue

RETRY_S = 5.0
"""When something changed under a controller's hands: the change wakes its key, and this is for the case that it never
becomes known."""
_PACE = workqueue.Settings(first_s=0.25, limit_s=300.0)
"""What stands in an object's way is watched, so that asking again and again is seldom what helps."""


class Desk:
    """Where one controller works."""

    def __init__(self, site: controller.Site, name: str) -> None:
        self._site = site
        self._name = name
        self.queue: workqueue.WorkQueue[str] = workqueue.WorkQueue(site.api.clock, _PACE)
        self.following = following.Following(self.queue)
        site.measures.watch(name, self.queue)

    def complain(self) -> str:
        return self.following.complaint

    async def run(self, reconcile: Callable[[str], Coroutine[Any, Any, float | None]]) -> None:
        """Reconcile what is woken, until cancelled."""

        async def measured(key: str) -> float | None:
            with self._site.measures.measure(self._name):
                return await reconcile(key)

        await self.following.run(measured, self._site.workers)


async def write_status(
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
