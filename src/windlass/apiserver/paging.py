"""Lists at a version: which version a request may be answered with, and how pages of one list hang together.

All pages of a list show the same version. Once the history no longer reaches back to it the list cannot go on as it
began; the refusal carries a token that goes on with what is there now.
"""

import base64
import bisect
from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from windlass.apiserver import selecting, status, storage

_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
_PAGE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_MOST_SNAPSHOTS = 8
_INCONSISTENT = -1


@dataclass(frozen=True, slots=True)
class Page:
    """One page."""

    items: list[storage.Stored]
    version: int
    next_page: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


@dataclass(frozen=True, slots=True)
class Wish:
    """What a list request asks for."""

    limit: int = 0
    token: str = ""
    version: str = ""
    match: str = ""


class Pager:
    """Answers lists, and remembers the versions that pages of unfinished lists need."""

    def __init__(self, store: storage.Store) -> None:
        self._store = store
        self._snapshots: OrderedDict[tuple[int, int], tuple[list[str], dict[str, storage.Stored]]] = OrderedDict()

    def cut(self, table: storage.Table, namespace: str, accepts: selecting.Filter | None, wish: Wish) -> Page:
        _check(wish)
        if wish.token:
            return self._go_on(table, namespace, accepts, wish)
        version = parse_version(wish.version)
        if version > self._store.version:
            raise status.too_large_resource_version(version, self._store.version)
        is_exact = wish.match == "Exact" or (not wish.match and wish.limit > 0 and version > 0)
        # A list from any version is answered whole: the real one's cache does not cut it.
        limit = 0 if wish.version == "0" else wish.limit
        if is_exact:
            if version < table.floor:
                raise status.expired(_LIST_TOO_OLD)
            return self._cut_at(table, namespace, accepts, limit, version, "")
        if limit:
            return self._cut_at(table, namespace, accepts, limit, self._store.version, "")
        items = [stored for stored in table.within(namespace) if accepts is None or accepts(stored)]
        return Page(items, self._store.version)

    def _go_on(self, table: storage.Table, namespace: str, accepts: selecting.Filter | None, wish: Wish) -> Page:
        token = _read_token(wish.token)
        if token.rv == _INCONSISTENT:
            return self._cut_at(table, namespace, accepts, wish.limit, self._store.version, token.start)
        if token.rv < table.floor:
            anew = _write_token(_INCONSISTENT, token.start)
            raise status.expired(_PAGE_TOO_OLD, anew)
        return self._cut_at(table, namespace, accepts, wish.limit, token.rv, token.start)

    def _cut_at(
        self,
        table: storage.Table,
        namespace: str,
        accepts: selecting.Filter | None,
        limit: int,
        version: int,
        start: str,
    ) -> Page:
        keys, objects = self._at(table, version)
        first, end = 0, len(keys)
        if namespace:
            first, end = bisect.bisect_left(keys, namespace + "/"), bisect.bisect_left(keys, namespace + "0")
        if start:
            first = bisect.bisect_left(keys, start, first, end)
        items: list[storage.Stored] = []
        for i in range(first, end):
            stored = objects[keys[i]]
            if accepts is None or accepts(stored):
                items.append(stored)
            if limit and len(items) >= limit and i + 1 < end:
                remaining = end - i - 1 if accepts is None else None
                return Page(items, version, _write_token(version, keys[i] + "\0"), remaining)
        return Page(items, version)

    def _at(self, table: storage.Table, version: int) -> tuple[list[str], dict[str, storage.Stored]]:
        remembered = self._snapshots.get((id(table), version))
        if remembered is not None:
            self._snapshots.move_to_end((id(table), version))
            return remembered
        if version == self._store.version:
            found = (table.keys(), dict(table.objects))
        else:
            objects = table.at(version)
            found = (sorted(objects), objects)
        self._snapshots[id(table), version] = found
        while len(self._snapshots) > _MOST_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return found


def _check(wish: Wish) -> None:
    errors = []
    if wish.match:
        if not wish.version:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(status.forbidden_field("resourceVersionMatch", why))
        if wish.token:
            why = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(status.forbidden_field("resourceVersionMatch", why))
        if wish.match not in ("Exact", "NotOlderThan"):
            supported = ("Exact", "NotOlderThan", "")
            errors.append(status.unsupported("resourceVersionMatch", wish.match, supported))
        if wish.match == "Exact" and wish.version == "0":
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(status.forbidden_field("resourceVersionMatch", why))
    if errors:
        raise status.invalid_kind("ListOptions", "meta.k8s.io", "", errors)
    if wish.token and wish.version not in ("", "0"):
        raise status.bad_request("specifying resource version is not allowed when using continue")


def parse_version(version: str) -> int:
    """A resourceVersion of a request; zero if there is none."""
    if not version.isdigit() and version:
        why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise status.bad_request(f'resourceVersion: Invalid value: "{version}": {why}')
    return int(version or 0)


def _write_token(version: int, start: str) -> str:
    encoded = msgspec.json.encode(_Token("meta.k8s.io/v1", version, start))
    return base64.urlsafe_b64encode(encoded).rstrip(b"=").decode()


def _read_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except ValueError as error:
        raise status.bad_request(f"continue key is not valid: {error}") from None
