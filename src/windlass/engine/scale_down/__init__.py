"""Scale-down: candidates, eligibility, removal simulation, unneeded times, and selection of nodes to delete.

Not here: whether a pod may leave (`drainability`), where it would go (`placement`), how a node that goes is emptied and
deleted (`actuation`).

`planner.py` shows how the parts follow each other. File to imitate: `utilization.py`: one question about a node, and
the same question about all nodes at once, in arrays.
"""
