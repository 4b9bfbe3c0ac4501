"""What cannot be is said in words, as a condition, an event and a line of the log, and disturbs nothing else."""

import logging
from typing import Any

import pytest

from tests.controllers.openshift import controller_harness
from tests.controllers.openshift.machine_autoscaler.machine_set_pair import MACHINE_API, READY, autoscaled, bounds, make
from tests.controllers.openshift.openshift_cluster import Cluster, in_virtual_time

SUPPORTED = "machine.openshift.io/v1beta1 or cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1"
UNSUPPORTED = "unsupported MachineAutoscaler target: found {}, expected a MachineSet of " + SUPPORTED


async def probe(scene: Cluster, name: str) -> Any:
    return await scene.api.get(MACHINE_API.machine_sets(), name, MACHINE_API.namespace)


async def check_said(scene: Cluster, ready: tuple[str, str], event: str, told: str) -> None:
    """Of `ma`: as a condition, and as one event."""
    assert await scene.ready("ma") == ("False", *ready)
    (found,) = [item for item in await scene.events(event) if ready[1] in item["message"]]
    assert (found["type"], found["message"]) == ("Warning", f"{told}: {ready[1]}")
    assert found["involvedObject"]["name"] == "ma"


@pytest.mark.parametrize(
    ("least", "most", "told"),
    [
        (5, 2, "max replicas must be greater than or equal to min"),
        (-1, 2, "min and max replicas must be greater than 0"),
        (-2, -3, "[min and max replicas must be greater than 0, max replicas must be greater than or equal to min]"),
    ],
)
def test_bounds_that_cannot_be_are_said_and_leave_those_that_were_there(least: int, most: int, told: str) -> None:
    """The definition refuses them; where it does not, the controller does."""

    async def story(scene: Cluster) -> None:
        await scene.loosen("machineautoscalers.autoscaling.openshift.io")
        async with autoscaled(scene):
            await scene.autoscale("ma", "set", least=least, most=most)
            message = f"{told}: found minReplicas {least}, maxReplicas {most}"
            said = ("MachineAutoscalerInvalid", message)
            await check_said(scene, said, "FailedValidation", "MachineAutoscaler validation error")
            assert await scene.annotations(MACHINE_API, "set") == bounds(MACHINE_API)

    controller_harness.play(Cluster, story)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("apps/v1", "Deployment"),
        ("cluster.x-k8s.io/v1beta2", "MachineDeployment"),
        ("cluster.x-k8s.io/v1alpha4", "MachineSet"),
        ("", "MachineSet"),
    ],
)
def test_unsupported_targets_say_what_would_be_one(api_version: str, kind: str) -> None:
    async def story(scene: Cluster) -> None:
        await scene.add_pair("other", "MachineAPI")
        async with autoscaled(scene):
            await scene.autoscale("other", "other")
            before = await probe(scene, "other")
            await scene.autoscale("ma", "set", api_version, kind=kind)
            said = ("MachineAutoscalerTargetInvalid", UNSUPPORTED.format(f"{api_version} {kind}".strip()))
            await check_said(scene, said, "FailedGetTarget", "Error getting target")
            assert await scene.annotations(MACHINE_API, "set") == {}, "it is no longer what is autoscaled"
            assert await probe(scene, "other") == before
            assert await scene.ready("other") == READY

    controller_harness.play(Cluster, story)


@pytest.mark.parametrize(
    ("key", "found", "told"),
    [
        ("machine.openshift.io/GPU", "many", "could not parse quantity: {}: found 'many', expected a number of GPUs"),
        (
            "machine.openshift.io/memoryMb",
            "8Gi",
            "could not parse integer: {}: found '8Gi', expected MiB as a whole number",
        ),
        (
            "machine.openshift.io/memoryMb",
            "1.5",
            "could not parse integer: {}: found '1.5', expected MiB as a whole number",
        ),
    ],
)
def test_a_promise_that_cannot_be_read_is_said_and_disturbs_nothing_else(key: str, found: str, told: str) -> None:
    """Upstream ends at a bad GPU quantity."""

    async def story(scene: Cluster) -> None:
        await scene.add_pair("other", "MachineAPI")
        async with autoscaled(scene):
            await scene.autoscale("other", "other")
            await scene.annotate(MACHINE_API, "set", {key: found})
            message = f"MachineSet {MACHINE_API.namespace}/set: {told}".format(f'annotation "{key}"')
            said = ("MachineAutoscalerTargetInvalid", message)
            await check_said(scene, said, "FailedUpdateTarget", "Error updating target")
            assert await scene.annotations(MACHINE_API, "set") == {**bounds(MACHINE_API), key: found}
            await scene.autoscale("other", "other", most=4)
            assert await scene.annotations(MACHINE_API, "other") == bounds(MACHINE_API, "other", most=4)
            await scene.annotate(MACHINE_API, "set", {key: None})
            assert await scene.ready("ma") == READY

    controller_harness.play(Cluster, story)


@in_virtual_time
async def test_a_promise_that_nobody_needs_may_be_unreadable(scene: Cluster) -> None:
    """The autoscaler's own keys say it already."""
    said = {"machine.openshift.io/GPU": "many", "machine.openshift.io/memoryMb": "8Gi"}
    prefix = "capacity.cluster-autoscaler.kubernetes.io"
    known = {f"{prefix}/gpu-count": "1", f"{prefix}/gpu-type": "amd.com/gpu", f"{prefix}/memory": "8Gi"}
    await scene.add_pair("set", "MachineAPI")
    await scene.annotate(MACHINE_API, "set", {**said, **known})
    async with scene.controlled(make):
        await scene.autoscale("ma", "set")
        assert await scene.ready("ma") == READY
        assert await scene.annotations(MACHINE_API, "set") == {**bounds(MACHINE_API), **said, **known}


def test_what_is_wrong_is_in_the_log_under_the_name_of_the_autoscaler(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Cluster) -> None:
        async with autoscaled(scene):
            await scene.autoscale("missing", "nothing")
            await scene.settle(1500.0)

    caplog.set_level(logging.INFO)
    controller_harness.play(Cluster, story)
    told = [record for record in caplog.records if record.name.endswith("controller_runtime")]
    assert [(record.levelname, record.getMessage()) for record in told] == [
        (
            "INFO",
            "recorded event: kind=MachineAutoscaler object=openshift-machine-api/ma reason=SuccessfulUpdate "
            "message='Updated MachineAutoscaler target: openshift-machine-api/set'",
        ),
        (
            "WARNING",
            "recorded event: kind=MachineAutoscaler object=openshift-machine-api/missing reason=FailedGetTarget "
            "message='Error getting target: MachineSet openshift-machine-api/nothing (machine.openshift.io) not found'",
        ),
    ]
