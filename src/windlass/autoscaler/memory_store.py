"""Memory store: persists the durable memory in one ConfigMap, or several where it is large.

Memory is written before anything is done that depends on it. Unreadable memory is discarded with a warning.

    NAME            binaryData: memory   data: generation, holder, parts, digest      written last
    NAME-1 … NAME-3 binaryData: memory   data: generation, holder                     parts of even generations
    NAME-4 … NAME-6                                                                   parts of odd ones

Every write increments the generation and replaces a known resourceVersion: a late write replaces nothing, and a
superseded process gets a conflict. Readers find the last complete generation.
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
from windlass.autoscaler import memory_encoding
from windlass.engine import loop_memory
from windlass.engine.model import durable_memory
from windlass.kube import client
from windlass.kube import errors as kube_errors
from windlass.kube.resources import CONFIG_MAPS, Unstructured

MEMORY_KEY = "memory"

GENERATION, HOLDER, PARTS, DIGEST = "generation", "holder", "parts", "digest"

MAX_PART_BYTES = 900 * 1024
"""A ConfigMap holds 1 MiB, and this is what it is filled with."""

_WRITE_TIMEOUT_S = 5.0
"""Nobody waits longer than this for memory to be written: pods wait for nodes."""

_FORBIDDEN_GRACE_S = 30.0
"""A right that is missing for so long is not on its way: an API server that has just started refuses for a moment."""

_MAX_ATTEMPTS = 3

_ENCODE_IN_THREAD_ABOVE = 2000
"""Timers whose text takes long enough to make that the event loop should not wait for it."""

_CONFIG_MAPS = CONFIG_MAPS.untyped()

_log = logging.getLogger(__name__)


class MemoryNotSaved(errors.WindlassError):
    """Memory could not be written. What it speaks of must not be done."""


class MemoryConflict(errors.WindlassError):
    """Another process has written memory since this one read it: it leads, and this one must not."""


@dataclass(frozen=True, slots=True)
class _StoredPart:
    """What one ConfigMap says."""

    version: str
    generation: int = 0
    holder: str = ""
    parts: int = 1
    digest: str = ""
    content: bytes | str = ""


class MemoryStore:
    """Reads and writes the memory. Without a name it keeps nothing. `identity`: of the process that writes."""

    def __init__(self, api: client.Client, namespace: str, name: str, identity: str = "") -> None:
        self._api, self._namespace, self._name, self._identity = api, namespace, name, identity
        self._written: durable_memory.DurableMemory | None = durable_memory.DurableMemory()
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

    async def read(self) -> loop_memory.LoopMemory:
        """What was written last. KubeError if nobody knows."""
        if not self._name:
            return loop_memory.LoopMemory()
        try:
            head = await self._get_part(self._name)
            if head is None:
                return loop_memory.LoopMemory()
            self._generation, self._before = head.generation, head.holder
            durable = self._written = memory_encoding.decode_memory(await self._join(head))
        except kube_errors.Forbidden as refused:
            if not self._is_refused_for_good():
                raise
            _log.warning("memory is not kept, and a restart will forget timers and backoffs: %s", refused)
            self._name = ""
            return loop_memory.LoopMemory()
        except errors.InvalidInput as error:
            _log.warning("ConfigMap %s/%s: beginning anew: %s", self._namespace, self._name, error)
            self._written = None
            return loop_memory.LoopMemory()
        return loop_memory.LoopMemory(durable)

    async def _join(self, head: _StoredPart) -> bytes | str:
        if isinstance(head.content, str):
            return head.content
        whole = head.content
        for name in self._names(head.generation, head.parts):
            part = await self._get_part(name)
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
        return now_s - self._refused_at_s >= _FORBIDDEN_GRACE_S

    # Writing

    async def write(self, durable: durable_memory.DurableMemory) -> None:
        """Write the memory if it has changed in anything but the number of loops.

        NotSaved if it could not be written, or nobody knows; Superseded if another process has written its own.
        Calls are served in their order: what is newer must be given later.
        """
        async with self._writing:
            if not self._name or (self._written is not None and equals_ignoring_loop(durable, self._written)):
                return
            self._written = None
            try:
                packed = await self._pack(durable)
                await clock.run_with_timeout(self._api.clock, _WRITE_TIMEOUT_S, self._store(packed))
            except (kube_errors.KubeError, TimeoutError) as error:
                raise MemoryNotSaved(_format_write_error(self._namespace, self._name, error)) from error
            self._written, self.size_bytes = durable, len(packed)

    async def _pack(self, durable: durable_memory.DurableMemory) -> bytes:
        if len(durable.scale_down.since) < _ENCODE_IN_THREAD_ABOVE:
            return memory_encoding.encode_memory(durable)
        return await asyncio.to_thread(memory_encoding.encode_memory, durable)

    async def _store(self, packed: bytes) -> None:
        chunks = [packed[begin : begin + MAX_PART_BYTES] for begin in range(0, len(packed), MAX_PART_BYTES)]
        if len(chunks) > MAX_CONFIG_MAPS:
            raise MemoryNotSaved(
                f"memory of {len(packed)} bytes does not fit {MAX_CONFIG_MAPS} ConfigMaps beginning with "
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
        first = (MAX_CONFIG_MAPS - 1) * (generation % 2)
        return part_names(self._name)[first : first + parts - 1]

    async def _put(self, name: str, said: dict[str, str], content: bytes) -> None:
        """Write one ConfigMap over the one that was seen last, and over none that another process wrote."""
        if name not in self._versions:
            await self._check_owner(name)
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                await self._send(name, said, content)
                return
            except (kube_errors.Conflict, kube_errors.NotFound):
                found = await self._check_owner(name)
                if found is not None and _matches_sent(found, said, content):
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
            "binaryData": {MEMORY_KEY: base64.b64encode(content).decode()},
        }
        with _translate_errors("PUT", name):
            written = await (self._api.update(_CONFIG_MAPS, body) if version else self._api.create(_CONFIG_MAPS, body))
            self._versions[name] = _read_version(written)

    async def _check_owner(self, name: str) -> _StoredPart | None:
        """What is there and may be replaced: what a process before this one wrote, and no later one."""
        found = await self._get_part(name)
        if found is not None and found.holder not in ("", self._identity, self._before):
            del self._versions[name]
            raise MemoryConflict(
                f"ConfigMap {self._namespace}/{name}: {found.holder} has written memory meanwhile: it leads now"
            )
        return found

    async def _get_part(self, name: str) -> _StoredPart | None:
        """What is there; None: nothing."""
        try:
            with _translate_errors("GET", name):
                stored = _parse_part(await self._api.get(_CONFIG_MAPS, name, self._namespace))
        except kube_errors.NotFound:
            self._versions[name] = ""
            return None
        self._versions[name] = stored.version
        return stored


def _matches_sent(found: _StoredPart, said: dict[str, str], content: bytes) -> bool:
    return (str(found.generation), found.holder, found.content) == (said[GENERATION], said[HOLDER], content)


@contextlib.contextmanager
def _translate_errors(verb: str, name: str) -> Iterator[None]:
    """An answer that is no ConfigMap, such as the page of a proxy, says nothing of the one that is there."""
    try:
        yield
    except (errors.InvalidObject, LookupError, TypeError, AttributeError) as error:
        raise kube_errors.InvalidResponse(f"{verb} ConfigMap {name}", str(error)) from error


def _read_version(found: Unstructured) -> str:
    version = found["metadata"]["resourceVersion"]
    if not isinstance(version, str) or not version:
        raise TypeError(f"metadata.resourceVersion: found {version!r:.60}, expected a text")
    return version


def _parse_part(found: Unstructured) -> _StoredPart:
    """What others made of a ConfigMap counts as nothing said: it is written over."""
    version = _read_version(found)
    said, content = found.get("data") or {}, (found.get("binaryData") or {}).get(MEMORY_KEY)
    if content is None:
        return _StoredPart(version, content=str(said.get(MEMORY_KEY, "")))
    try:
        unpacked = base64.b64decode(str(content), validate=True)
        numbers = [int(str(said.get(key, default))[:18]) for key, default in ((GENERATION, 0), (PARTS, 1))]
    except (binascii.Error, ValueError):
        return _StoredPart(version, content=b"")
    generation, parts = max(numbers[0], 0), min(max(numbers[1], 1), MAX_CONFIG_MAPS)
    return _StoredPart(version, generation, str(said.get(HOLDER, "")), parts, str(said.get(DIGEST, "")), unpacked)


def _format_write_error(namespace: str, name: str, error: BaseException) -> str:
    hint = "make room for it there"
    if isinstance(error, kube_errors.Forbidden):
        hint = "grant create on configmaps, and get and update on this one and its parts, or raise the quota"
    elif isinstance(error, kube_errors.ConnectionLost | kube_errors.ServerError | TimeoutError):
        hint = "it is tried again with the next loop"
    return (
        f"memory is not saved in ConfigMap {namespace}/{name}, and nothing is done that is not saved ({hint}; "
        f"--memory-config-map= keeps none): {error}"
    )


def equals_ignoring_loop(one: durable_memory.DurableMemory, other: durable_memory.DurableMemory) -> bool:
    """Equal, but for how many loops there were. The first loop is another matter: it cleans up."""
    if one is other:
        return True
    if (one.loop == 0) != (other.loop == 0):
        return False
    return durable_memory.ignore_loop_count(one) == durable_memory.ignore_loop_count(other)


MAX_CONFIG_MAPS = 4
"""The first one included; each name must be in the role of whoever writes."""


def part_names(first: str) -> tuple[str, ...]:
    """The ConfigMaps that a large memory takes besides the first: those of even generations, then those of odd ones."""
    return tuple(f"{first}-{number}" for number in range(1, 2 * MAX_CONFIG_MAPS - 1))
