"""The snapshot of a cluster: facts that change, one object at a time."""

import itertools
from collections.abc import Iterable

import numpy as np

from windlass import releases
from windlass.engine import dtypes, facts, pods, storage
from windlass.engine.devices import model
from windlass.engine.snapshot import moving

FINISHED = ("Succeeded", "Failed")
"""Phases of pods that hold nothing any more: the scheduler never lists them."""

_BATCH = 10_000
_SPARE = 1_000
"""So much is never worth forgetting."""


class Snapshot(moving.Moving):
    """A cluster as columns. Facts change between decisions, never inside a fork."""

    def __init__(self, release: releases.Release = releases.DEFAULT) -> None:
        super().__init__(release)
        self._homeless: dict[str, list[int]] = {}
        self.guarded: frozenset[str] = frozenset()
        """Namespaces with disruption budgets; `decide` sets it."""
        self._remembered = 0
        """How much was interned when what is unused was last forgotten."""

    @property
    def homeless(self) -> dict[str, list[int]]:
        """Rows of the pods on nodes that are not there, by the node's name, in order of arrival."""
        return self._homeless

    def waiting(self) -> list[int]:
        """Rows of the pods that are bound to no node, not even to one that is unknown."""
        homeless = {row for rows in self._homeless.values() for row in rows}
        free = np.flatnonzero((self.pods.node_rows == dtypes.ABSENT) & (self.pods.shape_ids != dtypes.ABSENT))
        return [row for row in free.tolist() if row not in homeless]

    def add_node(self, node: facts.Node) -> int:
        """Add a node, or replace the facts of the one of that name. Pods that waited for it are counted on it."""
        self._changes += 1
        row = self.nodes.rows.get(node.name)
        if row is not None:
            self.nodes.update(row, node)
            return row
        row = self.nodes.add(node)
        self._make_room()
        for pod_row in self._homeless.pop(node.name, ()):
            self._settle(pod_row, row)
        return row

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods are still pods; they count nowhere until they leave or the node is back."""
        self._changes += 1
        row = self.nodes.rows[name]
        for pod_row in list(self._pods_on[row]):
            self._unsettle(pod_row)
            self._homeless.setdefault(name, []).append(pod_row)
        self.nodes.remove(row)

    def add_pod(self, pod: facts.Pod) -> int | None:
        """Add a pod, or replace the facts of the one of that uid. A finished pod has no row."""
        self.remove_pod(pods.identity(pod))
        if pod.phase in FINISHED:
            return None
        self._changes += 1
        pod = self._with_leftover(pod)
        shape = self.shape_of(pod)
        row = self.pods.add(pod)
        self.pods.shape_ids[row] = shape.id
        if pod.spec.claims:
            self.devices.add_user(pod, pods.identity(pod))
        if pod.node_name:
            node_row = self.nodes.rows.get(pod.node_name)
            if node_row is None:
                self._homeless.setdefault(pod.node_name, []).append(row)
            else:
                self._settle(row, node_row)
        return row

    def set_health(self, identity: str, health: facts.Health) -> None:
        """Note the health of a pod that is there. Nothing is counted anew: no filter looks at it.

        Pods start and fail their probes all the time; only where budgets are is that a change.
        """
        row = self.pods.rows[identity]
        self._changes += self.pods.kind(row).namespace in self.guarded
        self.pods.set_health(row, health)

    def mark_leftover_claims(self) -> None:
        """Let waiting pods know of claims that an earlier attempt to schedule them left behind. Between decisions."""
        for uid in list(self.devices.stock.leftovers):
            row = self.pods.rows.get(uid)
            if row is not None and self.pods.node_rows[row] == dtypes.ABSENT:
                pod = self.pod(row)
                if self._with_leftover(pod) is not pod:
                    self.add_pod(pod)

    def add_pods(self, found: Iterable[facts.Pod]) -> None:
        """Add many pods. What their selectors look at is learned in batches, so that few pods are keyed twice."""
        pods_left = iter(found)
        while batch := list(itertools.islice(pods_left, _BATCH)):
            self.show_labels(set().union(*(self.shapes.unseen_keys(pod.spec) for pod in batch)))
            for pod in batch:
                self.add_pod(pod)

    def remove_pod(self, identity: str) -> None:
        """Remove a pod by uid (or namespace/name, where it has none); nothing happens if it is not there."""
        row = self.pods.rows.get(identity)
        if row is None:
            return
        self._changes += 1
        if self.pods.node_rows[row] != dtypes.ABSENT:
            self._unsettle(row)
        else:
            self._forget_homeless(row)
        kind = self.pods.kind(row)
        if kind.spec.claims:
            self.devices.remove_user(kind.namespace, kind.spec, identity)
        self.pods.remove(row)

    def _forget_homeless(self, row: int) -> None:
        for name, waiting in self._homeless.items():
            if row in waiting:
                waiting.remove(row)
                if not waiting:
                    del self._homeless[name]
                return

    def set_namespaces(self, found: Iterable[facts.Namespace]) -> None:
        """Replace what is known of namespaces; selectors on their labels are judged anew."""
        self._changes += 1
        self.tallies.forget_namespaces({namespace.name: namespace.labels for namespace in found})

    @property
    def is_cluttered(self) -> bool:
        """Is so much interned that forgetting what is unused pays? Twice as much as after the last time."""
        return self._interned > 2 * self._remembered + _SPARE

    @property
    def _interned(self) -> int:
        return len(self.shapes) + len(self.pods.kinds) + self.nodes.interned

    def forget_unused(self) -> None:
        """Forget shapes and kinds that no pod has any more, and labels and taints that no node has.

        Those that are left are numbered anew, in their order: to be done between decisions, while nobody holds numbers.
        """
        if self._forks:
            raise RuntimeError("shapes are forgotten between decisions, never inside a fork")
        self._changes += 1
        used = np.zeros(len(self.shapes), bool)
        used[self.pods.shape_ids[self.pods.shape_ids != dtypes.ABSENT]] = True
        used[[shape_id for shape_id, _, _ in self._imagined]] = True
        shape_numbers, profile_numbers = self.shapes.keep(used)
        self.pods.renumber_shapes(shape_numbers)
        self.pods.forget_unused_kinds()
        self._imagined = [(int(shape_numbers[old]), rows, counts) for old, rows, counts in self._imagined]
        self._footprints.renumber(shape_numbers)
        self.tallies.forget_unused(shape_numbers, profile_numbers)
        self.nodes.forget_unused()
        self._remembered = self._interned


def build(
    found_nodes: Iterable[facts.Node],
    found_pods: Iterable[facts.Pod],
    namespaces: Iterable[facts.Namespace] = (),
    stored: Iterable[storage.Fact] = (),
    offered: Iterable[model.Fact] = (),
    release: releases.Release = releases.DEFAULT,
) -> Snapshot:
    """A snapshot of everything that was found."""
    snapshot = Snapshot(release)
    snapshot.set_namespaces(namespaces)
    snapshot.storage.put_all(stored)
    snapshot.devices.stock.put_all(offered)
    for node in found_nodes:
        snapshot.add_node(node)
    snapshot.add_pods(found_pods)
    return snapshot
