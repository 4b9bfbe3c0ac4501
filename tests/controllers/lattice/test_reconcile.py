"""The decision about LatticeClusters' pools, in tables: the matrix, initial sizes, messages, status, transitions."""

import dataclasses
from typing import Any

import pytest

from tests.controllers.machine_deployment_builders import MACHINE, REPLICAS, V1BETA2, applied, bounds, entry
from windlass.autoscaler import rbac
from windlass.controllers import machine_deployments
from windlass.controllers.controller_interface import Event
from windlass.controllers.lattice import model, reconcile
from windlass.controllers.lattice.model import AutoscalerRules
from windlass.controllers.lattice.reconcile import initial_replicas, reconcile_lattice_cluster, reconcile_pool
from windlass.controllers.machine_deployments import ApplyMachineDeployment, MachineDeployment, ReplicasHandover
from windlass.kube import rbac as spelling

SCALE = entry("cluster-autoscaler", REPLICAS, "Update", "scale")
NAME = "my-pool-general"


def pool(
    replicas: int | None = None, low: int | None = None, high: int | None = None, **fields: Any
) -> model.WorkerPool:
    return model.WorkerPool("general", replicas, low, high, **{"machine": MACHINE, **fields})


def body(of: model.WorkerPool, replicas: int | None) -> dict[str, Any]:
    wanted = machine_deployments.DesiredMachineDeployment(V1BETA2, "capi-system", NAME, "my", MACHINE, of.size.limits)
    return machine_deployments.build_manifest(wanted, replicas)


def live(of: model.WorkerPool, current: int, *, status: dict[str, Any] | None = None) -> MachineDeployment:
    """A pool that has lived: of an autoscaled one the autoscaler owns replicas."""
    if of.size.is_autoscaled:
        return applied(body(of, None), model.MANAGER, SCALE, replicas=current, status=status)
    return applied(body(of, current), model.MANAGER, status=status)


def seen(
    of: model.WorkerPool, found: MachineDeployment | None = None, before: model.LatticeClusterStatus | None = None
) -> model.ObservedLatticeCluster:
    cluster = model.LatticeCluster(
        "capi-system", "my", "uid", 4, pools=(of,), status=before or model.LatticeClusterStatus()
    )
    return model.ObservedLatticeCluster(cluster, V1BETA2, {} if found is None else {NAME: found})


# The matrix


def test_row_1_a_static_pool_is_reconciled_to_exactly_its_replicas() -> None:
    static = pool(3)
    assert reconcile_pool(seen(static, live(static, 5)), static).step == ApplyMachineDeployment(
        NAME, body(static, 3), None, "uid", "7"
    )
    assert reconcile_pool(seen(static, live(static, 3)), static).step is None


@pytest.mark.parametrize("current", [1, 3, 7, 10, 12])
@pytest.mark.parametrize("replicas", [None, 3])
def test_rows_2_and_3_replicas_of_an_autoscaled_pool_are_not_reconciled(replicas: int | None, current: int) -> None:
    scaled = pool(replicas, 1, 10)
    assert reconcile_pool(seen(scaled, live(scaled, current)), scaled).step is None
    assert body(scaled, None)["metadata"]["annotations"] == bounds(1, 10)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pool(3), 3),
        (pool(), 0),
        (pool(3, 1, 10), 3),
        (pool(None, 1, 10), 1),
        (pool(1, 3, 10), 3),
        (pool(15, 1, 10), 15),
        (pool(0, 2, 2), 2),
    ],
)
def test_a_new_pool_begins_with_its_replicas_and_an_autoscaled_one_with_its_minimum_at_least(
    given: model.WorkerPool, expected: int
) -> None:
    assert initial_replicas(given) == expected
    assert reconcile_pool(seen(given), given).step == ApplyMachineDeployment(NAME, body(given, expected))


# Transitions


