"""What is written of a MachineDeployment, and how replicas change hands."""

import dataclasses

import pytest

from tests.controllers.machine_deployment_builders import MACHINE, REPLICAS, V1BETA1, V1BETA2, applied, entry, wanted
from windlass.controllers import machine_deployments
from windlass.controllers.machine_deployments import (
    ApplyMachineDeployment,
    MachineDeployment,
    PoolSize,
    ReplicaLimits,
    ReplicasHandover,
)

US = "operator"
SECOND = "operator-handover"
LIMITS = ReplicaLimits(2, 9)
SCALE = entry("cluster-autoscaler", REPLICAS, "Update", "scale")
HELD = entry(SECOND, REPLICAS)


def body(replicas: int | None = None, limits: ReplicaLimits | None = None) -> dict[str, object]:
    return machine_deployments.build_manifest(wanted(limits=limits), replicas)


def plan(live: MachineDeployment | None, size: PoolSize, initial: int | None = None) -> ApplyMachineDeployment | None:
    return machine_deployments.plan_apply(wanted(limits=size.limits), size, initial, live, US)


# New ones


def test_a_new_static_one_has_its_replicas_and_no_bounds() -> None:
    step = plan(None, PoolSize(3))
    assert step == ApplyMachineDeployment("md", body(3))
    assert "annotations" not in body(3)["metadata"]  # type: ignore[operator]


def test_a_new_autoscaled_one_has_bounds_and_the_replicas_it_is_to_begin_with_or_none() -> None:
    assert plan(None, PoolSize(3, LIMITS)) == ApplyMachineDeployment("md", body(None, LIMITS))
    assert plan(None, PoolSize(3, LIMITS), 5) == ApplyMachineDeployment("md", body(5, LIMITS))
    assert "replicas" not in body(None, LIMITS)["spec"]  # type: ignore[operator]


# Static


@pytest.mark.parametrize("others", [(), (HELD,), (SCALE,)])
def test_a_static_one_that_is_as_it_should_be_is_left_alone(others: tuple[dict[str, object], ...]) -> None:
    assert plan(applied(body(3), US, *others), PoolSize(3)) is None


def test_a_static_one_that_someone_scaled_gets_its_replicas_back() -> None:
    live = applied(body(), US, SCALE, replicas=8)
    assert plan(live, PoolSize(3)) == ApplyMachineDeployment("md", body(3), None, "uid", "7")


def test_replicas_that_are_right_but_not_ours_are_made_ours() -> None:
    assert plan(applied(body(), US, SCALE, replicas=3), PoolSize(3)) == ApplyMachineDeployment(
        "md", body(3), None, "uid", "7"
    )


# Autoscaled


@pytest.mark.parametrize("replicas", [0, 1, 2, 7, 12])
def test_an_autoscaled_one_keeps_what_the_autoscaler_made_of_it(replicas: int) -> None:
    assert plan(applied(body(None, LIMITS), US, SCALE, replicas=replicas), PoolSize(3, LIMITS)) is None


def test_what_is_handed_over_is_handed_over_once() -> None:
    assert plan(applied(body(None, LIMITS), US, HELD, replicas=7), PoolSize(3, LIMITS)) is None


def test_other_bounds_are_written_and_replicas_stay() -> None:
    live = applied(body(None, LIMITS), US, SCALE, replicas=7)
    assert plan(live, PoolSize(3, ReplicaLimits(1, 4))) == ApplyMachineDeployment(
        "md", body(None, ReplicaLimits(1, 4)), None, "uid", "7"
    )


def test_replicas_that_nobody_owns_are_handed_over_as_they_are() -> None:
    live = applied(body(None, LIMITS), US, replicas=12)
    assert plan(live, PoolSize(3, LIMITS)) == ApplyMachineDeployment(
        "md", None, ReplicasHandover(12, False), "uid", "7"
    )


def test_replicas_that_are_not_there_become_the_minimum() -> None:
    live = applied(body(None, LIMITS), US)
    assert plan(live, PoolSize(3, LIMITS)) == ApplyMachineDeployment("md", None, ReplicasHandover(2, True), "uid", "7")


def test_what_a_new_one_began_with_is_handed_over_even_out_of_bounds() -> None:
    live = applied(body(15, LIMITS), US)
    assert plan(live, PoolSize(15, LIMITS)) == ApplyMachineDeployment(
        "md", body(None, LIMITS), ReplicasHandover(15, False), "uid", "7"
    )


@pytest.mark.parametrize(("replicas", "kept"), [(1, 2), (2, 2), (5, 5), (9, 9), (12, 9), (0, 2)])
def test_a_static_one_that_becomes_autoscaled_moves_into_its_bounds_once(replicas: int, kept: int) -> None:
    live = applied(body(replicas), US)
    step = plan(live, PoolSize(replicas, LIMITS))
    assert step == ApplyMachineDeployment(
        "md", body(None, LIMITS), ReplicasHandover(kept, kept != replicas), "uid", "7"
    )


