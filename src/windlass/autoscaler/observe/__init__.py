"""Observe: API objects become the engine's facts.

Lives here: one reader per kind, pure functions of one decoded object each. An object that cannot be read raises
`errors.InvalidObject`, which names it and the field; `cluster.read` sets such objects aside and goes on. Never here: a
decision, or I/O. `nodes.py` is the file to imitate.
"""
