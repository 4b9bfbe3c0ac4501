"""Proactive scale-up: room for the pods that controllers want but have not created yet.

A controller that wants more pods than there are gets as many copies of its newest pod. One that has no pod at all gets
none: nobody knows what its pods would be like.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine import facts, imagined_pods
from windlass.engine.snapshot import Snapshot

MADE_UP = ("podtype", "fakepod")
"""Annotation by which such pods are known; the peer's."""
CONTROLLERS = ("ReplicaSet", "Job", "StatefulSet")


@dataclass(frozen=True, slots=True)
class Missing:
    """Pods that a controller wants and has not created."""

    like: facts.Pod
    """Its newest pod, as one that waits."""
    names: tuple[str, ...]


def desired_of_job(parallelism: int | None, completions: int | None, succeeded: int) -> int:
    """How many pods a Job wants to have now. Without completions it is a queue, until the first pod has succeeded."""
    at_once = 1 if parallelism is None else parallelism
    if completions is None and parallelism is not None and parallelism >= 0 and succeeded == 0:
        return at_once
    return max(min((1 if completions is None else completions) - succeeded, at_once), 0)


def find_missing(wanted: Mapping[str, int], pods: Iterable[facts.Pod]) -> list[Missing]:
    """What each controller lacks. `wanted` goes by uid; `pods` are all that count: bound, pending, gated."""
    newest: dict[str, facts.Pod] = {}
    counts = dict.fromkeys(wanted, 0)
    for pod in pods:
        if pod.owner is None or pod.owner.uid not in wanted:
            continue
        counts[pod.owner.uid] += 1
        known = newest.get(pod.owner.uid)
        if known is None or pod.created_s > known.created_s:
            newest[pod.owner.uid] = pod
    missing, left = list[Missing](), imagined_pods.MAX_PODS
    for uid, pod in newest.items():
        lacking = min(wanted[uid] - counts[uid], left)
        if lacking > 0:
            missing.append(_copy(pod, lacking))
            left -= lacking
    return missing


def _copy(pod: facts.Pod, count: int) -> Missing:
    like = replace(
        pod,
        annotations={**pod.annotations, MADE_UP[0]: MADE_UP[1]},
        spec=replace(pod.spec, node_name=""),
        node_name="",
        nominated_node="",
        phase="Pending",
        deleted_s=None,
        is_gated=False,
    )
    return Missing(like, tuple(f"{pod.name}-copy-{number}" for number in range(1, count + 1)))


def keep_within(rows: Sequence[int], first_made_up: int, limit: int) -> list[int]:
    """The rows without so many made-up pods, the first ones, that no more than the limit are left. Real ones stay."""
    surplus = len(rows) - limit
    kept: list[int] = []
    for row in rows:
        if row >= first_made_up and surplus > 0:
            surplus -= 1
        else:
            kept.append(row)
    return kept


def count_pods(snapshot: Snapshot, owners: Collection[str]) -> dict[str, int]:
    """How many pods there are of each of these owners, by uid: bound or waiting."""
    table = snapshot.pods
    rows = np.concatenate((np.flatnonzero(table.node_rows >= 0), np.array(snapshot.waiting(), np.intp)))
    counts = np.bincount(table.kind_ids[rows], minlength=len(table.kinds)).tolist()
    found: dict[str, int] = {}
    for kind, count in zip(table.kinds, counts, strict=True):
        if kind.owner is not None and kind.owner.uid in owners:
            found[kind.owner.uid] = found.get(kind.owner.uid, 0) + count
    return found


def imagine(snapshot: Snapshot, controllers: Iterable[facts.Controller], pending: Sequence[int]) -> list[int]:
    """Append what controllers lack to the snapshot's fork; return the rows. `pending` are rows of pods that wait."""
    wanted = {one.uid: one.replicas for one in controllers if one.kind in CONTROLLERS and one.creates_at_once}
    table = snapshot.pods
    owned = {
        number: kind.owner.uid
        for number, kind in enumerate(table.kinds)
        if kind.owner is not None and kind.owner.uid in wanted and number not in table.pending_left_out
    }
    waiting = set(pending)
    kinds, bound = table.kind_ids.tolist(), (table.node_rows >= 0).tolist()
    rows = [row for row in range(len(kinds)) if kinds[row] in owned and bound[row]]
    rows += [row for row in pending if kinds[row] in owned]
    rows += [
        row for row in snapshot.waiting() if kinds[row] in owned and row not in waiting and table.kind(row).is_gated
    ]
    found: list[int] = []
    for missing in find_missing(wanted, (snapshot.pod(row) for row in rows)):
        found += snapshot.append_pods(missing.like, list(missing.names))
    return found
