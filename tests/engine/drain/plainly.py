"""Drain rules pod by pod: what `by_kind` answers for rows of a snapshot, in plain terms."""

from collections.abc import Iterable

from windlass.engine import facts, pod_traits
from windlass.engine.drain import rules
from windlass.engine.drain.context import Context


def pods_to_move(pods: Iterable[facts.Pod], context: Context) -> rules.Moves[facts.Pod]:
    """What becomes of the pods of one node, in their order, up to the first that blocks."""
    return rules.sort_out(pods, lambda pod: rules.judge(pod, context), pod_traits.is_daemonset)
