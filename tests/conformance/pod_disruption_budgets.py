"""Disruption budgets: whether pods may go together, and what is left when they have gone."""

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass.engine.drainability import pdb
from windlass.engine.model import facts

NAMESPACE = "ns"


def _remaining(case: Json) -> pdb.RemainingPdbTracker:
    """As many budgets as there are selectors; the recorded counts go with them in order."""
    return pdb.RemainingPdbTracker(
        objects.pdb(
            {
                "metadata": {"namespace": NAMESPACE, "name": f"pdb-{i}"},
                "spec": {"selector": {"matchLabels": selector}},
                "status": {"disruptionsAllowed": allowed},
            }
        )
        for i, (selector, allowed) in enumerate(zip(case["pdb_selectors"], case["allowed"], strict=False))
    )


def _pods(case: Json) -> list[facts.Pod]:
    """`pods_label_1` and `pods_label_2` count the pods with that label, those that carry both included."""
    both = case["pods_both"]
    labels = [
        *[{"label-1": "true", "label-2": "true"}] * both,
        *[{"label-1": "true"}] * (case["pods_label_1"] - both),
        *[{"label-2": "true"}] * (case["pods_label_2"] - both),
    ]
    return [
        objects.pod({"metadata": {"namespace": NAMESPACE, "name": f"p{i}", "labels": carried}})
        for i, carried in enumerate(labels)
    ]


def _can_remove(case: Json, constants: Json) -> Json:
    remaining = _remaining(case)
    answer = remaining.can_disrupt(remaining.matching(pod.namespace, pod.labels) for pod in _pods(case))
    return {"can": answer.can, "parallel": answer.parallel}


def _remove(case: Json, constants: Json) -> Json:
    remaining = _remaining(case)
    remaining.consume_for_pods(_pods(case))
    untouched = case["allowed"][len(remaining.budgets) :]
    return {"allowed": [*remaining.allowed, *untouched]}


run = by_section({"can_remove": _can_remove, "remove": _remove})
