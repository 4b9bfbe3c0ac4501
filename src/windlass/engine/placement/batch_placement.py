"""Batch placement: many pods of one shape, in closed form where they do not affect each other.

`fill_*` distribute a count over rows, intp (n_rows), by the room of each, int64 (n_rows): level by level in node order
from a pointer, first-fit, or from random rows. Shapes whose pods affect each other (spread, affinity, anti-affinity)
change what is feasible: a `BatchPlacement` keeps the feasible nodes current, at the cost of the domains touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.settings import FilterConfig
from windlass.engine.predicates import (
    dynamic_resources,
    inter_pod_affinity,
    node_ports,
    node_resources_fit,
    pod_topology_spread,
    registry,
)
from windlass.engine.snapshot import topology_counts

if TYPE_CHECKING:
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

_UNLIMITED_ROOM = np.int64(np.iinfo(arrays.COUNT_DTYPE).max)
"""Room where no resource is checked: more pods than exist, and sums do not overflow."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Pods of a shape by node: `counts[i]` on `rows[i]`, rows distinct; `last` is the row of the last pod."""

    rows: arrays.Rows
    counts: arrays.Amounts
    total: int
    last: int

    def node_row_per_pod(self) -> arrays.Rows:
        """Intp (total,): the node row of every pod."""
        return self.rows if self.total == len(self.rows) else np.repeat(self.rows, self.counts)


NO_PLACES = Placement(np.zeros(0, np.intp), np.zeros(0, arrays.RESOURCE_DTYPE), 0, -1)

_ONES = np.ones(256, arrays.RESOURCE_DTYPE)


def place_one_each(rows: arrays.Rows) -> Placement:
    """One pod to each of these rows, of which there is at least one."""
    count = len(rows)
    counts = _ONES[:count] if count <= len(_ONES) else np.ones(count, arrays.RESOURCE_DTYPE)
    return Placement(rows, counts, count, int(rows[-1]))


def place_all_on(row: int, count: int) -> Placement:
    """So many pods, at least one, to one row."""
    return Placement(np.array([row]), np.array([count], arrays.RESOURCE_DTYPE), count, row)


def place_one_by_one(taken: Sequence[int]) -> Placement:
    """Places that were found pod by pod, in order."""
    if not taken:
        return NO_PLACES
    rows, counts = np.unique(np.array(taken, np.intp), return_counts=True)
    return Placement(rows, counts.astype(arrays.RESOURCE_DTYPE), len(taken), taken[-1])


def count_room(free: Sequence[tuple[arrays.Amounts, int]], rows: int) -> arrays.Amounts:
    """Int64 (n_rows): how many pods each row has room for, from (what is free (n_rows,), what a pod takes) of each."""
    fits = np.ones(rows, bool)
    for remaining, amount in free:
        fits &= remaining >= amount
    # Division is the expensive step: only for the k rows where at least one pod fits.
    some = np.flatnonzero(fits)  # (k,)
    most = np.full(len(some), _UNLIMITED_ROOM)
    for remaining, amount in free:
        np.minimum(most, remaining[some] // amount, out=most)
    room = np.zeros(rows, arrays.RESOURCE_DTYPE)
    room[some] = most
    return room


def rotate(rows: arrays.Rows, pointer: int) -> arrays.Rows:
    """Rows in search order: those after the pointer first, then from the beginning."""
    cut = int(np.searchsorted(rows, pointer, side="right"))
    return np.concatenate((rows[cut:], rows[:cut]))


def fill_levels(rows: arrays.Rows, room: arrays.Amounts, count: int) -> Placement:
    """Round-robin in closed form: `count` pods over `rows` in this order, each taking at most its `room`.

    After k whole rounds row i holds min(room[i], k). The largest k whose sum does not exceed `count` is found by
    bisection; what is left over goes one each to the first rows that still have room.
    """
    if count <= 0 or not len(rows):
        return NO_PLACES
    # Bisect for the number of complete rounds: low is feasible, high + 1 is not.
    low, high = 0, int(min(room.max(initial=0), count))
    if int(room.sum()) <= count:
        low = high
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(room, middle).sum()) <= count:
            low = middle
        else:
            high = middle - 1
    taken = np.minimum(room, low)
    # One more round, which is incomplete: the first `rest` rows that have room left.
    rest = count - int(taken.sum())
    open_rows = np.flatnonzero(room > low)[:rest]
    taken[open_rows] += 1
    used = np.flatnonzero(taken)
    if not len(used):
        return NO_PLACES
    # The last pod went to the last row of the incomplete round, or of the last complete one.
    last = open_rows[-1] if len(open_rows) else np.flatnonzero(room >= low)[-1]
    return Placement(rows[used], taken[used], int(taken.sum()), int(rows[last]))


