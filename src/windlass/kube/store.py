"""Store: indexed objects of an informer, and event handlers that are called on changes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from windlass import klog
from windlass.kube.models import meta
from windlass.kube.resources import Unreadable

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class EventHandler(Protocol[T_contra]):
    """Event handler. For each object: added, then modified any number of times, then deleted."""

    def added(self, obj: T_contra) -> None: ...

    def modified(self, before: T_contra, obj: T_contra) -> None: ...

    def deleted(self, before: T_contra) -> None: ...


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    uid: str | None
    resource_version: str | None
    found: T


_Index = dict[str, str | dict[str, None]]
"""Keys of objects by index value. Most values have one object; its key is stored without a set."""


class Store(Generic[T]):
    """A sink that keeps objects, or their `narrow` form, by key and by index.

    An index function gives the values under which an object is found; it must be deterministic. Keys are
    `namespace/name`, or the name of a cluster-scoped object.
    """

    def __init__(
        self,
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        handlers: Sequence[EventHandler[T]] = (),
        *,
        keeps_partial: bool = False,
        narrow: Callable[[Any], T] | None = None,
    ) -> None:
        """`keeps_partial`: keep the valid part of an object that was never read as a whole.

        `narrow` reduces an object to what is stored; indexes and handlers receive the result.
        """
        self._entries: dict[str, _Entry[T]] = {}
        self._makers = dict(indexes or {})
        self._indexes: dict[str, _Index] = {name: {} for name in self._makers}
        self._handlers = list(handlers)
        self._unseen: set[str] | None = None
        self._keeps_partial = keeps_partial
        self._narrow = narrow

    # Lookup

    def get(self, key: str) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.found

    def find(self, index: str, value: str) -> list[T]:
        """The objects with an index value, in order of insertion."""
        keys = self._indexes[index].get(value, ())
        return [self._entries[key].found for key in ((keys,) if isinstance(keys, str) else keys)]

    def keys(self) -> list[str]:
        return list(self._entries)

    def __iter__(self) -> Iterator[T]:
        return (entry.found for entry in list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    # Sink

    def begin(self) -> None:
        self._unseen = set(self._entries)

    def put(self, metadata: meta.ObjectMeta, obj: Any) -> None:
        key = metadata.key
        kept: T = obj if self._narrow is None else self._narrow(obj)
        indexed = self._list_values(kept)
        if self._unseen is not None:
            self._unseen.discard(key)
        before = self._entries.get(key)
        if before is not None and before.uid != metadata.uid:
            self._drop(key)
            before = None
        if before is not None and before.resource_version == metadata.resource_version is not None:
            return
        self._keep(key, _Entry(metadata.uid, metadata.resource_version, kept), indexed, before)

    def set_aside(self, unreadable: Unreadable[Any]) -> None:
        """Keep the last valid state of a malformed object; without one, keep its valid part if allowed."""
        metadata, key = unreadable.metadata, unreadable.metadata.key
        if self._unseen is not None:
            self._unseen.discard(key)
        before = self._entries.get(key)
        if before is not None and metadata.uid and before.uid != metadata.uid:
            self._drop(key)
            before = None
        if before is None and unreadable.partial is not None and self._keeps_partial:
            self.put(metadata, unreadable.partial)

    def remove(self, metadata: meta.ObjectMeta) -> None:
        if self._unseen is not None:
            self._unseen.discard(metadata.key)
        if metadata.key in self._entries:
            self._drop(metadata.key)

    def end(self) -> None:
        for key in sorted(self._unseen or ()):
            self._drop(key)
        self._unseen = None

    def _list_values(self, obj: T) -> list[tuple[str, tuple[str, ...]]]:
        """Index values of an object."""
        return [(name, tuple(make(obj))) for name, make in self._makers.items()]

    def _keep(
        self, key: str, entry: _Entry[T], indexed: list[tuple[str, tuple[str, ...]]], before: _Entry[T] | None
    ) -> None:
        if before is not None and (found_under := self._list_values(before.found)) != indexed:
            self._unindex(key, found_under)
        self._entries[key] = entry
        for name, values in indexed:
            for value in values:
                _add_to_index(self._indexes[name], value, key)
        for handler in self._handlers:
            if before is None:
                self._notify(key, handler.added, entry.found)
            else:
                self._notify(key, handler.modified, before.found, entry.found)

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key)
        self._unindex(key, self._list_values(entry.found))
        for handler in self._handlers:
            self._notify(key, handler.deleted, entry.found)

    def _notify(self, key: str, callback: Callable[..., None], *obj: T) -> None:
        """Call the handlers. An exception affects neither the object nor the other handlers."""
        try:
            callback(*obj)
        except Exception as error:
            version = getattr(self._entries.get(key), "resource_version", None) or ""
            klog.report_error(klog.ErrorPlace.INFORMER, f"{type(obj[0]).__name__} {key}", version, error)

    def _unindex(self, key: str, indexed: list[tuple[str, tuple[str, ...]]]) -> None:
        for name, values in indexed:
            for value in values:
                _remove_from_index(self._indexes[name], value, key)


def _add_to_index(index: _Index, value: str, key: str) -> None:
    held = index.get(value)
    if held is None:
        index[value] = key
    elif not isinstance(held, str):
        held[key] = None
    elif held != key:
        index[value] = {held: None, key: None}


def _remove_from_index(index: _Index, value: str, key: str) -> None:
    held = index.get(value)
    if held == key:
        del index[value]
    elif isinstance(held, dict):
        held.pop(key, None)
        if not held:
            del index[value]
