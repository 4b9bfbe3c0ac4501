"""Keeping: the memory that must survive a restart, in one ConfigMap, or several where it is large.

It is written before anything is done that it speaks of, so that whoever comes next knows of it; what cannot be written
is not done. A memory that cannot be read is worth nothing: the next process begins anew, and says so.

    NAME            binaryData: memory   data: generation, holder, parts, digest      written last
    NAME-1 … NAME-3 binaryData: memory   data: generation, holder                     the rest of even generations
    NAME-4 … NAME-6                                                                   the rest of odd ones

Every write has a generation, one more than the last, and the resourceVersion that it replaces. So a write that was
given up and arrives late replaces nothing, and a process that was replaced finds out. Parts of a generation that was
not finished are not those that NAME speaks of: whoever reads finds the last one that is whole.
"""

import asyncio
import base64
import binascii
import contextlib
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass import clock, errors
from windlass.autoscaler import memory_parts, memory_text
from windlass.engine import memory
from windlass.kube import client
from windlass.kube import errors as kube_errors
from windlass.kube.resources import CONFIG_MAPS, Unstructured

KEY = "memory"
GENERATION, HOLDER, PARTS, DIGEST = "generation", "holder", "parts", "digest"

PART_BYTES = 900 * 1024
"""A ConfigMap holds 1 MiB, and this is what it is filled with."""
_WITHIN_S = 5.0
"""Nobody waits longer than this for memory to be written: pods wait for nodes."""
_REFUSED_FOR_S = 30.0
"""A right that is missing for so long is not on its way: an API server that has just started refuses for a moment."""
_TRIES = 3
_MANY = 2000
"""Timers whose text takes long enough to make that the event loop should not wait for it."""
_MAPS = CONFIG_MAPS.untyped()
_log = logging.getLogger(__name__)


class NotSaved(errors.WindlassError):
    """Memory could not be written. What it speaks of must not be done."""


class Superseded(errors.WindlassError):
    """Another process has written memory since this one read it: it leads, and this one must not."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What one ConfigMap says."""

    version: str
    generation: int = 0
    holder: str = ""
    parts: int = 1
    digest: str = ""
    content: bytes | str = ""


class Keeper:
    """Reads and writes the memory. Without a name it keeps nothing. `identity`: of the process that writes."""

    def __init__(self, api: client.Client, namespace: str, name: str, identity: str = "") -> None:
        self._api, self._namespace, self._name, self._identity = api, namespace, name, identity
        self._written: memory.Durable | None = memory.Durable()
        """What the server has; None: nobody knows."""
        self._generation = 0
        self._before = ""
        """Who wrote what was read: what it sent may still arrive."""
        self._versions: dict[str, str] = {}
        """The resourceVersion of each ConfigMap, by its name; empty: there is none."""
        self._filled: set[str] = set()
        """Parts that hold something."""
        self._writing = asyncio.Lock()
        self._refused_at_s: float | None = None
        self.size_bytes = 0

    # Reading

    async def read(self) -> memory.Memory:
        """What was written last. KubeError if nobody knows."""
        if not self._name:
            return memory.Memory()
        try:
            head = await self._look(self._name)
            if head is None:
                return memory.Memory()
            self._generation, self._before = head.generation, head.holder
            durable = self._written = memory_text.read(await self._join(head))
        except kube_errors.Forbidden as refused:
            if not self._is_refused_for_good():
                raise
            _log.warning("memory is not kept, and a restart will forget timers and backoffs: %s", refused)
            self._name = ""
            return memory.Memory()
        except errors.InvalidInput as error:
            _log.warning("ConfigMap %s/%s: beginning anew: %s", self._namespace, self._name, error)
            self._written = None
            return memory.Memory()
        return memory.Memory(durable)

    async def _join(self, head: _Stored) -> bytes | str:
        if isinstance(head.content, str):
            return head.content
        whole = head.content
        for name in self._names(head.generation, head.parts):
            part = await self._look(name)
            if part is None or part.generation != head.generation or isinstance(part.content, str):
                raise errors.InvalidInput(f"ConfigMap {name} is no part of generation {head.generation}")
            self._filled.add(name)
            whole += part.content
        if hashlib.sha256(whole).hexdigest() != head.digest:
            raise errors.InvalidInput(f"generation {head.generation} is not whole: its digest is another")
        return whole

    def _is_refused_for_good(self) -> bool:
        """As by a role that names its ConfigMaps and was written for cluster-autoscaler, which has no memory."""
        now_s = self._api.clock.monotonic_s()
        self._refused_at_s = now_s if self._refused_at_s is None else self._refused_at_s
        return now_s - self._refused_at_s >= _REFUSED_FOR_S

    # Writing

    async def write(self, durable: memory.Durable) -> None:
        """Write the memory if it has changed in anything but the number of loops.

        NotSaved if it could not be written, or nobody knows; Superseded if another process has written its own.
        Calls are served in their order: what is newer must be given later.
        """
        async with self._writing:
            if not self._name or (self._written is not None and is_same(durable, self._written)):
                return
            self._written = None
            try:
                packed = await self._pack(durable)
                await clock.within(self._api.clock, _WITHIN_S, self._store(packed))
            except (kube_errors.KubeError, TimeoutError) as error:
                raise NotSaved(_tell_refused(self._namespace, self._name, error)) from error
            self._written, self.size_bytes = durable, len(packed)

    async def _pack(self, durable: memory.Durable) -> bytes:
        if len(durable.scale_down.since) < _MANY:
            return memory_text.write(durable)
        return await asyncio.to_thread(memory_text.write, durable)

    async def _store(self, packed: bytes) -> None:
        chunks = [packed[begin : begin + PART_BYTES] for begin in range(0, len(packed), PART_BYTES)]
        if len(chunks) > memory_parts.MOST:
            raise NotSaved(
                f"memory of {len(packed)} bytes does not fit {memory_parts.MOST} ConfigMaps beginning with "
                f"{self._namespace}/{self._name}: let each of several autoscalers have some of the node groups"
            )
        generation = self._generation + 1
        said = {GENERATION: str(generation), HOLDER: self._identity}
        for name, chunk in zip(self._names(generation, len(chunks)), chunks[1:], strict=True):
            self._filled.add(name)
            await self._put(name, said, chunk)
        digest = hashlib.sha256(packed).hexdigest()
        await self._put(self._name, {**said, PARTS: str(len(chunks)), DIGEST: digest}, chunks[0])
        self._generation = generation
        if len(chunks) == 1:
            await self._empty_parts(said)

    async def _empty_parts(self, said: dict[str, str]) -> None:
        """What is in other parts is of no use any more. That they could not be emptied is no failure."""
        while self._filled:
            with contextlib.suppress(kube_errors.KubeError):
                await self._put(self._filled.pop(), said, b"")

    def _names(self, generation: int, parts: int) -> Sequence[str]:
        """Where the parts of a generation are, but for the first."""
        first = (memory_parts.MOST - 1) * (generation % 2)
        return memory_parts.names(self._name)[first : first + parts - 1]

    async def _put(self, name: str, said: dict[str, str], content: bytes) -> None:
        """Write one ConfigMap over the one that was seen last, and over none that another process wrote."""
        if name not in self._versions:
            await self._look_again(name)
        for _ in range(_TRIES - 1):
            try:
                await self._send(name, said, content)
                return
            except (kube_errors.Conflict, kube_errors.NotFound):
                found = await self._look_again(name)
                if found is not None and _is_what_was_sent(found, said, content):
                    return  # and the answer was lost
        await self._send(name, said, content)

    async def _send(self, name: str, said: dict[str, str], content: bytes) -> None:
        version = self._versions[name]
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                **({"resourceVersion": version} if version else {}),
            },
            "data": said,
            "binaryData": {KEY: base64.b64encode(content).decode()},
        }
        with _answering("PUT", name):
            written = await (self._api.update(_MAPS, body) if version else self._api.create(_MAPS, body))
            self._versions[name] = _read_version(written)

    async def _look_again(self, name: str) -> _Stored | None:
        """What is there and may be replaced: what a process before this one wrote, and no later one."""
        found = await self._look(name)
        if found is not None and found.holder not in ("", self._identity, self._before):
            del self._versions[name]
            raise Superseded(
                f"ConfigMap {self._namespace}/{name}: {found.holder} has written memory meanwhile: it leads now"
            )
        return found

    async def _look(self, name: str) -> _Stored | None:
        """What is there; None: nothing."""
        try:
            with _answering("GET", name):
                stored = _read(await self._api.get(_MAPS, name, self._namespace))
        except kube_errors.NotFound:
            self._versions[name] = ""
            return None
        self._versions[name] = stored.version
        return stored


