"""Kubernetes on the wire: models, quantities, requests; and the client, watches and informers.

Lives here: the API's spelling and what it takes to read it exactly as Kubernetes does, and talking to an API server
through the transport port. What is said is made of values by code without I/O (`prepare`, `watch`, `reflector`); the
coroutines (`client`, `informers`) only move bytes and wait. Never here: a decision, or anything of the engine; the two
meet in `autoscaler.observe`. For a protocol, `watch.py` is the file to imitate; for a coroutine around one,
`informers.py`.
"""