def fill_first(rows: arrays.Rows, room: arrays.Amounts, count: int) -> Placement:
    """First-fit in closed form: fill each row up before the next is touched."""
    if count <= 0 or not len(rows):
        return NO_PLACES
    before = np.cumsum(room) - room  # (n_rows,): capacity of all earlier rows
    taken = np.clip(count - before, 0, room)
    used = np.flatnonzero(taken)
    if not len(used):
        return NO_PLACES
    return Placement(rows[used], taken[used], int(taken.sum()), int(rows[used[-1]]))


def fill_scattered(rows: arrays.Rows, room: arrays.Amounts, count: int, scatter: np.random.Generator) -> Placement:
    """Each pod starts at a random row and takes the next one with room, as Cluster Autoscaler does on new nodes.

    Each round draws a start for every remaining pod; pods beyond a row's room are drawn again in the next round.
    """
    taken = np.zeros(len(rows), arrays.RESOURCE_DTYPE)
    remaining = min(count, int(room.sum()))
    while remaining > 0:
        with_room = np.flatnonzero(taken < room)
        starts = scatter.integers(len(rows), size=remaining)
        # (left,): the first row with room at or after each start, wrapping around.
        targets = with_room[np.searchsorted(with_room, starts) % len(with_room)]
        before = taken.copy()
        taken = np.minimum(taken + np.bincount(targets, minlength=len(rows)), room)
        remaining -= int((taken - before).sum())
    used = np.flatnonzero(taken)
    if not len(used):
        return NO_PLACES
    return Placement(rows[used], taken[used], int(taken.sum()), int(rows[used[-1]]))


_UNLIMITED_PODS = 1 << 50
"""Room by a resource that devices provide on nodes without it."""


def find_resource_room(
    snapshot: "Snapshot", shape: facts.PodShape, rows: arrays.Rows | slice, config: FilterConfig
) -> arrays.Amounts:
    """Int64 (n_rows): how many pods of the shape each of these nodes has room for, by resources alone."""
    checked = node_resources_fit.checked_requests(snapshot, shape, config)
    here = [(snapshot.nodes.free[column][rows], amount) for column, amount in checked]
    for column, amount in node_resources_fit.device_backed_requests(snapshot, shape, config):
        has_none = snapshot.nodes.allocatable[column][rows] == 0
        here.append((np.where(has_none, _UNLIMITED_PODS, snapshot.nodes.free[column][rows]), amount))
    return count_room(here, len(snapshot.nodes.alive[rows]))


