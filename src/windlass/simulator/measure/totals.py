"""One number for everything that is asked of a whole story."""

import math
from collections.abc import Sequence

from windlass.simulator.measure.meter import Meter

Totals = dict[str, float]

_HOUR_S = 3600.0


def add_up(meter: Meter, *, evictions_by_machines: int, violations: int) -> Totals:
    """By the names in `names.TOTALS`, in their order."""
    waits_s = sorted([*meter.waits_s, *meter.given_up_s, *meter.still_waiting_s()])
    nodes = [sum(numbers) for numbers in zip(*meter.series.nodes.values(), strict=True)]
    cost, bound = meter.cost.total / _HOUR_S, meter.bound_cost.total / _HOUR_S
    counts = meter.counts
    found: Totals = {
        "pods": len(waits_s),
        "pods_that_waited": sum(1 for wait_s in waits_s if wait_s > 0),
        "pending_p50_s": quantile(waits_s, 0.5),
        "pending_p95_s": quantile(waits_s, 0.95),
        "pending_max_s": waits_s[-1] if waits_s else 0.0,
        "pods_never_placed": len(meter.still_waiting_s()),
        "pods_given_up": len(meter.given_up_s),
        "node_hours": meter.machines.total / _HOUR_S,
        "node_hours_lower_bound": meter.bound_nodes.total / _HOUR_S,
        "cost": cost,
        "cost_lower_bound": bound,
        "cost_ratio": cost / bound if bound else 0.0,
        "utilization_cpu": meter.utilization("cpu"),
        "utilization_memory": meter.utilization("memory"),
        "evictions": counts["evictions"],
        "evictions_by_machines": evictions_by_machines,
        "preemptions": counts["preemptions"],
        "nodes_added": counts["nodes_added"],
        "nodes_removed": counts["nodes_removed"],
        "scale_ups": counts["ups"],
        "scale_downs": counts["downs"],
        "most_nodes": max(nodes, default=0),
        "least_nodes": min(nodes, default=0),
        "violations": violations,
    }
    return {name: round(float(value), 4) for name, value in found.items()}


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that as large a share does not exceed; 0 of nothing."""
    if not ordered:
        return 0.0
    return ordered[min(max(math.ceil(len(ordered) * share) - 1, 0), len(ordered) - 1)]
