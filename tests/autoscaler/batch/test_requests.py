"""ProvisioningRequests on an API server: read, answered, booked over a restart, and what is wrong with them told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.autoscaler.little_cluster import Cluster, play
from windlass.engine.provisioning import aging, classes
from windlass.engine.provisioning.request import CONSUME
from windlass.engine.settings import ProvisioningRequests, Settings
from windlass.kube import prepare, resources

Json = dict[str, Any]
CRDS = Path(__file__).parents[3] / "deploy" / "crds"
SERVED = Settings(provisioning_requests=ProvisioningRequests(enable_provisioning_requests=True))
BATCHED = replace(
    SERVED,
    provisioning_requests=ProvisioningRequests(enable_provisioning_requests=True, check_capacity_batch_processing=True),
)
FOUND = {"Accepted": "Accepted", "Provisioned": "CapacityIsFound"}
ORDERED = {"Accepted": "Accepted", "Provisioned": "CapacityIsProvisioned"}


def install(cluster: Cluster) -> None:
    """The definition as it is shipped, but for what is left to a real server: CEL rules, and a second version."""
    definition = yaml.safe_load((CRDS / "autoscaling.x-k8s.io_provisioningrequests.yaml").read_text())
    definition["spec"]["versions"] = [without_rules(definition["spec"]["versions"][0])]
    cluster.server.apply(definition, "test")


def without_rules(schema: Any) -> Any:
    match schema:
        case dict():
            return {key: without_rules(each) for key, each in schema.items() if key != "x-kubernetes-validations"}
        case list():
            return [without_rules(each) for each in schema]
    return schema


def add_template(cluster: Cluster, name: str = "t", cpu: str = "1") -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default"}
    cluster.server.apply(
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": metadata,
            "template": {"spec": {"containers": [container]}},
        },
        "test",
    )


def ask(cluster: Cluster, name: str, count: int = 1, kind: str = classes.CHECK_CAPACITY, **more: Any) -> None:
    cluster.server.apply(
        {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "provisioningClassName": kind,
                "podSets": [{"count": count, "podTemplateRef": {"name": more.pop("template", "t")}}],
                **more,
            },
        },
        "test",
    )


async def said(cluster: Cluster, name: str) -> dict[str, str]:
    """The reason of each condition that holds, or that says that it does not."""
    found = await cluster.api.get(resources.PROVISIONING_REQUESTS.untyped(), name, "default")
    return {one["type"]: one["reason"] for one in found.get("status", {}).get("conditions", ())}


async def until_said(cluster: Cluster, name: str, expected: dict[str, str], within_s: float = 60.0) -> None:
    since_s = cluster.clock.monotonic_s()
    while (found := await said(cluster, name)) != expected:
        assert cluster.clock.monotonic_s() < since_s + within_s, found
        cluster.register_nodes()
        await cluster.clock.sleep(0.2)


def test_a_request_is_answered_and_booked_and_its_booking_ends() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        cluster.add_group("a", 1)
        cluster.register_nodes()
        add_template(cluster)
        async with cluster.autoscaling() as running:
            ask(cluster, "r", 4)
            await until_said(cluster, "r", FOUND)
            ask(cluster, "late", 1)
            await until_said(cluster, "late", {"Accepted": "Accepted", "Provisioned": "CapacityIsNotFound"})
            assert running.decision is not None
            assert running.decision.story.requests.booked == {"default/r": 4}
            await cluster.clock.sleep(aging.BOOKING_S)
            await until_said(cluster, "r", {**FOUND, "BookingExpired": "CapacityReservationTimeExpired"})
            await until_said(cluster, "late", FOUND, 700)

    play(scenario, SERVED)


def test_an_atomic_request_gets_nodes_that_ordinary_scale_down_leaves_alone_until_it_ends() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        group = cluster.add_group("a", 0)
        add_template(cluster)
        async with cluster.autoscaling():
            ask(cluster, "r", 8, classes.ATOMIC)
            await until_said(cluster, "r", ORDERED)
            await cluster.until(lambda: len(cluster.provider.nodes) == 2)
            await cluster.clock.sleep(400)
            assert group.size == 2
            await cluster.until(lambda: group.size == 0, 2000)

    play(scenario, SERVED)


def test_a_booking_outlives_the_process_and_its_memory() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        cluster.add_group("a", 1)
        cluster.register_nodes()
        add_template(cluster)
        async with cluster.autoscaling():
            ask(cluster, "r", 4)
            await until_said(cluster, "r", FOUND)
        await cluster.api.delete(resources.CONFIG_MAPS, "windlass-memory", "kube-system")
        async with cluster.autoscaling() as running:
            ask(cluster, "late", 1)
            await until_said(cluster, "late", {"Accepted": "Accepted", "Provisioned": "CapacityIsNotFound"})
            assert running.decision is not None
            assert running.decision.story.requests.booked == {"default/r": 4}

    play(scenario, SERVED)


def test_room_is_not_given_away_twice_while_an_answer_is_on_its_way() -> None:
    """Two requests for the same room, served by loops that follow each other at once."""

    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        cluster.add_group("a", 1)
        cluster.register_nodes()
        add_template(cluster)
        async with cluster.autoscaling() as running:
            for number in range(6):
                ask(cluster, f"r{number}", 3)
            for _ in range(300):
                running.loop.wake()
                await cluster.clock.sleep(0.01)
            answers = [await said(cluster, f"r{number}") for number in range(6)]
            assert [one.get("Provisioned") for one in answers].count("CapacityIsFound") == 1

    play(scenario, SERVED)


def test_a_batch_is_answered_in_one_loop() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        cluster.add_group("a", 2)
        cluster.register_nodes()
        add_template(cluster)
        for number in range(9):
            ask(cluster, f"r{number}", 1)
        async with cluster.autoscaling() as running:
            await until_said(cluster, "r8", {"Accepted": "Accepted", "Provisioned": "CapacityIsNotFound"})
            answers = [await said(cluster, f"r{number}") for number in range(9)]
            assert answers[:8] == [FOUND] * 8
            assert running.memory.durable.loop <= 3

    play(scenario, BATCHED)


def test_what_is_wrong_with_a_request_is_told_and_keeps_nothing_else_from_going_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        cluster.add_group("a", 1)
        cluster.register_nodes()
        add_template(cluster)
        async with cluster.autoscaling():
            ask(cluster, "missing", 1, template="nowhere")
            ask(cluster, "foreign", 1, "other.example.com")
            ask(cluster, "good", 1)
            await until_said(cluster, "good", FOUND)
            await until_said(cluster, "missing", {"Failed": "FailedToCreatePods"})
            assert await said(cluster, "foreign") == {}
            found = await cluster.api.get(resources.PROVISIONING_REQUESTS.untyped(), "missing", "default")
            assert found["status"]["conditions"][0]["message"].endswith("1 templates were missing: nowhere")

    play(scenario, SERVED)


def test_a_template_that_is_created_after_its_request_is_waited_for() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        cluster.add_group("a", 1)
        cluster.register_nodes()
        async with cluster.autoscaling():
            ask(cluster, "r", 1)
            await cluster.clock.sleep(2)
            add_template(cluster)
            await until_said(cluster, "r", FOUND)

    play(scenario, SERVED)


def test_the_definition_refuses_a_count_of_zero() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        body = {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": {"name": "r", "namespace": "default"},
            "spec": {"provisioningClassName": "c", "podSets": [{"count": 0, "podTemplateRef": {"name": "t"}}]},
        }
        answer = cluster.server.handle(prepare.create(resources.PROVISIONING_REQUESTS, body))
        assert answer.status == 422

    play(scenario, SERVED)


def test_without_the_definition_everything_else_goes_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        group = cluster.add_group("a", 0)
        async with cluster.autoscaling():
            cluster.add_pod("p")
            await cluster.until(lambda: group.size == 1)

    play(scenario, SERVED)


def test_pods_that_use_a_request_trigger_no_scale_up() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        group = cluster.add_group("a", 0)
        async with cluster.autoscaling():
            cluster.add_pod("p", annotations={CONSUME: "r"})
            await cluster.clock.sleep(60)
            assert group.size == 0

    play(scenario, SERVED)


def test_one_answer_that_someone_overtook_is_decided_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        install(cluster)
        cluster.add_group("a", 1)
        cluster.register_nodes()
        add_template(cluster)
        async with cluster.autoscaling():
            ask(cluster, "r", 1)
            patch = {"metadata": {"labels": {"touched": "yes"}}}
            await cluster.api.merge_patch(resources.PROVISIONING_REQUESTS, "r", patch, "default")
            await until_said(cluster, "r", FOUND)

    play(scenario, SERVED)
