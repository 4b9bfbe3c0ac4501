"""Keeping: the memory that must survive a restart, in one ConfigMap.

It is written before anything is done that it speaks of, so that whoever comes next knows of it; and again whenever it
has changed. A memory that cannot be read is worth nothing: the next one begins anew, and says so.
"""

import asyncio
import logging

from windlass import clock, errors
from windlass.autoscaler import memory_text
from windlass.engine import memory
from windlass.kube import client
from windlass.kube import errors as kube_errors
from windlass.kube.resources import CONFIG_MAPS

KEY = "memory"
_WITHIN_S = 5.0
"""Nobody waits longer than this for memory to be written: pods wait for nodes."""
_REFUSED_FOR_S = 30.0
"""A right that is missing for so long is not on its way: an API server that has just started refuses for a moment."""
_MAPS = CONFIG_MAPS.untyped()
_log = logging.getLogger(__name__)


class Keeper:
    """Reads and writes the memory. Without a name it keeps nothing."""

    def __init__(self, api: client.Client, namespace: str, name: str) -> None:
        self._api, self._namespace, self._name = api, namespace, name
        self._written = memory.Durable()
        self._writing = asyncio.Lock()
        self._refused_at_s: float | None = None
        self.size_bytes = 0

    async def read(self) -> memory.Memory:
        """What was written last. KubeError if nobody knows."""
        if not self._name:
            return memory.Memory()
        try:
            found = await self._api.get(_MAPS, self._name, self._namespace)
            self._written = memory_text.read((found.get("data") or {}).get(KEY, ""))
        except kube_errors.NotFound:
            return memory.Memory()
        except kube_errors.Forbidden as refused:
            if not self._is_refused_for_good():
                raise
            _log.warning("memory is not kept, and a restart will forget timers and backoffs: %s", refused)
            self._name = ""
            return memory.Memory()
        except errors.InvalidInput as error:
            _log.warning("ConfigMap %s/%s, data[%s]: beginning anew: %s", self._namespace, self._name, KEY, error)
            return memory.Memory()
        return memory.Memory(self._written)

    def _is_refused_for_good(self) -> bool:
        """As by a role that names its ConfigMaps and was written for cluster-autoscaler, which has no memory."""
        now_s = self._api.clock.monotonic_s()
        self._refused_at_s = now_s if self._refused_at_s is None else self._refused_at_s
        return now_s - self._refused_at_s >= _REFUSED_FOR_S

    async def write(self, durable: memory.Durable) -> bool:
        """Write the memory if it has changed in anything but the number of loops. Whether it is safe now."""
        async with self._writing:  # what is newer is written later
            if not self._name or is_same(durable, self._written):
                return True
            text = memory_text.write(durable)
            try:
                await clock.within(self._api.clock, _WITHIN_S, self._put(text))
            except (kube_errors.KubeError, TimeoutError) as error:
                _log.warning("memory is not saved: %s", error)
                return False
            self._written, self.size_bytes = durable, len(text)
            return True

    async def _put(self, text: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "data": {KEY: text},
        }
        try:
            await self._api.update(_MAPS, body)
        except kube_errors.NotFound:
            await self._api.create(_MAPS, body)


def is_same(one: memory.Durable, other: memory.Durable) -> bool:
    """Equal, but for how many loops there were. The first loop is another matter: it cleans up."""
    if one is other:
        return True
    if (one.loop == 0) != (other.loop == 0):
        return False
    return memory.but_loops(one) == memory.but_loops(other)
