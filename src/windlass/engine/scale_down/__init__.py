"""Scaling down: which nodes are hardly used, which of them can go, since when, and which go now.

Lives here: how much of a node its pods use, who is a candidate and who is eligible, trying removals, times, minima,
budgets of deletions, the marks on unneeded nodes. Never here: whether a pod may leave (`drain/` knows), where it would
go (placing knows), what disruption budgets are left (`disruption`), and the steps of emptying a node that goes.

`planning.py` shows how the parts follow each other. Imitate `utilization.py`: one question about one node, and the same
question about all nodes at once, in arrays.
"""
