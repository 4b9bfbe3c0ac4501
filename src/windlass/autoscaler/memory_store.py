"""Memory store: persists the durable memory in one ConfigMap, or several where it is large.

Memory is written before anything is done that depends on it. Unreadable memory is discarded with a warning.

    NAME            binaryData: memory   data: generation, holder, parts, digest      written last
    NAME-1 … NAME-3 binaryData: memory   data: generation, holder                     parts of even generations
    NAME-4 … NAME-6                                                                   parts of odd ones

Every write increments the generation and replaces a known resourceVersion: a late write replaces nothing, and a
superseded process gets a conflict. Readers find the last complete generation.

Memory encoding: compresses and restores the durable memory.

Unneeded-since times are packed as columns and node names share prefixes, so that large memories fit few ConfigMaps of
1 MiB each. Decoding is bounded in size and raises InvalidInput for anything else.
"""

import asyncio
import base64
import binascii
import contextlib
import hashlib
import json
import logging
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windlass import clock, errors
from windlass.engine import loop_memory
from windlass.engine.model import durable_memory
from windlass.kube import client
from windlass.kube import errors as kube_errors
from windlass.kube.resources import CONFIG_MAPS, Unstructured

MAGIC = b"windlass-memory 2\n"

_MIN_COLUMN_LENGTH = 16
"""Minimum number of times worth packing into a column."""
_MAX_DECODED_BYTES = 2**28
"""Maximum decoded size in bytes; larger data was not written here."""
_LENGTH = struct.Struct("<I")
_COLUMN, _NAMES, _AS = "$column", "$names", "$as"


