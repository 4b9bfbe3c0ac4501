"""Pods as columns (n_rows,), and the shapes by which filters tell them apart.

What pods of one template share (spec, owner, annotations) is one `PodTemplateKey`, held once; a row has the rest.
`PodTable.fact` puts a pod together again.

Pods that no filter can tell apart are one shape: namespace, spec, whether terminating, and those labels that some
selector in the cluster reads. Other labels are left out of the key, or every pod of a StatefulSet would be a shape of
its own. When a selector with a new label key appears, the snapshot re-keys.
"""

import itertools
import operator
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windlass.engine.model import arrays, facts
from windlass.engine.model.facts import PodSpec


class ShapeTable:
    """Interned shapes, and the label keys that selectors read."""

    def __init__(self) -> None:
        self.visible: set[str] = set()
        self.profiles: arrays.Index[facts.PodProfile] = arrays.Index()
        self._ids: dict[tuple[int, PodSpec], int] = {}
        self._shapes: list[facts.PodShape] = []
        self._specs: set[PodSpec] = set()

    def __len__(self) -> int:
        return len(self._shapes)

    def __getitem__(self, number: int) -> facts.PodShape:
        return self._shapes[number]

    def intern(
        self, namespace: str, labels: Mapping[str, str], spec: PodSpec, terminating: bool = False
    ) -> facts.PodShape:
        """The shape of a pod. `visible` must already hold the keys of the spec's own selectors."""
        visible = self.visible
        kept = tuple(sorted((key, value) for key, value in labels.items() if key in visible))
        profile_id = self.profiles.intern(facts.PodProfile(namespace, kept, terminating))
        number = self._ids.get((profile_id, spec))
        if number is None:
            number = self._ids[profile_id, spec] = len(self._shapes)
            self._shapes.append(facts.PodShape(number, profile_id, self.profiles[profile_id], spec))
        return self._shapes[number]

    def keep(self, used: arrays.Mask) -> tuple[arrays.Ids, arrays.Ids]:
        """Drop all other shapes, and unused profiles. Returns the new ids of shapes and profiles; -1 where dropped."""
        kept = list(itertools.compress(self._shapes, used.tolist()))
        seen = np.zeros(len(self.profiles), bool)
        seen[[shape.profile_id for shape in kept]] = True
        profiles = self.profiles.keep(seen)
        of_kept = profiles[[shape.profile_id for shape in kept]].tolist()
        self._shapes = [
            facts.PodShape(number, profile_id, shape.profile, shape.spec)
            for number, (profile_id, shape) in enumerate(zip(of_kept, kept, strict=True))
        ]
        self._ids = {(shape.profile_id, shape.spec): shape.id for shape in self._shapes}
        self._specs = {shape.spec for shape in self._shapes}
        return arrays.renumber_used(used), profiles

    def unseen_keys(self, spec: PodSpec) -> set[str]:
        """Label keys that this spec's selectors read and that are not yet part of shapes."""
        if spec in self._specs:
            return set()
        unseen = selector_keys(spec) - self.visible
        if not unseen:
            self._specs.add(spec)
        return unseen


def selector_keys(spec: PodSpec) -> set[str]:
    """The label keys that a pod's own spread and affinity terms read."""
    selectors = [constraint.selector for constraint in spec.spread]
    selectors += [term.selector for term in (*spec.affinity, *spec.anti_affinity)]
    return {key for selector in selectors if selector is not None for key in selector.keys}


_FIRST_ROWS = 1024


