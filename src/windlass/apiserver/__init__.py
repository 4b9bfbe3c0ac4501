"""An embedded Kubernetes API server, in memory: the default where there is no cluster.

Lives here: what kube-apiserver does with requests (storage, watches, admission of objects, server-side apply,
subresources) and the three controllers without which its answers would be strange (garbage collection, disruption
budgets, namespaces). Held to the real one by `tests/contracts`: a difference is a bug here. Never here: a scheduler,
a kubelet, machines (those are `simulator`'s), or anything of the engine.

The core is synchronous and does no I/O: `Server.handle` takes a request value and returns an answer; a watch is an
object that collects bytes. Time comes from the clock port, chance from a seed. Adapters move the bytes: `inprocess`
is a transport for the client, `http` serves kubectl.

What only the real server does (CEL rules, admission policies, webhooks, RBAC, conversion between versions) is refused
with a message that says so, never half done.

Imitate `subresources/binding.py`: one rule of the real server in a file, its words in the answers, no state.
"""
