"""Drain rules pod by pod: what `by_kind` answers for rows of a snapshot, in plain terms."""

from collections.abc import Iterable

from windlass.engine.drainability import rules
from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import drainability, facts, well_known


def pods_to_move(pods: Iterable[facts.Pod], context: DrainContext) -> drainability.PodsToMove[facts.Pod]:
    """What becomes of the pods of one node, in their order, up to the first that blocks."""
    return rules.classify_pods(pods, lambda pod: rules.check_pod(pod, context), well_known.is_daemonset)
