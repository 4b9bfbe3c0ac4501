"""decide, as tables: every branch of every part, and the order in which they come."""

import dataclasses
from typing import Any

import pytest

from tests.controllers.machine_pool.builders import CLUSTER, CONFIG, INFRA, NOW_S, Json, external, pool, refs
from windlass.controllers.machine_pool import conditions, conversion, model, owned_objects, reconcile
from windlass.controllers.machine_pool.model import MachinePoolSettings
from windlass.controllers.machine_pool.reconcile import reconcile_cluster, reconcile_machine_pool

READY = {"ready": True}


def node(name: str, *, ready: bool = True, since_s: float | None = 0.0, **more: Any) -> model.Node:
    given = {"uid": f"uid-{name}", "provider_id": f"test:///{name}", "kubelet_version": "v1.36.3", **more}
    return model.Node(name, is_ready=ready, ready_since_s=since_s, **given)


def infra(*names: str, spec: Json | None = None, **status: Any) -> model.ProviderObject:
    listed = {"providerIDList": [f"test:///{name}" for name in names]}
    return external(INFRA, listed if spec is None else spec, {"ready": True, "replicas": len(names), **status})


def see(before: model.MachinePool, **more: Any) -> model.ObservedMachinePool:
    given: dict[str, Any] = {"cluster": CLUSTER, "bootstrap": None, "infrastructure": infra(), **more}
    return model.ObservedMachinePool(before, **given)


def run(
    before: model.MachinePool, settings: MachinePoolSettings | None = None, now_s: float = NOW_S, **more: Any
) -> model.MachinePoolPlan:
    return reconcile_machine_pool(see(before, **more), settings or MachinePoolSettings(), now_s)


def old(made: model.MachinePoolPlan, kind: str) -> tuple[str, str, str] | None:
    condition = conditions.find_condition(made.pool.status.old_conditions, kind)
    return None if condition is None else (condition.status, condition.reason, condition.severity)


# The order of things


def test_the_finalizer_comes_first_and_alone() -> None:
    made = run(pool(finalizers=("other",)), infrastructure=infra("a"), nodes=(node("a"),))
    assert made == model.MachinePoolPlan(pool(finalizers=("other", model.FINALIZER)))


def test_a_pool_without_its_cluster_is_left_alone_and_looked_at_again() -> None:
    before = pool(finalizers=())
    made = run(before, cluster=None)
    assert made.pool == before
    assert made.failures == ("Cluster default/cluster-1 not found",)


@pytest.mark.parametrize(
    ("annotations", "cluster", "message"),
    [
        ({}, False, ""),
        ({}, True, "Cluster spec.paused is set to true"),
        ({model.PAUSED_ANNOTATION: ""}, False, "MachinePool has the cluster.x-k8s.io/paused annotation"),
        ({model.PAUSED_ANNOTATION: "false"}, False, "MachinePool has the cluster.x-k8s.io/paused annotation"),
        (
            {model.PAUSED_ANNOTATION: "true"},
            True,
            "Cluster spec.paused is set to true, MachinePool has the cluster.x-k8s.io/paused annotation",
        ),
    ],
)
def test_a_paused_pool_says_so_and_nothing_else_happens(annotations: Json, cluster: bool, message: str) -> None:
    before = pool(annotations=annotations)
    paused = dataclasses.replace(CLUSTER, is_paused=cluster)
    made = run(before, cluster=paused, infrastructure=infra("a"), nodes=(node("a"),))
    condition = conditions.find_condition(made.pool.status.conditions, model.PAUSED)
    assert condition is not None
    word = "Paused" if message else "NotPaused"
    assert (condition.status, condition.reason, condition.message) == (str(bool(message)), word, message)
    assert condition.observed_generation == before.generation
    if message:
        assert made.steps == ()
        assert dataclasses.replace(made.pool, status=before.status) == before
        assert made.pool.status.phase == ""


def test_a_deletion_waits_while_the_pool_is_paused() -> None:
    going = pool(annotations={model.PAUSED_ANNOTATION: ""}, deleted_s=NOW_S)
    made = run(going, infrastructure=infra("a"))
    assert made.steps == ()
    assert model.FINALIZER in made.pool.finalizers


def test_what_is_decided_twice_changes_nothing_more() -> None:
    observed = see(pool(replicas=2), infrastructure=infra("a", "b"), nodes=(node("a"), node("b", ready=False)))
    once = reconcile_machine_pool(observed, MachinePoolSettings(), NOW_S)
    twice = reconcile_machine_pool(dataclasses.replace(observed, pool=once.pool), MachinePoolSettings(), NOW_S + 100.0)
    assert twice.pool == once.pool
    assert twice.events == ()


# Ownership


def test_the_pool_belongs_to_its_cluster() -> None:
    stranger = model.OwnerReference("example.com/v1", "Team", "t", "1")
    made = run(pool(owners=(stranger,), labels={"a": "b"}))
    assert made.pool.owners == (stranger, model.OwnerReference(model.V1BETA2, "Cluster", "cluster-1", "uid-cluster"))
    assert made.pool.labels == {"a": "b", model.CLUSTER_NAME_LABEL: "cluster-1"}


