"""Equivalence: pending pods that are alike in all that scheduling sees, so that one of them is judged for all.

Alike are pods of one controller with equal labels and equal specs (`facts.Pod.digest`: less env, hostname and
projected volumes). Pods of a DaemonSet are each bound to a node of their own, which their specs name.

How far likeness goes is a setting:

    BY_CONTROLLER   Cluster Autoscaler's. A controller has at most ten groups, pods that would open another stay alone
                    and so does every pod without a controller, because the peer compares each pod with every group;
                    pods of a DaemonSet stay alone, whatever their specs say.
    BY_LIKENESS     windlass's. Pods without a controller are grouped too, by namespace, labels and spec, and groups
                    are not limited, because comparing is a look-up here. No pod is judged differently; but a group is
                    ordered, packed and reported as one, where the peer has as many groups as pods.
"""

import enum
from collections.abc import Hashable, Iterable, Sequence

from windlass.engine import facts, pod_traits
from windlass.engine.devices import likeness
from windlass.engine.snapshot import Snapshot

MAX_GROUPS_PER_CONTROLLER = 10

Group = tuple[facts.Pod, ...]


class Grouping(enum.StrEnum):
    """How far likeness goes; see the module's docstring."""

    BY_CONTROLLER = "by-controller"
    BY_LIKENESS = "by-likeness"


def partition_rows(snapshot: Snapshot, rows: Sequence[int], grouping: Grouping) -> list[list[int]]:
    """Every row in exactly one group; groups by their first row, rows within a group in the order given.

    Pods of one kind with equal labels are alike.
    """
    table = snapshot.pods
    kinds = table.kind_ids[list(rows)].tolist()
    labels = table.labels
    if grouping is Grouping.BY_LIKENESS:
        known: dict[tuple[object, tuple[str, ...]], list[int]] = {}
        alike = likeness.of_pods(snapshot, rows) if snapshot.devices.stock.claims else {}
        for row, kind in zip(rows, kinds, strict=True):
            known.setdefault((alike.get(row, kind), labels[row]), []).append(row)
        return list(known.values())
    position = {table.uids[row] or table.key(row): row for row in rows}
    pods = [snapshot.pod(row) for row in rows]
    return [[position[pod.uid or pod.key] for pod in group] for group in _by_controller(pods)]


def _by_controller(pods: Iterable[facts.Pod]) -> tuple[Group, ...]:
    groups: list[list[facts.Pod]] = []
    by_controller: dict[str, dict[Hashable, list[facts.Pod]]] = {}
    for pod in pods:
        if pod.owner is None or pod_traits.is_daemonset(pod):
            groups.append([pod])
            continue
        known = by_controller.setdefault(pod.owner.uid, {})
        likeness = _likeness(pod)
        group = known.get(likeness)
        if group is not None:
            group.append(pod)
            continue
        groups.append([pod])
        if len(known) < MAX_GROUPS_PER_CONTROLLER:
            known[likeness] = groups[-1]
    return tuple(map(tuple, groups))


def _likeness(pod: facts.Pod) -> Hashable:
    """What pods of one group share. Facts that were made without a digest are told apart by all that filters see."""
    return frozenset(pod.labels.items()), pod.digest or pod.spec
