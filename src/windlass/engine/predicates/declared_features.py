"""NodeDeclaredFeatures: a pod that uses a feature runs only on nodes that declare it."""

import numpy as np

from windlass.engine import dtypes, shapes
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "NodeDeclaredFeatures"
REFUSAL = Refusal(NAME, Code.UNRESOLVABLE, (Reason("node(s) didn't match Pod's required features"),))


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where all features that the pod needs are declared; None if it needs none."""
    needed = shape.spec.required_features
    if not needed:
        return None
    declared = snapshot.nodes.feature_sets
    enough = np.fromiter((needed <= features for features in declared), bool, len(declared))
    return enough[snapshot.nodes.feature_ids]


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    return REFUSAL
