"""Topology counts: how many pods on each node have some property, kept current as pods come and go.

    matching   a pod's profile (namespace and labels) matches a selector, or terms of the incoming pod;
               counted when a filter first asks
    carried    a pod's own spec has this anti-affinity term or host port; counted from the first such shape on

A row of int32 (n_nodes) each. What one pod adds is fixed by its shape, so placing n pods of a shape is one addition.
Used volumes are sparse and kept beside the rows (`volume_usage`).
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from windlass import scheduler_releases
from windlass.engine.model import arrays, facts
from windlass.selectors import EVERYTHING, LabelSelector

if TYPE_CHECKING:
    from windlass.engine.snapshot import pod_table, volume_usage


class NamespaceLabels(dict[str, Mapping[str, str]]):
    """The labels of each namespace that exists, by its name, and how a release selects among them."""

    def __init__(
        self,
        labels_by_namespace: Mapping[str, Mapping[str, str]] | None = None,
        release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
    ) -> None:
        super().__init__(labels_by_namespace or {})
        self.release = release


@dataclass(frozen=True, slots=True)
class SelectedPods:
    """Pods of one namespace that a selector matches and that are not terminating: what topology spread counts."""

    namespace: str
    selector: LabelSelector

    def matches(self, profile: facts.PodProfile, namespaces: NamespaceLabels) -> bool:
        return (
            profile.namespace == self.namespace and not profile.terminating and self.selector.matches(profile.label_map)
        )


@dataclass(frozen=True, slots=True)
class PodsMatchingAllTerms:
    """Pods that match every one of an incoming pod's own terms; terminating pods count."""

    terms: tuple[facts.PodAffinityTerm, ...]

    def matches(self, profile: facts.PodProfile, namespaces: NamespaceLabels) -> bool:
        return all(own_term_matches(term, profile, namespaces) for term in self.terms)


@dataclass(frozen=True, slots=True)
class PodsCarryingTerm:
    """Pods that carry this anti-affinity term themselves, and so repel others from their domain."""

    term: facts.PodAffinityTerm


@dataclass(frozen=True, slots=True)
class PodsHoldingPort:
    """Pods that hold a host port on their node."""

    port: facts.HostPort


Carried: TypeAlias = PodsCarryingTerm | PodsHoldingPort


def own_term_matches(term: facts.PodAffinityTerm, profile: facts.PodProfile, namespaces: NamespaceLabels) -> bool:
    """Whether a pod matches a term of the incoming pod. See `SchedulerRelease.keeps_resolved_namespaces_only`."""
    return _is_namespace_of(term, profile, namespaces) and _selects(term, profile)


def _is_namespace_of(term: facts.PodAffinityTerm, profile: facts.PodProfile, namespaces: NamespaceLabels) -> bool:
    if profile.namespace in term.namespaces:
        return True
    selector = term.namespace_selector
    if selector is None:
        return False
    if selector == EVERYTHING or (not namespaces.release.keeps_resolved_namespaces_only and selector.matches({})):
        return True
    labels = namespaces.get(profile.namespace)
    return labels is not None and selector.matches(labels)


def _selects(term: facts.PodAffinityTerm, profile: facts.PodProfile) -> bool:
    return term.selector is not None and term.selector.matches(profile.label_map)


Matching: TypeAlias = SelectedPods | PodsMatchingAllTerms


def carried_term_matches(term: facts.PodAffinityTerm, profile: facts.PodProfile, namespaces: NamespaceLabels) -> bool:
    """Does an incoming pod match a term that a running pod carries?"""
    if profile.namespace not in term.namespaces:  # cheapest and most selective check first
        selector = term.namespace_selector
        if selector is None or not selector.matches(namespaces.get(profile.namespace, {})):
            return False
    return _selects(term, profile)


def find_carried(shape: facts.PodShape) -> list[Carried]:
    """The counters that a pod of this shape adds to by its own spec; one it names twice is listed twice."""
    spec = shape.spec
    carried: list[Carried] = [PodsCarryingTerm(term) for term in spec.anti_affinity]
    carried += [PodsHoldingPort(port) for port in spec.host_ports]
    return carried