def test_bootstrap_and_infrastructure_belong_to_the_pool() -> None:
    made = run(pool(bootstrap_ref=CONFIG), bootstrap=external(CONFIG))
    adopted = [step for step in made.steps if isinstance(step, model.AdoptProviderObject)]
    assert [step.external.reference for step in adopted] == [CONFIG, INFRA]
    for step in adopted:
        assert step.owners == (model.OwnerReference(model.V1BETA2, "MachinePool", "pool", "uid-pool", True, True),)
        assert step.labels == {model.CLUSTER_NAME_LABEL: "cluster-1"}


def test_what_belongs_to_the_pool_already_is_not_adopted_again() -> None:
    labels = {model.CLUSTER_NAME_LABEL: "cluster-1"}
    own = dataclasses.replace(infra(), owners=(owned_objects.controller_reference(pool()),), labels=labels)
    assert run(pool(), infrastructure=own).steps == ()


def test_an_object_of_a_pool_that_was_made_anew_gets_its_new_uid() -> None:
    stale = dataclasses.replace(owned_objects.controller_reference(pool()), uid="older")
    step = run(pool(), infrastructure=dataclasses.replace(infra(), owners=(stale,))).steps[0]
    assert isinstance(step, model.AdoptProviderObject)
    assert [owner.uid for owner in step.owners] == ["uid-pool"]


# Bootstrap

CREATED = {"initialization": {"dataSecretCreated": True}}
V1BETA1 = {"contract": "v1beta1"}


@pytest.mark.parametrize(
    ("name", "copied", "config", "contract", "created", "left"),
    [
        # without a config
        ("own", False, None, "v1beta2", True, "own"),
        ("", False, None, "v1beta2", True, ""),
        # the config is waited for, each contract with its own field
        (None, False, {}, "v1beta2", False, None),
        (None, False, {"ready": True, "dataSecretName": "s"}, "v1beta2", False, None),
        (None, False, {**CREATED, "dataSecretName": "s"}, "v1beta2", True, "s"),
        (None, False, {**CREATED, "dataSecretName": "s"}, "v1beta1", False, None),
        (None, False, {"ready": True, "dataSecretName": "s"}, "v1beta1", True, "s"),
        ("", False, {**CREATED, "dataSecretName": "s"}, "v1beta2", True, "s"),
        # a name that a user set wins, whatever the config says
        ("own", False, {}, "v1beta2", True, "own"),
        ("own", False, {**CREATED, "dataSecretName": "s"}, "v1beta2", True, "own"),
        # one that was copied stays, but is no word of a user
        ("s", True, {**CREATED, "dataSecretName": "rotated"}, "v1beta2", True, "s"),
        ("s", True, {}, "v1beta2", False, "s"),
    ],
)
def test_bootstrap(
    name: str | None, copied: bool, config: Json | None, contract: str, created: bool, left: str | None
) -> None:
    provider_object = (
        None if config is None else dataclasses.replace(external(CONFIG, status=config), contract=contract)
    )
    before = pool(data_secret_name=name, is_secret_copied=copied, bootstrap_ref=CONFIG if provider_object else None)
    made = run(before, bootstrap=provider_object)
    assert made.failures == ()
    assert (made.pool.status.bootstrap_created, made.pool.data_secret_name) == (created, left)
    wanted = ("True", "", "") if created else ("False", "WaitingForDataSecret", "Info")
    assert old(made, model.BOOTSTRAP_READY) == wanted


@pytest.mark.parametrize("name", [None, "s", "own"])
def test_with_rotation_the_configs_name_is_copied_whatever_there_was(name: str | None) -> None:
    config = external(CONFIG, status={**CREATED, "dataSecretName": "rotated"})
    before = pool(data_secret_name=name, is_secret_copied=name == "s", bootstrap_ref=CONFIG)
    made = run(before, MachinePoolSettings(rotate_bootstrap_secret=True), bootstrap=config)
    assert made.pool.data_secret_name == "rotated"


def test_with_rotation_the_config_is_waited_for_even_if_a_user_set_a_name() -> None:
    made = run(
        pool(bootstrap_ref=CONFIG),
        MachinePoolSettings(rotate_bootstrap_secret=True),
        bootstrap=external(CONFIG, status={}),
    )
    assert made.pool.status.bootstrap_created is False


@pytest.mark.parametrize("status", [CREATED, {**CREATED, "dataSecretName": ""}, {**CREATED, "dataSecretName": 7}])
def test_a_config_that_is_ready_and_names_no_secret_is_looked_at_again(status: Json) -> None:
    before = pool(data_secret_name=None, bootstrap_ref=CONFIG, status={"bootstrap_created": False})
    made = run(before, bootstrap=external(CONFIG, status=status))
    assert len(made.failures) == 1
    assert "status.dataSecretName" in made.failures[0]
    assert made.pool.status.bootstrap_created is False
    assert old(made, model.BOOTSTRAP_READY) == ("True", "", "")
    assert made.pool.status.observed_generation is None


