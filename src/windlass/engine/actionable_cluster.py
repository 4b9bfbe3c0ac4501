"""Actionable cluster: with --scale-up-from-zero=false, a loop decides nothing while no node is ready.

Cluster Autoscaler's EmptyClusterProcessor: the loop ends before node groups are looked at, timers of unneeded nodes are
dropped, and an event tells why. A process that starts before its nodes are ready gets ten minutes without the event.
"""

from collections.abc import Sequence

from windlass.engine import facts, readiness
from windlass.engine.repairs import Stop

NOT_READY_AFTER_START_S = 600.0
"""How long after a start nodes may be unready without an event."""


def find_stop(nodes: Sequence[facts.Node], began_s: float, now_s: float) -> Stop | None:
    """Why nothing is decided on these nodes; None where some node is ready and schedulable."""
    if not nodes:
        return Stop.NO_NODES
    if any(readiness.is_ready_and_schedulable(node) for node in nodes):
        return None
    return Stop.NO_READY_NODES if now_s > began_s + NOT_READY_AFTER_START_S else Stop.NO_READY_NODES_YET
