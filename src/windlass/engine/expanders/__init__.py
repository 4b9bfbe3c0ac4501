"""Expanders: which of several groups that could help is the one to grow.

Lives here: one strategy per file, each a function that narrows options to those it likes best, and the chain that asks
them one after another. Never here: what a group could help (the estimator knows), how many nodes it may get (`scale_up`
knows), configuration as text. Strategies know nothing of each other; only `chain` knows them all.

Imitate `least_nodes.py`: the law in the docstring, options in, the equally good ones out, in the order given.
"""