def test_a_missing_config_is_looked_at_again_and_the_rest_goes_on() -> None:
    before = pool(data_secret_name=None, bootstrap_ref=CONFIG)
    made = run(before, bootstrap=model.MissingObject(CONFIG), infrastructure=infra("a"), nodes=(node("a"),))
    assert made.failures == ("NewBoot default/config not found",)
    assert old(made, model.BOOTSTRAP_READY) is None
    assert made.pool.status.phase == model.RUNNING


def test_a_name_that_a_user_set_needs_no_config() -> None:
    made = run(pool(bootstrap_ref=CONFIG), bootstrap=model.MissingObject(CONFIG))
    assert made.failures == ()
    assert made.pool.status.bootstrap_created is True


def test_a_config_that_is_going_changes_nothing() -> None:
    config = dataclasses.replace(external(CONFIG, status={}), is_deleting=True)
    before = pool(data_secret_name="s", is_secret_copied=True, bootstrap_ref=CONFIG, status={"bootstrap_created": True})
    made = run(before, bootstrap=config)
    assert (made.pool.status.bootstrap_created, old(made, model.BOOTSTRAP_READY)) == (True, None)


# Infrastructure


@pytest.mark.parametrize(
    ("status", "contract", "provisioned"),
    [
        ({}, "v1beta2", False),
        ({"ready": True}, "v1beta2", True),
        ({"ready": True}, "v1beta1", True),
        ({"initialization": {"provisioned": True}}, "v1beta2", True),
        ({"initialization": {"provisioned": True}}, "v1beta1", False),
        ({"initialization": {"provisioned": True}, "ready": False}, "v1beta2", False),
        ({"ready": "true"}, "v1beta2", False),
    ],
)
def test_infrastructure_is_ready_in_either_spelling_of_its_contract(
    status: Json, contract: str, provisioned: bool
) -> None:
    provider_object = dataclasses.replace(external(INFRA, status=status), contract=contract)
    made = run(pool(), infrastructure=provider_object)
    assert made.pool.status.infrastructure_provisioned is provisioned
    wanted = ("True", "", "") if provisioned else ("False", "WaitingForInfrastructure", "Info")
    assert old(made, model.INFRASTRUCTURE_READY) == wanted


@pytest.mark.parametrize(
    ("ids", "told", "wanted", "copied", "replicas"),
    [
        (["a", "b"], 2, 2, ("a", "b"), 2),
        (["a", "b"], 3, 2, ("a", "b"), 3),
        (["a", "b"], None, 2, ("a", "b"), 2),  # no count: as many as are listed
        ([], 2, 2, ("old",), 2),  # the names are still to come
        ([], 0, 2, (), 0),
        ([], 0, 0, (), 0),
        ([], None, 0, (), 0),
        ([], None, 2, ("old",), 1),  # nothing was said: nothing is forgotten
        (["a", "a", "b"], 3, 2, ("a", "b"), 3),
        (["", "a"], 1, 2, ("a",), 1),
    ],
)
def test_provider_ids_and_replicas_are_copied(
    ids: list[str], told: int | None, wanted: int, copied: tuple[str, ...], replicas: int
) -> None:
    provider_object = external(INFRA, {"providerIDList": ids}, {"ready": True, "replicas": told})
    made = run(pool(provider_ids=("old",), replicas=wanted, status={"replicas": 1}), infrastructure=provider_object)
    assert (made.pool.provider_ids, made.pool.status.replicas) == (copied, replicas)
    assert made.pool.replicas == wanted, "spec.replicas is never written"


def test_infrastructure_that_is_no_longer_ready_leaves_the_rest_as_it_was() -> None:
    before = pool(provider_ids=("test:///a",), status={"replicas": 1, "node_refs": (model.NodeRef("a", "uid-a"),)})
    made = run(before, infrastructure=infra("b", ready=False), nodes=(node("a"),))
    assert made.pool.provider_ids == ("test:///a",)
    assert made.pool.status.infrastructure_provisioned is False
    assert made.pool.status.phase == model.PROVISIONED


def test_infrastructure_that_never_was_is_waited_for() -> None:
    made = run(pool(), infrastructure=model.MissingObject(INFRA))
    assert old(made, model.INFRASTRUCTURE_READY) == ("False", "IncorrectExternalRef", "Error")
    assert old(made, model.READY) == ("False", "IncorrectExternalRef", "Error")
    assert not made.pool.status.is_failed
    assert made.pool.status.phase == model.PROVISIONING


def test_infrastructure_that_is_gone_after_it_was_ready_is_a_failure_for_good() -> None:
    before = pool(status={"infrastructure_provisioned": True, "phase": model.RUNNING})
    made = run(before, infrastructure=model.MissingObject(INFRA))
    status = made.pool.status
    assert status.failure_reason == "InvalidConfiguration"
    assert status.failure_message.endswith("NewPool default/infra has been deleted after being ready")
    assert status.phase == model.FAILED
    again = run(made.pool, infrastructure=infra())
    assert again.pool.status.failure_reason == "InvalidConfiguration"
    assert again.pool.status.phase == model.FAILED
    assert old(again, model.INFRASTRUCTURE_READY) == ("True", "", "")


