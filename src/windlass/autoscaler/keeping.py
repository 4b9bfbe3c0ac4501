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
_MAPS = CONFIG_MAPS.untyped()
_log = logging.getLogger(__name__)


class Keeper:
    """Reads and writes the memory. Without a name it keeps nothing."""

    def __init__(self, api: client.Client, namespace: str, name: str) -> None:
        self._api, self._namespace, self._name = api, namespace, name
        self._written = memory.Durable()
        self._writing = asyncio.Lock()
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
        except errors.InvalidInput as error:
            _log.warning("ConfigMap %s/%s, data[%s]: beginning anew: %s", self._namespace, self._name, KEY, error)
            return memory.Memory()
        return memory.Memory(self._written)

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
