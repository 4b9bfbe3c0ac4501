"""Placing pods of one shape, many at a time, as a scheduler that takes them one by one would.

The peer's search order is round-robin: every pod goes to the next feasible node after the one that took the last. For a
shape whose pods do not mind each other that has a closed form: fill level by level, in node order from the pointer.
Shapes that do mind each other (spread, affinity, anti-affinity) change what is feasible as they are placed: a `Run`
keeps that current, pod by pod, at the cost of the domains touched.

Nothing here writes to the snapshot: a plan is (rows, counts); the caller places it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes, facts, gates, predicates, shapes, tallies
from windlass.engine.predicates import fit, interpod, ports, spread
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot

_FEW, _PROBES, _GATES = 8, 4, 32
_FIRST_WINDOW = 64
_PLENTY = np.int64(np.iinfo(dtypes.COUNT).max)
"""Room where nothing is checked: more pods than there are, and yet sums of it do not overflow."""
_ONES = np.ones(_FEW, dtypes.RESOURCE)


@dataclass(frozen=True, slots=True)
class Placed:
    """Where pods of a shape go: `counts[i]` of them to `rows[i]`, all distinct, and the row that took the last one."""

    rows: dtypes.Rows
    counts: dtypes.Amounts
    total: int
    last: int

    def homes(self) -> list[int]:
        """The row of every pod."""
        rows = self.rows if self.total == len(self.rows) else np.repeat(self.rows, self.counts)
        homes: list[int] = rows.tolist()
        return homes


NOWHERE = Placed(np.zeros(0, np.intp), np.zeros(0, dtypes.RESOURCE), 0, -1)


def one_by_one(taken: Sequence[int]) -> Placed:
    """Places that were found pod by pod, in order."""
    if not taken:
        return NOWHERE
    rows, counts = np.unique(np.array(taken, np.intp), return_counts=True)
    return Placed(rows, counts.astype(dtypes.RESOURCE), len(taken), taken[-1])


def is_plain(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> bool:
    """Do only the nodes' facts and free resources decide where pods of this shape go, however many there are?"""
    return asks_nothing(shape, config) and not is_repelled(snapshot, shape)


def asks_nothing(shape: shapes.Shape, config: FilterConfig) -> bool:
    """Does the shape itself ask for nothing but resources and facts of nodes?"""
    spec = shape.spec
    asks = spec.spread or spec.affinity or spec.anti_affinity or spec.host_ports or config.default_constraints
    return not asks and not gates.holds_disks(shape)


def is_repelled(snapshot: Snapshot, shape: shapes.Shape) -> bool:
    """Is any pod there whose anti-affinity matches the shape?"""
    if not snapshot.tallies.carriers:
        return False
    nodes = snapshot.nodes.count
    return any(snapshot.tallies.counts(tally, nodes).any() for _, tally in snapshot.tallies.repelling(shape))


def capacity(
    snapshot: Snapshot, shape: shapes.Shape, rows: dtypes.Rows | slice, config: FilterConfig
) -> dtypes.Amounts:
    """Int64 (n_rows): how many pods of the shape each of these nodes has room for, by resources alone."""
    checked = fit.checked(snapshot, shape, config)
    here = [(snapshot.nodes.free[column][rows], amount) for column, amount in checked]
    return count_room(here, len(snapshot.nodes.alive[rows]))


