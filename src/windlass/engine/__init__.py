"""The decision: pure values and NumPy.

Lives here: facts, their columnar snapshot, one file per scheduler filter (`predicates/`), drain rule (`drain/`) and
expander (`expanders/`), packing and removal, and what decides with them. Never here: I/O, asyncio, clocks, logging,
global randomness, the API's spelling. `now` is an argument, randomness comes from a generator that is handed in.

Imitate `predicates/taints.py`: a rule's law in the docstring, arrays in, mask out, reasons only when someone asks.
"""
