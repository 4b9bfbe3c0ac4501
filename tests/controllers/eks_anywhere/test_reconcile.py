"""The decision about EKS Anywhere's groups, in tables: every branch, its order and its words."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.machine_deployment_builders import MACHINE, V1BETA2, applied, counted, wanted
from windlass.controllers import machine_deployments
from windlass.controllers.eks_anywhere import model, reconcile
from windlass.controllers.eks_anywhere.reconcile import NO_CLUSTER_REQUEUE_S, NOT_READY_REQUEUE_S, reconcile_cluster
from windlass.controllers.machine_deployments import MachineDeployment, PoolSize, ReplicaLimits

NOW_S = 1_800_000_000.0
NOW = "2027-01-15T08:00:00Z"
UP = reconcile.true_condition(model.CONTROL_PLANE_INITIALIZED)


def static(name: str, count: int, **fields: Any) -> model.WorkerNodeGroup:
    return model.WorkerNodeGroup(name, f"prod-{name}", PoolSize(count), MACHINE, **fields)


def scaled(name: str, low: int, high: int, count: int = 1) -> model.WorkerNodeGroup:
    return model.WorkerNodeGroup(name, f"prod-{name}", PoolSize(count, ReplicaLimits(low, high)), MACHINE)


def evaluate(groups: list[model.WorkerNodeGroup], deployments: list[MachineDeployment]) -> tuple[str, str, str, str]:
    verdict = reconcile.workers_ready_condition(UP, groups, deployments, {})
    return verdict.status, verdict.reason, verdict.severity, verdict.message


# WorkersReady, in the order in which it is judged: each row would also match a later one

BEHIND = {"generation": 2, "observed_generation": 1}
ROWS: list[tuple[str, list[model.WorkerNodeGroup], list[MachineDeployment], tuple[str, str, str, str]]] = [
    (
        "a status that is behind comes before an upgrade",
        [static("a", 3)],
        [counted("prod-a", 2, up_to_date=1, **BEHIND)],
        ("False", "OutdatedInformation", "Info", "Worker node group prod-a status not up to date yet"),
    ),
    (
        "that of an autoscaled group counts as well",
        [static("a", 1), scaled("b", 1, 5)],
        [counted("prod-a", 1), counted("prod-b", 2, **BEHIND)],
        ("False", "OutdatedInformation", "Info", "Worker node group prod-b status not up to date yet"),
    ),
    (
        "of two the group that is named first is told, whatever they are called",
        [static("z", 1), static("a", 1)],
        [counted("prod-a", 1, **BEHIND), counted("prod-z", 1, **BEHIND)],
        ("False", "OutdatedInformation", "Info", "Worker node group prod-z status not up to date yet"),
    ),
    (
        "an upgrade comes before a count",
        [static("a", 5)],
        [counted("prod-a", 3, up_to_date=2)],
        (
            "False",
            "RollingUpgradeInProgress",
            "Info",
            "Worker nodes not up-to-date yet, 3 upgrading (2 up to date)",
        ),
    ),
    (
        "an upgrade in place is called so",
        [static("a", 3, is_in_place=True)],
        [counted("prod-a", 3, up_to_date=0)],
        (
            "False",
            "InPlaceUpgradeInProgress",
            "Info",
            "Worker nodes not up-to-date yet, 3 upgrading (0 up to date)",
        ),
    ),
    (
        "too few come before the bounds of others",
        [static("a", 2), scaled("b", 3, 5)],
        [counted("prod-a", 1), counted("prod-b", 1)],
        ("False", "ScalingUp", "Info", "Scaling up worker nodes, 2 expected (1 actual)"),
    ),
    (
        "too many",
        [static("a", 2), scaled("b", 3, 5)],
        [counted("prod-a", 3), counted("prod-b", 1)],
        ("False", "ScalingDown", "Info", "Scaling down worker nodes, 2 expected (3 actual)"),
    ),
    (
        "those that are not ready",
        [static("a", 3), scaled("b", 3, 5)],
        [counted("prod-a", 3, ready=1), counted("prod-b", 1)],
        ("False", "NodesNotReady", "Info", "Worker nodes not ready yet, 3 expected (1 ready)"),
    ),
    (
        "a MachineDeployment of no group is there, and too many",
        [static("a", 1)],
        [counted("prod-a", 1), counted("prod-gone", 2)],
        ("False", "ScalingDown", "Info", "Scaling down worker nodes, 1 expected (3 actual)"),
    ),
    (
        "bounds come before a MachineDeployment that is not ready",
        [scaled("b", 3, 5)],
        [counted("prod-b", 1, conditions={"Ready": "False"})],
        (
            "False",
            "AutoscalerConstraintNotMet",
            "Info",
            "Worker nodes count for prod-b not between 3 and 5 yet (1 actual)",
        ),
    ),
    (
        "over the maximum",
        [scaled("b", 3, 5)],
        [counted("prod-b", 6)],
        (
            "False",
            "AutoscalerConstraintNotMet",
            "Info",
            "Worker nodes count for prod-b not between 3 and 5 yet (6 actual)",
        ),
    ),
    (
        "a full group whose machines are replaced is upgrading",
        [scaled("b", 3, 10)],
        [counted("prod-b", 11, up_to_date=1, replicas=10)],
        ("False", "RollingUpgradeInProgress", "Info", "Worker nodes not up-to-date yet, 11 upgrading (1 up to date)"),
    ),
    (
        "in place",
        [dataclasses.replace(scaled("b", 3, 10), is_in_place=True)],
        [counted("prod-b", 11, up_to_date=1, replicas=10)],
        ("False", "InPlaceUpgradeInProgress", "Info", "Worker nodes not up-to-date yet, 11 upgrading (1 up to date)"),
    ),
    (
        "but not if more are wanted than it may have",
        [scaled("b", 3, 10)],
        [counted("prod-b", 11, up_to_date=1, replicas=11)],
        (
            "False",
            "AutoscalerConstraintNotMet",
            "Info",
            "Worker nodes count for prod-b not between 3 and 10 yet (11 actual)",
        ),
    ),
    (
        "nor if it has too few",
        [scaled("b", 3, 10)],
        [counted("prod-b", 2, up_to_date=1, replicas=10)],
        (
            "False",
            "AutoscalerConstraintNotMet",
            "Info",
            "Worker nodes count for prod-b not between 3 and 10 yet (2 actual)",
        ),
    ),
    (
        "an autoscaled group whose MachineDeployment is not there has no worker",
        [scaled("b", 1, 5)],
        [],
        (
            "False",
            "AutoscalerConstraintNotMet",
            "Info",
            "Worker nodes count for prod-b not between 1 and 5 yet (0 actual)",
        ),
    ),
    ("which is enough for a minimum of 0", [scaled("b", 0, 5)], [], ("True", "", "", "")),
    (
        "a MachineDeployment that is not Ready",
        [static("a", 1)],
        [counted("prod-a", 1, conditions={"Ready": "False"})],
        ("False", "MachineDeploymentNotReady", "Error", "Machine deployment prod-a not ready yet"),
    ),
    (
        "v1beta2 says Available",
        [static("a", 1)],
        [counted("prod-a", 1, conditions={"Available": "False"})],
        ("False", "MachineDeploymentNotReady", "Error", "Machine deployment prod-a not ready yet"),
    ),
    (
        "which an autoscaled group is not whenever a node is on its way",
        [scaled("b", 1, 10)],
        [counted("prod-b", 10, ready=1, up_to_date=5, conditions={"Available": "False"})],
        ("True", "", "", ""),
    ),
    (
        "ten nodes of an autoscaled group of which one was asked for",
        [scaled("a", 1, 10, count=1)],
        [counted("prod-a", 10)],
        ("True", "", "", ""),
    ),
    ("no groups", [], [], ("True", "", "", "")),
]


@pytest.mark.parametrize(("groups", "deployments", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_workers_are_judged_in_order(
    groups: list[model.WorkerNodeGroup], deployments: list[MachineDeployment], expected: tuple[str, str, str, str]
) -> None:
    assert evaluate(groups, deployments) == expected


def test_workers_of_a_cluster_without_a_control_plane_are_not_looked_at() -> None:
    down = reconcile.false_condition(
        model.CONTROL_PLANE_INITIALIZED, model.INITIALIZATION_IN_PROGRESS, model.INFO, "why"
    )
    verdict = reconcile.workers_ready_condition(down, [static("a", 1)], [counted("prod-a", 5, **BEHIND)], {})
    assert verdict == model.Condition("WorkersReady", "False", "ControlPlaneNotInitialized", "Info")


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 30), st.integers(0, 30))
def test_an_autoscaled_group_is_never_called_scaling(low: int, more: int, current: int, count: int) -> None:
    status, reason, _, _ = evaluate([scaled("a", low, low + more, count)], [counted("prod-a", current, ready=0)])
    assert reason == ("" if low <= current <= low + more else "AutoscalerConstraintNotMet")
    assert (status == "True") == (reason == "")


@pytest.mark.parametrize("toggled", [static("a", 3), scaled("a", 1, 5)])
def test_one_predicate_decides_whatever_the_annotations_say_yet(toggled: model.WorkerNodeGroup) -> None:
    """Upstream skipped by annotation and summed up by spec: a group that was toggled was missing in between."""
    limits = None if toggled.size.is_autoscaled else ReplicaLimits(1, 5)
    body = machine_deployments.build_manifest(wanted("prod-a", "prod", limits), 3)
    live = applied(body, model.MANAGER, replicas=3)
    live = dataclasses.replace(live, current=3, ready=3, up_to_date=3)
    assert evaluate([toggled], [live])[0] == "True"


# The plan


def seen(
    *groups: model.WorkerNodeGroup, found: tuple[MachineDeployment, ...] = (), **fields: Any
) -> model.ObservedCluster:
    before = fields.pop("status", model.ClusterStatus((model.Condition(model.CONTROL_PLANE_INITIALIZED, "True"),)))
    cluster = model.Cluster("default", "prod", generation=4, groups=groups, status=before)
    initialized = fields.pop("is_initialized_by_other", True)
    return model.ObservedCluster(
        cluster, V1BETA2, "eksa-system", machine_deployments=found, is_initialized_by_other=initialized, **fields
    )


def live(group: model.WorkerNodeGroup, count: int, *others: dict[str, Any]) -> MachineDeployment:
    want = machine_deployments.DesiredMachineDeployment(
        V1BETA2, "eksa-system", group.machine_deployment, "prod", MACHINE, group.size.limits
    )
    body = machine_deployments.build_manifest(want, None if group.size.is_autoscaled else count)
    status = {"replicas": count, "readyReplicas": count, "upToDateReplicas": count}
    second = {"manager": "cluster-autoscaler", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    return applied(body, model.MANAGER, second, *others, replicas=count, status=status)


def condition(plan: Any, kind: str) -> model.Condition:
    found: model.Condition = next(item for item in plan.status.conditions if item.type == kind)
    return found


def test_new_groups_become_machine_deployments_with_replicas_or_with_bounds() -> None:
    plan = reconcile_cluster(seen(static("a", 3), scaled("b", 2, 9, count=77)), NOW_S)
    first, second = plan.steps
    assert isinstance(first, machine_deployments.ApplyMachineDeployment)
    assert isinstance(second, machine_deployments.ApplyMachineDeployment)
    assert first.body is not None
    assert second.body is not None
    assert (first.name, first.body["spec"]["replicas"]) == ("prod-a", 3)
    assert "annotations" not in first.body["metadata"]
    assert second.name == "prod-b"
    assert "replicas" not in second.body["spec"]
    assert second.body["metadata"]["annotations"] == {
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "9",
    }
    assert (plan.status.observed_generation, plan.status.reconciled_generation) == (4, 4)


def test_nothing_is_written_of_what_is_as_it_should_be() -> None:
    worker_node_group, other = static("a", 3), scaled("b", 2, 9)
    plan = reconcile_cluster(seen(worker_node_group, other, found=(live(worker_node_group, 3), live(other, 7))), NOW_S)
    assert plan.steps == ()
    assert condition(plan, "Ready").status == "True"
    assert plan.requeue_after_s is None


def test_groups_that_are_gone_are_deleted_and_what_is_not_ours_is_not() -> None:
    gone, foreign = live(static("gone", 1), 1), counted("prod-own", 1, body={"metadata": {"name": "prod-own"}})
    going = dataclasses.replace(live(static("going", 1), 1), is_deleting=True)
    plan = reconcile_cluster(seen(found=(gone, foreign, going)), NOW_S)
    assert plan.steps == (machine_deployments.DeleteMachineDeployment("prod-gone", "uid"),)


def test_a_machine_deployment_that_is_going_is_waited_for() -> None:
    going = dataclasses.replace(live(static("a", 1), 1), is_deleting=True)
    assert reconcile_cluster(seen(static("a", 3), found=(going,)), NOW_S).steps == ()


BAD = [
    (PoolSize(-1), "worker node count must be zero or greater if autoscaling is not enabled"),
    (PoolSize(1, ReplicaLimits(-1, 3)), "min count must be non negative"),
    (PoolSize(1, ReplicaLimits(2, 1)), "min count must be no greater than max count"),
]


@pytest.mark.parametrize(("size", "message"), BAD)
def test_a_bad_group_stays_as_it_was_and_the_others_go_on(size: PoolSize, message: str) -> None:
    bad, good = dataclasses.replace(static("a", 1), size=size), static("b", 2)
    status = model.ClusterStatus((UP,), reconciled_generation=3)
    plan = reconcile_cluster(seen(bad, good, found=(live(static("a", 1), 1),), status=status), NOW_S)
    assert [step.name for step in plan.steps] == ["prod-b"]
    told = f"workerNodeGroupConfigurations[a]: {message}"
    assert (plan.status.failure_reason, plan.status.failure_message) == ("ClusterInvalid", told)
    assert (plan.status.observed_generation, plan.status.reconciled_generation) == (4, 3)
    ready = condition(plan, "WorkersReady")
    assert (ready.reason, ready.message) == ("ScalingUp", "Scaling up worker nodes, 2 expected (0 actual)")
    plan = reconcile_cluster(seen(bad, found=(live(static("a", 1), 1),), status=status), NOW_S)
    ready = condition(plan, "WorkersReady")
    assert (ready.reason, ready.severity, ready.message) == ("WorkerNodeGroupsInvalid", "Error", told)
    assert condition(plan, "Ready").reason == "WorkerNodeGroupsInvalid"


def test_a_group_with_half_its_templates_says_what_it_lacks() -> None:
    half = machine_deployments.MachineTemplate(infrastructure=MACHINE.infrastructure)
    plan = reconcile_cluster(seen(dataclasses.replace(static("a", 1), machine=half)), NOW_S)
    assert plan.steps == ()
    expected = "workerNodeGroupConfigurations[a]: bootstrap: found nothing, expected configRef or dataSecretName"
    assert plan.status.failure_message == expected


def test_when_it_is_looked_at_again() -> None:
    assert (
        reconcile_cluster(seen(static("a", 1), has_capi_cluster=False), NOW_S).requeue_after_s
        == NO_CLUSTER_REQUEUE_S
        == 5.0
    )
    assert reconcile_cluster(seen(static("a", 1)), NOW_S).requeue_after_s == NOT_READY_REQUEUE_S == 10.0
    assert reconcile_cluster(seen(), NOW_S).requeue_after_s is None


def test_nothing_is_written_before_there_is_a_cluster_to_write_it_for() -> None:
    plan = reconcile_cluster(seen(static("a", 1), has_capi_cluster=False, is_initialized_by_other=False), NOW_S)
    assert plan.steps == ()
    assert plan.status.reconciled_generation is None


# Ready


def test_ready_is_what_is_worst_and_of_several_the_first() -> None:
    info = reconcile.false_condition("A", "First", model.INFO, "one")
    other = reconcile.false_condition("B", "Second", model.INFO, "two")
    error = reconcile.false_condition("C", "Third", model.ERROR, "three")
    warning = reconcile.false_condition("D", "Fourth", model.WARNING, "four")
    assert reconcile.summarize_ready([reconcile.true_condition("Z"), info, other]).reason == "First"
    assert reconcile.summarize_ready([info, warning]).reason == "Fourth"
    assert reconcile.summarize_ready([info, warning, error]) == model.Condition(
        "Ready", "False", "Third", "Error", "three"
    )
    assert reconcile.summarize_ready([reconcile.true_condition("Z")]).status == "True"


def test_a_cni_that_is_not_to_be_upgraded_is_no_fault_and_any_other_is() -> None:
    skipped = reconcile.false_condition(
        model.DEFAULT_CNI_CONFIGURED, "SkipUpgradesForDefaultCNIConfigured", model.WARNING
    )
    assert reconcile.summarize_ready([skipped]).status == "True"
    broken = reconcile.false_condition(model.DEFAULT_CNI_CONFIGURED, "Broken", model.ERROR)
    assert reconcile.summarize_ready([broken]).reason == "Broken"


def test_conditions_of_others_stay_and_times_move_with_the_status_alone() -> None:
    other = model.Condition("Own", "True", last_transition_time="2020-01-01T00:00:00Z")
    old = model.Condition(model.WORKERS_READY, "False", "ScalingUp", "Info", "m", "2020-01-01T00:00:00Z")
    same = reconcile.false_condition(model.WORKERS_READY, "ScalingDown")
    (mine, kept) = sorted(
        reconcile.merge_conditions([old, other], [same], NOW_S), key=lambda each: each.type != "WorkersReady"
    )
    assert (mine.reason, mine.last_transition_time) == ("ScalingDown", "2020-01-01T00:00:00Z")
    assert kept == other
    (flipped,) = reconcile.merge_conditions([old], [reconcile.true_condition(model.WORKERS_READY)], NOW_S)
    assert flipped == model.Condition(model.WORKERS_READY, "True", last_transition_time=NOW)


def test_a_status_that_says_the_same_is_not_written() -> None:
    first = reconcile_cluster(seen(static("a", 1)), NOW_S).status
    again = reconcile_cluster(seen(static("a", 1), status=first), NOW_S + 60.0).status
    assert model.status_patch(first, again) == {}
    assert model.status_patch(model.ClusterStatus(), first)["status"]["observedGeneration"] == 4


# Reading


def test_a_group_is_read_with_what_it_leaves_out() -> None:
    group = model.parse_group("prod", {"autoscalingConfiguration": {"maxCount": 5}}, 2)
    assert (group.name, group.machine_deployment, group.size) == ("md-2", "prod-md-2", PoolSize(0, ReplicaLimits(0, 5)))
    assert model.parse_group("prod", {"name": "x"}).size == PoolSize(1)


def test_a_paused_cluster_is_left_alone() -> None:
    body = {"metadata": {"name": "prod", "annotations": {model.PAUSED_ANNOTATION: "true"}}}
    assert model.parse_cluster(body).is_paused_or_deleting
