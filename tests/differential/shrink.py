"""Making a disagreement small: drop pending pods, then objects, then fields, while engine and oracle still disagree.

A smaller case counts only if it shows the same disagreement: the same two plugins (or "feasible") on some pair, or the
same failure to read or to judge. Candidates are put to the oracle many at a time, because starting it costs more than
asking it.
"""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tests.conformance import scheduler
from tests.differential import oracle
from tests.differential.oracle import Json
from windlass import errors, scheduler_releases

Sign: TypeAlias = tuple[str, ...]
"""What kind of disagreement it is."""
Judge: TypeAlias = Callable[[Sequence[Json]], list[Json]]
"""Gives cases their verdicts, or raises `oracle.OracleFailed`."""
Place: TypeAlias = tuple[str | int, ...]
"""The way to a field: keys and positions from the case down."""

_BATCH = 64
_KEPT = {"apiVersion", "kind", "metadata", "name", "namespace", "uid", "spec", "containers", "verdicts"}
"""Fields without which an object is not one: not tried."""


def signs(case: Json, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE) -> set[Sign]:
    """Every kind of disagreement that a judged case shows; empty where engine and oracle agree."""
    try:
        set_aside, pairs = scheduler.compare(case, release)
    except errors.InvalidObject as error:
        return {("set aside", error.field)}
    except Exception as error:
        return {("raised", type(error).__name__)}
    found = {_sign(pair.expected, pair.found) for pair in pairs if pair.expected != pair.found}
    return found | {("set aside",) for _ in set_aside}


def _sign(expected: Json | None, found: Json | None) -> Sign:
    return str(expected and expected["plugin"]), str(found and found.get("plugin"))


def shrink(
    case: Json, judge: Judge, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
) -> Json:
    """The smallest case found that shows one of the disagreements of this one."""
    sign = min(signs(case, release))

    def still_wrong(candidates: Sequence[Json]) -> list[Json]:
        return [item for item in _judge_all(judge, candidates) if sign in signs(item, release)]

    case = _drop_items(case, "pending", still_wrong)
    case = _drop_items(case, "objects", still_wrong)
    case = _drop_fields(case, still_wrong)
    return _drop_items(case, "objects", still_wrong)


def _judge_all(judge: Judge, candidates: Sequence[Json]) -> list[Json]:
    """Those that the oracle can judge: it gives up on the whole batch where one is no longer an object."""
    try:
        return judge(candidates)
    except oracle.OracleFailed:
        half = len(candidates) // 2
        return _judge_all(judge, candidates[:half]) + _judge_all(judge, candidates[half:]) if half else []


Survivors: TypeAlias = Callable[[Sequence[Json]], list[Json]]
"""Candidates that still show the disagreement, judged."""


def _drop_items(case: Json, field: str, still_wrong: Survivors) -> Json:
    """Leave out half of the list, a quarter … one, as long as anything can be left out."""
    size = max(len(case[field]) // 2, 1)
    while size:
        items = case[field]
        without = [items[:start] + items[start + size :] for start in range(0, len(items), size)]
        survivors = _first_survivors([{**case, field: rest} for rest in without], still_wrong)
        if survivors:
            case = min(survivors, key=lambda one: len(one[field]))
        else:
            size //= 2
    return case


def _first_survivors(candidates: list[Json], still_wrong: Survivors) -> list[Json]:
    for start in range(0, len(candidates), _BATCH):
        survivors = still_wrong(candidates[start : start + _BATCH])
        if survivors:
            return survivors
    return []


def _drop_fields(case: Json, still_wrong: Survivors) -> Json:
    """Leave out one field after another, outer ones first, until none can go."""
    tried: set[Place] = set()
    while places := [place for place in _places(case) if place not in tried][:_BATCH]:
        survivors = still_wrong([_without(case, place) for place in places])
        # A field with a default comes back at once: nothing is gained by leaving it out.
        smaller = [item for item in survivors if _size(item) < _size(case)]
        if smaller:
            case = min(smaller, key=_size)
            tried.clear()
        else:
            tried.update(places)
    return case


def _size(case: Json) -> int:
    return len(json.dumps([case["objects"], case["pending"]]))


def _places(case: Json) -> Iterator[Place]:
    """Fields that may go, those nearest to the top first."""
    level: list[tuple[Place, Any]] = [((field,), case[field]) for field in ("pending", "objects")]
    while level:
        deeper: list[tuple[Place, Any]] = []
        for place, value in level:
            children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for key, child in children:
                if key not in _KEPT and len(place) > 1:
                    yield (*place, key)
                deeper.append(((*place, key), child))
        level = deeper


def _without(case: Json, place: Place) -> Json:
    smaller = copy.deepcopy(case)
    holder: Any = smaller
    for key in place[:-1]:
        holder = holder[key]
    del holder[place[-1]]
    return smaller
