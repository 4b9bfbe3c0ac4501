"""The scheduler's loop: quick enough for thousands of nodes, and held to the plain one.

Lives here: pods as shapes (`shapes`), nodes as columns (`seats`), pods counted per node for spreading and affinity
(`tallies`), the order of the search (`node_tree`), scores (`node_scores`), one placement (`placing`), making room
(`preempting`), and the loop (`scheduler`). The rules of one pod against one node and the arithmetic of scores are
`windlass.simulator.scheduler`'s, asked once per shape and kind of node; preemption is that scheduler's own, on the
nodes where it can help. What is here only saves asking again. A test plays both against each other. Never here: a rule
of the engine.
"""
