from typing import Any

import pytest

from tests.conformance import objects
from windlass import selectors
from windlass.engine import facts
from windlass.selectors import LabelSelector, Operator, Requirement

METADATA = {"namespace": "ns", "name": "x", "uid": "u"}


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        ({}, None),
        ({"selector": {}}, selectors.EVERYTHING),
        ({"selector": {"matchLabels": {"a": "b"}}}, LabelSelector((Requirement("a", Operator.IN, ("b",)),))),
    ],
)
def test_budgets(spec: dict[str, Any], selector: LabelSelector | None) -> None:
    seen = objects.pdb({"metadata": METADATA, "spec": spec, "status": {"disruptionsAllowed": 2}})

    assert seen == facts.PodDisruptionBudget("ns", "x", selector, 2)


def test_a_budget_that_nobody_has_computed_yet_allows_nothing() -> None:
    assert objects.pdb({"metadata": METADATA}).disruptions_allowed == 0


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
@pytest.mark.parametrize(("spec", "replicas"), [({"replicas": 5}, 5), ({"replicas": 0}, 0), ({}, 1)])
def test_controllers_tell_how_many_pods_they_keep(kind: str, spec: dict[str, Any], replicas: int) -> None:
    seen = objects.controller(kind, {"metadata": METADATA, "spec": spec, "status": {"replicas": 9}})

    assert seen == facts.Controller(kind, "ns", "x", "u", replicas)


def test_jobs_and_daemon_sets() -> None:
    job = objects.controller("Job", {"metadata": METADATA, "spec": {"parallelism": 3}})

    assert job == facts.Controller("Job", "ns", "x", "u", 3)
    assert objects.controller("DaemonSet", {"metadata": METADATA}) == facts.Controller("DaemonSet", "ns", "x", "u", 1)
