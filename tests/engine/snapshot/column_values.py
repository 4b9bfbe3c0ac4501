"""What a snapshot holds, by name and in plain values, so that two of them can be compared."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from windlass.engine.model import arrays, facts, settings
from windlass.engine.predicates import registry
from windlass.engine.snapshot import topology_counts, volume_usage
from windlass.engine.snapshot.cluster_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Questions:
    """What can be asked of a snapshot because of these pods: tallies, things held, whether each of them fits."""

    pods: tuple[facts.Pod, ...]
    matching: set[topology_counts.Matching] = field(default_factory=set)
    carried: set[topology_counts.Carried] = field(default_factory=set)
    things: set[volume_usage.UsedVolume] = field(default_factory=set)

    @classmethod
    def about(cls, pods: Iterable[facts.Pod]) -> "Questions":
        questions = cls(tuple(pods))
        for pod in questions.pods:
            spec = pod.spec
            for constraint in spec.spread:
                if tally := topology_counts.make_spread_count(pod.namespace, constraint.selector):
                    questions.matching.add(tally)
            questions.matching.update(topology_counts.PodsMatchingAllTerms((term,)) for term in spec.anti_affinity)
            if spec.affinity:
                questions.matching.add(topology_counts.PodsMatchingAllTerms(spec.affinity))
            questions.carried.update(topology_counts.PodsCarryingTerm(term) for term in spec.anti_affinity)
            questions.carried.update(topology_counts.PodsHoldingPort(port) for port in spec.host_ports)
            questions.things.update(volume_usage.list_used_volumes(pod.namespace, spec))
        return questions


def describe(snapshot: Snapshot, questions: Questions) -> dict[str, dict[str, Any]]:
    """Every node that exists, by name: its facts, what is left, who is there, every tally and every verdict."""
    table = snapshot.nodes
    asked = [(pod, snapshot.shape_of(pod)) for pod in questions.pods]  # first: it shows the labels that count
    by_row: list[dict[str, Any]] = [
        {
            "facts": (bool(table.unschedulable[row]), bool(table.deleting[row]), _taints(snapshot, row)),
            "allocatable": _amounts(snapshot, table.allocatable, row),
            "free": _amounts(snapshot, table.free, row),
            "pods": sorted(snapshot.pod(pod_row).key for pod_row in snapshot.pods_on(row)),
            "holds": {thing for thing in questions.things if row in snapshot.topology_counts.held.rows(thing)},
        }
        for row in range(table.count)
    ]
    for key in questions.matching:
        for row, count in enumerate(snapshot.counts(key).tolist()):
            by_row[row][str(key)] = count
    for carried in questions.carried:
        tally = snapshot.topology_counts.find(carried)
        for row in range(table.count):
            by_row[row][str(carried)] = (
                0 if tally is None else int(snapshot.topology_counts.counts(tally, table.count)[row])
            )
    for pod, shape in asked:
        judgement = registry.diagnose(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
        feasible = registry.find_feasible(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
        for row in judgement.rows.tolist():
            by_row[row][pod.key] = judgement[row], bool(feasible[row])
            assert (judgement[row] is None) == feasible[row], "judge and feasible disagree"
    return {table.names[row]: by_row[row] for row in range(table.count) if table.alive[row]}


def freeze(snapshot: Snapshot) -> dict[str, Any]:
    """Everything by row that a revert must bring back."""
    table, count = snapshot.nodes, snapshot.nodes.count
    return {
        "names": list(table.names),
        "rows": dict(table.rows),
        "facts": list(table.facts),
        "alive": table.alive.tolist(),
        "deleting": table.deleting.tolist(),
        "free": [_amounts(snapshot, table.free, row) for row in range(count)],
        "allocatable": [_amounts(snapshot, table.allocatable, row) for row in range(count)],
        "pods on": [snapshot.pods_on(row) for row in range(count)],
        "homes": snapshot.pods.node_rows.tolist(),
        "shapes": snapshot.pods.shape_ids.tolist(),
        "waiting": snapshot.pending(),
    }


def _amounts(snapshot: Snapshot, columns: arrays.Amounts, row: int) -> dict[str, int]:
    """By resource name; what was never heard of and what there is nothing of look the same."""
    return {name: int(amount) for name, amount in zip(snapshot.nodes.resources, columns[:, row], strict=True) if amount}


def _taints(snapshot: Snapshot, row: int) -> tuple[facts.Taint, ...]:
    return snapshot.nodes.taint_sets[int(snapshot.nodes.taint_ids[row])]