class BatchPlacement:
    """The feasible nodes for the next pod of a shape, updated while pods of that shape are placed.

    `mask` bool (n_nodes): feasible now. `room` int64 (n_nodes): how many more fit there by resources.

    Placing one can (1) use up its node's room, (2) close a domain that the shape's own anti-affinity or host ports
    guard, (3) shift the state of a spread constraint, (4) end the first-of-its-kind exception of its affinity.
    """

    def __init__(self, snapshot: "Snapshot", shape: facts.PodShape, usable: arrays.Mask, config: FilterConfig) -> None:
        self._nodes, self._shape = snapshot.nodes, shape
        self._spread_states: list[_SpreadState] = []
        if pod_topology_spread.NAME not in config.disabled:
            self._spread_states = [
                _SpreadState(spread_counts)
                for spread_counts in pod_topology_spread.count_constraints(snapshot, shape, config)
            ]
        self._feasible_without_topology = (
            registry.find_feasible(snapshot, shape, config, but=(pod_topology_spread.NAME, inter_pod_affinity.NAME))
            & usable
        )
        self.others = self._feasible_without_topology.copy()
        """Bool (n_nodes): feasible for every filter except PodTopologySpread."""
        near = None if inter_pod_affinity.NAME in config.disabled else inter_pod_affinity.mask(snapshot, shape, config)
        if near is not None:
            self.others &= near
        rows = np.flatnonzero(self.others)
        self.room = np.zeros(snapshot.nodes.count, arrays.RESOURCE_DTYPE)
        self.room[rows] = find_resource_room(snapshot, shape, rows, config)
        if requests_devices(snapshot, shape) and dynamic_resources.NAME not in config.disabled:
            devices = dynamic_resources.count_room(snapshot, shape)
            if devices is not None:
                np.minimum(self.room, devices, out=self.room)
        self._anti_affinity_domains: list[arrays.Ids] = []
        self._affinity_domains: list[arrays.Ids] = []
        if inter_pod_affinity.NAME not in config.disabled:
            self._collect_anti_affinity_domains(snapshot)
            self._collect_affinity_domains(snapshot)
        if shape.spec.host_ports and node_ports.NAME not in config.disabled:
            np.minimum(self.room, 1, out=self.room)
        self.others &= self.room > 0
        self.mask = self._apply_spread()

    @property
    def is_closed_form(self) -> bool:
        """Whether placing a pod changes only its node's room."""
        return not (
            self._anti_affinity_domains
            or self._affinity_domains
            or any(b.found.counts_itself for b in self._spread_states)
        )

    def is_skewed(self, row: int) -> bool:
        """Whether PodTopologySpread is the first filter to refuse this node, and not for a missing label."""
        if not self._feasible_without_topology[row] or self.room[row] < 1:
            return False
        for state in self._spread_states:
            domain = state.found.domains[row]
            if not state.open[domain]:
                return bool(domain != arrays.ABSENT)
        return False

    def place_round_robin(self, count: int, pointer: int) -> Placement:
        """Place up to `count` pods one by one, each on the next feasible node after the last."""
        taken: list[int] = []
        while len(taken) < count:
            row = self.next(pointer)
            if row is None:
                break
            self.add(row)
            taken.append(row)
            pointer = row
        return place_one_by_one(taken)

    def next(self, pointer: int) -> int | None:
        """The first feasible row after the pointer, from the beginning once the end is reached."""
        after = self.mask[pointer + 1 :]
        if len(after):
            row = int(after.argmax())
            if after[row]:
                return pointer + 1 + row
        if not len(self.mask):
            return None
        row = int(self.mask.argmax())
        return row if self.mask[row] else None

    def add(self, row: int) -> None:
        """One pod was placed on this row."""
        self.room[row] -= 1
        if self.room[row] == 0:
            self.others[row] = self.mask[row] = False
        for domains in self._anti_affinity_domains:
            if domains[row] != arrays.ABSENT:
                self._keep_only(domains != domains[row])
        for domains in self._affinity_domains:
            self._keep_only(domains == domains[row])
        self._affinity_domains = []
        reopened = False
        for state in self._spread_states:
            change = state.add(row)
            if change == _CLOSED:
                self.mask[state.rows_of(int(state.found.domains[row]))] = False
            reopened = reopened or change == _SHIFTED
        if reopened:
            self.mask = self._apply_spread()

    def _keep_only(self, rows: arrays.Mask) -> None:
        self.others &= rows
        self.mask &= rows

    def _apply_spread(self) -> arrays.Mask:
        mask = self.others.copy()
        for state in self._spread_states:
            mask &= state.open[state.found.domains]
        return mask

    def _collect_anti_affinity_domains(self, snapshot: "Snapshot") -> None:
        """Collect the topology keys in whose domains the shape's own anti-affinity refuses a second pod.

        With unique hostnames, as those of new nodes are, that equals room for one pod per node. For other keys domains
        are kept as int32 (n_nodes), because the next node may be in the same zone.
        """
        namespaces, profile = snapshot.topology_counts.namespaces, self._shape.profile
        for key in dict.fromkeys(
            term.topology_key
            for term in self._shape.spec.anti_affinity
            if topology_counts.own_term_matches(term, profile, namespaces)
            or topology_counts.carried_term_matches(term, profile, namespaces)
        ):
            domains = snapshot.nodes.label_ids(key)
            present = domains != arrays.ABSENT
            named = domains[present & snapshot.nodes.alive]
            if key == facts.HOSTNAME and int(np.bincount(named, minlength=1).max()) <= 1:
                self.room[present] = np.minimum(self.room[present], 1)
            else:
                self._anti_affinity_domains.append(domains)

    def _collect_affinity_domains(self, snapshot: "Snapshot") -> None:
        """Affinity to itself: the first pod fits anywhere, and its domain restricts the following pods."""
        terms = self._shape.spec.affinity
        if not terms or not inter_pod_affinity.matches_own_affinity(snapshot, self._shape):
            return
        counts = snapshot.counts(topology_counts.PodsMatchingAllTerms(terms))
        keys = dict.fromkeys(term.topology_key for term in terms)
        if not any(inter_pod_affinity.occupied_domains(snapshot, key, counts).any() for key in keys):
            self._affinity_domains = [snapshot.nodes.label_ids(key) for key in keys]