def test_that_holds_where_the_second_manager_still_owns_replicas_too() -> None:
    step = plan(applied(body(1), US, HELD), PoolSize(1, LIMITS))
    assert step == ApplyMachineDeployment("md", body(None, LIMITS), ReplicasHandover(2, True), "uid", "7")
    step = plan(applied(body(4), US, HELD), PoolSize(4, LIMITS))
    assert step == ApplyMachineDeployment("md", body(None, LIMITS), None, "uid", "7")


def test_replicas_that_someone_else_owns_as_well_are_left_to_them() -> None:
    live = applied(body(12), US, entry("kubectl", REPLICAS, "Update"))
    assert plan(live, PoolSize(12, LIMITS)) == ApplyMachineDeployment("md", body(None, LIMITS), None, "uid", "7")


# What is applied already


def test_bounds_that_are_no_longer_wanted_are_taken_away_by_leaving_them_out() -> None:
    step = plan(applied(body(None, LIMITS), US, SCALE, replicas=8), PoolSize(3))
    assert step == ApplyMachineDeployment("md", body(3), None, "uid", "7")
    assert step.body is not None
    assert machine_deployments.MIN_SIZE_ANNOTATION not in step.body["metadata"].get("annotations", {})


def test_bounds_that_someone_emptied_are_put_right() -> None:
    live = applied(body(None, LIMITS), US, SCALE, replicas=8)
    live.body["metadata"]["annotations"][machine_deployments.MIN_SIZE_ANNOTATION] = ""
    assert plan(live, PoolSize(3, LIMITS)) == ApplyMachineDeployment("md", body(None, LIMITS), None, "uid", "7")


def test_fields_that_are_owned_as_one_piece_count_as_owned() -> None:
    live = applied(body(3), US)
    live.body["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:selector"] = {}
    assert machine_deployments.is_applied(live.body, body(3), US)


def test_what_others_filled_in_does_not_matter() -> None:
    live = applied(body(3), US)
    live.body["spec"]["progressDeadlineSeconds"] = 600
    live.body["metadata"]["labels"]["more"] = "yes"
    assert plan(live, PoolSize(3)) is None


# The manifest


def test_references_are_spelled_as_either_version_has_them() -> None:
    new = machine_deployments.build_manifest(wanted(), 1)["spec"]["template"]["spec"]
    assert new["infrastructureRef"] == {"apiGroup": "g", "kind": "Template", "name": "t"}
    assert new["version"] == "v1.36.3"
    assert "version" not in machine_deployments.build_manifest(_versioned("1.36"), 1)["spec"]["template"]["spec"]
    assert (
        machine_deployments.build_manifest(_versioned("v1.36.3+eks.1"), 1)["spec"]["template"]["spec"]["version"]
        == "v1.36.3+eks.1"
    )
    old = machine_deployments.build_manifest(
        machine_deployments.DesiredMachineDeployment(V1BETA1, "ns", "md", "c", MACHINE), 1
    )["spec"]["template"]["spec"]
    assert old["infrastructureRef"] == {"apiVersion": "g/v1", "kind": "Template", "name": "t", "namespace": "ns"}


def _versioned(version: str) -> machine_deployments.DesiredMachineDeployment:
    return dataclasses.replace(wanted(), machine=dataclasses.replace(MACHINE, version=version))


@pytest.mark.parametrize(
    ("version", "machine", "message"),
    [
        (
            V1BETA2,
            machine_deployments.MachineTemplate(),
            "bootstrap: found nothing, expected configRef or dataSecretName",
        ),
        (
            V1BETA2,
            machine_deployments.MachineTemplate({"dataSecretName": "s"}),
            "infrastructureRef.kind: found nothing, expected one",
        ),
        (
            V1BETA2,
            machine_deployments.MachineTemplate({"configRef": {"kind": "K"}}),
            "bootstrap.configRef.name: found nothing, expected one",
        ),
        (
            V1BETA2,
            machine_deployments.MachineTemplate({"dataSecretName": "s"}, {"kind": "K", "name": "n"}),
            "infrastructureRef.apiGroup: found nothing, expected one",
        ),
        (
            V1BETA1,
            machine_deployments.MachineTemplate({"dataSecretName": "s"}, {"apiGroup": "g", "kind": "K", "name": "n"}),
            "infrastructureRef.apiVersion: found nothing, expected one: cluster.x-k8s.io/v1beta1 refers by version",
        ),
    ],
)
def test_a_template_that_is_not_named_is_said_to_be_missing(
    version: str, machine: machine_deployments.MachineTemplate, message: str
) -> None:
    with pytest.raises(machine_deployments.IncompleteMachineDeployment) as incomplete:
        machine_deployments.build_manifest(
            machine_deployments.DesiredMachineDeployment(version, "ns", "md", "c", machine), 1
        )
    assert str(incomplete.value) == message


def test_a_name_that_is_no_label_is_said_to_be_too_long() -> None:
    name = "a" * 64
    with pytest.raises(
        machine_deployments.IncompleteMachineDeployment, match="found 64 characters, expected 63 at most"
    ):
        machine_deployments.build_manifest(wanted(name), 1)
