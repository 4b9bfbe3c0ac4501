"""ProvisioningRequests on an API server: read, answered, booked over a restart, and what is wrong with them told."""

from dataclasses import replace

import pytest

from tests.autoscaler.capacity_apis.api_objects import (
    add_template,
    ask,
    message,
    played,
    said,
    serving,
    status,
    until_said,
)
from tests.autoscaler.in_process_cluster import Cluster, play
from windlass.autoscaler.autoscaler import Autoscaler
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model.provisioning import CONSUME_ANNOTATION
from windlass.engine.model.settings import ProvisioningRequestSettings, Settings
from windlass.kube import errors, resources

SERVED = Settings(provisioning_requests=ProvisioningRequestSettings(enable_provisioning_requests=True))
BATCHED = replace(
    SERVED, provisioning_requests=replace(SERVED.provisioning_requests, check_capacity_batch_processing=True)
)
FOUND = {"Accepted": "Accepted", "Provisioned": "CapacityIsFound"}
ORDERED = {"Accepted": "Accepted", "Provisioned": "CapacityIsProvisioned"}
NOT_FOUND = {"Accepted": "Accepted", "Provisioned": "CapacityIsNotFound"}


def booked(running: Autoscaler) -> dict[str, int]:
    """Pods that the last loop kept room for, by request."""
    assert running.decision is not None
    return dict(running.decision.story.requests.booked)


@played(SERVED)
async def test_a_request_is_answered_and_booked_and_its_booking_ends(cluster: Cluster) -> None:
    async with serving(cluster) as running:
        ask(cluster, "r", 4)
        await until_said(cluster, "r", FOUND)
        ask(cluster, "late", 1)
        await until_said(cluster, "late", NOT_FOUND)
        assert booked(running) == {"default/r": 4}
        await cluster.clock.sleep(provisioning_request_queue.BOOKING_S)
        await until_said(cluster, "r", {**FOUND, "BookingExpired": "CapacityReservationTimeExpired"})
        await until_said(cluster, "late", FOUND, 700)


@played(SERVED)
async def test_an_atomic_request_gets_nodes_that_ordinary_scale_down_leaves_alone_until_it_ends(
    cluster: Cluster,
) -> None:
    async with serving(cluster, nodes=0):
        ask(cluster, "r", 8, provisioning_request_queue.ATOMIC_SCALE_UP_CLASS)
        await until_said(cluster, "r", ORDERED)
        await cluster.until(lambda: len(cluster.provider.nodes) == 2)
        await cluster.clock.sleep(400)
        assert len(cluster.provider.nodes) == 2
        await cluster.until(lambda: not cluster.provider.nodes, 2000)


@played(SERVED)
async def test_a_booking_outlives_the_process_and_its_memory(cluster: Cluster) -> None:
    async with serving(cluster):
        ask(cluster, "r", 4)
        await until_said(cluster, "r", FOUND)
    await cluster.api.delete(resources.CONFIG_MAPS, "windlass-memory", "kube-system")
    async with cluster.autoscaling() as running:
        ask(cluster, "late", 1)
        await until_said(cluster, "late", NOT_FOUND)
        assert booked(running) == {"default/r": 4}


@played(SERVED)
async def test_room_is_not_given_away_twice_while_an_answer_is_on_its_way(cluster: Cluster) -> None:
    """Requests for the same room, served by loops that follow each other at once."""
    async with serving(cluster) as running:
        for number in range(6):
            ask(cluster, f"r{number}", 3)
        for _ in range(300):
            running.loop.wake()
            await cluster.clock.sleep(0.01)
        answers = [await said(cluster, f"r{number}") for number in range(6)]
        assert [item.get("Provisioned") for item in answers].count("CapacityIsFound") == 1


@played(BATCHED)
async def test_a_batch_is_answered_in_one_loop(cluster: Cluster) -> None:
    for number in range(9):
        ask(cluster, f"r{number}", 1)
    async with serving(cluster, nodes=2) as running:
        await until_said(cluster, "r8", NOT_FOUND)
        answers = [await said(cluster, f"r{number}") for number in range(9)]
        assert answers[:8] == [FOUND] * 8
        assert running.memory.durable.loop <= 3


@played(SERVED)
async def test_what_is_wrong_with_a_request_is_told_and_keeps_nothing_else_from_going_on(cluster: Cluster) -> None:
    async with serving(cluster):
        ask(cluster, "missing", 1, template="nowhere")
        ask(cluster, "foreign", 1, "other.example.com")
        ask(cluster, "good", 1)
        await until_said(cluster, "good", FOUND)
        await until_said(cluster, "missing", {"Failed": "FailedToCreatePods"})
        assert await said(cluster, "foreign") == {}
        found = await status(cluster, resources.PROVISIONING_REQUESTS, "missing")
        assert message(found, "Failed").endswith("1 templates were missing: nowhere")