@dataclass(frozen=True, slots=True)
class PodTemplateKey:
    """The fields shared by pods of one template: everything but name, uid, labels, times and health."""

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
    """All unfinished pods. Columns are (n_rows,); the row of a removed pod is reused."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        """By uid; by `namespace/name` where a pod has none."""
        self.template_keys: arrays.Index[PodTemplateKey] = arrays.Index()
        self.names: list[str] = []
        self.uids: list[str] = []
        self.labels: list[tuple[str, ...]] = []
        """Flat: key, value, key, value …"""
        self.times: dict[int, tuple[float | None, float | None]] = {}
        """(deleted_s, unschedulable_since_s), for the few pods that have either."""
        self.health: dict[int, facts.PodHealth] = {}
        """For the few pods that are not Ready. Not in the template key, which readiness changes would split."""
        self.scheduling_reasons: dict[int, str] = {}
        """For the few pending pods that have one (`facts.Pod.scheduling_reason`)."""
        self.answers: dict[Hashable, dict[int, int]] = {}
        """By question, then by template id: cached answers that hold for every pod of a template at any time."""
        self.left_out: frozenset[int] = frozenset()
        """Template ids excluded from the current decision; see `fault_isolation`."""
        self.pending_left_out: frozenset[int] = frozenset()
        """Those, and templates of which it does not look at pending pods."""
        self._template_ids = np.zeros(_FIRST_ROWS, arrays.ID_DTYPE)
        self._shape_ids = np.full(_FIRST_ROWS, arrays.ABSENT, arrays.ID_DTYPE)
        self._node_rows = np.full(_FIRST_ROWS, arrays.ABSENT, arrays.ID_DTYPE)
        self._created_s = np.zeros(_FIRST_ROWS)
        self._vacant_rows: list[int] = []
        self._prefixes: list[str] = []
        """`namespace/` by template id, filled on demand."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def template_ids(self) -> arrays.Ids:
        """Int32 (n_rows): the pod's position in `template_keys`."""
        return self._template_ids[: len(self.names)]

    @property
    def shape_ids(self) -> arrays.Ids:
        """Int32 (n_rows): the pod's shape, -1 for a row without a pod."""
        return self._shape_ids[: len(self.names)]

    @property
    def node_rows(self) -> arrays.Ids:
        """Int32 (n_rows): the node's row, -1 while the pod waits or its node is unknown."""
        return self._node_rows[: len(self.names)]

    @property
    def vacant(self) -> tuple[int, ...]:
        """Rows of removed pods, reused last in, first out."""
        return tuple(self._vacant_rows)

    def add(self, pod: facts.Pod) -> int:
        """Allocate a row for a pod; the snapshot sets its shape and node."""
        row = self._vacant_rows.pop() if self._vacant_rows else self._append()
        self._write(row, pod, pod.name, pod.uid, self._intern(pod), _flatten_labels(pod.labels))
        return row

    def append(self, like: facts.Pod, names: Sequence[str]) -> range:
        """Append rows for assumed pods, one per name. `truncate` removes them."""
        count, template, labels = len(self.names), self._intern(like), _flatten_labels(like.labels)
        for name in names:
            self._write(self._append(), like, name, f"{like.namespace}/{name}", template, labels)  # no uid has a slash
        return range(count, len(self.names))

    def truncate(self, count: int) -> None:
        """Remove the rows from `count` on, which `append` added."""
        for row in range(count, len(self.names)):
            self.rows.pop(self.uids[row], None)
            self.times.pop(row, None)
            self.health.pop(row, None)
            self.scheduling_reasons.pop(row, None)
        self._shape_ids[count : len(self.names)] = self._node_rows[count : len(self.names)] = arrays.ABSENT
        del self.names[count:], self.uids[count:], self.labels[count:]

    def _intern(self, pod: facts.Pod) -> int:
        return self.template_keys.intern(
            PodTemplateKey(
                pod.namespace, tuple(sorted(pod.annotations.items())), pod.owner, pod.spec, pod.digest,
                pod.nominated_node, pod.scheduler, pod.phase, pod.restart_policy, pod.grace_s, pod.is_gated,
                pod.scale_up_delay_s, pod.unreadable, pod.drain_behavior,
            )
        )  # fmt: skip

    def _write(self, row: int, pod: facts.Pod, name: str, uid: str, template: int, labels: tuple[str, ...]) -> None:
        self.rows[uid or f"{pod.namespace}/{name}"] = row
        self._template_ids[row] = template
        self.names[row], self.uids[row], self.labels[row] = name, uid, labels
        self._created_s[row] = pod.created_s
        if pod.deleted_s is not None or pod.unschedulable_since_s is not None:
            self.times[row] = (pod.deleted_s, pod.unschedulable_since_s)
        if pod.health is not facts.PodHealth.READY:
            self.health[row] = pod.health
        if pod.scheduling_reason:
            self.scheduling_reasons[row] = pod.scheduling_reason

    def remove(self, row: int) -> None:
        del self.rows[self.uids[row] or f"{self.template_keys[self._template_ids[row]].namespace}/{self.names[row]}"]
        self.times.pop(row, None)
        self.health.pop(row, None)
        self.scheduling_reasons.pop(row, None)
        self.names[row] = self.uids[row] = ""
        self.labels[row] = ()
        self._shape_ids[row] = self._node_rows[row] = arrays.ABSENT
        self._vacant_rows.append(row)

    def set_health(self, row: int, health: facts.PodHealth) -> None:
        """Note that a pod became Ready, or is no longer."""
        if health is facts.PodHealth.READY:
            self.health.pop(row, None)
        else:
            self.health[row] = health

    @property
    def created_s(self) -> npt.NDArray[np.float64]:
        """float64 (n_rows): when the pod was created."""
        return self._created_s[: len(self.names)]

    def key(self, row: int) -> str:
        """The pod's namespace/name."""
        return f"{self.template_key(row).namespace}/{self.names[row]}"

    def keys(self, rows: Sequence[int]) -> tuple[str, ...]:
        """The namespace/name of each of these pods."""
        known = self._prefixes
        known += [f"{template.namespace}/" for template in self.template_keys.values[len(known) :]]
        prefixes = map(known.__getitem__, self._template_ids[list(rows)].tolist())
        return tuple(map(operator.add, prefixes, map(self.names.__getitem__, rows)))

    def renumber_shapes(self, numbers: arrays.Ids) -> None:
        """Shapes have other numbers now; none of those that pods have was forgotten."""
        self.shape_ids[:] = np.append(numbers, arrays.ABSENT)[self.shape_ids]

    def forget_unused_templates(self) -> None:
        """Drop the template keys without a pod, and renumber the others."""
        used = np.zeros(len(self.template_keys), bool)
        used[self.template_ids[self.shape_ids != arrays.ABSENT]] = True
        used[:1] = True  # vacant rows hold some template id, so id 0 must stay valid
        numbers = self.template_keys.keep(used)
        self.template_ids[:] = np.maximum(numbers[self.template_ids], 0)
        for known in self.answers.values():
            kept = [(int(numbers[old]), answer) for old, answer in known.items() if numbers[old] != arrays.ABSENT]
            known.clear()
            known.update(kept)
        self._prefixes.clear()

    def template_key(self, row: int) -> PodTemplateKey:
        return self.template_keys[self._template_ids[row]]

    def label_map(self, row: int) -> dict[str, str]:
        flat = self.labels[row]
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def fact(self, row: int, node_name: str, *, timeless: bool = False) -> facts.Pod:
        """The pod as observed, bound to the named node; `timeless`: Ready, not terminating, and not yet processed by
        its scheduler.
        """
        template = self.template_key(row)
        deleted_s, unschedulable_since_s = (None, None) if timeless else self.times.get(row, (None, None))
        health = facts.PodHealth.READY if timeless else self.health.get(row, facts.PodHealth.READY)
        scheduling_reason = "" if timeless else self.scheduling_reasons.get(row, "")
        return facts.Pod(
            template.namespace, self.names[row], self.uids[row], self.label_map(row), dict(template.annotations),
            template.owner, template.spec, template.digest, node_name, template.nominated_node, template.scheduler,
            template.phase, template.restart_policy, float(self._created_s[row]), deleted_s, template.grace_s,
            unschedulable_since_s, template.is_gated, template.scale_up_delay_s, template.unreadable, health,
            template.drain_behavior, scheduling_reason,
        )  # fmt: skip

    def _append(self) -> int:
        row = len(self.names)
        if row == len(self._template_ids):
            self._template_ids = np.pad(self._template_ids, (0, row))
            self._shape_ids = np.pad(self._shape_ids, (0, row), constant_values=arrays.ABSENT)
            self._node_rows = np.pad(self._node_rows, (0, row), constant_values=arrays.ABSENT)
            self._created_s = np.pad(self._created_s, (0, row))
        self.names.append("")
        self.uids.append("")
        self.labels.append(())
        return row


def pod_identity(pod: facts.Pod) -> str:
    return pod.uid or pod.key


def _flatten_labels(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(text for key, value in labels.items() for text in (sys.intern(key), value))
