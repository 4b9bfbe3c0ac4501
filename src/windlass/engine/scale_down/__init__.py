"""Scale-down: candidates, eligibility, removal simulation, unneeded times, and selection of nodes to delete.

Lives here: how much of a node its pods use, who is a candidate and who is eligible, trying removals, times, minima,
budgets of deletions, the marks on unneeded nodes. Never here: whether a pod may leave (`drain/` knows), where it would
go (placing knows), what disruption budgets are left (`disruption`), and the steps of emptying a node that goes.

`planning.py` shows how the parts follow each other. Imitate `utilization.py`: one question about one node, and the same
question about all nodes at once, in arrays.
"""
