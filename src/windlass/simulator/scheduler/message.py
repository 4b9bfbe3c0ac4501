"""The sentence that tells a user why a pod waits, letter by letter as kube-scheduler writes it.

0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). no new claims to deallocate,
preemption: 0/5 nodes are available: 3 Preemption is not helpful for scheduling, 2 No preemption victims found …
"""

from collections import Counter
from collections.abc import Mapping

from windlass.simulator.scheduler.check import Refusal

NO_NODES = "no nodes available to schedule pods"


def unavailable(node_count: int, refusals: Mapping[str, Refusal], others: str) -> str:
    """Reasons counted over all nodes; `others` is the reason for the nodes without a refusal of their own."""
    reasons = Counter(reason for refusal in refusals.values() for reason in refusal.reasons)
    if len(refusals) < node_count:
        reasons[others] += node_count - len(refusals)
    # Sorted as text: 10 comes before 2.
    counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{node_count} nodes are available: {', '.join(counted)}."


def refused_everywhere(node_count: int, refusal: Refusal) -> str:
    return f"0/{node_count} nodes are available: {', '.join(refusal.reasons)}."