def test_infrastructure_that_is_going_under_a_pool_that_stays_changes_nothing() -> None:
    before = pool(provider_ids=("test:///a",), status={"infrastructure_provisioned": True, "replicas": 1})
    made = run(before, infrastructure=dataclasses.replace(infra(), is_deleting=True), nodes=(node("a"),))
    assert made.pool.provider_ids == ("test:///a",)
    assert made.failures == ()


@pytest.mark.parametrize("whose", ["bootstrap", "infrastructure"])
@pytest.mark.parametrize(
    ("failure", "reason", "message"),
    [
        ({"failureReason": "CreateError"}, "CreateError", ""),
        ({"failureMessage": "no quota"}, "", "failed: no quota"),
        ({"failureReason": "CreateError", "failureMessage": "no quota"}, "CreateError", "failed: no quota"),
    ],
)
def test_failures_of_both_providers_surface_and_stay(whose: str, failure: Json, reason: str, message: str) -> None:
    config = external(CONFIG, status=failure if whose == "bootstrap" else {})
    provider_object = infra("a", **(failure if whose == "infrastructure" else {}))
    before = pool(bootstrap_ref=CONFIG, status={"nodes": model.NodeCounts(1, 1)})
    made = run(before, bootstrap=config, infrastructure=provider_object, nodes=(node("a"),))
    status = made.pool.status
    assert (status.failure_reason, status.phase) == (reason, model.FAILED)
    assert status.failure_message.endswith(message)
    assert status.nodes == model.NodeCounts(1, 1), "the counters are kept"
    later = run(made.pool, bootstrap=external(CONFIG), infrastructure=infra("a"), nodes=(node("a"),))
    assert (later.pool.status.failure_reason, later.pool.status.phase) == (reason, model.FAILED)


# Nodes


@pytest.mark.parametrize(
    ("nodes", "min_ready_s", "found", "counts", "ready"),
    [
        ((), 0, [], model.NodeCounts(0, 0, 2), None),
        ((node("a", ready=False),), 0, ["a"], model.NodeCounts(0, 0, 2), "False"),
        ((node("a"),), 0, ["a"], model.NodeCounts(1, 1, 1), "False"),
        ((node("b"), node("a")), 0, ["a", "b"], model.NodeCounts(2, 2, 0), "True"),
        ((node("a", provider_id="test:///A"), node("b")), 0, ["b"], model.NodeCounts(1, 1, 1), "False"),
        ((node("a"), node("b", since_s=NOW_S - 5)), 10, ["a", "b"], model.NodeCounts(2, 1, 1), "True"),
        ((node("a"), node("b", since_s=None)), 10, ["a", "b"], model.NodeCounts(2, 1, 1), "True"),
        ((node("a"), node("stranger")), 0, ["a"], model.NodeCounts(1, 1, 1), "False"),
    ],
)
def test_nodes_are_found_by_provider_id_and_counted(
    nodes: tuple[model.Node, ...], min_ready_s: int, found: list[str], counts: model.NodeCounts, ready: str | None
) -> None:
    made = run(pool(replicas=2, min_ready_s=min_ready_s), infrastructure=infra("a", "b"), nodes=nodes)
    status = made.pool.status
    assert ([ref.name for ref in status.node_refs], status.nodes) == (found, counts)
    said = old(made, model.REPLICAS_READY)
    assert (said[0] if said else None) == ready


def test_a_node_made_anew_is_referred_to_by_its_new_uid() -> None:
    before = pool(provider_ids=("test:///a",), status={"node_refs": (model.NodeRef("a", "older"),), "replicas": 1})
    made = run(before, infrastructure=infra("a"), nodes=(node("a"),))
    assert made.pool.status.node_refs == (model.NodeRef("a", "uid-a"),)
    assert [event.reason for event in made.events] == ["SuccessfulSetNodeRefs"]
    assert not [step for step in made.steps if isinstance(step, model.DeleteNode)]


def test_a_node_that_becomes_available_is_looked_at_then() -> None:
    made = run(pool(min_ready_s=10), infrastructure=infra("a"), nodes=(node("a", since_s=NOW_S - 4),))
    assert made.requeue_after_s == 6.0


@pytest.mark.parametrize(("nodes", "again_s"), [((), None), ((node("a"),), None), ((node("a", ready=False),), 30.0)])
def test_nodes_that_are_there_but_not_ready_are_looked_at_again(
    nodes: tuple[model.Node, ...], again_s: float | None
) -> None:
    assert run(pool(), infrastructure=infra("a"), nodes=nodes).requeue_after_s == again_s