def make_spread_count(namespace: str, selector: LabelSelector | None) -> SelectedPods | None:
    """What a spread constraint counts. An empty selector counts no existing pod, though the pod matches itself."""
    if selector is None or selector == EVERYTHING:
        return None
    return SelectedPods(namespace, selector)


Renumbered = TypeVar("Renumbered")

_FEW = 4


class TopologyCounts:
    """Counts int32 (n_tallies, n_nodes), and for every shape which rows it adds to."""

    def __init__(
        self,
        table: "pod_table.ShapeTable",
        held: "volume_usage.VolumeUsage",
        release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
    ) -> None:
        self.carriers: dict[facts.PodAffinityTerm, int] = {}
        """Anti-affinity terms that some shape carries, by counter."""
        self.ports: dict[tuple[str, int], list[tuple[str, int]]] = {}
        """Host ports that some shape holds: (protocol, port) -> (ip, counter) of each."""
        self.held = held
        """Claims and disks that pods hold."""
        self.namespaces = NamespaceLabels(release=release)
        self._shapes = table
        self._counts = np.zeros((8, 64), arrays.COUNT_DTYPE)
        self._rows: dict[Matching | Carried, int] = {}
        self._matching: list[tuple[int, Matching]] = []
        self._by_profile: dict[int, tuple[int, list[int]]] = {}
        self._carried: dict[int, list[int]] = {}
        self._held_by: dict[int, tuple[volume_usage.UsedVolume, ...]] = {}
        self._of_shape: dict[int, tuple[int, arrays.Rows, arrays.Counts]] = {}
        self._repelling: dict[int, tuple[int, list[tuple[facts.PodAffinityTerm, int]]]] = {}
        self._log: list[tuple[Callable[..., None], facts.PodShape, Any, Any]] | None = None
        self._next = 0
        self._unused: list[int] = []
        self._asked: set[int] = set()
        """Matching counters read since the last `forget_unused`."""

    def __len__(self) -> int:
        return len(self._rows)

    def counts(self, counter: int, nodes: int) -> arrays.Counts:
        """Int32 (n_nodes): the counter's value on each node."""
        return self._counts[counter, :nodes]

    def find(self, key: Carried) -> int | None:
        """The counter of a carried term or port; None while no shape carries it."""
        return self._rows.get(key)

    def is_known(self, key: Matching) -> bool:
        return key in self._rows

    def open(self, key: Matching, matching: arrays.Mask) -> int:
        """Open a matching counter, all zero; the caller fills in existing pods.

        `matching` bool (n_profiles): the profiles that it counts (`matching_profiles`).
        """
        counter = self._new_row(key)
        self._asked.add(counter)
        judged = len(self._matching)
        self._matching.append((counter, key))
        for profile_id, is_counted in enumerate(matching.tolist()):
            known, rows = self._by_profile.get(profile_id, (0, []))
            if known == judged:
                self._by_profile[profile_id] = (judged + 1, [*rows, counter] if is_counted else rows)
        return counter

    def row(self, key: Matching) -> int:
        counter = self._rows[key]
        self._asked.add(counter)
        return counter

    def matching_profiles(self, key: Matching) -> arrays.Mask:
        """Bool (n_profiles): the profiles that a matching counter counts."""
        return np.fromiter((key.matches(p, self.namespaces) for p in self._shapes.profiles), bool)

    def reserve(self, nodes: int) -> None:
        """Make room for so many nodes."""
        missing = nodes - self._counts.shape[1]
        if missing > 0:
            self._counts = np.pad(self._counts, ((0, 0), (0, missing)))

    def add(self, shape: facts.PodShape, row: int, pods: int) -> None:
        """Count `pods` more pods of a shape on a node (fewer, if negative)."""
        if self._log is not None:
            self._log.append((self.add, shape, row, pods))
        counters, weights = self.of_shape(shape)
        if len(counters) > _FEW:
            self._counts[counters, row] += weights * arrays.COUNT_DTYPE(pods)
        elif len(counters):
            for counter, weight in zip(counters.tolist(), weights.tolist(), strict=True):
                self._counts[counter, row] += weight * pods  # plain loops are faster below _FEW
        if shape.spec.volumes:
            for used in self._list_used_volumes(shape):
                self.held.add(used, row, pods)

    def add_many(self, shape: facts.PodShape, rows: arrays.Rows, pods: arrays.Amounts | int) -> None:
        """Count pods of a shape on many distinct nodes at once: so many on each, or as many on all."""
        if self._log is not None:
            self._log.append((self.add_many, shape, rows, pods))
        counters, weights = self.of_shape(shape)
        for counter, weight in zip(counters.tolist(), weights.tolist(), strict=True):
            self._counts[counter, rows] += np.asarray(pods * weight, arrays.COUNT_DTYPE)
        if shape.spec.volumes:
            for used in self._list_used_volumes(shape):
                for row, count in zip(rows.tolist(), np.broadcast_to(pods, rows.shape).tolist(), strict=True):
                    self.held.add(used, row, count)

    # Undo log

    def begin_log(self) -> None:
        self._log = []

    def mark(self) -> int:
        """The length of the log."""
        return 0 if self._log is None else len(self._log)

    def forget_since(self, mark: int) -> None:
        """Drop the entries since the mark, which the caller has undone."""
        if self._log is not None:
            del self._log[mark:]

    def undo_log(self) -> None:
        """Undo the log, also in counters opened since: their initial value included the logged pods."""
        log, self._log = self._log or [], None
        logged = {shape.id: shape for _, shape, _, _ in log}
        counted = {id for id, shape in logged.items() if shape.spec.volumes or len(self.of_shape(shape)[0])}
        for count, shape, rows, pods in reversed(log):
            if shape.id in counted:
                count(shape, rows, -pods)

    def fill(self, counter: int, counts: arrays.Amounts) -> None:
        self._counts[counter, : len(counts)] = counts

    def clear_rows(self, rows: slice) -> None:
        """Zero the rows of appended nodes before they are truncated."""
        self._counts[:, rows] = 0
        for row in range(rows.start, rows.stop):
            self.held.clear(row)

    def forget_namespaces(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        """Namespace labels changed: drop all matching counters; they are opened again on the next read."""
        self.namespaces = NamespaceLabels(namespaces, self.namespaces.release)
        for counter, key in self._matching:
            self._counts[counter] = 0
            self._unused.append(counter)
            del self._rows[key]
        self._matching.clear()
        self._by_profile.clear()
        self._repelling.clear()
        self._of_shape.clear()

    def forget_unused(self, shape_numbers: arrays.Ids, profile_numbers: arrays.Ids) -> None:
        """Apply new shape and profile ids (-1: dropped), and drop unused counters.

        Unused are carried counters of dropped shapes, and matching counters that count no pod or were not read since
        the last call; these are opened again on the next read.
        """
        self._carried = _renumber(self._carried, shape_numbers)
        self._held_by = _renumber(self._held_by, shape_numbers)
        self._of_shape.clear()
        in_use = (counter for counter in self._asked if self._counts[counter].any())
        needed = set(in_use).union(*self._carried.values())
        gone = {counter for counter in self._rows.values() if counter not in needed}
        matching = _KeptRows([counter for counter, _ in self._matching], gone)
        carriers = _KeptRows(list(self.carriers.values()), gone)
        by_profile = _renumber(self._by_profile, profile_numbers)
        self._by_profile = {
            number: (matching.before(judged), [counter for counter in rows if counter not in gone])
            for number, (judged, rows) in by_profile.items()
        }
        repelling = _renumber(self._repelling, profile_numbers)
        self._repelling = {
            number: (carriers.before(judged), [pair for pair in pairs if pair[1] not in gone])
            for number, (judged, pairs) in repelling.items()
        }
        self._drop(gone)

    def _drop(self, gone: set[int]) -> None:
        self._rows = {key: counter for key, counter in self._rows.items() if counter not in gone}
        self._matching = [pair for pair in self._matching if pair[0] not in gone]
        self.carriers = {term: counter for term, counter in self.carriers.items() if counter not in gone}
        ports = {key: [pair for pair in pairs if pair[1] not in gone] for key, pairs in self.ports.items()}
        self.ports = {key: pairs for key, pairs in ports.items() if pairs}
        for counter in sorted(gone):
            self._counts[counter] = 0
            self._unused.append(counter)
        self._asked.clear()

    def of_shape(self, shape: facts.PodShape) -> tuple[arrays.Rows, arrays.Counts]:
        """(counters intp (k,), weights int32 (k,)): the counters that one pod of the shape adds to, and how much."""
        version = len(self._matching)
        known = self._of_shape.get(shape.id)
        if known is not None and known[0] == version:
            return known[1], known[2]
        rows = self._carried_rows(shape) + self._profile_rows(shape.profile_id)
        counters, times = np.unique(np.array(rows, np.intp), return_counts=True)
        weights: arrays.Counts = times.astype(arrays.COUNT_DTYPE)
        self._of_shape[shape.id] = (version, counters, weights)
        return counters, weights

    def repelling(self, shape: facts.PodShape) -> list[tuple[facts.PodAffinityTerm, int]]:
        """(term, counter) of every carried anti-affinity term that matches the shape; only new terms are evaluated."""
        judged, pairs = self._repelling.get(shape.profile_id, (0, []))
        if judged < len(self.carriers):
            newer = list(self.carriers.items())[judged:]
            pairs += [pair for pair in newer if carried_term_matches(pair[0], shape.profile, self.namespaces)]
            self._repelling[shape.profile_id] = (len(self.carriers), pairs)
        return pairs

    def _carried_rows(self, shape: facts.PodShape) -> list[int]:
        rows = self._carried.get(shape.id)
        if rows is None:
            rows = []
            for key in find_carried(shape):
                counter = self._rows.get(key)
                if counter is None:
                    counter = self._new_row(key)
                    self._list_carried(key, counter)
                rows.append(counter)
            self._carried[shape.id] = rows
        return rows

    def _list_used_volumes(self, shape: facts.PodShape) -> tuple["volume_usage.UsedVolume", ...]:
        things = self._held_by.get(shape.id)
        if things is None:
            things = self._held_by[shape.id] = self.held.used_by(shape)
        return things

    def _list_carried(self, key: Carried, counter: int) -> None:
        match key:
            case PodsCarryingTerm(term):
                self.carriers[term] = counter
            case PodsHoldingPort(port):
                self.ports.setdefault((port.protocol, port.port), []).append((port.ip, counter))

    def _profile_rows(self, profile_id: int) -> list[int]:
        """Matching counters that count a profile; only counters opened since the last call are evaluated."""
        judged, rows = self._by_profile.get(profile_id, (0, []))
        if judged < len(self._matching):
            profile = self._shapes.profiles[profile_id]
            rows += [counter for counter, key in self._matching[judged:] if key.matches(profile, self.namespaces)]
            self._by_profile[profile_id] = (len(self._matching), rows)
        return rows

    def _new_row(self, key: Matching | Carried) -> int:
        if self._unused:
            counter = self._rows[key] = self._unused.pop()
            return counter
        counter = self._rows[key] = self._next
        self._next += 1
        if counter >= len(self._counts):
            self._counts = np.pad(self._counts, ((0, len(self._counts)), (0, 0)))
        return counter


class _KeptRows:
    """Positions in a list of counters after some are dropped."""

    def __init__(self, counters: list[int], gone: set[int]) -> None:
        self._left = [0, *itertools.accumulate(counter not in gone for counter in counters)]

    def before(self, position: int) -> int:
        """The number of remaining counters before the position."""
        return self._left[position]


def _renumber(values: Mapping[int, Renumbered], numbers: arrays.Ids) -> dict[int, Renumbered]:
    ids = numbers.tolist()
    return {ids[old]: value for old, value in values.items() if ids[old] != arrays.ABSENT}
