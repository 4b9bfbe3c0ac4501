"""Autoscaler: the process, its loops, and everything between the API servers and the engine.

Lives here: informers and readers that turn API objects into the engine's facts (`cluster_informers`, `readers`), the
actuator, the memory store, and the options of the process. Never here: a rule of a decision; those are in
`windlass.engine`. Imitate `priority_expander_config` for a new reader.
"""
