"""Verdicts of the real kube-scheduler: feasible or not, the first refusing plugin, its code and its reasons."""

from collections.abc import Iterator
from pathlib import Path

from tests.conformance import objects
from tests.conformance.outcome import Json, Outcome, read_lines
from windlass.autoscaler.observe import cluster
from windlass.autoscaler.observe import snapshot as observed
from windlass.engine import predicates
from windlass.engine.predicates import config


def run(path: Path) -> Iterator[Outcome]:
    for case in read_lines(path):
        yield judge_case(case)


def judge_case(case: Json) -> Outcome:
    """Every pending pod of a case against every node."""
    found = cluster.read(case["objects"])
    differences = [f"set aside: {error}" for error in found.set_aside]
    snapshot = observed.build(found)
    agreed = total = 0
    for json in case["pending"]:
        name = json["metadata"]["name"]
        expected = case["verdicts"][name]
        total += len(expected)
        judgement = predicates.judge(snapshot, snapshot.shape_of(objects.pod(json, pending=True)), config.DEFAULT)
        for node, verdict in expected.items():
            refusal = judgement[snapshot.nodes.rows[node]]
            said = refusal and {"plugin": refusal.rule, "code": str(refusal.code), "reasons": refusal.texts}
            if said == verdict:
                agreed += 1
            else:
                differences.append(f"{name} on {node}: expected {verdict}, found {said}")
    return Outcome(case["name"], agreed, total, tuple(differences))
