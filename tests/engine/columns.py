"""What a snapshot holds, by name and in plain values, so that two of them can be compared."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from windlass.engine import dtypes, facts, holdings, predicates, questions
from windlass.engine.predicates import config
from windlass.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Questions:
    """What can be asked of a snapshot because of these pods: tallies, things held, whether each of them fits."""

    pods: tuple[facts.Pod, ...]
    matching: set[questions.Matching] = field(default_factory=set)
    carried: set[questions.Carried] = field(default_factory=set)
    things: set[holdings.Thing] = field(default_factory=set)

    @classmethod
    def about(cls, pods: Iterable[facts.Pod]) -> "Questions":
        found = cls(tuple(pods))
        for pod in found.pods:
            spec = pod.spec
            for constraint in spec.spread:
                if tally := questions.spread_tally(pod.namespace, constraint.selector):
                    found.matching.add(tally)
            found.matching.update(questions.MatchesAll((term,)) for term in spec.anti_affinity)
            if spec.affinity:
                found.matching.add(questions.MatchesAll(spec.affinity))
            found.carried.update(questions.Carries(term) for term in spec.anti_affinity)
            found.carried.update(questions.Holds(port) for port in spec.host_ports)
            found.things.update(holdings.of_pod(pod.namespace, spec))
        return found


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
            "holds": {thing for thing in questions.things if row in snapshot.tallies.held.rows(thing)},
        }
        for row in range(table.count)
    ]
    for key in questions.matching:
        for row, count in enumerate(snapshot.counts(key).tolist()):
            by_row[row][str(key)] = count
    for carried in questions.carried:
        tally = snapshot.tallies.find(carried)
        for row in range(table.count):
            by_row[row][str(carried)] = 0 if tally is None else int(snapshot.tallies.counts(tally, table.count)[row])
    for pod, shape in asked:
        judgement = predicates.judge(snapshot, shape, config.DEFAULT)
        feasible = predicates.feasible(snapshot, shape, config.DEFAULT)
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
        "waiting": snapshot.waiting(),
    }


def _amounts(snapshot: Snapshot, columns: dtypes.Amounts, row: int) -> dict[str, int]:
    """By resource name; what was never heard of and what there is nothing of look the same."""
    return {name: int(amount) for name, amount in zip(snapshot.nodes.resources, columns[:, row], strict=True) if amount}


def _taints(snapshot: Snapshot, row: int) -> tuple[facts.Taint, ...]:
    return snapshot.nodes.taint_sets[int(snapshot.nodes.taint_ids[row])]