def test_nodes_are_marked_as_the_pools_and_lose_the_taint_that_waited_for_it() -> None:
    keep = model.Taint("keep", {"key": "keep", "effect": "NoSchedule"})
    waits = model.Taint(model.UNINITIALIZED_TAINT, {"key": model.UNINITIALIZED_TAINT, "effect": "NoSchedule"})
    made = run(pool(), infrastructure=infra("a"), nodes=(node("a", taints=(waits, keep)),))
    patches = [step for step in made.steps if isinstance(step, model.PatchNode)]
    assert patches[0].taints == (keep,)
    assert patches[0].annotations == {
        model.CLUSTER_NAME_ANNOTATION: "cluster-1",
        model.CLUSTER_NAMESPACE_ANNOTATION: "default",
        model.OWNER_KIND_ANNOTATION: "MachinePool",
        model.OWNER_NAME_ANNOTATION: "pool",
    }
    marked = node("a", taints=(keep,), annotations={**patches[0].annotations, "own": "too"})
    again = run(pool(), infrastructure=infra("a"), nodes=(marked,))
    assert not [step for step in again.steps if isinstance(step, model.PatchNode)]


@pytest.mark.parametrize(
    ("there", "deleted"),
    [
        (node("b"), True),
        (node("b", uid="another"), False),  # someone else took the name
        (node("b", provider_id=""), False),
        (node("b", is_deleting=True), False),
    ],
)
def test_nodes_of_instances_that_left_are_deleted(there: model.Node, deleted: bool) -> None:
    refs_ = (model.NodeRef("a", "uid-a"), model.NodeRef("b", "uid-b"))
    before = pool(provider_ids=("test:///a", "test:///b"), status={"node_refs": refs_, "replicas": 2})
    made = run(before, infrastructure=infra("a"), nodes=(node("a"), there))
    assert [step.name for step in made.steps if isinstance(step, model.DeleteNode)] == (["b"] if deleted else [])


def test_an_unreachable_cluster_leaves_counters_and_phase_but_drops_versions() -> None:
    status = {
        "replicas": 1,
        "node_refs": (model.NodeRef("a", "uid-a"),),
        "nodes": model.NodeCounts(1, 1),
        "versions": (("v1.36.3", 1),),
        "infrastructure_provisioned": True,
        "phase": model.RUNNING,
    }
    gone = model.UnreachableCluster("WorkloadClusterUnreachable", "workload cluster: refused")
    made = run(pool(provider_ids=("test:///a",), status=status), infrastructure=infra("a", "b"), nodes=gone)
    after = made.pool.status
    assert (after.nodes, after.node_refs, after.versions) == (model.NodeCounts(1, 1), status["node_refs"], ())
    assert after.phase == model.RUNNING
    assert made.pool.provider_ids == ("test:///a", "test:///b"), "what the provider says is known all the same"
    assert made.failures == ("nodes: workload cluster: refused",)


# Phases


@pytest.mark.parametrize(
    ("boot", "provisioned", "known", "wanted", "ready", "managed", "failed", "deleting", "phase"),
    [
        (None, None, 0, 1, 0, None, False, False, "Pending"),
        (True, False, 0, 1, 0, None, False, False, "Provisioning"),
        (True, False, 1, 1, 0, None, False, False, "Provisioned"),
        (False, False, 1, 1, 0, None, False, False, "Provisioned"),
        (True, True, 0, 0, 0, None, False, False, "Running"),
        (True, True, 1, 1, 1, None, False, False, "Running"),
        (False, True, 1, 1, 1, None, False, False, "Running"),
        (True, True, 0, 2, 0, None, False, False, "ScalingUp"),
        (True, True, 2, 1, 2, None, False, False, "ScalingDown"),
        (True, True, 1, 2, 1, "", False, False, "Scaling"),
        (True, True, 1, 2, 1, "true", False, False, "Scaling"),
        (True, True, 2, 1, 2, "external-autoscaler", False, False, "Scaling"),
        (True, True, 1, 2, 1, "false", False, False, "ScalingUp"),
        (True, True, 2, 1, 2, "false", False, False, "ScalingDown"),
        (True, True, 1, 1, 1, "", False, False, "Running"),
        (True, True, 1, 1, 1, None, True, False, "Failed"),
        (True, True, 1, 1, 1, None, True, True, "Deleting"),
        (True, True, 1, 1, 1, None, False, True, "Deleting"),
    ],
)
def test_phases(
    boot: bool | None,
    provisioned: bool | None,
    known: int,
    wanted: int,
    ready: int,
    managed: str | None,
    failed: bool,
    deleting: bool,
    phase: str,
) -> None:
    status = {
        "bootstrap_created": boot,
        "infrastructure_provisioned": provisioned,
        "node_refs": refs([str(number) for number in range(known)]),
        "nodes": model.NodeCounts(ready),
        "failure_reason": "CreateError" if failed else "",
    }
    annotations = {} if managed is None else {model.MANAGED_BY_ANNOTATION: managed}
    machine_pool = pool(replicas=wanted, status=status, annotations=annotations, deleted_s=NOW_S if deleting else None)
    assert conditions.compute_phase(machine_pool) == phase


# Conditions


