"""Lists: pages of objects, of which one that cannot be read spoils no other."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from windlass import errors
from windlass.kube import salvage
from windlass.kube.models.meta import Model
from windlass.kube.resources import UNDECODABLE, Resource, Unreadable, decoder

T = TypeVar("T")


class ListMeta(Model, frozen=True):
    """Where a list stands, and how to go on with it."""

    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


_NO_META = ListMeta()


# Every server writes `items`, if only `null`. Without it the answer is no list, and above all no empty one: to a sink,
# whatever is not in a list is gone.


class _Fast(msgspec.Struct, Generic[T], frozen=True):
    items: list[T] | None
    metadata: ListMeta | None = None


class _Slow(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None
    metadata: ListMeta | None = None


class _Head(msgspec.Struct, frozen=True):
    metadata: ListMeta | None = None


@dataclass(slots=True)
class Listing(Generic[T]):
    """Objects of one resource as they were at `resource_version`."""

    items: list[T] = field(default_factory=list)
    resource_version: str = ""
    unreadable: list[Unreadable[T]] = field(default_factory=list)
    """Those that could not be read as they are; they are not among the items."""
    continue_token: str = ""
    """What to ask for the next page with; empty on the last."""

    @property
    def malformed(self) -> list[errors.InvalidObject]:
        """What is wrong with those that could not be read."""
        return [one.error for one in self.unreadable]

    def extend(self, page: "Listing[T]") -> None:
        """Go on with the next page."""
        self.items += page.items
        self.unreadable += page.unreadable
        self.resource_version = page.resource_version or self.resource_version
        self.continue_token = page.continue_token


_SLOW = msgspec.json.Decoder(_Slow)
_HEAD = msgspec.json.Decoder(_Head)


def decode_page(resource: Resource[T], body: bytes) -> Listing[T]:
    """One page. msgspec.MsgspecError only if it is no list at all."""
    if resource.is_untyped:
        return _decode_one_by_one(resource, body)
    try:
        page = decoder(_Fast[resource.model]).decode(body)  # type: ignore[name-defined]
    except UNDECODABLE:
        return _decode_one_by_one(resource, body)
    metadata = page.metadata or _NO_META
    return Listing(page.items or [], metadata.resource_version or "", [], metadata.continue_ or "")


def _decode_one_by_one(resource: Resource[T], body: bytes) -> Listing[T]:
    metadata, items = _take_apart(body)
    listing: Listing[T] = Listing([], metadata.resource_version or "", [], metadata.continue_ or "")
    for raw in items:
        found = resource.read(raw)
        if isinstance(found, Unreadable):
            listing.unreadable.append(found)
        else:
            listing.items.append(found)
    return listing


def _take_apart(body: bytes) -> tuple[ListMeta, list[msgspec.Raw] | list[bytes]]:
    """What the list says of itself, and the text of each item."""
    try:
        page = _SLOW.decode(body)
    except UNDECODABLE as error:
        try:
            rest, items = salvage.split(body)
            return _HEAD.decode(salvage.mend(rest)).metadata or _NO_META, items
        except (ValueError, RecursionError):
            raise msgspec.DecodeError(str(error)) from error
    return page.metadata or _NO_META, page.items or []
