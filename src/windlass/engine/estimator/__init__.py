"""The estimator: how many nodes of a template a set of pods needs.

Lives here: packing, the order in which groups of pods are packed, and the limits at which packing stops. Never here:
what fits (`predicates/` knows), which group wins (`expanders/` knows), clocks: time limits come as a budget.

Imitate `ordering.py`: arrays in, arrays out, the formula in the docstring.
"""
