from typing import Any

import pytest

from tests.conformance import objects
from windlass import selectors
from windlass.autoscaler.readers import workloads
from windlass.engine.model import facts
from windlass.kube import scheme
from windlass.kube.models import pods as pod_models
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
    pod_disruption_budget = objects.pdb({"metadata": METADATA, "spec": spec, "status": {"disruptionsAllowed": 2}})

    assert pod_disruption_budget == facts.PodDisruptionBudget("ns", "x", selector, 2)


@pytest.mark.parametrize(
    ("generation", "observed", "is_stale"), [(None, None, False), (1, None, True), (2, 1, True), (2, 2, False)]
)
def test_budgets_whose_status_is_older_than_their_spec(
    generation: int | None, observed: int | None, is_stale: bool
) -> None:
    budget = {"metadata": {**METADATA, "generation": generation}, "status": {"observedGeneration": observed}}
    assert objects.pdb(budget).is_stale is is_stale


def test_a_budget_that_nobody_has_computed_yet_allows_nothing() -> None:
    assert objects.pdb({"metadata": METADATA}).disruptions_allowed == 0


@pytest.mark.parametrize(
    ("policy", "status", "allows"),
    [
        ("AlwaysAllow", {}, True),
        ("AlwaysAllow", {"currentHealthy": 0, "desiredHealthy": 2}, True),
        ("IfHealthyBudget", {"currentHealthy": 2, "desiredHealthy": 2}, True),
        ("IfHealthyBudget", {"currentHealthy": 1, "desiredHealthy": 2}, False),
        (None, {"currentHealthy": 3, "desiredHealthy": 2}, True),
        (None, {"currentHealthy": 0, "desiredHealthy": 0}, False),
        (None, {}, False),
    ],
)
def test_budgets_that_let_unhealthy_pods_go(policy: str | None, status: dict[str, Any], allows: bool) -> None:
    spec = {"selector": {}} if policy is None else {"selector": {}, "unhealthyPodEvictionPolicy": policy}
    assert objects.pdb({"metadata": METADATA, "spec": spec, "status": status}).allows_unhealthy is allows


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
@pytest.mark.parametrize(("spec", "replicas"), [({"replicas": 5}, 5), ({"replicas": 0}, 0), ({}, 1)])
def test_controllers_tell_how_many_pods_they_keep(kind: str, spec: dict[str, Any], replicas: int) -> None:
    controller = objects.controller(kind, {"metadata": METADATA, "spec": spec, "status": {"replicas": 9}})

    assert controller == facts.Controller(kind, "ns", "x", "u", replicas)


def test_a_daemon_set_keeps_requests_for_cloud_tpus() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "cloud-tpus.google.com/v4": "8"}}}
    raw = {"metadata": METADATA, "spec": {"template": {"spec": {"containers": [container]}}}}
    daemon_set, _ = workloads.read_daemon_set_with_warning(scheme.decode_as(pod_models.DaemonSet, raw))

    assert dict(daemon_set.pod.spec.requests) == {"cpu": 1000, "cloud-tpus.google.com/v4": 8}


def test_jobs_and_daemon_sets() -> None:
    job = objects.controller("Job", {"metadata": METADATA, "spec": {"parallelism": 3}})

    assert job == facts.Controller("Job", "ns", "x", "u", 3)
    assert objects.controller("DaemonSet", {"metadata": METADATA}) == facts.Controller("DaemonSet", "ns", "x", "u", 1)


@pytest.mark.parametrize(
    ("status", "is_under_way"),
    [
        ({}, True),
        ({"active": 1}, True),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, True),
        ({"conditions": [{"type": "Failed", "status": "True"}], "terminating": 1}, True),
        ({"conditions": [{"type": "Complete", "status": "False"}]}, True),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, False),
        ({"conditions": [{"type": "Failed", "status": "True"}], "active": 0, "terminating": 0}, False),
    ],
)
def test_a_job_is_under_way_until_it_is_over_and_none_of_its_pods_is_left(
    status: dict[str, Any], is_under_way: bool
) -> None:
    job = scheme.decode_as(pod_models.Job, {"metadata": METADATA, "status": status})

    assert workloads.read_active_job(job) == (workloads.read_job_controller(job) if is_under_way else None)
