"""Proactive scale-up: injects the pods that controllers want but have not created yet.

A controller that wants more pods than exist gets copies of its newest pod. One without any pod gets none: its pods
are unknown.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine.model import facts, settings
from windlass.engine.snapshot.cluster_snapshot import Snapshot

FAKE_POD_ANNOTATION = ("podtype", "fakepod")
"""Annotation of injected pods; Cluster Autoscaler's."""
SUPPORTED_CONTROLLERS = ("ReplicaSet", "Job", "StatefulSet")


@dataclass(frozen=True, slots=True)
class MissingPods:
    """Missing pods of a controller: desired and not created yet."""

    like: facts.Pod
    """Its newest pod, as a pending one."""
    names: tuple[str, ...]


def desired_job_pods(parallelism: int | None, completions: int | None, succeeded: int) -> int:
    """Desired number of running pods of a Job. Without completions it is a work queue until a pod has succeeded."""
    at_once = 1 if parallelism is None else parallelism
    if completions is None and parallelism is not None and parallelism >= 0 and succeeded == 0:
        return at_once
    return max(min((1 if completions is None else completions) - succeeded, at_once), 0)


def find_missing_pods(desired: Mapping[str, int], pods: Iterable[facts.Pod]) -> list[MissingPods]:
    """What each controller lacks. `desired` goes by uid; `pods` are all that count: bound, pending, gated."""
    newest: dict[str, facts.Pod] = {}
    counts = dict.fromkeys(desired, 0)
    for pod in pods:
        if pod.owner is None or pod.owner.uid not in desired:
            continue
        counts[pod.owner.uid] += 1
        known = newest.get(pod.owner.uid)
        if known is None or pod.created_s > known.created_s:
            newest[pod.owner.uid] = pod
    missing, remaining = list[MissingPods](), settings.MAX_INJECTED_PODS
    for uid, pod in newest.items():
        lacking = min(desired[uid] - counts[uid], remaining)
        if lacking > 0:
            missing.append(_copy(pod, lacking))
            remaining -= lacking
    return missing


def _copy(pod: facts.Pod, count: int) -> MissingPods:
    like = replace(
        pod,
        annotations={**pod.annotations, FAKE_POD_ANNOTATION[0]: FAKE_POD_ANNOTATION[1]},
        spec=replace(pod.spec, node_name=""),
        node_name="",
        nominated_node="",
        phase="Pending",
        deleted_s=None,
        is_gated=False,
    )
    return MissingPods(like, tuple(f"{pod.name}-copy-{number}" for number in range(1, count + 1)))


def limit_fake_pods(rows: Sequence[int], first_made_up: int, limit: int) -> list[int]:
    """The rows without so many made-up pods, the first ones, that no more than the limit are left. Real ones stay."""
    surplus = len(rows) - limit
    kept: list[int] = []
    for row in rows:
        if row >= first_made_up and surplus > 0:
            surplus -= 1
        else:
            kept.append(row)
    return kept


def count_pods_by_owner(snapshot: Snapshot, owners: Collection[str]) -> dict[str, int]:
    """How many pods there are of each of these owners, by uid: bound or waiting."""
    table = snapshot.pods
    rows = np.concatenate((np.flatnonzero(table.node_rows >= 0), np.array(snapshot.pending(), np.intp)))
    counts = np.bincount(table.template_ids[rows], minlength=len(table.template_keys)).tolist()
    pods: dict[str, int] = {}
    for kind, count in zip(table.template_keys, counts, strict=True):
        if kind.owner is not None and kind.owner.uid in owners:
            pods[kind.owner.uid] = pods.get(kind.owner.uid, 0) + count
    return pods


def inject_missing_pods(
    snapshot: Snapshot, controllers: Iterable[facts.Controller], pending: Sequence[int]
) -> list[int]:
    """Append what controllers lack to the snapshot's fork; return the rows. `pending` are rows of pods that wait."""
    desired = {
        controller.uid: controller.replicas
        for controller in controllers
        if controller.kind in SUPPORTED_CONTROLLERS and controller.creates_at_once
    }
    table = snapshot.pods
    owned = {
        number: kind.owner.uid
        for number, kind in enumerate(table.template_keys)
        if kind.owner is not None and kind.owner.uid in desired and number not in table.pending_left_out
    }
    waiting = set(pending)
    kinds, bound = table.template_ids.tolist(), (table.node_rows >= 0).tolist()
    rows = [row for row in range(len(kinds)) if kinds[row] in owned and bound[row]]
    rows += [row for row in pending if kinds[row] in owned]
    rows += [
        row
        for row in snapshot.pending()
        if kinds[row] in owned and row not in waiting and table.template_key(row).is_gated
    ]
    injected_rows: list[int] = []
    for missing in find_missing_pods(desired, (snapshot.pod(row) for row in rows)):
        injected_rows += snapshot.append_pods(missing.like, list(missing.names))
    return injected_rows
