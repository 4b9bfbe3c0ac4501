"""Reference scheduler: kube-scheduler 1.36 in plain Python, the oracle of the engine's predicates.

It reads API objects as served by an API server (parsed JSON with defaults), pod by pod and node by node. Filter
plugins: `node_filters`, `volume_filters`, `volume_binding`, `pod_topology_spread`, `inter_pod_affinity`; `filters` runs
them in order, all defaults but DynamicResources. `scheduling_cycle` returns the node of a pod or the failure, and
chooses victims of preemption. `scoring` is the arithmetic of the Score plugins, which the fast scheduler uses, too. The
behaviour is kube-scheduler's, the code is not. Not here: code of the engine. Imitate `node_filters.py`.
"""
