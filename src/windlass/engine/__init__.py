"""The decision: pure values and NumPy.

Here: facts and the other values (`model/`), the columnar snapshot, one file per scheduler filter (`predicates/`), drain
rules (`drainability/`), expanders (`expanders/`), placement and removal, and the loops that decide with them
(`loop.py`, `drain_loop.py`). Not here: I/O, asyncio, clocks, logging, global randomness, the API's field names. The
time is an argument, random choices come from a generator that is an argument.

File to imitate: `predicates/taint_toleration.py`: the rule in the docstring, arrays in, a mask out, reasons on demand.
"""