def test_without_bounds_annotations_go_and_replicas_are_asserted_once() -> None:
    was, now = pool(3, 1, 10), pool(3)
    step = reconcile_pool(seen(now, live(was, 8)), now).step
    assert step == ApplyMachineDeployment(NAME, body(now, 3), None, "uid", "7")
    assert "annotations" not in body(now, 3)["metadata"]
    assert reconcile_pool(seen(now, live(now, 3)), now).step is None


def test_without_bounds_and_replicas_a_pool_is_empty() -> None:
    step = reconcile_pool(seen(pool(), live(pool(None, 1, 10), 8)), pool()).step
    assert step is not None
    assert step.body is not None
    assert step.body["spec"]["replicas"] == 0


def test_other_bounds_move_no_replicas() -> None:
    now = pool(3, 2, 5)
    step = reconcile_pool(seen(now, live(pool(3, 1, 10), 8)), now).step
    assert step == ApplyMachineDeployment(NAME, body(now, None), None, "uid", "7")


@pytest.mark.parametrize(("current", "kept"), [(3, 3), (1, 2), (12, 5)])
def test_with_new_bounds_replicas_are_handed_over(current: int, kept: int) -> None:
    now = pool(current, 2, 5)
    step = reconcile_pool(seen(now, live(pool(current), current)), now).step
    assert step == ApplyMachineDeployment(NAME, body(now, None), ReplicasHandover(kept, kept != current), "uid", "7")


# What is wrong, in the seed's words

