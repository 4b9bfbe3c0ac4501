"""Gates: what stands between one more pod of a shape and a node, asked node by node.

A `runs.Run` knows all nodes at once and stays current while pods are placed: much work for a single pod that the
next node takes, or that goes back to where it was. What other pods have to say of a node they say of its domain, so it
is asked of the domains, which are few or looked up once; the rest is asked of the node alone.
"""

from collections.abc import Iterator

from windlass.engine import dtypes, predicates, shapes
from windlass.engine.nodes import TO_BE_DELETED
from windlass.engine.predicates import dynamic_resources, fit, interpod, spread
from windlass.engine.predicates import taints as taint_filter
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.tallies import MatchesAll

Gate = tuple[dtypes.Ids, dtypes.Mask]
"""Int32 (n_nodes): each node's domain, -1 without one; bool (n_domains + 1): open, the last for nodes without one."""


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
    """One more pod of a shape that has gates, in the snapshot as it is now."""

    __slots__ = ("_allowed", "_checked", "_gates", "_nodes", "_stays")

    def __init__(self, snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> None:
        self._nodes = snapshot.nodes
        self._checked = [(snapshot.nodes.free[c], amount) for c, amount in fit.checked(snapshot, shape, config)]
        self._gates = list(_find_gates(snapshot, shape, config))
        refused = predicates.refuse(snapshot, shape, config) is not None
        self._allowed = None if refused else predicates.static_mask(snapshot, shape, config)
        self._stays = taint_filter.NAME in config.disabled or any(
            toleration.tolerates(TO_BE_DELETED) for toleration in shape.spec.tolerations
        )

    def lets_pass(self, row: int) -> bool:
        """May one more pod of the shape run there, as `predicates.feasible` would say?"""
        nodes = self._nodes
        if self._allowed is None or not (self._allowed[row] and nodes.alive[row]):
            return False
        if nodes.deleting[row] and not self._stays:
            return False
        return all(free[row] >= amount for free, amount in self._checked) and all(
            is_open[domains[row]] for domains, is_open in self._gates
        )

    def next(self, pointer: int, usable: dtypes.Mask, probes: int) -> int | None:
        """The first usable row after the pointer that lets the pod pass, if few need be looked at."""
        row, total = pointer, len(usable)
        for _ in range(min(probes, total)):
            row = row + 1 if row + 1 < total else 0
            if usable[row] and self.lets_pass(row):
                return row
        return None


def _find_gates(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Iterator[Gate]:
    if spread.NAME not in config.disabled:
        for spreading in spread.spreadings(snapshot, shape, config):
            yield spreading.domains, spreading.open_domains()
    if interpod.NAME in config.disabled:
        return
    for term in shape.spec.anti_affinity:
        yield _keep_out(snapshot, term.topology_key, snapshot.counts(MatchesAll((term,))))
    for term, tally in snapshot.tallies.repelling(shape):
        counts = snapshot.tallies.counts(tally, snapshot.nodes.count)
        if counts.any():
            yield _keep_out(snapshot, term.topology_key, counts)


def _keep_out(snapshot: Snapshot, key: str, counts: dtypes.Counts) -> Gate:
    """Closed where any counted pod is."""
    return snapshot.nodes.label_ids(key), ~interpod.occupied_domains(snapshot, key, counts)
