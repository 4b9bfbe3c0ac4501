"""Fresh random clusters, judged by the engine and by the real kube-scheduler filters.

Lives here: building and running the oracle, drawing cases, making a disagreement small. Never here: a rule of its own
about what is right; the oracle says that.
"""