WRONG = [
    (pool(None, 1), "min and max must both be set or both unset"),
    (pool(None, None, 5), "min and max must both be set or both unset"),
    (pool(None, 0), "min and max must both be set or both unset"),
    (pool(None, 5, 2), "min (5) cannot exceed max (2)"),
    (pool(None, 5, 0), "min (5) cannot exceed max (0)"),
    (pool(None, 0, 0), "scale-from-zero not supported (min must be >= 1)"),
    (pool(None, 0, 5), "scale-from-zero not supported (min must be >= 1)"),
    (pool(-1), "replicas (-1) must be greater than or equal to 0"),
    (pool(1, -1, 5), "min (-1) must be greater than or equal to 0"),
    (
        pool(1, machine=machine_deployments.MachineTemplate()),
        "bootstrap: found nothing, expected configRef or dataSecretName",
    ),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_a_pool_that_cannot_be_used_stays_as_it_was_and_says_why(given: model.WorkerPool, message: str) -> None:
    told = f"pool 'general': {message}"
    plan = reconcile_lattice_cluster(seen(given, live(pool(3), 3)))
    assert plan.steps == ()
    assert not plan.wants_autoscaler
    assert plan.events == (Event("Warning", "PoolInvalid", told, "Reconciling"),)
    assert plan.status.pools["general"].message == told
    assert plan.status.pools["general"].desired_replicas == 3


def test_one_bad_pool_does_not_keep_the_others_from_being_made() -> None:
    bad, good = dataclasses.replace(pool(None, 0, 5), id="bad"), pool(2)
    cluster = model.LatticeCluster("capi-system", "my", pools=(bad, good))
    assert [step.name for step in reconcile_lattice_cluster(model.ObservedLatticeCluster(cluster, V1BETA2)).steps] == [
        NAME
    ]


@pytest.mark.parametrize("name", ["GPU", "2gpu", "", "-a", "a-", "a.b", "a" * 64])
def test_an_id_that_is_no_dns_label_is_refused(name: str) -> None:
    verdict = reconcile_pool(seen(pool(1)), dataclasses.replace(pool(1), id=name))
    assert verdict.step is None
    assert verdict.status.message == f"pool '{name}': pool id '{name}' is not a valid DNS label"


# Replicas that are ignored


@pytest.mark.parametrize("replicas", [0, 2, 11, 100])
def test_replicas_out_of_bounds_are_said_to_be_ignored_once(replicas: int) -> None:
    given = pool(replicas, 3, 10)
    told = f"pool 'general': replicas ({replicas}) ignored, autoscaler will manage within [3, 10]"
    plan = reconcile_lattice_cluster(seen(given))
    assert plan.events == (Event("Warning", "ReplicasIgnored", told, "Reconciling"),)
    assert plan.status.pools["general"].message == told
    again = reconcile_lattice_cluster(seen(given, before=plan.status))
    assert again.events == ()
    assert again.status.pools["general"].message == told


@pytest.mark.parametrize("given", [pool(100), pool(None, 1, 10), pool(1, 1, 10), pool(10, 1, 10)])
def test_nothing_is_said_of_replicas_that_are_not_ignored(given: model.WorkerPool) -> None:
    plan = reconcile_lattice_cluster(seen(given))
    assert plan.events == ()
    assert plan.status.pools["general"].message is None


# Status


def test_numbers_come_from_the_machine_deployment_whoever_scales_it() -> None:
    status = {"replicas": 6, "readyReplicas": 5}
    scaled, static = pool(3, 1, 10), pool(7)
    worker_pool_status = reconcile_pool(seen(scaled, live(scaled, 7, status=status)), scaled).status
    assert worker_pool_status == model.WorkerPoolStatus(7, 6, 5, True, 1, 10)
    worker_pool_status = reconcile_pool(seen(static, live(static, 7, status=status)), static).status
    assert worker_pool_status == model.WorkerPoolStatus(7, 6, 5, False)
    assert reconcile_pool(seen(scaled), scaled).status == model.WorkerPoolStatus(0, 0, 0, True, 1, 10)


def test_a_status_that_says_the_same_is_not_written_and_pools_that_are_gone_are_taken_out() -> None:
    status = reconcile_lattice_cluster(seen(pool(3))).status
    assert model.status_patch(status, status) == {}
    gone = model.LatticeClusterStatus(4, {**status.pools, "gone": model.WorkerPoolStatus()})
    assert model.status_patch(gone, status) == {"status": {"worker_pools": {"gone": None}}}
    spelled = model.status_patch(model.LatticeClusterStatus(), status)["status"]
    assert model.parse_status(spelled) == status


def test_an_autoscaler_is_wanted_as_soon_as_a_pool_is_autoscaled() -> None:
    assert not reconcile_lattice_cluster(seen(pool(3))).wants_autoscaler
    assert reconcile_lattice_cluster(seen(pool(3, 1, 10))).wants_autoscaler


# The autoscaler

SETTINGS = model.LatticeSettings(
    autoscaler_image="img:1", autoscaler_rights=AutoscalerRules(*rbac.base_rules("lattice-system"))
)


def objects() -> dict[str, dict[str, Any]]:
    return {resource.kind: made for resource, made in reconcile.autoscaler_manifests(SETTINGS)}


def test_the_autoscaler_runs_with_the_seeds_flags_in_its_own_namespace() -> None:
    deployment = objects()["Deployment"]
    assert (deployment["metadata"]["name"], deployment["metadata"]["namespace"]) == (
        "cluster-autoscaler",
        "lattice-system",
    )
    pod = deployment["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == ("cluster-autoscaler", "system-cluster-critical")
    (container,) = pod["containers"]
    assert container["image"] == "img:1"
    assert container["command"] == [
        "/cluster-autoscaler",
        "--cloud-provider=clusterapi",
        "--node-group-auto-discovery=clusterapi:namespace=capi-system",
        "--scale-down-delay-after-add=5m",
        "--scale-down-unneeded-time=5m",
        "--skip-nodes-with-local-storage=false",
        "--namespace=lattice-system",
    ]
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "300Mi"}, "limits": {"memory": "600Mi"}}
    assert container["livenessProbe"]["httpGet"] == {"path": "/health-check", "port": "metrics"}
    assert container["ports"] == [{"name": "metrics", "containerPort": 8085, "protocol": "TCP"}]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels == deployment["spec"]["selector"]["matchLabels"] == {"app": "cluster-autoscaler"}


