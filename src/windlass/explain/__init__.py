"""Explain: what the next loop makes of a pod, a node or a group, and why, as values and as text.

    ExplainContext (observation, memory, settings, time) ──▶ pods · nodes · groups · cluster ──▶ render_… (text) or JSON

Answers come from the contexts that the loop's own steps make. They are frozen values of plain fields, so that a client
can decode a server's response and render it. Not here: a decision, or where an observation comes from; a live
autoscaler, a kubeconfig and a recording all end in the same four values.

File to imitate: `groups.py` for an answer, `render_cluster.py` for its text.
"""
