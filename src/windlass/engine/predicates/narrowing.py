"""Narrowing: filters that name the only nodes worth looking at, before any node is.

kube-scheduler intersects what they name. Nodes outside are refused in the name of all of them; if nothing is left, the
pod is refused everywhere.
"""

from dataclasses import dataclass

from windlass.engine import dtypes, shapes
from windlass.engine.predicates import node_affinity, node_name
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The names that are left, and the filters that narrowed the search to them."""

    names: frozenset[str]
    rules: tuple[str, ...]

    @property
    def outside(self) -> Refusal:
        """What is said of other nodes."""
        return self._refuse("")

    @property
    def nowhere(self) -> Refusal:
        """What is said of all nodes where no name is left."""
        return self._refuse(" simultaneously")

    def _refuse(self, how: str) -> Refusal:
        said = f"node(s) didn't satisfy plugin(s) [{' '.join(self.rules)}]{how}"
        return Refusal(",".join(self.rules), Code.UNRESOLVABLE, (Reason(said),))


def find(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Narrowed | None:
    """To what the search is narrowed; None: to nothing."""
    if not shape.spec.node_name and shape.spec.node_affinity is None:
        return None
    found = {rule.NAME: rule.named(snapshot, shape) for rule in (node_name, node_affinity)}
    by_rule = {name: names for name, names in found.items() if names is not None and name not in config.disabled}
    if not by_rule:
        return None
    return Narrowed(frozenset(set.intersection(*by_rule.values())), tuple(sorted(by_rule)))


def outside(snapshot: Snapshot, narrowed: Narrowed) -> dtypes.Mask:
    """Bool (n_nodes): True at nodes to which the search is not narrowed."""
    return ~snapshot.nodes.name_mask(tuple(narrowed.names))
