"""Verdicts of the real kube-scheduler: feasible or not, the first refusing plugin, its code and its reasons."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import nominated, objects
from tests.conformance.outcome import Json, Outcome, read_lines
from windlass import scheduler_releases
from windlass.autoscaler.readers import cluster_dump
from windlass.engine.model import settings
from windlass.engine.model.scheduling_reasons import Refusal
from windlass.engine.predicates import registry


@dataclass(frozen=True, slots=True)
class Pair:
    """A pending pod on a node: what the real scheduler said and what the engine says. None: it may run there."""

    pod: str
    node: str
    expected: Json | None
    found: Json | None

    def __str__(self) -> str:
        return f"{self.pod} on {self.node}: expected {self.expected}, found {self.found}"


def run(
    path: Path, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
) -> Iterator[Outcome]:
    for case in read_lines(path):
        yield judge_case(case, release)


def judge_case(
    case: Json, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
) -> Outcome:
    """Every pending pod of a case against every node."""
    set_aside, pairs = compare(case, release)
    wrong = [str(pair) for pair in pairs if pair.found != pair.expected]
    return Outcome(case["name"], len(pairs) - len(wrong), len(pairs), (*set_aside, *wrong))


def compare(
    case: Json, release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE
) -> tuple[list[str], list[Pair]]:
    """What could not be read of a case, and all of its pairs."""
    cluster_objects = cluster_dump.read_objects(case["objects"], release)
    snapshot = cluster_dump.build_snapshot(cluster_objects)
    known = nominated.find(snapshot, "default-scheduler")
    pairs: list[Pair] = []
    for json in case["pending"]:
        name = json["metadata"]["name"]
        shape = snapshot.shape_of(objects.pod(json, pending=True, release=release))
        judgement = registry.diagnose(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
        beside = nominated.refusals(snapshot, shape, settings.DEFAULT_FILTER_CONFIG, known)
        for node, expected in case["verdicts"][name].items():
            row = snapshot.nodes.rows.get(node)
            said = {"set aside": node} if row is None else to_text(beside.get(row) or judgement[row])
            pairs.append(Pair(name, node, expected, said))
    read = {
        pod.key for pod in cluster_objects.pods
    }  # of some of these a part counts for nothing, which is no difference
    return [f"set aside: {error}" for error in cluster_objects.set_aside if error.name not in read], pairs


def to_text(refusal: Refusal | None) -> Json | None:
    """A verdict as the recorded ones are written."""
    if refusal is None:
        return None
    return {"plugin": refusal.rule, "code": str(refusal.code), "reasons": refusal.texts}
