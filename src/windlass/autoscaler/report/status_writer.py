"""Writing the status: one ConfigMap, always the latest text, never in anyone's way.

Writes need no right but those that the peer has: get, create, update, delete. A write that fails is logged and made up
for by the next one.
"""

import asyncio
import logging

from windlass.autoscaler.report import status_text
from windlass.autoscaler.report.status import Since, Status
from windlass.errors import WindlassError
from windlass.kube import client, errors, resources
from windlass.kube.events import About
from windlass.kube.resources import Unstructured

PAUSE_S = 2.0
"""Between two writes. Loops may follow each other at once, and calls to the API server are few."""

_CONFIG_MAPS = resources.CONFIG_MAPS.untyped()
_log = logging.getLogger(__name__)


class StatusWriter:
    """Keeps the status ConfigMap."""

    def __init__(self, api: client.Client, namespace: str, name: str) -> None:
        self._client, self._namespace, self._name = api, namespace, name
        self._wanted: Status | None = None
        self._changed = asyncio.Event()
        self._found: Unstructured | None = None
        """As last read or written."""

    @property
    def about(self) -> About:
        """The ConfigMap as the object of events."""
        uid = "" if self._found is None else str((self._found.get("metadata") or {}).get("uid", ""))
        return About("v1", "ConfigMap", self._name, self._namespace, uid)

    async def read_since(self) -> Since:
        """What a process before this one left."""
        try:
            self._found = await self._client.get(_CONFIG_MAPS, self._name, self._namespace)
        except errors.NotFound:
            return {}
        except WindlassError as error:
            _log.warning("status ConfigMap %s/%s cannot be read: %s", self._namespace, self._name, error)
            return {}
        return status_text.read_since(str((self._found.get("data") or {}).get(status_text.KEY, "")))

    def put(self, status: Status) -> None:
        """Write this when there is time. Never waits; what was not written until then never will be."""
        self._wanted = status
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            await self.flush()
            await self._client.clock.sleep(PAUSE_S)

    async def flush(self) -> None:
        """Write what is to be written now. A failure is logged."""
        self._changed.clear()
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        try:
            self._found = await self._write(wanted)
        except WindlassError as error:
            self._found = None
            _log.error("status ConfigMap %s/%s cannot be written: %s", self._namespace, self._name, error)

    async def delete(self) -> None:
        """Nobody keeps the status any more."""
        self._wanted = None
        try:
            await self._client.delete(_CONFIG_MAPS, self._name, self._namespace)
        except errors.NotFound:
            return
        except WindlassError as error:
            _log.error("status ConfigMap %s/%s cannot be deleted: %s", self._namespace, self._name, error)

    async def _write(self, status: Status) -> Unstructured:
        """Update what is known to be there, or else what is found there, or else create it."""
        if self._found is not None:
            try:
                return await self._client.update(_CONFIG_MAPS, self._body(status, self._found))
            except (errors.Conflict, errors.NotFound):
                self._found = None
        try:
            found = await self._client.get(_CONFIG_MAPS, self._name, self._namespace)
        except errors.NotFound:
            return await self._client.create(_CONFIG_MAPS, self._body(status, None))
        return await self._client.update(_CONFIG_MAPS, self._body(status, found))

    def _body(self, status: Status, found: Unstructured | None) -> Unstructured:
        """The ConfigMap with our part of it changed: all that others wrote stays."""
        before = found or {"metadata": {"name": self._name, "namespace": self._namespace}}
        metadata = dict(before.get("metadata") or {"name": self._name, "namespace": self._namespace})
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            status_text.LAST_UPDATED: status_text.spell_time(status.at_s),
        }
        data = {**(before.get("data") or {}), status_text.KEY: status_text.spell(status)}
        return {**before, "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
