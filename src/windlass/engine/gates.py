"""Gates: what stands between one more pod of a shape and a node, asked node by node.

A `runs.Run` knows all nodes at once and stays current while pods are placed: much work for a single pod that the
next node takes, or that goes back to where it was. What other pods have to say of a node they say of its domain, so it
is asked of the domains, which are few or looked up once; the rest is asked of the node alone.
"""

from collections.abc import Callable, Iterator

from windlass.engine import dtypes, predicates, shapes
from windlass.engine.nodes import TO_BE_DELETED
from windlass.engine.predicates import dynamic_resources, fit, interpod, spread_recount
from windlass.engine.predicates import taints as taint_filter
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.questions import MatchesAll
from windlass.engine.snapshot import Snapshot

Gate = Callable[[int], bool]
"""Is it open on the node of this row?"""


def has_gates(shape: shapes.Shape) -> bool:
    """Can what the shape asks be told by domain? Not ports and disks, of which nodes have their own; nor affinity, of
    which the first pod of its kind is excepted.
    """
    return not (shape.spec.affinity or shape.spec.host_ports or holds_disks(shape))


def holds_disks(shape: shapes.Shape) -> bool:
    """Does the shape use volumes that filters look at?"""
    return any(volume.claim or volume.identity or volume.driver for volume in shape.spec.volumes)


def wants_devices(snapshot: Snapshot, shape: shapes.Shape) -> bool:
    """Does the shape use claims, or request a resource for which a device class stands?"""
    spec = shape.spec
    if not spec.extended:
        return bool(spec.claims)
    stock = snapshot.devices.stock
    return bool(spec.claims) or any(stock.class_of(one.resource) is not None for one in spec.extended)


def goes_singly(snapshot: Snapshot, shape: shapes.Shape) -> bool:
    """Must filters be asked anew for every pod of the shape, the snapshot being told of each?"""
    if holds_disks(shape):
        return True
    return wants_devices(snapshot, shape) and not dynamic_resources.is_countable(snapshot, shape)


class Gates:
    """One more pod of a shape that has gates. Holds as long as `NodeTable.version` stays the same."""

    __slots__ = ("_allowed", "_apart", "_checked", "_config", "_shape", "_snapshot", "_spread", "_stays")

    def __init__(self, snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> None:
        self._snapshot, self._shape, self._config = snapshot, shape, config
        self._checked = [(snapshot.nodes.free[c], amount) for c, amount in fit.checked(snapshot, shape, config)]
        refused = predicates.refuse(snapshot, shape, config) is not None
        self._allowed = None if refused else predicates.static_mask(snapshot, shape, config)
        self._stays = taint_filter.NAME in config.disabled or any(
            toleration.tolerates(TO_BE_DELETED) for toleration in shape.spec.tolerations
        )
        self._spread = spread_recount.watch(snapshot, shape, config)
        self._apart = [(term.topology_key, MatchesAll((term,))) for term in shape.spec.anti_affinity]

    def lets_pass(self, row: int) -> bool:
        """May one more pod of the shape run there, as `predicates.feasible` would say?"""
        return self._has_room(row) and all(is_open(row) for is_open in self._find_gates())

    def next(self, pointer: int, usable: dtypes.Mask, probes: int) -> int | None:
        """The first usable row after the pointer that lets the pod pass, if few need be looked at."""
        row, total, gates = pointer, len(usable), None
        for _ in range(min(probes, total)):
            row = row + 1 if row + 1 < total else 0
            if usable[row] and self._has_room(row):
                gates = list(self._find_gates()) if gates is None else gates
                if all(is_open(row) for is_open in gates):
                    return row
        return None

    def _has_room(self, row: int) -> bool:
        """What the node says, and what is left of it."""
        nodes = self._snapshot.nodes
        if self._allowed is None or not (self._allowed[row] and nodes.alive[row]):
            return False
        if nodes.deleting[row] and not self._stays:
            return False
        return all(free[row] >= amount for free, amount in self._checked)

    def _find_gates(self) -> Iterator[Gate]:
        """What other pods say, as it is now."""
        for constraint in self._spread:
            constraint.count()
            yield constraint.is_open
        if interpod.NAME in self._config.disabled:
            return
        snapshot = self._snapshot
        for key, tally in self._apart:
            yield _keep_out(snapshot, key, snapshot.counts(tally))
        for term, number in snapshot.tallies.repelling(self._shape):
            yield _keep_out(snapshot, term.topology_key, snapshot.tallies.counts(number, snapshot.nodes.count))


def _keep_out(snapshot: Snapshot, key: str, counts: dtypes.Counts) -> Gate:
    """Closed where any counted pod is."""
    domains = snapshot.nodes.label_ids(key)
    if snapshot.nodes.is_distinct(key):
        return lambda row: bool(counts[row] == 0 or domains[row] == dtypes.ABSENT)
    if not counts.any():
        return lambda row: True
    taken = interpod.occupied_domains(snapshot, key, counts)
    return lambda row: not taken[domains[row]]
