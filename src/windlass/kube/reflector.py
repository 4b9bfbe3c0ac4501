"""The reflector: what to ask an API server for, so that a sink holds what the server holds. No I/O.

        ┌────────── streaming list ──── not known here ───▶ pages ◀──┐ next page
        │                 │                                   │ └────┘
        │                 └── initial events end ──▶ watch ◀──┘ last page
        └──────────────────── 410, or behind us ───────┘ └──┘ stream ended: go on from the last resourceVersion

A list that breaks off begins anew, or, where it is read in pages, at the page that failed. One whose pages the server
forgets while they are read is asked for in one piece. Whatever happens, an object reaches the sink in the order of its
versions, and each deletion is seen, at the latest by the next complete list.

A line of a watch that is no JSON breaks it: whatever it was about must not be missed. It goes on from the last
resourceVersion; if that brings the same line again, a list tells what the line would have.

An object that cannot be read, or that the sink fails on for whatever reason, is set aside: the sink is told what can be
read of it, and everything else goes on.
"""

import enum
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from windlass import errors
from windlass.kube import errors as kube_errors
from windlass.kube import flow_control, list_watch, request_builders
from windlass.kube.models import meta
from windlass.kube.resources import Resource, Unreadable
from windlass.kube.transport import Request

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

_HEALTHY_S = 10.0
"""A stream that lasted this long was no failure, even if nothing came."""

_LASTED_S = 1.0
"""A watch that lasted this long and breaks at a line that cannot be read is taken up again without a pause: once."""

_MOST_EARLY_BOOKMARKS = 2
"""Bookmarks before the end of a streaming list that are passed over; servers send one a minute."""

_log = logging.getLogger(__name__)


class Sink(Protocol[T_contra]):
    """Who holds the objects. Called in order, from one task."""

    def begin(self) -> None:
        """A complete list follows. Called again before `end`, the list begins anew."""

    def put(self, metadata: meta.ObjectMeta, found: T_contra) -> None:
        """It exists, and this is its state: new, changed, or as it was. InvalidObject if it cannot be used."""

    def remove(self, metadata: meta.ObjectMeta) -> None:
        """It is gone. It may never have been put."""

    def set_aside(self, found: Unreadable[T_contra]) -> None:
        """It exists, and cannot be used as it is. It is not gone."""

    def end(self) -> None:
        """The list was complete: what was not put since `begin` is gone."""


@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    """How a resource is followed."""

    streaming: bool = True
    """Ask for streaming lists first."""
    page_size: int = 500
    """Objects in a page, where lists are read in pages."""
    watch_s: float = 300.0
    """A watch ends after this long or up to twice as long, so that not all end at once."""
    silence_s: float = 150.0
    """A watch that says nothing for this long is given up: servers send a bookmark every minute."""
    backoff: flow_control.Backoff = field(default_factory=lambda: flow_control.Backoff(0.5, 30.0))


@dataclass(slots=True)
class ReflectorCounts:
    """What happened so far."""

    lists: int = 0
    """Complete lists."""
    relists: int = 0
    """Lists that became necessary because the server forgot where we were."""
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    malformed: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class ReflectorStep:
    """What to do next: wait, then send."""

    wait_s: float
    request: Request
    streams: bool
    """The answer goes to `receive` as it comes, and not whole to `receive_page`."""


class _Mode(enum.Enum):
    STREAMING_LIST = enum.auto()
    PAGES = enum.auto()
    WATCH = enum.auto()