@played(SERVED)
async def test_a_request_is_told_what_groups_and_nodes_have_against_its_pods(cluster: Cluster) -> None:
    gpu = {"name": "r", "exactly": {"deviceClassName": "nowhere"}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    cluster.server.apply({**claim, "spec": {"devices": {"requests": [gpu]}}})
    async with serving(cluster):
        add_template(cluster, "huge", cpu="100")
        add_template(cluster, "gpu", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
        expected = {
            ("huge", provisioning_request_queue.ATOMIC_SCALE_UP_CLASS): "Groups say: 1 Insufficient cpu",
            (
                "huge",
                provisioning_request_queue.CHECK_CAPACITY_CLASS,
            ): "Room for 0 of 5 pods; nodes say of the next: 1 Insufficient cpu",
            (
                "t",
                provisioning_request_queue.CHECK_CAPACITY_CLASS,
            ): "Room for 4 of 5 pods; nodes say of the next: 1 Insufficient cpu",
            (
                "gpu",
                provisioning_request_queue.ATOMIC_SCALE_UP_CLASS,
            ): "Groups say: 1 request r: device class nowhere does not exist",
        }
        for (template, kind), why in expected.items():
            name = f"{template}-{kind.partition('.')[0]}"
            ask(cluster, name, 5, kind, template)
            await until_said(cluster, name, NOT_FOUND)
            found = message(await status(cluster, resources.PROVISIONING_REQUESTS, name), "Provisioned")
            assert found == f"Capacity is not found, CA will try to find it later. {why}"


@played(SERVED)
async def test_a_template_that_is_created_after_its_request_is_waited_for(cluster: Cluster) -> None:
    async with serving(cluster):
        ask(cluster, "r", 1, template="late")
        await cluster.clock.sleep(2)
        add_template(cluster, "late")
        await until_said(cluster, "r", FOUND)


@played(SERVED)
async def test_the_definition_refuses_a_count_of_zero(cluster: Cluster) -> None:
    body = {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {"provisioningClassName": "c", "podSets": [{"count": 0, "podTemplateRef": {"name": "t"}}]},
    }
    with pytest.raises(errors.Invalid, match="podSets"):
        await cluster.api.create(resources.PROVISIONING_REQUESTS.untyped(), body)


def test_without_the_definition_everything_else_goes_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = cluster.add_group("a", 0)
        async with cluster.autoscaling():
            cluster.add_pod("p")
            await cluster.until(lambda: group.size == 1)

    play(scenario, SERVED)


@played(SERVED)
async def test_a_booking_ends_when_all_pods_of_the_request_are_scheduled(cluster: Cluster) -> None:
    async with serving(cluster) as running:
        ask(cluster, "r", 2)
        await until_said(cluster, "r", FOUND)
        (node,) = cluster.provider.nodes
        for name, left in (("p", 2), ("q", 1)):
            assert booked(running) == {"default/r": left}
            cluster.add_pod(name, "1", node.name, annotations={CONSUME_ANNOTATION: "r"})
            await cluster.clock.sleep(30)
        await until_said(cluster, "r", {**FOUND, "BookingExpired": "CapacityBookingConsumed"})
        assert booked(running) == {}


@played(SERVED)
async def test_a_booking_whose_template_is_deleted_has_failed(cluster: Cluster) -> None:
    async with serving(cluster) as running:
        ask(cluster, "r", 2)
        await until_said(cluster, "r", FOUND)
        await cluster.api.delete(resources.POD_TEMPLATES, "t", "default")
        await until_said(cluster, "r", {**FOUND, "Failed": "FailedToBookCapacity"})
        assert booked(running) == {}


@played(SERVED)
async def test_a_request_without_an_answer_for_a_week_has_failed(cluster: Cluster) -> None:
    ask(cluster, "r", 2)
    await cluster.clock.sleep(provisioning_request_queue.EXPIRATION_S + 60)
    async with serving(cluster):
        await until_said(cluster, "r", {"Failed": "Expired"})


@played(SERVED)
async def test_pods_that_use_a_request_trigger_no_scale_up(cluster: Cluster) -> None:
    async with serving(cluster, nodes=0):
        cluster.add_pod("p", annotations={CONSUME_ANNOTATION: "r"})
        await cluster.clock.sleep(60)
        assert not cluster.provider.nodes


@played(SERVED)
async def test_one_answer_that_someone_overtook_is_decided_again(cluster: Cluster) -> None:
    async with serving(cluster):
        ask(cluster, "r", 1)
        patch = {"metadata": {"labels": {"touched": "yes"}}}
        await cluster.api.merge_patch(resources.PROVISIONING_REQUESTS, "r", patch, "default")
        await until_said(cluster, "r", FOUND)
