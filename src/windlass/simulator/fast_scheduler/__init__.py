"""Fast scheduler: kube-scheduler's loop on arrays, for thousands of simulated nodes.

Contents: pods as shapes (`pod_shapes`), nodes as columns and the search order (`node_table`), pods counted per node
(`topology_counts`), filters and scores (`node_plugins`), one placement and preemption (`placement`), the queue
(`scheduler`). The rules of one pod against one node, the arithmetic of scores and preemption are those of
`reference_scheduler`, called once per shape and node class: the code here only avoids repeated calls. A test runs both
against each other. Not here: a rule of the engine.
"""
