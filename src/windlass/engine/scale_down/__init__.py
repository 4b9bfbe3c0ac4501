"""Scaling down: which nodes are hardly used, and which of them can go.

Lives here: how much of a node its pods use, and what follows from it for its removal. Never here: whether a pod may
leave (`drain/` knows), where it would go (placing knows), what budgets are left (`disruption`), taints and evictions.

Imitate `utilization.py`: one question about one node, and the same question about all nodes at once, in arrays.
"""
