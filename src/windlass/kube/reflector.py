"""Reflector: the state machine that lists and watches one resource into a sink. No I/O.

        ┌────────── streaming list ──── unsupported ──────▶ pages ◀──┐ next page
        │                 │                                   │ └────┘
        │                 └── initial events end ──▶ watch ◀──┘ last page
        └──────── 410 Gone, or server behind us ───────┘ └──┘ stream ended: watch from the last resourceVersion

A failed list starts again, or at the failed page. If the continue token expires, the list is requested without a limit.
The sink gets the states of an object in the order of its versions, and each deletion, at the latest with the next list.

A malformed line breaks the watch, since its event must not be missed. The watch resumes from the last resourceVersion;
if the line comes again, the resource is listed again.

A malformed object, or one for which the sink raises, is set aside: the sink gets its valid part, and the rest goes on.
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

_HEALTHY_STREAM_S = 10.0
"""A stream of at least this duration counts as healthy, even without events."""

_RESUMABLE_STREAM_S = 1.0
"""Minimum duration of a watch that is resumed without backoff, once, after a malformed line."""

_MAX_EARLY_BOOKMARKS = 2
"""Maximum number of bookmarks before the end of a streaming list; kube-apiserver sends one a minute."""

_log = logging.getLogger(__name__)


class Sink(Protocol[T_contra]):
    """Receives the objects of a reflector, in order and from one task."""

    def begin(self) -> None:
        """A complete list begins, or begins again."""

    def put(self, metadata: meta.ObjectMeta, obj: T_contra) -> None:
        """An object exists in this state. InvalidObject if it cannot be used."""

    def remove(self, metadata: meta.ObjectMeta) -> None:
        """An object was deleted. It may never have been put."""

    def set_aside(self, unreadable: Unreadable[T_contra]) -> None:
        """An object exists, but is malformed."""

    def end(self) -> None:
        """The list is complete: objects that were not put since `begin` are deleted."""


@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    """Settings of a reflector."""

    streaming: bool = True
    """Use streaming lists (WatchList) if the server supports them."""
    page_size: int = 500
    """Page size of lists."""
    watch_s: float = 300.0
    """Watch timeout; up to twice this value, so that not all watches end at once."""
    silence_s: float = 150.0
    """A watch without data for this long is reconnected; kube-apiserver sends a bookmark every minute."""
    backoff: flow_control.Backoff = field(default_factory=lambda: flow_control.Backoff(0.5, 30.0))


@dataclass(slots=True)
class ReflectorCounts:
    """Counters of a reflector."""

    lists: int = 0
    """Completed lists."""
    relists: int = 0
    """Lists after a watch could not be resumed."""
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    malformed: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class ReflectorStep:
    """The next request, and the backoff before it."""

    wait_s: float
    request: Request
    streams: bool
    """The response is fed to `receive` in chunks, otherwise to `receive_page` as a whole."""


class _Mode(enum.Enum):
    STREAMING_LIST = enum.auto()
    PAGES = enum.auto()
    WATCH = enum.auto()


class Reflector(Generic[T]):
    """Lists and watches one resource."""

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
        """Errors of malformed objects, by key."""
        self._logged: dict[str, str] = {}
        """Errors logged since the last list, by key."""
        self.resource_version = ""
        self.synced = False
        """True after the first complete list."""
        self.last_error: kube_errors.KubeError | None = None
        """Why the sink may be outdated; None if it is current."""
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
        """The current request, for errors."""
        self._early_bookmarks = 0
        """Bookmarks received before the end of the streaming list."""
        self._unpaged = False
        """The continue token expired: the next list is requested without a limit."""
        self._stream_version = ""
        """The resourceVersion at which the current stream was requested."""
        self._decoder: list_watch.WatchDecoder[T] | None = None

    @property
    def is_watching(self) -> bool:
        """True after a list, while changes are watched."""
        return self._mode is _Mode.WATCH

    # Requests

    def next_step(self) -> ReflectorStep:
        wait_s, self._wait_s = self._wait_s, 0.0
        if self._mode is _Mode.PAGES:
            return ReflectorStep(wait_s, self._prepare_page(), streams=False)
        request = self._prepare_watch()
        self._call = request.call
        self._early_bookmarks = 0
        self._decoder = list_watch.WatchDecoder(self._resource, request.call)
        self._listing = False
        self._stream_version = self.resource_version
        self.counts.watches += self._mode is _Mode.WATCH
        return ReflectorStep(wait_s, request, streams=True)

    def _prepare_page(self) -> Request:
        # No resourceVersion: the server's cache may be older than what the sink has seen.
        limit = 0 if self._unpaged else self._settings.page_size
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

    # Responses

    def receive_page(self, request: Request, body: bytes) -> None:
        """Handle a page of a list."""
        try:
            page = list_watch.decode_page(self._resource, body)
        except msgspec.MsgspecError as error:
            raise kube_errors.InvalidResponse(request.call, str(error)) from error
        if not self._continue_token:
            self._listing = False
        self._begin_list()
        for obj in page.items:
            self._handle_object(self._resource.metadata(obj), obj)
        for unreadable in page.unreadable:
            self._handle_malformed(unreadable)
        self._continue_token = page.continue_token
        if not page.continue_token:
            self._end_list(page.resource_version)

    def receive(self, chunk: bytes) -> bool:
        """Handle a chunk of a stream. False if the stream must be closed. KubeError if it failed: pass it to `fail`."""
        assert self._decoder is not None, "bytes of a stream that was not asked for"
        return all(self._handle_item(watch_item) for watch_item in self._decoder.feed(chunk))

    def end_stream(self, lasted_s: float) -> None:
        """Handle the end of a stream: the normal end of a watch, but a failure of a streaming list.

        An overloaded server closes watches that lag behind. A watch that delivered events is reconnected without
        backoff, since more events are pending.
        """
        has_events = self.resource_version != self._stream_version
        if self._mode is _Mode.STREAMING_LIST or (lasted_s < _HEALTHY_STREAM_S and not has_events):
            self._back_off(0.0)
            if self._failures > 1:  # from the second time on, the sink may be outdated
                reason = f"the server ends the stream repeatedly within {_HEALTHY_STREAM_S:g} s, without an event"
                self.last_error = kube_errors.ConnectionLost(self._call, reason)
        else:
            self._reset_backoff()

    def fail(self, error: kube_errors.KubeError, lasted_s: float = 0.0) -> None:
        """Handle a failed request or a stream that broke after `lasted_s`."""
        if self._mode is _Mode.STREAMING_LIST and _is_unsupported(error):  # no failure: older servers have lists only
            _log.debug("lists are not streamed: resource=%s error=%s", self._resource.plural, error)
            self._fall_back_to_pages()
            return
        self.counts.failures += 1
        self.last_error = error
        _log.info("list or watch failed: resource=%s error=%s", self._resource.plural, error)
        if lasted_s >= _HEALTHY_STREAM_S:
            self._failures = 0
        self._back_off(error.retry_after_s)
        is_unusable = self._mode is _Mode.WATCH and isinstance(error, kube_errors.InvalidResponse)
        if is_unusable and self._failures == 1 and lasted_s >= _RESUMABLE_STREAM_S:
            self._wait_s = 0.0
        if _is_expired(error) or (is_unusable and self._failures > 1):
            self._relist()

    def _handle_item(self, watch_item: list_watch.WatchItem[T]) -> bool:
        if isinstance(watch_item, list_watch.WatchFailed):
            raise watch_item.error
        if self._mode is _Mode.WATCH:
            self._reset_backoff()
        else:
            self._begin_list()
        if isinstance(watch_item, list_watch.MalformedEvent):
            self.counts.events += 1
            self._advance_resource_version(watch_item.found.metadata)
            if watch_item.type == list_watch.DELETED:
                self._handle_deleted(watch_item.found.metadata)
            elif watch_item.type != list_watch.BOOKMARK:
                self._handle_malformed(watch_item.found)
            return True
        metadata = self._resource.metadata(watch_item.object)
        self._advance_resource_version(metadata)
        if watch_item.type == list_watch.BOOKMARK:
            return self._handle_bookmark(metadata)
        self.counts.events += 1
        if watch_item.type == list_watch.DELETED:
            self._handle_deleted(metadata)
        else:
            self._handle_object(metadata, watch_item.object)
        return True

    def _handle_bookmark(self, metadata: meta.ObjectMeta) -> bool:
        self.counts.bookmarks += 1
        if self._mode is not _Mode.STREAMING_LIST:
            return True
        if (metadata.annotations or {}).get(list_watch.INITIAL_EVENTS_END) == "true":
            self._end_list(metadata.resource_version or "")
            return True
        # A server without streaming lists treats the request as a plain watch, whose bookmarks never end the list.
        self._early_bookmarks += 1
        if self._early_bookmarks <= _MAX_EARLY_BOOKMARKS:
            return True
        self._fall_back_to_pages()
        return False

    # Sink

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
        self._unpaged = False

    def _handle_object(self, metadata: meta.ObjectMeta, obj: T) -> None:
        try:
            if not metadata.name:  # without a name it has no key
                raise errors.InvalidObject(self._resource.kind, "", "metadata.name", metadata.name, "a name")
            self._sink.put(metadata, obj)
        except Exception as error:  # any error affects this object only
            complaint = self._resource.to_invalid_object(metadata, error)
            self._handle_malformed(Unreadable(metadata, complaint, obj))
            return
        if self.malformed:
            self.malformed.pop(metadata.key, None)

    def _handle_deleted(self, metadata: meta.ObjectMeta) -> None:
        self.malformed.pop(metadata.key, None)
        self._logged.pop(metadata.key, None)
        self._call_sink(metadata, self._sink.remove, metadata)

    def _handle_malformed(self, unreadable: Unreadable[T]) -> None:
        """Handle a malformed object: it still exists, so the sink keeps the valid part."""
        metadata = unreadable.metadata
        if metadata.name:
            if unreadable.is_whole and unreadable.partial is not None:
                self._handle_object(metadata, unreadable.partial)
            else:
                self._call_sink(metadata, self._sink.set_aside, unreadable)
        self._report(metadata.key or unreadable.error.name, unreadable.error)

    def _call_sink(self, metadata: meta.ObjectMeta, change: Callable[..., None], *arguments: object) -> None:
        """Call the sink. An exception affects this change only."""
        try:
            change(*arguments)
        except Exception as error:
            self._report(metadata.key, self._resource.to_invalid_object(metadata, error))

    def _report(self, key: str, error: errors.InvalidObject) -> None:
        self.counts.malformed += 1
        self.malformed[key] = error
        text = str(error)
        if self._logged.get(key) != text:  # an unchanged error is logged once, however often the object is updated
            self._logged[key] = text
            _log.warning("set aside invalid object: error=%s", text)

    # State

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
            self._unpaged = True
        self._mode = _Mode.STREAMING_LIST if self._streaming else _Mode.PAGES
        self._continue_token = ""

    def _fall_back_to_pages(self) -> None:
        self._streaming = False
        self._mode = _Mode.PAGES

    def _back_off(self, asked_s: float) -> None:
        self._failures += 1
        self._wait_s = max(asked_s, self._settings.backoff.wait_s(self._failures, self._rng))


def _is_expired(error: kube_errors.KubeError) -> bool:
    """True if the server cannot resume from our resourceVersion: expired, or newer than the server's."""
    if isinstance(error, kube_errors.Gone):
        return True
    return isinstance(error, kube_errors.ServerTimeout) and error.is_resource_version_too_large


def _is_unsupported(error: kube_errors.KubeError) -> bool:
    """True if the server does not support streaming lists."""
    return isinstance(error, kube_errors.Invalid | kube_errors.BadRequest)
