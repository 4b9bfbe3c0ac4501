"""Pods as columns: half a million of them in a few hundred bytes each.

What pods of one template share (spec, owner, annotations …) is one `Kind`, held once. A pod's row holds the rest: its
name, uid, labels, times, its shape and where it is. `PodTable.fact` puts a pod together again when someone asks.
"""

import operator
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windlass.engine import dtypes, facts, interning

_FIRST_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Kind:
    """What pods made from one template have in common."""

    namespace: str
    annotations: tuple[tuple[str, str], ...]
    owner: facts.Owner | None
    spec: facts.PodSpec
    digest: str
    nominated_node: str
    scheduler: str
    phase: str
    restart_policy: str
    grace_s: float | None
    is_gated: bool
    scale_up_delay_s: float | None
    unreadable: str = ""
    drain_behavior: facts.DrainBehavior = facts.DrainBehavior.DRAIN


class PodTable:
    """All pods that count. Columns are (n_rows,); a row of a pod that left is given to the next that comes."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        """By uid; by `namespace/name` where a pod has none."""
        self.kinds: interning.Index[Kind] = interning.Index()
        self.names: list[str] = []
        self.uids: list[str] = []
        self.labels: list[tuple[str, ...]] = []
        """Flat: key, value, key, value …"""
        self.times: dict[int, tuple[float | None, float | None]] = {}
        """(deleted_s, unschedulable_since_s), for the few pods that have either."""
        self.health: dict[int, facts.Health] = {}
        """For the few pods that are not Ready. Not part of a kind: readiness changes often, and pods of one template
        would be several kinds."""
        self.answers: dict[Hashable, dict[int, int]] = {}
        """By question, then by kind: what was asked of kinds before, and is the same at all times."""
        self.left_out: frozenset[int] = frozenset()
        """Kinds of which the decision that is being made asks nothing; see `quarantine`."""
        self.pending_left_out: frozenset[int] = frozenset()
        """Those, and kinds of which it does not look at pending pods."""
        self._kind_ids = np.zeros(_FIRST_ROWS, dtypes.ID)
        self._shape_ids = np.full(_FIRST_ROWS, dtypes.ABSENT, dtypes.ID)
        self._node_rows = np.full(_FIRST_ROWS, dtypes.ABSENT, dtypes.ID)
        self._created_s = np.zeros(_FIRST_ROWS)
        self._dead: list[int] = []
        self._prefixes: list[str] = []
        """Of the keys of pods of each kind, as far as someone asked."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def kind_ids(self) -> dtypes.Ids:
        """Int32 (n_rows): the pod's kind, as a number in `kinds`."""
        return self._kind_ids[: len(self.names)]

    @property
    def shape_ids(self) -> dtypes.Ids:
        """Int32 (n_rows): the pod's shape, -1 for a row without a pod."""
        return self._shape_ids[: len(self.names)]

    @property
    def node_rows(self) -> dtypes.Ids:
        """Int32 (n_rows): the node's row, -1 while the pod waits or its node is unknown."""
        return self._node_rows[: len(self.names)]

    @property
    def vacant(self) -> tuple[int, ...]:
        """Rows of pods that are gone; the last one is given away first."""
        return tuple(self._dead)

    def add(self, pod: facts.Pod) -> int:
        """Give a pod its row; its shape and its node are written by the snapshot."""
        row = self._dead.pop() if self._dead else self._append()
        self._write(row, pod, pod.name, pod.uid, self._intern(pod), _flatten(pod.labels))
        return row

    def append(self, like: facts.Pod, names: Sequence[str]) -> range:
        """Give pods that are only imagined, one per name, the rows at the end. `truncate` takes them back."""
        count, kind, labels = len(self.names), self._intern(like), _flatten(like.labels)
        for name in names:
            self._write(self._append(), like, name, f"{like.namespace}/{name}", kind, labels)  # no uid has a slash
        return range(count, len(self.names))

    def truncate(self, count: int) -> None:
        """Forget the pods in the rows from here on, which `append` gave them."""
        for row in range(count, len(self.names)):
            self.rows.pop(self.uids[row], None)
            self.times.pop(row, None)
            self.health.pop(row, None)
        self._shape_ids[count : len(self.names)] = self._node_rows[count : len(self.names)] = dtypes.ABSENT
        del self.names[count:], self.uids[count:], self.labels[count:]

    def _intern(self, pod: facts.Pod) -> int:
        return self.kinds.intern(
            Kind(
                pod.namespace, tuple(sorted(pod.annotations.items())), pod.owner, pod.spec, pod.digest,
                pod.nominated_node, pod.scheduler, pod.phase, pod.restart_policy, pod.grace_s, pod.is_gated,
                pod.scale_up_delay_s, pod.unreadable, pod.drain_behavior,
            )
        )  # fmt: skip

    def _write(self, row: int, pod: facts.Pod, name: str, uid: str, kind: int, labels: tuple[str, ...]) -> None:
        self.rows[uid or f"{pod.namespace}/{name}"] = row
        self._kind_ids[row] = kind
        self.names[row], self.uids[row], self.labels[row] = name, uid, labels
        self._created_s[row] = pod.created_s
        if pod.deleted_s is not None or pod.unschedulable_since_s is not None:
            self.times[row] = (pod.deleted_s, pod.unschedulable_since_s)
        if pod.health is not facts.Health.READY:
            self.health[row] = pod.health

    def remove(self, row: int) -> None:
        del self.rows[self.uids[row] or f"{self.kinds[self._kind_ids[row]].namespace}/{self.names[row]}"]
        self.times.pop(row, None)
        self.health.pop(row, None)
        self.names[row] = self.uids[row] = ""
        self.labels[row] = ()
        self._shape_ids[row] = self._node_rows[row] = dtypes.ABSENT
        self._dead.append(row)

    def set_health(self, row: int, health: facts.Health) -> None:
        """Note that a pod became Ready, or is no longer."""
        if health is facts.Health.READY:
            self.health.pop(row, None)
        else:
            self.health[row] = health

    @property
    def created_s(self) -> npt.NDArray[np.float64]:
        """float64 (n_rows): when the pod was created."""
        return self._created_s[: len(self.names)]

    def key(self, row: int) -> str:
        """The pod's namespace/name."""
        return f"{self.kind(row).namespace}/{self.names[row]}"

    def keys(self, rows: Sequence[int]) -> tuple[str, ...]:
        """The namespace/name of each of these pods."""
        known = self._prefixes
        known += [f"{kind.namespace}/" for kind in self.kinds.values[len(known) :]]
        prefixes = map(known.__getitem__, self._kind_ids[list(rows)].tolist())
        return tuple(map(operator.add, prefixes, map(self.names.__getitem__, rows)))

    def renumber_shapes(self, numbers: dtypes.Ids) -> None:
        """Shapes have other numbers now; none of those that pods have was forgotten."""
        self.shape_ids[:] = np.append(numbers, dtypes.ABSENT)[self.shape_ids]

    def forget_unused_kinds(self) -> None:
        """Forget kinds of which there is no pod any more, and number the others anew."""
        used = np.zeros(len(self.kinds), bool)
        used[self.kind_ids[self.shape_ids != dtypes.ABSENT]] = True
        used[:1] = True  # rows without a pod name some kind
        numbers = self.kinds.keep(used)
        self.kind_ids[:] = np.maximum(numbers[self.kind_ids], 0)
        for known in self.answers.values():
            kept = [(int(numbers[old]), answer) for old, answer in known.items() if numbers[old] != dtypes.ABSENT]
            known.clear()
            known.update(kept)
        self._prefixes.clear()

    def kind(self, row: int) -> Kind:
        return self.kinds[self._kind_ids[row]]

    def label_map(self, row: int) -> dict[str, str]:
        flat = self.labels[row]
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def fact(self, row: int, node_name: str, *, timeless: bool = False) -> facts.Pod:
        """The pod as it was observed, bound to the named node; `timeless` as if nothing had happened to it since."""
        kind = self.kind(row)
        deleted_s, unschedulable_since_s = (None, None) if timeless else self.times.get(row, (None, None))
        health = facts.Health.READY if timeless else self.health.get(row, facts.Health.READY)
        return facts.Pod(
            kind.namespace, self.names[row], self.uids[row], self.label_map(row), dict(kind.annotations), kind.owner,
            kind.spec, kind.digest, node_name, kind.nominated_node, kind.scheduler, kind.phase, kind.restart_policy,
            float(self._created_s[row]), deleted_s, kind.grace_s, unschedulable_since_s, kind.is_gated,
            kind.scale_up_delay_s, kind.unreadable, health, kind.drain_behavior,
        )  # fmt: skip

    def _append(self) -> int:
        row = len(self.names)
        if row == len(self._kind_ids):
            self._kind_ids = np.pad(self._kind_ids, (0, row))
            self._shape_ids = np.pad(self._shape_ids, (0, row), constant_values=dtypes.ABSENT)
            self._node_rows = np.pad(self._node_rows, (0, row), constant_values=dtypes.ABSENT)
            self._created_s = np.pad(self._created_s, (0, row))
        self.names.append("")
        self.uids.append("")
        self.labels.append(())
        return row


def identity(pod: facts.Pod) -> str:
    return pod.uid or pod.key


def _flatten(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(text for key, value in labels.items() for text in (sys.intern(key), value))
