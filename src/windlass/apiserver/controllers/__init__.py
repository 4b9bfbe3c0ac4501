"""The controllers without which an API server's answers would be strange: they react to writes, at once.

Lives here: garbage collection, disruption budgets' status, the end of namespaces, the coming and going of custom
kinds, the expiry of events. Each is told of every write after it happened and may write in turn; the server goes on
until nothing is left to react to. The real ones do the same a moment later. Never here: anything that makes pods or
machines.
"""