def encode_memory(durable: durable_memory.DurableMemory) -> bytes:
    plain = durable_memory.to_plain(durable)
    _drop_previous_unneeded(plain["durable"])
    times: list[float] = []
    columned = _extract_columns(plain, times)
    spelled = json.dumps(columned, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()
    packed = _LENGTH.pack(len(spelled)) + spelled + struct.pack(f"<{len(times)}d", *times)
    return MAGIC + zlib.compress(packed)


def decode_memory(found: bytes | str) -> durable_memory.DurableMemory:
    """Decode a memory. `errors.InvalidInput` if it cannot be read."""
    if isinstance(found, str):
        return durable_memory.from_plain(_read_text(found))
    try:
        return durable_memory.from_plain(_unpack(found))
    except (zlib.error, ValueError, LookupError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise errors.InvalidInput(f"memory: found {len(found)} bytes that cannot be read: {error}") from error


# ── Columns ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _drop_previous_unneeded(durable: durable_memory.Plain) -> None:
    """Drop previously unneeded nodes that have a timer, as nearly all do."""
    looked = durable.get("scale_down", {})
    if looked.get("previous") and looked["previous"] == sorted(looked.get("since", ())):
        looked["previous"] = {_AS: "since"}


def _extract_columns(plain: Any, times: list[float]) -> Any:
    if not isinstance(plain, dict):
        return plain
    if len(plain) >= _MIN_COLUMN_LENGTH and all(type(item) is float for item in plain.values()):
        names = sorted(plain)
        if not any("\n" in name for name in names):
            times += [plain[name] for name in names]
            return {_COLUMN: len(names), _NAMES: _compress_prefixes(names)}
    return {key: _extract_columns(plain[key], times) for key in sorted(plain)}


def _restore_columns(plain: Any, times: "list[float]") -> Any:
    """Restore packed times. `times` is reversed: it is consumed from its end in the order of extraction."""
    if not isinstance(plain, dict):
        return plain
    if _COLUMN in plain:
        return {name: times.pop() for name in _expand_prefixes(plain[_NAMES])}
    return {key: _restore_columns(plain[key], times) for key in sorted(plain)}


def _compress_prefixes(names: list[str]) -> str:
    before, shortened = "", []
    for name in names:
        shared = _common_prefix_length(before, name)
        shortened.append(f"{shared} {name[shared:]}")
        before = name
    return "\n".join(shortened)


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _expand_prefixes(shortened: str) -> list[str]:
    before, names = "", []
    for line in shortened.split("\n"):
        shared, _, rest = line.partition(" ")
        before = before[: int(shared)] + rest
        names.append(before)
    return names


def _unpack(found: bytes) -> Any:
    if not found.startswith(MAGIC):
        raise ValueError(f"it begins with {found[: len(MAGIC)]!r}, expected {MAGIC!r}")
    packed = _expand_columns(found[len(MAGIC) :])
    (length,) = _LENGTH.unpack_from(packed)
    begin = _LENGTH.size + length
    times = struct.unpack(f"<{(len(packed) - begin) // 8}d", packed[begin:])
    plain = _restore_columns(json.loads(packed[_LENGTH.size : begin]), list(reversed(times)))
    looked = plain["durable"].get("scale_down", {})
    if isinstance(looked.get("previous"), dict):
        looked["previous"] = sorted(looked[looked["previous"][_AS]])
    return plain


# ── Formats of earlier versions ────────────────────────────────────────────────────────────────────────────────


def _read_text(text: str) -> Any:
    try:
        compressed = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeError) as error:
        raise errors.InvalidInput(f"memory: found {text!r:.60}, expected base64: {error}") from error
    try:
        return json.loads(_expand_columns(compressed))
    except (zlib.error, ValueError, RecursionError) as error:
        raise errors.InvalidInput(
            f"memory: found {len(compressed)} bytes, expected compressed JSON: {error}"
        ) from error


def _expand_columns(compressed: bytes) -> bytes:
    unfolding = zlib.decompressobj()
    plain = unfolding.decompress(compressed, _MAX_DECODED_BYTES)
    if not unfolding.eof:
        raise ValueError("it is cut off, or too long")
    return plain


MEMORY_KEY = "memory"

GENERATION, HOLDER, PARTS, DIGEST = "generation", "holder", "parts", "digest"

MAX_PART_BYTES = 900 * 1024
"""Maximum bytes per ConfigMap, below its limit of 1 MiB."""

_WRITE_TIMEOUT_S = 5.0
"""Time limit of a write: pending pods wait for it."""

_FORBIDDEN_GRACE_S = 30.0
"""Time after which a Forbidden response counts as permanent: an API server that has just started rejects for a
moment."""

_MAX_ATTEMPTS = 3

_ENCODE_IN_THREAD_ABOVE = 2000
"""Number of timers above which encoding runs in a thread, to keep the event loop responsive."""

_CONFIG_MAPS = CONFIG_MAPS.untyped()

_log = logging.getLogger(__name__)


class MemoryNotSaved(errors.WindlassError):
    """Memory could not be written. Actions that depend on it must not be taken."""


class MemoryConflict(errors.WindlassError):
    """Another process has written memory since it was read: that process leads, and this one must stop."""


@dataclass(frozen=True, slots=True)
class _StoredPart:
    """Content of one ConfigMap."""

    version: str
    generation: int = 0
    holder: str = ""
    parts: int = 1
    digest: str = ""
    content: bytes | str = ""


class MemoryStore:
    """Reads and writes the memory. Without a name it stores nothing. `identity`: holder identity of this process."""

    def __init__(self, api: client.Client, namespace: str, name: str, identity: str = "") -> None:
        self._api, self._namespace, self._name, self._identity = api, namespace, name, identity
        self._written: durable_memory.DurableMemory | None = durable_memory.DurableMemory()
        """Memory on the server; None if unknown."""
        self._generation = 0
        self._previous_holder = ""
        """Holder of the memory that was read: its requests may still arrive."""
        self._versions: dict[str, str] = {}
        """resourceVersion of each ConfigMap by name; empty: it does not exist."""
        self._nonempty_parts: set[str] = set()
        """Parts that are not empty."""
        self._writing = asyncio.Lock()
        self._forbidden_since_s: float | None = None
        self._is_empty = False
        """Whether the first ConfigMap exists without a memory: giving up loses nothing and leaves nothing outdated."""
        self.size_bytes = 0

    @property
    def key(self) -> str:
        """The first ConfigMap, as namespace/name."""
        return f"{self._namespace}/{self._name}"

    # Reading

    async def read(self) -> loop_memory.LoopMemory:
        """Read the last memory. KubeError if the server does not answer."""
        if not self._name:
            return loop_memory.LoopMemory()
        try:
            head = await self._get_part(self._name)
            self._forbidden_since_s = None
            if head is None:
                return loop_memory.LoopMemory()
            self._generation, self._previous_holder = head.generation, head.holder
            self._is_empty = not head.content
            if self._is_empty:
                return loop_memory.LoopMemory()
            durable = self._written = decode_memory(await self._join(head))
        except kube_errors.Forbidden as refused:
            if not self._is_permanently_forbidden():
                raise
            self._disable(refused)
            return loop_memory.LoopMemory()
        except errors.InvalidInput as error:
            _log.warning("discarded unreadable memory: configmap=%s error=%s", self.key, error)
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
                raise errors.InvalidInput(f"ConfigMap {name} is not a part of generation {head.generation}")
            self._nonempty_parts.add(name)
            whole += part.content
        if hashlib.sha256(whole).hexdigest() != head.digest:
            raise errors.InvalidInput(f"generation {head.generation} is incomplete: its digest differs")
        return whole

    def _is_permanently_forbidden(self) -> bool:
        """Whether a Forbidden response is permanent, as with a role written for Cluster Autoscaler, which stores no
        memory.
        """
        now_s = self._api.clock.monotonic_s()
        self._forbidden_since_s = now_s if self._forbidden_since_s is None else self._forbidden_since_s
        return now_s - self._forbidden_since_s >= _FORBIDDEN_GRACE_S

    def _disable(self, refused: kube_errors.Forbidden) -> None:
        _log.warning(
            "no permission for memory ConfigMap, timers and backoffs are lost at a restart: configmap=%s error=%s",
            self.key,
            refused,
        )
        self._name = ""

    # Writing

    async def write(self, durable: durable_memory.DurableMemory) -> None:
        """Write the memory if anything but the number of loops changed.

        MemoryNotSaved if it could not be written, or the outcome is unknown; MemoryConflict if another process has
        written its own. Calls are serialized in order: callers pass newer memory later. A role that may create
        ConfigMaps and not update this one, as that of Cluster Autoscaler's chart, ends storing: nothing is stored yet.
        """
        async with self._writing:
            if not self._name or (self._written is not None and equals_ignoring_loop(durable, self._written)):
                return
            self._written = None
            try:
                packed = await self._pack(durable)
                await clock.run_with_timeout(self._api.clock, _WRITE_TIMEOUT_S, self._store(packed))
            except (kube_errors.KubeError, TimeoutError) as error:
                if isinstance(error, kube_errors.Forbidden) and self._is_empty and self._is_permanently_forbidden():
                    self._disable(error)
                    return
                raise MemoryNotSaved(_format_write_error(self._namespace, self._name, error)) from error
            self._written, self.size_bytes = durable, len(packed)

    async def _pack(self, durable: durable_memory.DurableMemory) -> bytes:
        if len(durable.scale_down.since) < _ENCODE_IN_THREAD_ABOVE:
            return encode_memory(durable)
        return await asyncio.to_thread(encode_memory, durable)

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
            self._nonempty_parts.add(name)
            await self._put(name, said, chunk)
        digest = hashlib.sha256(packed).hexdigest()
        await self._put(self._name, {**said, PARTS: str(len(chunks)), DIGEST: digest}, chunks[0])
        self._generation = generation
        if len(chunks) == 1:
            await self._empty_parts(said)

    async def _empty_parts(self, said: dict[str, str]) -> None:
        """Empty parts that are no longer used. A failure to do so is ignored."""
        while self._nonempty_parts:
            with contextlib.suppress(kube_errors.KubeError):
                await self._put(self._nonempty_parts.pop(), said, b"")

    def _names(self, generation: int, parts: int) -> Sequence[str]:
        """Return the names of a generation's parts except the first."""
        first = (MAX_CONFIG_MAPS - 1) * (generation % 2)
        return part_names(self._name)[first : first + parts - 1]

    async def _put(self, name: str, said: dict[str, str], content: bytes) -> None:
        """Write one ConfigMap over the version that was read last, and never over that of another process."""
        if name not in self._versions:
            await self._check_owner(name)
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                await self._send(name, said, content)
                return
            except (kube_errors.Conflict, kube_errors.NotFound):
                stored_part = await self._check_owner(name)
                if stored_part is not None and _matches_sent(stored_part, said, content):
                    return  # the response was lost, the write succeeded
        await self._send(name, said, content)

    async def _send(self, name: str, said: dict[str, str], content: bytes) -> None:
        version = self._versions[name]
        body: Unstructured = {
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
            if not version and name == self._name:
                # Created empty and updated: a memory that could not be updated would be outdated for the next process.
                created = await self._api.create(_CONFIG_MAPS, {**body, "binaryData": {MEMORY_KEY: ""}})
                version = self._versions[name] = body["metadata"]["resourceVersion"] = _read_version(created)
                self._is_empty = True
            written = await (self._api.update(_CONFIG_MAPS, body) if version else self._api.create(_CONFIG_MAPS, body))
            self._versions[name] = _read_version(written)
            self._is_empty = self._is_empty and name != self._name

    async def _check_owner(self, name: str) -> _StoredPart | None:
        """Return the current ConfigMap if it may be replaced: written by an earlier process, not by a later one."""
        stored_part = await self._get_part(name)
        if stored_part is not None and stored_part.holder not in ("", self._identity, self._previous_holder):
            del self._versions[name]
            raise MemoryConflict(
                f"ConfigMap {self._namespace}/{name}: {stored_part.holder} has written memory meanwhile: it leads now"
            )
        return stored_part

    async def _get_part(self, name: str) -> _StoredPart | None:
        """Return the current ConfigMap; None if it does not exist."""
        try:
            with _translate_errors("GET", name):
                stored = _parse_part(await self._api.get(_CONFIG_MAPS, name, self._namespace))
        except kube_errors.NotFound:
            self._versions[name] = ""
            return None
        self._versions[name] = stored.version
        return stored


def _matches_sent(stored_part: _StoredPart, said: dict[str, str], content: bytes) -> bool:
    return (str(stored_part.generation), stored_part.holder, stored_part.content) == (
        said[GENERATION],
        said[HOLDER],
        content,
    )


@contextlib.contextmanager
def _translate_errors(verb: str, name: str) -> Iterator[None]:
    """Translate a response that is not a ConfigMap, such as a proxy's error page, to an error."""
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
    """Parse one ConfigMap. Foreign content counts as empty and is overwritten."""
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
    hint = "free space in this ConfigMap"
    if isinstance(error, kube_errors.Forbidden):
        hint = "grant create on configmaps, and get and update on this one and its parts, or raise the quota"
    elif isinstance(error, kube_errors.ConnectionLost | kube_errors.ServerError | TimeoutError):
        hint = "the next loop retries"
    return (
        f"memory is not saved in ConfigMap {namespace}/{name}; actions that depend on it are skipped ({hint}; "
        f"--memory-config-map= disables it): {error}"
    )


def equals_ignoring_loop(durable: durable_memory.DurableMemory, other: durable_memory.DurableMemory) -> bool:
    """Whether two memories are equal except for the number of loops. The first loop differs: it cleans up."""
    if durable is other:
        return True
    if (durable.loop == 0) != (other.loop == 0):
        return False
    return durable_memory.ignore_loop_count(durable) == durable_memory.ignore_loop_count(other)


MAX_CONFIG_MAPS = 4
"""Maximum number of ConfigMaps, the first included; the role of the process must list each name."""


def part_names(first: str) -> tuple[str, ...]:
    """Names of the ConfigMaps of a large memory besides the first: those of even generations, then of odd ones."""
    return tuple(f"{first}-{number}" for number in range(1, 2 * MAX_CONFIG_MAPS - 1))
