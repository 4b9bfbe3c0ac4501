"""Explaining: what the next loop makes of a pod, a node or a group, and why, as values and as text for people.

Lives here: asking the engine again, with its own parts, about one object; what would change its answer; the words.
Never here: a decision of its own, or where an observation comes from: a live autoscaler, a kubeconfig and a recording
all end in the same four values (what is seen, what is remembered, the settings, the time).

    Look (seen, memory, settings, now) ──▶ pods · nodes · groups · cluster ──▶ accounts ──▶ telling (text) or JSON

Explanations are frozen values of plain fields, so that a client can decode a server's response and render it.
Imitate `groups.py` for an account, `telling/groups.py` for its text.
"""
