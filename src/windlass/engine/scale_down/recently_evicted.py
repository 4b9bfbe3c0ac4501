"""Recently evicted pods: terminating pods that their controllers will recreate, and that need room elsewhere.

Where it is known how many pods a controller lacks, no more than that many of its evicted pods are counted; otherwise
all are. Cluster Autoscaler's planner injects the same pods, but forgets an eviction at once.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from windlass.engine.model import arrays, facts, well_known
from windlass.engine.model.drainability import ControllerKey
from windlass.engine.snapshot.snapshot import Snapshot

_COUNTING = ("StatefulSet", "Job", "ReplicaSet", "ReplicationController")
"""Kinds of controllers with a replica count."""

ControllersByKey = Mapping[ControllerKey, facts.Controller]


def find_terminating_rows(snapshot: Snapshot, node_names: Iterable[str]) -> list[int]:
    """Rows of the terminating pods on these nodes."""
    times, rows = snapshot.pods.times, list[int]()
    for name in node_names:
        node_row = snapshot.nodes.rows.get(name)
        if node_row is not None and snapshot.nodes.alive[node_row]:
            rows += (row for row in snapshot.pods_on(node_row) if times.get(row, (None, None))[0] is not None)
    return rows


def count_missing_replicas(
    snapshot: Snapshot, rows: Iterable[int], controllers: ControllersByKey
) -> dict[ControllerKey, int]:
    """Missing replicas by controller: desired minus existing pods, terminating ones excluded."""
    table = snapshot.pods
    owners = {key for row in rows if (key := _find_owner(table.fact(row, "", timeless=True))) in controllers}
    if not owners:
        return {}
    counted = np.flatnonzero(table.shape_ids != arrays.ABSENT)
    leaving = [row for row, (deleted_s, _) in table.times.items() if deleted_s is not None]
    counted = counted[~np.isin(counted, leaving)]
    counts = np.bincount(table.template_ids[counted], minlength=len(table.template_keys)).tolist()
    missing = {key: controllers[key].replicas for key in owners if key is not None}
    for kind, count in zip(table.template_keys, counts, strict=True):
        key = None if kind.owner is None else (kind.owner.kind, kind.namespace, kind.owner.name)
        if key is not None and key in missing:
            missing[key] -= count
    return missing


def find_rows_to_recreate(
    snapshot: Snapshot, evicted: Iterable[int], missing: Mapping[ControllerKey, int]
) -> list[int]:
    """Rows of evicted pods that are not recreated yet. `missing`: missing replicas by controller."""
    left, rows = dict(missing), list[int]()
    for row in evicted:
        pod = snapshot.pods.fact(row, "", timeless=True)
        if not well_known.is_recreatable(pod):
            continue
        key = _find_owner(pod)
        if key is not None and key in left:
            left[key] -= 1
            if left[key] < 0:
                continue
        rows.append(row)
    return rows


def _find_owner(pod: facts.Pod) -> ControllerKey | None:
    """The pod's controller, if it has a replica count."""
    if pod.owner is None or pod.owner.kind not in _COUNTING:
        return None
    return (pod.owner.kind, pod.namespace, pod.owner.name)