def test_it_may_do_what_an_autoscaler_needs_and_read_no_secret() -> None:
    made = objects()
    cluster, own = (spelling.to_policy_rules(rules) for rules in rbac.base_rules("lattice-system"))
    assert (made["ClusterRole"]["rules"], made["Role"]["rules"]) == (cluster, own)
    rules = [*made["ClusterRole"]["rules"], *made["Role"]["rules"]]
    assert _verbs(rules, "", "secrets") == set()
    assert not any("*" in rule["verbs"] or "*" in rule["apiGroups"] for rule in rules)
    assert _verbs(made["ClusterRole"]["rules"], "", "configmaps") == set(), "only in its own namespace"


def _verbs(rules: list[dict[str, Any]], group: str, resource: str) -> set[str]:
    return {
        verb
        for rule in rules
        if group in rule["apiGroups"] and {resource, "*"} & set(rule["resources"])
        for verb in rule["verbs"]
    }


def test_a_machine_deployment_of_another_cluster_is_left_to_it() -> None:
    """`my` and a pool `general` make the same name as some other cluster and some other pool."""
    static = pool(3)
    deployment = live(static, 5)
    theirs = dataclasses.replace(
        deployment, body={**deployment.body, "spec": {**deployment.body["spec"], "clusterName": "my-pool"}}
    )
    verdict = reconcile_pool(seen(static, theirs), static)
    assert (verdict.step, verdict.status.current_replicas) == (None, 0)
    assert (
        verdict.status.message
        == f"pool 'general': MachineDeployment {NAME} belongs to Cluster my-pool; choose another id"
    )


@pytest.mark.parametrize(
    ("words", "replicas", "expected"),
    [
        (["--node-group-auto-discovery=clusterapi:namespace=a"], 1, {"a"}),
        (["--node-group-auto-discovery", "clusterapi:namespace=a,x=y"], 1, {"a"}),
        (["--node-group-auto-discovery=clusterapi:namespace=a,clusterName=my"], 1, {"a"}),
        (["--node-group-auto-discovery=clusterapi:namespace=a,clusterName=other"], 1, set()),
        (["--node-group-auto-discovery=clusterapi:clusterName=my"], 1, {""}),
        (
            [f"--node-group-auto-discovery=clusterapi:namespace={name}" for name in ("a", "b")],
            None,
            {"a", "b"},
        ),
        (["--v=2"], 1, {""}),
        (["--v=2"], 0, set()),
    ],
)
def test_where_an_autoscaler_discovers_pools(words: list[str], replicas: int | None, expected: set[str]) -> None:
    for field in ("command", "args"):
        spec: dict[str, Any] = {"template": {"spec": {"containers": [{field: words}]}}}
        if replicas is not None:
            spec["replicas"] = replicas
        assert reconcile.parse_discovered_namespaces({"spec": spec}, "my") == expected


def test_pools_where_no_autoscaler_looks_are_named_in_status_and_event() -> None:
    scaled = pool(3, 1, 10)
    observed = dataclasses.replace(seen(scaled), discovered=frozenset({"elsewhere"}))
    (event,) = reconcile_lattice_cluster(observed).events
    assert (event.type, event.reason) == ("Warning", "PoolsNotDiscovered")
    assert "discovers pools in elsewhere" in event.message
    assert reconcile_lattice_cluster(observed).status.pools["general"].message == event.message
    for discovered in (None, frozenset({""}), frozenset({observed.cluster.namespace})):
        assert reconcile_lattice_cluster(dataclasses.replace(observed, discovered=discovered)).events == ()
    static = dataclasses.replace(seen(pool(3)), discovered=frozenset({"elsewhere"}))
    assert reconcile_lattice_cluster(static).events == ()
