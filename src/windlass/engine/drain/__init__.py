"""Draining: may this pod leave its node, and if not, why not?

Lives here: one rule per file, each with `decide(pod, context)` that answers with an `Outcome`, or with None where it
has no opinion; `rules.py` holds their order, and the first opinion counts. The rules, their order and the names of
the blocking reasons are Cluster Autoscaler's, because users have set their annotations and alerts by them. Pods that
are rows of a snapshot are judged by `by_kind.py`, with the same rules and the same outcomes.

Never here: where the pod would go (placing asks that), evicting, grace periods, and rules that know one another: what
two of them ask of a pod is asked in `engine.pod_traits`.

Imitate `on_completion.py`: the law in the docstring, the outcome as a constant, one question in `decide`.
"""
