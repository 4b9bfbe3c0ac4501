"""Expanders: choose one expansion option among the node groups that can schedule pending pods.

One strategy per file, each a `find_best_options` that narrows the options; `chain` applies them in the order of
--expander. Not here: which pods a group can schedule and how many nodes it may add (`scale_up`), reading of flags and
ConfigMaps. Strategies import nothing of each other; only `chain` imports them all.

Template for a new strategy: `least_nodes.py`. The docstring states the rule; the function returns the options that are
equally good, in the order given.
"""
