"""Runs: pods of one shape placed one after another, each seen by the next.

Shapes that mind each other (spread, affinity, anti-affinity) change what is feasible as they are placed. A `Run` keeps
that current, pod by pod, at the cost of the domains touched.
"""

import numpy as np

from windlass.engine import dtypes, facts, filling, gates, predicates, questions, shapes
from windlass.engine.predicates import dynamic_resources, fit, interpod, ports, spread
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot

_PLENTY = 1 << 50
"""Of a resource that a node need not have, because devices stand for it."""


def capacity(
    snapshot: Snapshot, shape: shapes.Shape, rows: dtypes.Rows | slice, config: FilterConfig
) -> dtypes.Amounts:
    """Int64 (n_rows): how many pods of the shape each of these nodes has room for, by resources alone."""
    checked = fit.checked(snapshot, shape, config)
    here = [(snapshot.nodes.free[column][rows], amount) for column, amount in checked]
    for column, amount in fit.backed(snapshot, shape, config):
        has_none = snapshot.nodes.allocatable[column][rows] == 0
        here.append((np.where(has_none, _PLENTY, snapshot.nodes.free[column][rows]), amount))
    return filling.count_room(here, len(snapshot.nodes.alive[rows]))


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
        if gates.wants_devices(snapshot, shape) and dynamic_resources.NAME not in config.disabled:
            devices = dynamic_resources.count_room(snapshot, shape)
            if devices is not None:
                np.minimum(self.room, devices, out=self.room)
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

    def place_round_robin(self, count: int, pointer: int) -> filling.Placed:
        """Place up to `count` pods one by one, each on the next feasible node after the last."""
        taken: list[int] = []
        while len(taken) < count:
            row = self.next(pointer)
            if row is None:
                break
            self.add(row)
            taken.append(row)
            pointer = row
        return filling.one_by_one(taken)

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
            if questions.own_term_matches(term, profile, namespaces)
            or questions.carried_term_matches(term, profile, namespaces)
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
        counts = snapshot.counts(questions.MatchesAll(terms))
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