def test_a_providers_own_condition_is_mirrored() -> None:
    said = {"type": "Ready", "status": "False", "severity": "Warning", "reason": "Slow", "message": "soon"}
    made = run(pool(), infrastructure=infra("a", ready=False, conditions=[said]))
    assert old(made, model.INFRASTRUCTURE_READY) == ("False", "Slow", "Warning")
    assert old(made, model.READY) == ("False", "Slow", "Warning")


def test_a_mirrored_condition_without_a_severity_is_not_passed_over() -> None:
    said = {"type": "Ready", "status": "False", "reason": "Slow", "message": "soon"}
    made = run(pool(), infrastructure=infra("a", conditions=[said]), nodes=(node("a"),))
    assert old(made, model.READY) == ("False", "Slow", "Info")


@pytest.mark.parametrize(
    ("severities", "reason"),
    [
        (("Info", "Info", "Info"), "B"),
        (("Info", "Warning", "Info"), "I"),
        (("Info", "Warning", "Error"), "R"),
        ((None, "Info", "Info"), "I"),
        ((None, None, None), ""),
    ],
)
def test_the_worst_condition_says_why_a_pool_is_not_ready(severities: tuple[str | None, ...], reason: str) -> None:
    kinds = (model.BOOTSTRAP_READY, model.INFRASTRUCTURE_READY, model.REPLICAS_READY)
    found = tuple(
        conditions.true_condition(kind) if severity is None else conditions.false_condition(kind, kind[0], severity)
        for kind, severity in zip(kinds, severities, strict=True)
    )
    ready = conditions.summarize_ready(found)
    assert ready is not None
    assert (ready.status, ready.reason) == ("False" if reason else "True", reason)


def test_conditions_keep_their_time_until_they_change() -> None:
    first = run(pool(), infrastructure=infra("a"), now_s=NOW_S)
    second = run(first.pool, infrastructure=infra("a"), now_s=NOW_S + 60, nodes=(node("a"),))
    third = run(second.pool, infrastructure=infra("a"), now_s=NOW_S + 120, nodes=(node("a", ready=False),))
    times = [
        {condition.type: condition.last_transition_time for condition in made.pool.status.old_conditions}
        for made in (first, second, third)
    ]
    assert times[0][model.INFRASTRUCTURE_READY] == times[2][model.INFRASTRUCTURE_READY]
    assert times[1][model.REPLICAS_READY] < times[2][model.REPLICAS_READY]


# Machines


def infra_machine(name: str, provider_id: str = "", **more: Any) -> model.InfraMachine:
    return model.InfraMachine(
        model.ObjectReference(INFRA.group, "NewMachine", name), f"{INFRA.group}/v1beta1", provider_id, **more
    )


def machine(name: str, **more: Any) -> model.Machine:
    labels = {model.POOL_NAME_LABEL: "pool", model.CLUSTER_NAME_LABEL: "cluster-1"}
    given = {
        "uid": f"uid-{name}",
        "generation": 1,
        "labels": labels,
        "owners": (owned_objects.controller_reference(pool()),),
        "infrastructure_name": name,
        "up_to_date": model.Condition("UpToDate", "True", "UpToDate", observed_generation=1),
        **more,
    }
    return model.Machine(name, **given)


KIND: Json = {"infrastructureMachineKind": "NewMachine"}


def test_every_infrastructure_machine_gets_a_machine() -> None:
    before = pool(template_labels={"team": "a"}, template_annotations={"note": "b"})
    known = (infra_machine("m-0", "test:///m-0"), infra_machine("m-1"))
    made = run(before, infrastructure=infra(**KIND), infra_machines=known, nodes=(node("m-0"),))
    first, second = (step.body for step in made.steps if isinstance(step, model.ApplyMachine))
    assert first["metadata"] == {
        "name": "m-0",
        "namespace": "default",
        "labels": {"team": "a", model.POOL_NAME_LABEL: "pool", model.CLUSTER_NAME_LABEL: "cluster-1"},
        "annotations": {"note": "b"},
        "ownerReferences": [conversion.encode_owner(owned_objects.controller_reference(pool()))],
    }
    assert first["spec"] == {
        "clusterName": "cluster-1",
        "bootstrap": {"dataSecretName": ""},
        "infrastructureRef": {"apiGroup": INFRA.group, "kind": "NewMachine", "name": "m-0"},
        "version": "v1.36.3",
    }
    assert "version" not in second["spec"]


def test_pools_with_long_names_label_their_machines_with_a_hash() -> None:
    name = "pool-" + "x" * 70
    made = run(pool(name=name), infrastructure=infra(**KIND), infra_machines=(infra_machine("m-0"),))
    step = made.steps[-1]
    assert isinstance(step, model.ApplyMachine)
    assert step.body["metadata"]["labels"][model.POOL_NAME_LABEL] == "hash_YSBc6g_z"


