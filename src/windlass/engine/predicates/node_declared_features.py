"""NodeDeclaredFeatures: a pod that uses a feature runs only on nodes that declare it."""

from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "NodeDeclaredFeatures"
REFUSAL = Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason("node(s) didn't match Pod's required features"),))


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where all features that the pod needs are declared; None if it needs none."""
    needed = shape.spec.required_features
    if not needed:
        return None
    declared = snapshot.nodes.feature_sets
    enough = np.fromiter((needed <= features for features in declared), bool, len(declared))
    return enough[snapshot.nodes.feature_ids]


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    return REFUSAL
