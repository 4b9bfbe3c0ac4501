"""Equivalence groups of pending pods, as Cluster Autoscaler forms them. Groups are recorded sorted by name."""

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass.engine.scale_up import equivalence_groups
from windlass.engine.snapshot import cluster_snapshot as snapshots


def _generated(case: Json, constants: Json) -> Json:
    pods = [objects.pod(pod, pending=True) for pod in case["pods"]]
    snapshot = snapshots.build_snapshot([], pods)
    groups = equivalence_groups.group_equivalent_pods(
        snapshot, snapshot.pending(), equivalence_groups.PodGrouping.BY_CONTROLLER
    )
    return {"groups": sorted(sorted(snapshot.pods.key(row) for row in group) for group in groups)}


run = by_section({"generated": _generated})
