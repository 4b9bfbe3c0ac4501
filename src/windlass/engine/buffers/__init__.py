"""Pods that do not exist but are made room for: those that controllers want and have not created, and spare ones.

They are imagined in the loop's fork, with rows like any pending pod, and nobody is told of them. `proactive.py` is the
file to imitate.
"""
