"""Equivalence groups of pending pods, as Cluster Autoscaler forms them. Groups are recorded sorted by name."""

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass.engine import equivalence


def _generated(case: Json, constants: Json) -> Json:
    pods = [objects.pod(pod) for pod in case["pods"]]
    groups = equivalence.partition(pods, equivalence.Grouping.BY_CONTROLLER)
    return {"groups": sorted(sorted(pod.key for pod in group) for group in groups)}


run = by_section({"generated": _generated})
