"""The names of measures, as expectations and reports use them."""

TOTALS = (
    "pods",
    "pods_that_waited",
    "pending_p50_s",
    "pending_p95_s",
    "pending_max_s",
    "pods_never_placed",
    "pods_given_up",
    "node_hours",
    "node_hours_lower_bound",
    "cost",
    "cost_lower_bound",
    "cost_ratio",
    "utilization_cpu",
    "utilization_memory",
    "evictions",
    "evictions_by_machines",
    "preemptions",
    "nodes_added",
    "nodes_removed",
    "scale_ups",
    "scale_downs",
    "most_nodes",
    "least_nodes",
    "violations",
)
"""One number for a whole story."""

SERIES = ("nodes", "pending", "utilization_cpu", "utilization_memory", "cost_per_hour", "cost_per_hour_lower_bound")
"""One number for every sample; `nodes` also by group."""
