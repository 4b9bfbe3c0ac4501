"""Recorded verdicts of the real kube-scheduler and decisions of the real Cluster Autoscaler, held against windlass.

`python -m tests.conformance PATH…` runs vector files or whole folders. One runner per kind of table, in a file of
its own; `RUNNERS` in `__main__` names them all. A runner only translates: what decides is windlass itself.
"""