_UNCHANGED, _CLOSED, _SHIFTED = range(3)


class _SpreadState:
    """One spread constraint while pods of its shape are placed: counts per domain, their minimum, open domains."""

    def __init__(self, found: pod_topology_spread.SpreadCounts) -> None:
        self.found = found
        self.open = found.open_domains()
        """Bool (n_domains + 1): one more pod may go there; the last entry is for nodes without the label."""
        self._emptiest = found.emptiest
        self._counts_emptiest = int(found.exists.sum()) >= max(found.constraint.min_domains, 1)
        self._at_emptiest = int((found.per_domain[found.exists] == self._emptiest).sum())
        self._rows: dict[int, arrays.Rows] = {}

    def rows_of(self, domain: int) -> arrays.Rows:
        rows = self._rows.get(domain)
        if rows is None:
            rows = self._rows[domain] = np.flatnonzero(self.found.domains == domain)
        return rows

    def add(self, row: int) -> int:
        """Count one more pod; returns whether its domain closed, or all open domains changed."""
        spread_counts = self.found
        if not spread_counts.counts_itself or not spread_counts.included[row]:
            return _UNCHANGED
        domain = spread_counts.domains[row]
        before = int(spread_counts.per_domain[domain])
        spread_counts.per_domain[domain] = before + 1
        if before == self._emptiest and self._counts_emptiest:
            self._at_emptiest -= 1
            if self._at_emptiest == 0:
                self._emptiest = spread_counts.emptiest
                self._at_emptiest = int((spread_counts.per_domain[spread_counts.exists] == self._emptiest).sum())
                self.open = spread_counts.open_domains()
                return _SHIFTED
        if before + 1 > spread_counts.constraint.max_skew + self._emptiest - 1:
            self.open[domain] = False
            return _CLOSED
        return _UNCHANGED


def uses_filtered_volumes(shape: facts.PodShape) -> bool:
    """Whether the shape uses volumes that filters read."""
    return any(volume.claim or volume.identity or volume.driver for volume in shape.spec.volumes)


def requests_devices(snapshot: "Snapshot", shape: facts.PodShape) -> bool:
    """Whether the shape uses claims, or requests a resource that a device class provides."""
    spec = shape.spec
    if not spec.extended:
        return bool(spec.claims)
    inventory = snapshot.devices.inventory
    return bool(spec.claims) or any(
        inventory.device_class_of(extended_request.resource) is not None for extended_request in spec.extended
    )


def needs_single_placement(snapshot: "Snapshot", shape: facts.PodShape) -> bool:
    """Whether pods of the shape must be placed one by one, with filters evaluated after each."""
    if uses_filtered_volumes(shape):
        return True
    return requests_devices(snapshot, shape) and not dynamic_resources.is_countable(snapshot, shape)


def is_plain(snapshot: "Snapshot", shape: facts.PodShape, config: FilterConfig) -> bool:
    """Do only the nodes' facts and free resources decide where pods of this shape go, however many there are?"""
    return has_static_constraints_only(snapshot, shape, config) and not is_repelled(snapshot, shape)


def has_static_constraints_only(snapshot: "Snapshot", shape: facts.PodShape, config: FilterConfig) -> bool:
    """Does the shape itself ask for nothing but resources and facts of nodes?"""
    spec = shape.spec
    asks = spec.spread or spec.affinity or spec.anti_affinity or spec.host_ports or config.default_constraints
    is_parsable = not (spec.spread_fault or spec.interpod_fault)
    return not asks and is_parsable and not uses_filtered_volumes(shape) and not requests_devices(snapshot, shape)


def is_repelled(snapshot: "Snapshot", shape: facts.PodShape) -> bool:
    """Is any pod there whose anti-affinity matches the shape?"""
    if not snapshot.topology_counts.carriers:
        return False
    nodes = snapshot.nodes.count
    return any(
        snapshot.topology_counts.counts(counter, nodes).any()
        for _, counter in snapshot.topology_counts.repelling(shape)
    )
