"""Booking: room that was found for a request is kept for it, loop after loop, until it expires or is used.

Its pods are put on nodes in the loop's fork, where everyone who looks later finds them: other requests, the scale-up,
the scale-down. Pods for which there is no room any more are left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from windlass.engine import dtypes, placing, searching
from windlass.engine.provisioning import conditions
from windlass.engine.provisioning.docket import Docket, imagine
from windlass.engine.provisioning.request import consumed_by
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot


def set_consumers_aside(docket: Docket, snapshot: Snapshot, rows: Sequence[int]) -> list[int]:
    """Those of these pending pods that ask for room of their own."""
    consuming = _find_consumers(snapshot)
    if not consuming:
        return list(rows)
    docket.ignored = tuple(row for row in rows if int(snapshot.pods.kind_ids[row]) in consuming)
    ignored = set(docket.ignored)
    return [row for row in rows if row not in ignored]


def book(docket: Docket, snapshot: Snapshot, search: searching.Search, settings: Settings) -> None:
    """Keep room for all requests that have a right to it. The room of requests whose pods are all there is free."""
    rows_of: dict[str, list[int]] = {}
    consumers = count_consumers(snapshot)
    for request in docket:
        if not conditions.is_booked(request, docket.instance):
            continue
        there = consumers[request.key]
        if there >= request.pod_count:
            docket.say(request, conditions.CONSUMED)
        elif request.fault:
            docket.say(request, conditions.cannot_book(request.fault))
        else:
            left = request.pod_count - there if settings.deviations.book_only_what_is_left else None
            rows_of[request.key] = imagine(snapshot, request, left)
    _find_places(snapshot, rows_of, search, settings)
    placed = {key: int((snapshot.pods.node_rows[rows] != dtypes.ABSENT).sum()) for key, rows in rows_of.items()}
    docket.booked = {key: count for key, count in placed.items() if count}


def _find_places(
    snapshot: Snapshot, rows_of: Mapping[str, Sequence[int]], search: searching.Search, settings: Settings
) -> None:
    """First those that had a place keep it, then the others find one: the first who asked first."""
    placer, usable = placing.Placer(snapshot, settings.filters), snapshot.nodes.alive.copy()
    had, uids = search.hints.old, snapshot.pods.uids
    known = [row for rows in rows_of.values() for row in rows if uids[row] in had]
    if known:
        searching.find_places(placer, known, search, usable)
    for rows in rows_of.values():
        others = [row for row in rows if uids[row] not in had]
        if others:
            searching.find_places(placer, others, search, usable)
    search.hints.drop_old()


def count_consumers(snapshot: Snapshot) -> Counter[str]:
    """Pods on nodes that use a request's capacity, by the request's key."""
    consuming, table = _find_consumers(snapshot), snapshot.pods
    if not consuming:
        return Counter()
    bound = table.kind_ids[table.node_rows != dtypes.ABSENT]
    counts = np.bincount(bound, minlength=len(table.kinds))
    found: Counter[str] = Counter()
    for kind, key in consuming.items():
        found[key] += int(counts[kind])
    return found


def _find_consumers(snapshot: Snapshot) -> dict[int, str]:
    """The request's key by kind of pod, of those that use one's capacity."""
    found: dict[int, str] = {}
    for number, kind in enumerate(snapshot.pods.kinds):
        if kind.annotations:
            name = consumed_by(dict(kind.annotations))
            if name is not None and not _is_imagined(kind.owner.kind if kind.owner else ""):
                found[number] = f"{kind.namespace}/{name}"
    return found


def _is_imagined(owner_kind: str) -> bool:
    """Are such pods the request's own?"""
    return owner_kind == "ProvisioningRequest"