def count_room(free: Sequence[tuple[dtypes.Amounts, int]], rows: int) -> dtypes.Amounts:
    """Int64 (n_rows): how many pods each row has room for, from (what is free (n_rows,), what a pod takes) of each."""
    fits = np.ones(rows, bool)
    for left, amount in free:
        fits &= left >= amount
    # Dividing is the costly part: only where at least one fits.
    some = np.flatnonzero(fits)
    most = np.full(len(some), _PLENTY)
    for left, amount in free:
        np.minimum(most, left[some] // amount, out=most)
    room = np.zeros(rows, dtypes.RESOURCE)
    room[some] = most
    return room


class Placer:
    """Finds places for shapes on one snapshot. What holds until a node changes is looked up once per shape."""

    def __init__(self, snapshot: Snapshot, config: FilterConfig) -> None:
        self.snapshot, self.config = snapshot, config
        self._plain: dict[int, _Plain | None] = {}
        self._version = snapshot.nodes.version

    def place(self, shape: shapes.Shape, count: int, pointer: int, usable: dtypes.Mask) -> Placed:
        """Find room for `count` pods on usable nodes, round-robin from the node after `pointer`.

        Places as many as fit; the rest failed. `usable` is bool (n_nodes): existing nodes that the caller accepts.
        """
        plain = self._find_plain(shape)
        if plain is not None and not is_repelled(self.snapshot, shape):
            return plain.place(count, pointer, usable)
        if count > 1 and gates.holds_disks(shape):
            return _place_singly(self.snapshot, shape, count, pointer, usable, self.config)
        if count == 1 and gates.has_gates(shape):
            row = gates.Gates(self.snapshot, shape, self.config).next(pointer, usable, _GATES)
            if row is not None:
                return Placed(np.array([row]), _ONES[:1], 1, row)
        run = Run(self.snapshot, shape, usable, self.config)
        if run.is_closed_form:
            rows = rotate(np.flatnonzero(run.mask), pointer)
            return fill_levels(rows, run.room[rows], count)
        return run.place_round_robin(count, pointer)

    def place_on(self, row: int, shape: shapes.Shape, count: int) -> Placed:
        """Find room for `count` pods on one node."""
        if count == 1 and gates.has_gates(shape) and self._find_plain(shape) is None:
            if gates.Gates(self.snapshot, shape, self.config).lets_pass(row):
                return Placed(np.array([row]), _ONES[:1], 1, row)
            return NOWHERE
        only_there = np.zeros(self.snapshot.nodes.count, bool)
        only_there[row] = True
        return self.place(shape, count, row - 1, only_there)

    def scatter(self, shape: shapes.Shape, count: int, rng: np.random.Generator, usable: dtypes.Mask) -> Placed:
        """The same, but every pod starts at a random node and takes the first from there on that it fits on.

        So does the peer, because its list of nodes begins somewhere else after every pod that was placed.
        """
        if gates.holds_disks(shape):
            return self.place(shape, count, int(rng.integers(len(usable))), usable)
        run = Run(self.snapshot, shape, usable, self.config)
        if run.is_closed_form:
            return fill_scattered(np.arange(len(usable)), np.where(run.mask, run.room, 0), count, rng)
        taken: list[int] = []
        while len(taken) < count and (row := run.next(int(rng.integers(len(usable))))) is not None:
            run.add(row)
            taken.append(row)
        return one_by_one(taken)

    def _find_plain(self, shape: shapes.Shape) -> "_Plain | None":
        self._forget_if_changed()
        if shape.id not in self._plain:
            found = _Plain(self.snapshot, shape, self.config) if asks_nothing(shape, self.config) else None
            self._forget_if_changed()  # a resource met for the first time makes a column, and moves the others
            self._plain[shape.id] = found
        return self._plain[shape.id]

    def _forget_if_changed(self) -> None:
        if self._version != self.snapshot.nodes.version:
            self._plain.clear()
            self._version = self.snapshot.nodes.version


class _Plain:
    """A plain shape against nodes that do not change, only fill up."""

    __slots__ = ("_allowed", "_capacity", "_columns")

    def __init__(self, snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> None:
        checked = fit.checked(snapshot, shape, config)
        self._allowed = predicates.static_mask(snapshot, shape, config)
        self._columns = [(snapshot.nodes.free[column], amount) for column, amount in checked]
        self._capacity: Callable[[dtypes.Rows], dtypes.Amounts] = lambda rows: capacity(snapshot, shape, rows, config)

    def place(self, count: int, pointer: int, usable: dtypes.Mask) -> Placed:
        """Try the next few nodes; then a window of nodes, and a larger one; then the whole cluster.

        Usually the next node takes a single pod, and nothing else of the cluster need be looked at.
        """
        total = len(usable)
        if count <= _FEW:
            taken = self._probe(count, pointer, usable)
            if len(taken) == count:
                return Placed(np.array(taken), _ONES[:count], count, taken[-1])
        window = max(_FIRST_WINDOW, 2 * count)
        while window < total:
            start = pointer + 1 if pointer + 1 < total else 0
            if start + window <= total:
                found = np.flatnonzero(self._fits(slice(start, start + window), usable))
                if len(found) >= count:
                    rows = found[:count] + start
                    return Placed(rows, np.ones(count, dtypes.RESOURCE), count, int(rows[-1]))
            window *= 8
        rows = rotate(np.flatnonzero(self._fits(slice(None), usable)), pointer)
        if len(rows) >= count:
            return Placed(rows[:count], np.ones(count, dtypes.RESOURCE), count, int(rows[count - 1]))
        return fill_levels(rows, self._capacity(rows), count) if len(rows) else NOWHERE

    def _probe(self, count: int, pointer: int, usable: dtypes.Mask) -> list[int]:
        """The next nodes that take one pod each, if few need be looked at."""
        taken: list[int] = []
        row, total, allowed, columns = pointer, len(usable), self._allowed, self._columns
        for _ in range(min(_PROBES * count, total)):
            row = row + 1 if row + 1 < total else 0
            if usable[row] and allowed[row]:
                for free, amount in columns:
                    if free[row] < amount:
                        break
                else:
                    taken.append(row)
                    if len(taken) == count:
                        break
        return taken

    def _fits(self, rows: slice, usable: dtypes.Mask) -> dtypes.Mask:
        fits: dtypes.Mask = self._allowed[rows] & usable[rows]
        for free, amount in self._columns:
            fits &= free[rows] >= amount
        return fits


def _place_singly(
    snapshot: Snapshot, shape: shapes.Shape, count: int, pointer: int, usable: dtypes.Mask, config: FilterConfig
) -> Placed:
    """One at a time, the snapshot told of each: what volumes allow has no closed form. Left as it was found."""
    taken: list[int] = []
    snapshot.fork()
    try:
        while len(taken) < count:
            row = Run(snapshot, shape, usable, config).next(pointer)
            if row is None:
                break
            snapshot.place(shape, row)
            taken.append(row)
            pointer = row
    finally:
        snapshot.revert()
    return one_by_one(taken)


def rotate(rows: dtypes.Rows, pointer: int) -> dtypes.Rows:
    """Rows in search order: those after the pointer first, then from the beginning."""
    cut = int(np.searchsorted(rows, pointer, side="right"))
    return np.concatenate((rows[cut:], rows[:cut]))


def fill_levels(rows: dtypes.Rows, room: dtypes.Amounts, count: int) -> Placed:
    """Round-robin in closed form: `count` pods over `rows` in this order, each taking at most its `room`.

    After k whole rounds row i holds min(room[i], k). The largest k whose sum does not exceed `count` is found by
    bisection; what is left over goes one each to the first rows that still have room.
    """
    if count <= 0 or not len(rows):
        return NOWHERE
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
    rest = count - int(taken.sum())
    open_rows = np.flatnonzero(room > low)[:rest]
    taken[open_rows] += 1
    used = np.flatnonzero(taken)
    if not len(used):
        return NOWHERE
    # The last pod went to the last row of the last round that was begun.
    last = open_rows[-1] if len(open_rows) else np.flatnonzero(room >= low)[-1]
    return Placed(rows[used], taken[used], int(taken.sum()), int(rows[last]))


def fill_first(rows: dtypes.Rows, room: dtypes.Amounts, count: int) -> Placed:
    """First-fit in closed form: fill each row up before the next is touched."""
    if count <= 0 or not len(rows):
        return NOWHERE
    before = np.cumsum(room) - room
    taken = np.clip(count - before, 0, room)
    used = np.flatnonzero(taken)
    if not len(used):
        return NOWHERE
    return Placed(rows[used], taken[used], int(taken.sum()), int(rows[used[-1]]))


def fill_scattered(rows: dtypes.Rows, room: dtypes.Amounts, count: int, scatter: np.random.Generator) -> Placed:
    """Each pod starts at a random row and takes the first with room from there on: the peer's order on new nodes.

    All throws of a round are made at once; pods that find a row filled up meanwhile are thrown again.
    """
    taken = np.zeros(len(rows), dtypes.RESOURCE)
    left = min(count, int(room.sum()))
    while left > 0:
        with_room = np.flatnonzero(taken < room)
        starts = scatter.integers(len(rows), size=left)
        found = with_room[np.searchsorted(with_room, starts) % len(with_room)]
        before = taken.copy()
        taken = np.minimum(taken + np.bincount(found, minlength=len(rows)), room)
        left -= int((taken - before).sum())
    used = np.flatnonzero(taken)
    if not len(used):
        return NOWHERE
    return Placed(rows[used], taken[used], int(taken.sum()), int(rows[used[-1]]))


class Run:
    """What is feasible for the next pod of a shape, kept current while pods of that shape are placed.

    `mask` bool (n_nodes): feasible now. `room` int64 (n_nodes): how many more fit there by resources.

    Placing one can (1) use up its node's room, (2) close a domain that the shape's own anti-affinity or host ports
    guard, (3) shift the balance of a spread constraint, (4) end the first-of-its-kind exception of its affinity.
    """

    def __init__(self, snapshot: Snapshot, shape: shapes.Shape, usable: dtypes.Mask, config: FilterConfig) -> None:
        self._nodes, self._shape = snapshot.nodes, shape
        self._balances: list[_Balance] = []
        if spread.NAME not in config.disabled:
            self._balances = [_Balance(found) for found in spread.spreadings(snapshot, shape, config)]
        self._before = predicates.feasible(snapshot, shape, config, but=(spread.NAME, interpod.NAME)) & usable
        self.others = self._before.copy()
        """Bool (n_nodes): what every filter but PodTopologySpread allows."""
        near = None if interpod.NAME in config.disabled else interpod.mask(snapshot, shape, config)
        if near is not None:
            self.others &= near
        rows = np.flatnonzero(self.others)
        self.room = np.zeros(snapshot.nodes.count, dtypes.RESOURCE)
        self.room[rows] = capacity(snapshot, shape, rows, config)
        self._closing: list[dtypes.Ids] = []
        self._gathering: list[dtypes.Ids] = []
        if interpod.NAME not in config.disabled:
            self._close_domains(snapshot)
            self._gather(snapshot)
        if shape.spec.host_ports and ports.NAME not in config.disabled:
            np.minimum(self.room, 1, out=self.room)
        self.others &= self.room > 0
        self.mask = self._balanced()

    @property
    def is_closed_form(self) -> bool:
        """Nothing but its node's room changes when a pod is placed."""
        return not (self._closing or self._gathering or any(b.found.counts_itself for b in self._balances))

    def is_skewed(self, row: int) -> bool:
        """Is topology spread the first filter that keeps the next pod off this node, and the label not missing?"""
        if not self._before[row] or self.room[row] < 1:
            return False
        for balance in self._balances:
            domain = balance.found.domains[row]
            if not balance.open[domain]:
                return bool(domain != dtypes.ABSENT)
        return False

    def place_round_robin(self, count: int, pointer: int) -> Placed:
        """Place up to `count` pods one by one, each on the next feasible node after the last."""
        taken: list[int] = []
        while len(taken) < count:
            row = self.next(pointer)
            if row is None:
                break
            self.add(row)
            taken.append(row)
            pointer = row
        return one_by_one(taken)

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
        for domains in self._closing:
            if domains[row] != dtypes.ABSENT:
                self._keep_only(domains != domains[row])
        for domains in self._gathering:
            self._keep_only(domains == domains[row])
        self._gathering = []
        reopened = False
        for balance in self._balances:
            change = balance.add(row)
            if change == _CLOSED:
                self.mask[balance.rows_of(int(balance.found.domains[row]))] = False
            reopened = reopened or change == _SHIFTED
        if reopened:
            self.mask = self._balanced()

    def _keep_only(self, rows: dtypes.Mask) -> None:
        self.others &= rows
        self.mask &= rows

    def _balanced(self) -> dtypes.Mask:
        mask = self.others.copy()
        for balance in self._balances:
            mask &= balance.open[balance.found.domains]
        return mask

    def _close_domains(self, snapshot: Snapshot) -> None:
        """Find the domains within which a second pod of this shape is refused by its own anti-affinity.

        Hostnames are usually unique, those of nodes yet to be opened always: then that is the same as room for one. Of
        no other key is that known: the next node may be in the same zone.
        """
        namespaces, profile = snapshot.tallies.namespaces, self._shape.profile
        for key in dict.fromkeys(
            term.topology_key
            for term in self._shape.spec.anti_affinity
            if tallies.own_term_matches(term, profile, namespaces)
            or tallies.carried_term_matches(term, profile, namespaces)
        ):
            domains = snapshot.nodes.label_ids(key)
            present = domains != dtypes.ABSENT
            named = domains[present & snapshot.nodes.alive]
            if key == facts.HOSTNAME and int(np.bincount(named, minlength=1).max()) <= 1:
                self.room[present] = np.minimum(self.room[present], 1)
            else:
                self._closing.append(domains)

    def _gather(self, snapshot: Snapshot) -> None:
        """The first of its kind may go anywhere; where it goes decides for those that follow."""
        terms = self._shape.spec.affinity
        if not terms or not interpod.is_its_own_kind(snapshot, self._shape):
            return
        counts = snapshot.counts(tallies.MatchesAll(terms))
        keys = dict.fromkeys(term.topology_key for term in terms)
        if not any(interpod.occupied_domains(snapshot, key, counts).any() for key in keys):
            self._gathering = [snapshot.nodes.label_ids(key) for key in keys]


_UNCHANGED, _CLOSED, _SHIFTED = range(3)


class _Balance:
    """One spread constraint while pods of its shape are placed: counts, the emptiest domain, which are open."""

    def __init__(self, found: spread.Spreading) -> None:
        self.found = found
        self.open = found.open_domains()
        """Bool (n_domains + 1): one more pod may go there; the last entry is for nodes without the label."""
        self._emptiest = found.emptiest
        self._counts_emptiest = int(found.exists.sum()) >= max(found.constraint.min_domains, 1)
        self._at_emptiest = int((found.per_domain[found.exists] == self._emptiest).sum())
        self._rows: dict[int, dtypes.Rows] = {}

    def rows_of(self, domain: int) -> dtypes.Rows:
        rows = self._rows.get(domain)
        if rows is None:
            rows = self._rows[domain] = np.flatnonzero(self.found.domains == domain)
        return rows

    def add(self, row: int) -> int:
        """Count one more pod; say what that changed."""
        found = self.found
        if not found.counts_itself or not found.included[row]:
            return _UNCHANGED
        domain = found.domains[row]
        before = int(found.per_domain[domain])
        found.per_domain[domain] = before + 1
        if before == self._emptiest and self._counts_emptiest:
            self._at_emptiest -= 1
            if self._at_emptiest == 0:
                self._emptiest = found.emptiest
                self._at_emptiest = int((found.per_domain[found.exists] == self._emptiest).sum())
                self.open = found.open_domains()
                return _SHIFTED
        if before + 1 > found.constraint.max_skew + self._emptiest - 1:
            self.open[domain] = False
            return _CLOSED
        return _UNCHANGED
