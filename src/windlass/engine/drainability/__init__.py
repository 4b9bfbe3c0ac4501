"""Drainability: may a pod leave its node when the node is drained, and if not, why?

Here: drain rules in Cluster Autoscaler's order and with its reasons (`rules.py`), the PDB tracker, the drain context.
A rule is a function `check_…(pod, context)` that returns a status, or None where it does not apply; the first status
counts. Rules do not import each other; what two of them need is in `context`.

Not here: where pods would go (`placement`), evictions (`actuation`).
"""
