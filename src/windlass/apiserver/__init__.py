"""Embedded Kubernetes API server in memory, for tests, the simulator and `windlass apiserver`.

Contents: kube-apiserver's handling of requests (storage, watches, admission of objects, server-side apply,
subresources) and the controllers that its clients rely on (garbage collection, disruption budgets, namespaces, CRDs,
event expiry). `tests/contracts` compare it with a real kube-apiserver: a difference is a bug here. Not here: a
scheduler, a kubelet, machines (those are in `simulator`), or the engine.

The core is synchronous and does no I/O: `Server.handle` takes a request value and returns a response; a watch is an
object that collects bytes. Time comes from a clock, random numbers from a seed. Adapters move the bytes
(`embedded_server`): an in-process transport, and HTTP for kubectl.

Features that only the real server has (CEL rules, admission policies, webhooks, RBAC, conversion between versions) are
refused with an explicit message.

Imitate `crd_strategy.py`: the rules of one kind of the real server, its messages, no state.
"""