@pytest.mark.parametrize(
    ("change", "applied"),
    [
        ({}, False),
        ({"owners": ()}, True),
        ({"labels": {}}, True),
        ({"version": "v1.36.3"}, False),  # its Node is not there at the moment: the version stays
        ({"applied": frozenset({("labels", "dropped")})}, True),
        ({"labels": {model.POOL_NAME_LABEL: "pool", model.CLUSTER_NAME_LABEL: "cluster-1", "more": "m"}}, False),
    ],
)
def test_a_machine_is_applied_again_only_if_it_is_not_as_it_should_be(change: Json, applied: bool) -> None:
    made = run(
        pool(), infrastructure=infra(**KIND), infra_machines=(infra_machine("m"),), machines=(machine("m", **change),)
    )
    assert any(isinstance(step, model.ApplyMachine) for step in made.steps) is applied


@pytest.mark.parametrize("kind", [{}, {"infrastructureMachineKind": ""}, {"infrastructureMachineKind": None}])
def test_infrastructure_that_names_no_kind_has_no_machines(kind: Json) -> None:
    made = run(pool(), infrastructure=infra("a", **kind))
    assert not [step for step in made.steps if isinstance(step, model.ApplyMachine)]
    assert made.pool.status.ready_replicas == 1


def test_machines_are_marked_and_never_deleted() -> None:
    going = machine("m", is_deleting=True)
    fresh = machine("n", up_to_date=None)
    made = run(pool(), infrastructure=infra(**KIND), machines=(going, fresh))
    marks = {step.name: step.condition for step in made.steps if isinstance(step, model.SetMachineUpToDate)}
    assert (marks["m"].status, marks["m"].reason, marks["m"].message) == (
        "False", "NotUpToDate", "Machine is being deleted")  # fmt: skip
    assert (marks["n"].status, marks["n"].observed_generation) == ("True", 1)
    assert made.pool.status.up_to_date_replicas == 1


def test_no_machine_is_made_for_one_that_is_going() -> None:
    made = run(pool(), infrastructure=infra(**KIND), infra_machines=(infra_machine("m", is_deleting=True),))
    assert not [step for step in made.steps if isinstance(step, model.ApplyMachine)]


def test_counters_of_a_pool_with_machines_are_those_of_its_own_machines() -> None:
    stranger = model.OwnerReference("example.com/v1", "Fleet", "f", "1", controller=True)
    there = (
        machine("a", is_ready=True, is_available=True, version="v1.36.3"),
        machine("b", is_ready=True, version="v1.36.2"),
        machine("c", is_ready=True, is_available=True, owners=(stranger,)),
    )
    status = run(pool(replicas=3), infrastructure=infra("a", "b", "c", **KIND), machines=there).pool.status
    assert (status.ready_replicas, status.available_replicas, status.up_to_date_replicas) == (2, 1, 2)
    assert status.versions == (("v1.36.2", 1), ("v1.36.3", 1))
    assert status.replicas == 3


def test_counters_of_a_pool_without_machines_are_what_its_infrastructure_says() -> None:
    there = (node("a", kubelet_version="v1.10.0"), node("b", kubelet_version="v1.9.0"))
    status = run(pool(replicas=5), infrastructure=infra("a", "b"), nodes=there).pool.status
    assert (status.ready_replicas, status.available_replicas, status.up_to_date_replicas) == (2, 2, 5)
    assert status.versions == (("v1.9.0", 1), ("v1.10.0", 1)), "lowest version first"


# Deletion


def going(**more: Any) -> model.MachinePool:
    status = {"node_refs": (model.NodeRef("a", "uid-a"),)}
    given = {"deleted_s": NOW_S, "provider_ids": ("test:///a",), "node_deletion_timeout_s": 10.0, "status": status}
    return pool(**{**given, **more})


GONE = model.MissingObject(INFRA)
DOWN = model.UnreachableCluster("WorkloadClusterUnreachable", "refused")


def test_providers_objects_go_first_and_are_waited_for() -> None:
    made = run(going(bootstrap_ref=CONFIG), bootstrap=external(CONFIG), infrastructure=infra("a"), nodes=(node("a"),))
    assert [type(step) for step in made.steps] == [model.DeleteProviderObject, model.DeleteProviderObject]
    assert (made.pool.status.phase, model.FINALIZER in made.pool.finalizers) == (model.DELETING, True)
    held = dataclasses.replace(infra("a"), is_deleting=True)
    waiting = run(going(), infrastructure=held, nodes=(node("a"),))
    assert waiting.steps == ()
    assert model.FINALIZER in waiting.pool.finalizers


def test_then_all_nodes_go_those_in_the_list_as_well() -> None:
    made = run(going(), infrastructure=GONE, nodes=(node("a"),))
    assert made.steps == (model.DeleteNode("a", "uid-a"),)
    assert model.FINALIZER in made.pool.finalizers
    done = run(going(), infrastructure=GONE, nodes=())
    assert model.FINALIZER not in done.pool.finalizers