def _is_what_was_sent(found: _Stored, said: dict[str, str], content: bytes) -> bool:
    return (str(found.generation), found.holder, found.content) == (said[GENERATION], said[HOLDER], content)


@contextlib.contextmanager
def _answering(verb: str, name: str) -> Iterator[None]:
    """An answer that is no ConfigMap, such as the page of a proxy, says nothing of the one that is there."""
    try:
        yield
    except (errors.InvalidObject, LookupError, TypeError, AttributeError) as error:
        raise kube_errors.InvalidAnswer(f"{verb} ConfigMap {name}", str(error)) from error


def _read_version(found: Unstructured) -> str:
    version = found["metadata"]["resourceVersion"]
    if not isinstance(version, str) or not version:
        raise TypeError(f"metadata.resourceVersion: found {version!r:.60}, expected a text")
    return version


def _read(found: Unstructured) -> _Stored:
    """What others made of a ConfigMap counts as nothing said: it is written over."""
    version = _read_version(found)
    said, content = found.get("data") or {}, (found.get("binaryData") or {}).get(KEY)
    if content is None:
        return _Stored(version, content=str(said.get(KEY, "")))
    try:
        unpacked = base64.b64decode(str(content), validate=True)
        numbers = [int(str(said.get(key, default))[:18]) for key, default in ((GENERATION, 0), (PARTS, 1))]
    except (binascii.Error, ValueError):
        return _Stored(version, content=b"")
    generation, parts = max(numbers[0], 0), min(max(numbers[1], 1), memory_parts.MOST)
    return _Stored(version, generation, str(said.get(HOLDER, "")), parts, str(said.get(DIGEST, "")), unpacked)


def _tell_refused(namespace: str, name: str, error: BaseException) -> str:
    hint = "make room for it there"
    if isinstance(error, kube_errors.Forbidden):
        hint = "grant create on configmaps, and get and update on this one and its parts, or raise the quota"
    elif isinstance(error, kube_errors.ConnectionLost | kube_errors.ServerError | TimeoutError):
        hint = "it is tried again with the next loop"
    return (
        f"memory is not saved in ConfigMap {namespace}/{name}, and nothing is done that is not saved ({hint}; "
        f"--memory-config-map= keeps none): {error}"
    )


def is_same(one: memory.Durable, other: memory.Durable) -> bool:
    """Equal, but for how many loops there were. The first loop is another matter: it cleans up."""
    if one is other:
        return True
    if (one.loop == 0) != (other.loop == 0):
        return False
    return memory.but_loops(one) == memory.but_loops(other)
