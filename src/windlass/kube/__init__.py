"""Kubernetes client library: models, request builders, client, informers.

Protocol code (`request_builders`, `list_watch`, `reflector`) is free of I/O; `client` and `informers` only send,
receive and wait. Nothing here makes decisions or depends on the engine: `autoscaler.readers` convert models to the
engine's facts.
"""