@pytest.mark.parametrize(
    ("nodes", "passed_s", "timeout_s", "done"),
    [
        (DOWN, 0.0, 10.0, False),
        (DOWN, 11.0, 10.0, True),
        (DOWN, 1e9, 0.0, False),
        (DOWN, 1e9, None, False),
        ((node("a"),), 5.0, 10.0, False),
        ((node("a"),), 11.0, 10.0, True),
        ((node("a", is_deleting=True),), 0.0, 0.0, True),
        ((), 0.0, 0.0, True),
    ],
)
def test_the_pool_goes_when_its_nodes_are_gone_or_their_time_is_over(
    nodes: Any, passed_s: float, timeout_s: float | None, done: bool
) -> None:
    made = run(going(node_deletion_timeout_s=timeout_s), infrastructure=GONE, nodes=nodes, now_s=NOW_S + passed_s)
    assert (model.FINALIZER not in made.pool.finalizers) is done
    if not done and timeout_s:
        assert made.requeue_after_s is not None, "the end of the timeout is not slept through"
        assert made.requeue_after_s <= timeout_s - passed_s + 0.2


def test_a_pool_that_knows_of_no_nodes_waits_for_no_cluster() -> None:
    made = run(going(status={}), infrastructure=GONE, nodes=DOWN)
    assert model.FINALIZER not in made.pool.finalizers


def test_a_cluster_that_goes_as_well_is_not_waited_for() -> None:
    cluster = dataclasses.replace(CLUSTER, is_deleting=True)
    made = run(going(node_deletion_timeout_s=0.0), cluster=cluster, infrastructure=GONE, nodes=DOWN)
    assert model.FINALIZER not in made.pool.finalizers


def test_other_finalizers_stay() -> None:
    made = run(going(finalizers=("other", model.FINALIZER), status={}, provider_ids=()), infrastructure=GONE)
    assert made.pool.finalizers == ("other",)


def test_a_definition_that_is_gone_holds_no_pool_but_one_without_a_label_does() -> None:
    observed = see(going(status={}, provider_ids=()), infrastructure=model.MissingObject(INFRA, "newpools.x"))
    assert reconcile.reconcile_deletion(observed, NOW_S).is_done
    unlabelled = dataclasses.replace(observed, infrastructure=model.MissingObject(INFRA, "newpools.x", unlabelled=True))
    assert not reconcile.reconcile_deletion(unlabelled, NOW_S).is_done


# Clusters

HELD = ("cluster.cluster.x-k8s.io", model.CLUSTER_FINALIZER)
POOL = model.ClusterPool("pool", "uid", has_finalizer=True)


def body_of_cluster(conditions_: Json | None = None, **metadata: Any) -> Json:
    status = {"conditions": [conditions_] if conditions_ else []}
    return {"metadata": {"name": "c", **metadata}, "spec": {"topology": {"classRef": {}}}, "status": status}


@pytest.mark.parametrize(
    ("cluster", "pools", "finalizers", "deleted"),
    [
        ({}, [POOL], HELD, []),
        ({"finalizers": HELD}, [POOL], None, []),
        ({"finalizers": HELD}, [], HELD[:1], []),
        ({}, [], None, []),
        ({"is_paused": True}, [POOL], None, []),
        ({"is_paused": True, "finalizers": HELD}, [], None, []),
        ({"is_deleting": True, "finalizers": HELD}, [POOL], None, ["pool"]),
        ({"is_deleting": True}, [POOL], None, ["pool"]),  # a finalizer cannot be added any more
        ({"is_deleting": True, "is_paused": True}, [POOL], None, []),
        ({"is_deleting": True, "may_delete_workers": False}, [POOL], None, []),
        ({"is_deleting": True}, [dataclasses.replace(POOL, has_finalizer=False)], None, []),
        ({"is_deleting": True, "finalizers": HELD}, [dataclasses.replace(POOL, is_deleting=True)], None, []),
        ({"is_deleting": True, "finalizers": HELD}, [], HELD[:1], []),
    ],
)
def test_a_cluster_is_held_while_it_has_pools_and_takes_them_along(
    cluster: Json, pools: list[model.ClusterPool], finalizers: tuple[str, ...] | None, deleted: list[str]
) -> None:
    found = model.Cluster(**{"name": "c", "uid": "uid", "finalizers": HELD[:1], **cluster})
    made = reconcile_cluster(found, pools)
    assert made.finalizers == finalizers
    assert [entry.name for entry in made.deleted_pools] == deleted


@pytest.mark.parametrize(
    ("body", "may"),
    [
        (body_of_cluster(), False),
        (body_of_cluster({"type": "Deleting", "status": "True", "reason": "WaitingForBeforeDeleteHook"}), False),
        (body_of_cluster({"type": "Deleting", "status": "False", "reason": "NotDeleting"}), False),
        (body_of_cluster({"type": "Deleting", "status": "True", "reason": "WaitingForWorkersDeletion"}), True),
        (body_of_cluster(annotations={model.OK_TO_DELETE_ANNOTATION: ""}), True),
        ({"metadata": {"name": "c"}, "spec": {}}, True),
    ],
)
def test_pools_of_a_topology_stay_until_its_hooks_have_passed(body: Json, may: bool) -> None:
    assert conversion.parse_cluster(body).may_delete_workers == may
