"""Reference scheduler: kube-scheduler 1.36 in plain Python, the oracle of the engine's predicates.

It reads API objects as an API server hands them out (parsed JSON, defaults filled in), pod by pod and node by node.
Filter plugins: `node_filters`, `node_resources_fit`, `volume_filters`, `volume_binding`, `pod_topology_spread`,
`inter_pod_affinity`; `filters` runs them in order, all defaults but DynamicResources. `scheduling_cycle` places a pod
or says why not, `preemption` chooses victims. `scoring` is the arithmetic of the Score plugins, used by the fast
scheduler too. Facts come from kube-scheduler, code does not. Never here: anything of the engine. Imitate
`node_filters.py`.
"""
