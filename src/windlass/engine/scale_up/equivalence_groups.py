"""Pod equivalence groups: scale-up decides on them together (Cluster Autoscaler: core/scaleup/equivalence).

By controller as there: equal labels and spec under one controller, at most ten groups per controller. By likeness:
equal namespace, labels and spec, without limits; no pod is decided differently, but groups are packed and reported as
one.
"""

import enum
from collections.abc import Hashable, Iterable, Sequence

from windlass.engine.dra import resource_claims
from windlass.engine.model import facts, scale_up_status, well_known
from windlass.engine.model.settings import Settings
from windlass.engine.snapshot.cluster_snapshot import Snapshot

MAX_GROUPS_PER_CONTROLLER = 10


EquivalentPods = tuple[facts.Pod, ...]


class PodGrouping(enum.StrEnum):
    """What equivalence of pods means; see the module's docstring."""

    BY_CONTROLLER = "by-controller"
    BY_LIKENESS = "by-likeness"


def group_equivalent_pods(snapshot: Snapshot, rows: Sequence[int], grouping: PodGrouping) -> list[list[int]]:
    """Every row in exactly one group; groups by their first row, rows within a group in the order given.

    Pods of one kind with equal labels are alike.
    """
    table = snapshot.pods
    kinds = table.template_ids[list(rows)].tolist()
    labels = table.labels
    if grouping is PodGrouping.BY_LIKENESS:
        known: dict[tuple[object, tuple[str, ...]], list[int]] = {}
        alike = resource_claims.claim_equivalence_keys(snapshot, rows) if snapshot.devices.inventory.claims else {}
        for row, kind in zip(rows, kinds, strict=True):
            known.setdefault((alike.get(row, kind), labels[row]), []).append(row)
        return list(known.values())
    position = {table.uids[row] or table.key(row): row for row in rows}
    pods = [snapshot.pod(row) for row in rows]
    return [[position[pod.uid or pod.key] for pod in group] for group in _group_by_controller(pods)]


def _group_by_controller(pods: Iterable[facts.Pod]) -> tuple[EquivalentPods, ...]:
    groups: list[list[facts.Pod]] = []
    by_controller: dict[str, dict[Hashable, list[facts.Pod]]] = {}
    for pod in pods:
        if pod.owner is None or well_known.is_daemonset(pod):
            groups.append([pod])
            continue
        known = by_controller.setdefault(pod.owner.uid, {})
        likeness = _equivalence_key(pod)
        group = known.get(likeness)
        if group is not None:
            group.append(pod)
            continue
        groups.append([pod])
        if len(known) < MAX_GROUPS_PER_CONTROLLER:
            known[likeness] = groups[-1]
    return tuple(map(tuple, groups))


def _equivalence_key(pod: facts.Pod) -> Hashable:
    """The key that pods of one group share: labels and spec. Pods without a digest compare by their whole spec."""
    return frozenset(pod.labels.items()), pod.digest or pod.spec


def make_equivalence_groups(
    snapshot: Snapshot, rows: Sequence[int], settings: Settings
) -> list[scale_up_status.PodEquivalenceGroup]:
    by_likeness = settings.deviations.group_pods_by_likeness
    grouping = PodGrouping.BY_LIKENESS if by_likeness else PodGrouping.BY_CONTROLLER
    return [
        scale_up_status.PodEquivalenceGroup(snapshot.shape_of_row(group[0]), tuple(group), snapshot.pod(group[0]))
        for group in group_equivalent_pods(snapshot, rows, grouping)
    ]
