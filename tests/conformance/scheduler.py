"""Verdicts of the real kube-scheduler: feasible or not, the first refusing plugin, its code and its reasons."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import nominated, objects
from tests.conformance.outcome import Json, Outcome, read_lines
from windlass import releases
from windlass.autoscaler.observe import cluster
from windlass.autoscaler.observe import snapshot as observed
from windlass.engine import predicates
from windlass.engine.predicates import config
from windlass.engine.verdict import Refusal


@dataclass(frozen=True, slots=True)
class Pair:
    """A pending pod on a node: what the real scheduler said and what the engine says. None: it may run there."""

    pod: str
    node: str
    expected: Json | None
    found: Json | None

    def __str__(self) -> str:
        return f"{self.pod} on {self.node}: expected {self.expected}, found {self.found}"


def run(path: Path, release: releases.Release = releases.DEFAULT) -> Iterator[Outcome]:
    for case in read_lines(path):
        yield judge_case(case, release)


def judge_case(case: Json, release: releases.Release = releases.DEFAULT) -> Outcome:
    """Every pending pod of a case against every node."""
    set_aside, pairs = compare(case, release)
    wrong = [str(pair) for pair in pairs if pair.found != pair.expected]
    return Outcome(case["name"], len(pairs) - len(wrong), len(pairs), (*set_aside, *wrong))


def compare(case: Json, release: releases.Release = releases.DEFAULT) -> tuple[list[str], list[Pair]]:
    """What could not be read of a case, and all of its pairs."""
    found = cluster.read(case["objects"], release)
    snapshot = observed.build(found)
    known = nominated.find(snapshot, "default-scheduler")
    pairs: list[Pair] = []
    for json in case["pending"]:
        name = json["metadata"]["name"]
        shape = snapshot.shape_of(objects.pod(json, pending=True, release=release))
        judgement = predicates.judge(snapshot, shape, config.DEFAULT)
        beside = nominated.refusals(snapshot, shape, config.DEFAULT, known)
        for node, expected in case["verdicts"][name].items():
            row = snapshot.nodes.rows.get(node)
            said = {"set aside": node} if row is None else spell(beside.get(row) or judgement[row])
            pairs.append(Pair(name, node, expected, said))
    read = {pod.key for pod in found.pods}  # of some of these a part counts for nothing, which is no difference
    return [f"set aside: {error}" for error in found.set_aside if error.name not in read], pairs


def spell(refusal: Refusal | None) -> Json | None:
    """A verdict as the recorded ones are written."""
    if refusal is None:
        return None
    return {"plugin": refusal.rule, "code": str(refusal.code), "reasons": refusal.texts}