class Reflector(Generic[T]):
    """Follows one resource."""

    def __init__(
        self,
        resource: Resource[T],
        sink: Sink[T],
        rng: random.Random,
        selection: request_builders.ListOptions = request_builders.ALL_OBJECTS,
        settings: ReflectorSettings | None = None,
    ) -> None:
        self.counts = ReflectorCounts()
        self.malformed: dict[str, errors.InvalidObject] = {}
        """Objects that exist and cannot be read, by key."""
        self._logged: dict[str, str] = {}
        """What was logged of them since the last list, by key."""
        self.resource_version = ""
        self.synced = False
        """The sink held, at least once, all there was."""
        self.last_error: kube_errors.KubeError | None = None
        """What keeps the sink from being current; None while all is well."""
        self._resource = resource
        self._selection = selection
        self._settings = settings or ReflectorSettings()
        self._sink = sink
        self._rng = rng
        self._mode = _Mode.STREAMING_LIST if self._settings.streaming else _Mode.PAGES
        self._streaming = self._settings.streaming
        self._listing = False
        self._continue_token = ""
        self._failures = 0
        self._wait_s = 0.0
        self._call = ""
        """The stream that is read, in words."""
        self._early_bookmarks = 0
        """Bookmarks of a streaming list that came before its end."""
        self._whole = False
        """Pages were forgotten while they were read: the next list is asked for in one piece."""
        self._asked_after = ""
        """How far the sink was when the stream that is read was asked for."""
        self._decoder: list_watch.WatchDecoder[T] | None = None

    @property
    def is_watching(self) -> bool:
        """All was listed, and what changes is asked for."""
        return self._mode is _Mode.WATCH

    # What to do

    def next_step(self) -> ReflectorStep:
        wait_s, self._wait_s = self._wait_s, 0.0
        if self._mode is _Mode.PAGES:
            return ReflectorStep(wait_s, self._prepare_page(), streams=False)
        request = self._prepare_watch()
        self._call = request.call
        self._early_bookmarks = 0
        self._decoder = list_watch.WatchDecoder(self._resource, request.call)
        self._listing = False
        self._asked_after = self.resource_version
        self.counts.watches += self._mode is _Mode.WATCH
        return ReflectorStep(wait_s, request, streams=True)

    def _prepare_page(self) -> Request:
        # No resourceVersion: what an API server has in its cache may be older than what the sink was told before.
        limit = 0 if self._whole else self._settings.page_size
        return request_builders.build_list(
            self._resource, self._selection, limit=limit, continue_token=self._continue_token
        )

    def _prepare_watch(self) -> Request:
        lists = self._mode is _Mode.STREAMING_LIST
        return request_builders.build_watch(
            self._resource,
            self._selection,
            resource_version="" if lists else self.resource_version,
            timeout_s=int(self._settings.watch_s * (1.0 + self._rng.random())),
            silence_s=self._settings.silence_s,
            initial_events=lists,
        )

    # What came of it

    def receive_page(self, request: Request, body: bytes) -> None:
        """A page of a list."""
        try:
            page = list_watch.decode_page(self._resource, body)
        except msgspec.MsgspecError as error:
            raise kube_errors.InvalidResponse(request.call, str(error)) from error
        if not self._continue_token:
            self._listing = False
        self._begin_list()
        for found in page.items:
            self._handle_object(self._resource.metadata(found), found)
        for unreadable in page.unreadable:
            self._handle_malformed(unreadable)
        self._continue_token = page.continue_token
        if not page.continue_token:
            self._end_list(page.resource_version)

    def receive(self, chunk: bytes) -> bool:
        """Bytes of a stream. False: this stream is of no use any more. KubeError if it broke: see `fail`."""
        assert self._decoder is not None, "bytes of a stream that was not asked for"
        return all(self._handle_item(found) for found in self._decoder.feed(chunk))

    def end_stream(self, lasted_s: float) -> None:
        """The server ended the stream: a watch has its time, but a list that is cut short is a failure.

        A busy server ends watches that it cannot keep up with. One that brought something is taken up again at once:
        there is more to come.
        """
        has_brought = self.resource_version != self._asked_after
        if self._mode is _Mode.STREAMING_LIST or (lasted_s < _HEALTHY_S and not has_brought):
            self._back_off(0.0)
            if self._failures > 1:  # once may be chance; again and again, what the sink holds may be over
                said = f"the server keeps ending the stream within {_HEALTHY_S:g} s, without an event"
                self.last_error = kube_errors.ConnectionLost(self._call, said)
        else:
            self._reset_backoff()

    def fail(self, error: kube_errors.KubeError, lasted_s: float = 0.0) -> None:
        """A request failed, or a stream broke after so long."""
        self.counts.failures += 1
        self.last_error = error
        _log.info("%s: %s", self._resource.plural, error)
        if self._mode is _Mode.STREAMING_LIST and _is_unknown(error):
            self._fall_back_to_pages()
            return
        if lasted_s >= _HEALTHY_S:
            self._failures = 0
        self._back_off(error.retry_after_s)
        is_unusable = self._mode is _Mode.WATCH and isinstance(error, kube_errors.InvalidResponse)
        if is_unusable and self._failures == 1 and lasted_s >= _LASTED_S:
            self._wait_s = 0.0
        if _is_forgotten(error) or (is_unusable and self._failures > 1):
            self._relist()

    def _handle_item(self, found: list_watch.WatchItem[T]) -> bool:
        if isinstance(found, list_watch.WatchFailed):
            raise found.error
        if self._mode is _Mode.WATCH:
            self._reset_backoff()
        else:
            self._begin_list()
        if isinstance(found, list_watch.MalformedEvent):
            self.counts.events += 1
            self._advance_resource_version(found.found.metadata)
            if found.type == list_watch.DELETED:
                self._handle_deleted(found.found.metadata)
            elif found.type != list_watch.BOOKMARK:
                self._handle_malformed(found.found)
            return True
        metadata = self._resource.metadata(found.object)
        self._advance_resource_version(metadata)
        if found.type == list_watch.BOOKMARK:
            return self._handle_bookmark(metadata)
        self.counts.events += 1
        if found.type == list_watch.DELETED:
            self._handle_deleted(metadata)
        else:
            self._handle_object(metadata, found.object)
        return True

    def _handle_bookmark(self, metadata: meta.ObjectMeta) -> bool:
        self.counts.bookmarks += 1
        if self._mode is not _Mode.STREAMING_LIST:
            return True
        if (metadata.annotations or {}).get(list_watch.INITIAL_EVENTS_END) == "true":
            self._end_list(metadata.resource_version or "")
            return True
        # A server that does not know streaming lists takes the request for a plain watch: its bookmarks never end.
        self._early_bookmarks += 1
        if self._early_bookmarks <= _MOST_EARLY_BOOKMARKS:
            return True
        self._fall_back_to_pages()
        return False

    # The sink

    def _begin_list(self) -> None:
        if not self._listing:
            self._listing = True
            self.malformed.clear()
            self._logged.clear()
            self._call_sink(meta.NO_META, self._sink.begin)

    def _end_list(self, resource_version: str) -> None:
        self._call_sink(meta.NO_META, self._sink.end)
        self._listing = False
        self._reset_backoff()
        self.counts.lists += 1
        self.resource_version = resource_version
        self.synced = True
        self._mode = _Mode.WATCH
        self._continue_token = ""
        self._whole = False

    def _handle_object(self, metadata: meta.ObjectMeta, found: T) -> None:
        try:
            if not metadata.name:  # nothing could be done with it: it has no address
                raise errors.InvalidObject(self._resource.kind, "", "metadata.name", metadata.name, "a name")
            self._sink.put(metadata, found)
        except Exception as error:  # what it costs is this object, whatever it is
            complaint = self._resource.to_invalid_object(metadata, error)
            self._handle_malformed(Unreadable(metadata, complaint, found))
            return
        if self.malformed:
            self.malformed.pop(metadata.key, None)

    def _handle_deleted(self, metadata: meta.ObjectMeta) -> None:
        self.malformed.pop(metadata.key, None)
        self._logged.pop(metadata.key, None)
        self._call_sink(metadata, self._sink.remove, metadata)

    def _handle_malformed(self, found: Unreadable[T]) -> None:
        """What cannot be read is not gone: the sink keeps of it what is safe."""
        metadata = found.metadata
        if metadata.name:
            if found.is_whole and found.partial is not None:
                self._handle_object(metadata, found.partial)
            else:
                self._call_sink(metadata, self._sink.set_aside, found)
        self._report(metadata.key or found.error.name, found.error)

    def _call_sink(self, metadata: meta.ObjectMeta, change: Callable[..., None], *arguments: object) -> None:
        """Whatever a sink raises costs no more than this change."""
        try:
            change(*arguments)
        except Exception as error:
            self._report(metadata.key, self._resource.to_invalid_object(metadata, error))

    def _report(self, key: str, error: errors.InvalidObject) -> None:
        self.counts.malformed += 1
        self.malformed[key] = error
        said = str(error)
        if self._logged.get(key) != said:  # an object that stays as it is may be updated often
            self._logged[key] = said
            _log.warning("set aside: %s", said)

    # Where we are

    def _reset_backoff(self) -> None:
        self._failures = 0
        self.last_error = None

    def _advance_resource_version(self, metadata: meta.ObjectMeta) -> None:
        if metadata.resource_version and self._mode is _Mode.WATCH:
            self.resource_version = metadata.resource_version

    def _relist(self) -> None:
        if self._mode is _Mode.WATCH or self._continue_token:
            self.counts.relists += 1
        if self._continue_token:
            self._whole = True
        self._mode = _Mode.STREAMING_LIST if self._streaming else _Mode.PAGES
        self._continue_token = ""

    def _fall_back_to_pages(self) -> None:
        self._streaming = False
        self._mode = _Mode.PAGES

    def _back_off(self, asked_s: float) -> None:
        self._failures += 1
        self._wait_s = max(asked_s, self._settings.backoff.wait_s(self._failures, self._rng))


def _is_forgotten(error: kube_errors.KubeError) -> bool:
    """The server no longer knows, or does not know yet, what came after our resourceVersion."""
    if isinstance(error, kube_errors.Gone):
        return True
    return isinstance(error, kube_errors.ServerTimeout) and error.is_resource_version_too_large


def _is_unknown(error: kube_errors.KubeError) -> bool:
    """The server does not know streaming lists."""
    return isinstance(error, kube_errors.Invalid | kube_errors.BadRequest)
