"""The second opinion: kube-scheduler 1.36 in plain Python.

It reads API objects as an API server hands them out (parsed JSON, defaults filled in), pod by pod and node by node.
One file per filter: `taints`, `names`, `affinity`, `ports`, `resources`, `disks`, `attachments`, `binding`, `zones`,
`spread`, `interpod`; `filtering` puts them in order. `cycle` places a pod or says why not, `preemption` makes room,
`queue` says whose turn it is. All default filters are here but DynamicResources.

`scoring` is the arithmetic of the default profile's Score plugins, over all candidates at once; the simulator's loop
uses it too. `node_scores` gathers what it needs, node by node; what one plugin reads of one pod and one node stands in
the plugin's file.

Facts come from kube-scheduler, code does not; nothing here is shared with the engine, whose oracle this is. Imitate
`ports.py`.
"""
