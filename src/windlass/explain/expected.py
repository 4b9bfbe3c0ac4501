"""Expected places: where pods that wait are reckoned with, though the scheduler has the last word on them.

What is said of one pod can hang on such others: on one that it must be near, must not be near or is spread among. Then
it is true as long as they come to where they are expected, and they are named.
"""

from collections.abc import Iterator

from windlass.engine import dtypes, questions, shapes
from windlass.engine.decide import ScaleUpContext
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot


def find(context: ScaleUpContext) -> tuple[int, ...]:
    """Rows of the pods that wait and are reckoned with on a node."""
    waiting = context.waiting
    rows = sorted((*waiting.nominated, *waiting.unschedulable, *waiting.unprocessed))
    return tuple(row for row in rows if int(context.snapshot.pods.node_rows[row]) != dtypes.ABSENT)


def find_minded(
    snapshot: Snapshot, shape: shapes.Shape, rows: tuple[int, ...], config: FilterConfig
) -> tuple[str, ...]:
    """Those of the pods in these rows that decide, by where they are, whether a node takes a pod of this shape."""
    return tuple(
        snapshot.pods.key(row) for row in rows if _is_minded(snapshot, shape, snapshot.shape_of_row(row), config)
    )


def _is_minded(snapshot: Snapshot, shape: shapes.Shape, other: shapes.Shape, config: FilterConfig) -> bool:
    namespaces = snapshot.tallies.namespaces
    return any(tally.matches(other.profile, namespaces) for tally in _counted(shape, config)) or any(
        questions.carried_term_matches(term, shape.profile, namespaces) for term in other.spec.anti_affinity
    )


def _counted(shape: shapes.Shape, config: FilterConfig) -> Iterator[questions.Matching]:
    """What the pod's own affinity, anti-affinity and spread constraints count."""
    yield from (questions.MatchesAll((term,)) for term in (*shape.spec.affinity, *shape.spec.anti_affinity))
    for constraint in shape.spec.spread or config.default_constraints:
        tally = questions.spread_tally(shape.namespace, constraint.selector)
        if tally is not None:
            yield tally
