"""Similar groups: by resources and labels, and by the labels that the user names."""

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass.engine.model import facts
from windlass.engine.scale_up import similarity

BALANCING_LABELS = ("node.kubernetes.io/instance-type", "kubernetes.io/arch")
"""What --balancing-label names in every case of `by_labels`; the recording leaves it out."""


def _by_labels(case: Json, constants: Json) -> object:
    templates = (similarity.ComparedTemplate(facts.Node(side, labels=case[f"labels_{side}"])) for side in "ab")
    return similarity.LabelComparator(BALANCING_LABELS)(*templates)


def _generated(case: Json, constants: Json) -> object:
    ratios = similarity.SimilarityRatios(**case.get("ratios", {}))
    similar = similarity.choose_comparator((), case["ignore_labels"], ratios)
    return {"similar": similar(_make_template(case["a"]), _make_template(case["b"]))}


def _make_template(side: Json) -> similarity.ComparedTemplate:
    return similarity.make_compared_template(objects.node(side["node"]), [objects.pod(pod) for pod in side["pods"]])


run = by_section({"by_labels": _by_labels, "generated": _generated})
