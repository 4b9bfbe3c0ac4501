"""Cluster API's side of the world, the cloud behind it, and nodes that come, fall silent and go."""

import pytest

from tests.simulator import small_clusters
from windlass.simulator.cluster import api_client, node_groups
from windlass.simulator.cluster.machines import DELETE_MACHINE_ANNOTATION
from windlass.simulator.cluster.simulated_cluster import SimulatedCluster


def _phases(world: SimulatedCluster) -> list[str]:
    return [machine["status"]["phase"] for machine in small_clusters.machines(world).values()]


def test_a_new_machine_becomes_a_node_and_then_a_ready_one() -> None:
    world = small_clusters.make()
    assert len(small_clusters.nodes(world)) == 2
    assert _phases(world) == ["Running", "Running"]
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 3)
    small_clusters.pass_time(world, 1)
    assert _phases(world) == ["Running", "Running", "Provisioning"]
    small_clusters.pass_time(world, 59.9)
    assert _phases(world)[2] == "Provisioned"
    assert len(small_clusters.nodes(world, only_ready=False)) == 2
    small_clusters.pass_time(world, 60)
    assert _phases(world)[2] == "Running"
    newest = world.api.list_objects(api_client.NODES)[small_clusters.nodes(world, only_ready=False)[2]]
    machine = list(small_clusters.machines(world).values())[2]
    assert machine["spec"]["providerID"] == newest["spec"]["providerID"]
    assert machine["status"]["nodeRef"]["name"] == newest["metadata"]["name"]
    assert {taint["key"] for taint in newest["spec"]["taints"]} == {"node.kubernetes.io/not-ready"}
    small_clusters.pass_time(world, 65)
    ready = world.api.list_objects(api_client.NODES)[newest["metadata"]["name"]]
    assert api_client.is_ready(ready)
    assert not ready["spec"].get("taints")
    assert ready["metadata"]["labels"][node_groups.ZONE] == "a"


def test_a_waiting_pod_gets_its_place_once_the_new_node_is_ready() -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "web", 10)
    small_clusters.pass_time(world, 5)
    waiting = [pod for pod in small_clusters.pods(world) if not api_client.node_of(pod)]
    assert len(waiting) == 2
    condition = api_client.condition_of(waiting[0], "PodScheduled")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == "0/2 nodes are available: 2 Insufficient cpu."
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 3)
    small_clusters.pass_time(world, 72)
    assert len(small_clusters.running(world)) == 10


def test_the_marked_machine_goes_and_its_pods_leave_first() -> None:
    world = small_clusters.make(small_clusters.group(initial=3))
    small_clusters.deploy(world, "web", 6)
    small_clusters.pass_time(world, 5)
    key, machine = list(small_clusters.machines(world).items())[1]
    world.api.update(api_client.MACHINES, api_client.with_annotation(machine, DELETE_MACHINE_ANNOTATION, "now"))
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 2)
    small_clusters.pass_time(world, 5.5)
    assert small_clusters.machines(world)[key]["status"]["phase"] == "Deleting"
    node = world.api.list_objects(api_client.NODES)[machine["metadata"]["name"]]
    assert node["spec"]["unschedulable"]
    small_clusters.pass_time(world, 30)
    assert key not in small_clusters.machines(world)
    assert machine["metadata"]["name"] not in small_clusters.nodes(world)
    assert len(small_clusters.running(world)) == 6
    assert world.machines.evictions == 2


def test_without_a_mark_a_machine_that_never_came_up_goes_first() -> None:
    world = small_clusters.make()
    world.cloud.exhaust_capacity("general")
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 3)
    small_clusters.pass_time(world, 100)
    before = small_clusters.nodes(world)
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 2)
    small_clusters.pass_time(world, 200)
    assert small_clusters.nodes(world) == before
    assert len(small_clusters.machines(world)) == 2


def test_a_drain_waits_for_the_budget() -> None:
    world = small_clusters.make(small_clusters.group(initial=2))
    small_clusters.budget(world, "web", minAvailable=4)
    small_clusters.deploy(world, "web", 4)
    small_clusters.pass_time(world, 5)
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 1)
    small_clusters.pass_time(world, 300)
    assert len(small_clusters.running(world)) == 4
    assert len(small_clusters.nodes(world)) == 2
    small_clusters.scale(world, api_client.DEPLOYMENTS, "web", 5)
    small_clusters.pass_time(world, 1000)
    assert len(small_clusters.nodes(world)) == 1
    assert len(small_clusters.running(world)) == 4


def test_machines_that_fail_never_have_a_node() -> None:
    world = small_clusters.make(small_clusters.group(failure_rate=1.0))
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 4)
    small_clusters.pass_time(world, 3600)
    assert len(small_clusters.nodes(world, only_ready=False)) == 2
    assert _phases(world) == ["Running", "Running", "Provisioned", "Provisioned"]


def test_nodes_that_never_settle_are_there_and_not_ready() -> None:
    world = small_clusters.make(small_clusters.group(unready_rate=1.0, initial=0))
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 1)
    small_clusters.pass_time(world, 3600)
    assert len(small_clusters.nodes(world, only_ready=False)) == 1
    assert small_clusters.nodes(world) == []


def test_a_zone_that_goes_down_loses_its_pods_after_their_patience_and_comes_back() -> None:
    world = small_clusters.make(small_clusters.group("a", "a", initial=1), small_clusters.group("b", "b", initial=1))
    small_clusters.deploy(world, "web", 2)
    small_clusters.pass_time(world, 10)
    world.cloud.fail_zone("a")
    small_clusters.pass_time(world, 59.9)
    assert len(small_clusters.nodes(world)) == 2
    small_clusters.pass_time(world, 60.1)
    assert len(small_clusters.nodes(world)) == 1
    assert len(small_clusters.running(world)) == 1
    small_clusters.pass_time(world, 359)
    assert len(small_clusters.running(world)) == 1
    small_clusters.pass_time(world, 363)
    assert len(small_clusters.running(world)) == 2
    assert len(small_clusters.pods(world)) == 3, "the pod on the silent node is still there, on its way out"
    world.cloud.recover_zone("a")
    small_clusters.pass_time(world, 364)
    assert len(small_clusters.nodes(world)) == 2
    assert len(small_clusters.pods(world)) == 2


def test_nothing_boots_in_a_zone_that_is_down() -> None:
    world = small_clusters.make()
    world.cloud.fail_zone("a")
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 3)
    small_clusters.pass_time(world, 1000)
    assert len(small_clusters.nodes(world, only_ready=False)) == 2
    world.cloud.recover_zone("a")
    small_clusters.pass_time(world, 1065.1)
    assert len(small_clusters.nodes(world)) == 3


def test_a_machine_that_vanishes_takes_its_node_and_pods_with_it() -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "web", 4)
    small_clusters.pass_time(world, 10)
    (instance,) = world.cloud.pick("general", 1)
    world.cloud.vanish(instance)
    small_clusters.pass_time(world, 71)
    assert instance.name not in small_clusters.nodes(world, only_ready=False)
    small_clusters.pass_time(world, 75)
    assert len(small_clusters.running(world)) == 4
    assert len(small_clusters.machines(world)) == 2, "nobody has told Cluster API"
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 1)
    small_clusters.pass_time(world, 100)
    assert len(small_clusters.machines(world)) == 1


def test_a_health_check_replaces_what_stays_silent() -> None:
    world = small_clusters.make(small_clusters.group(remediate_after_s=120.0))
    (instance,) = world.cloud.pick("general", 1)
    world.cloud.take_down(instance)
    small_clusters.pass_time(world, 300)
    assert len(small_clusters.nodes(world)) == 2
    assert instance.name not in small_clusters.nodes(world)


def test_a_health_check_replaces_what_never_becomes_a_node() -> None:
    world = small_clusters.make(small_clusters.group(remediate_after_s=400.0, failure_rate=1.0))
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 3)
    small_clusters.pass_time(world, 300)
    (silent,) = (
        item for item in world.api.list_objects(api_client.MACHINES).values() if not item["status"].get("nodeRef")
    )
    small_clusters.pass_time(world, 600)
    assert f"default/{silent['metadata']['name']}" not in world.api.list_objects(api_client.MACHINES)
    assert len(world.api.list_objects(api_client.MACHINES)) == 3


def test_stock_comes_back() -> None:
    world = small_clusters.make()
    world.cloud.exhaust_capacity("general")
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 4)
    small_clusters.pass_time(world, 500)
    assert len(small_clusters.nodes(world)) == 2
    world.cloud.restore_capacity("general")
    small_clusters.pass_time(world, 566)
    assert len(small_clusters.nodes(world)) == 4


def test_an_upgrade_replaces_every_machine_and_never_has_too_few() -> None:
    world = small_clusters.make(small_clusters.group(initial=3))
    before = set(small_clusters.nodes(world))
    found = world.api.list_objects(api_client.MACHINE_DEPLOYMENTS)["default/general"]
    template = found["spec"]["template"]
    least = [3]
    world.event_loop.after_each_step(lambda: least.append(len(small_clusters.nodes(world))))
    changed = {**template, "spec": {**template["spec"], "version": "v1.37.0"}}
    world.api.update_spec(api_client.MACHINE_DEPLOYMENTS, found, template=changed)
    small_clusters.pass_time(world, 1000)
    after = set(small_clusters.nodes(world))
    assert not before & after
    assert len(after) == 3
    assert min(least) == 3


@pytest.mark.parametrize("seed", [1, 2])
def test_chance_follows_the_seed(seed: int) -> None:
    def live() -> list[str]:
        world = small_clusters.make(small_clusters.group(failure_rate=0.5), seed=seed)
        small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 20)
        small_clusters.pass_time(world, 500)
        return sorted(small_clusters.nodes(world))

    assert live() == live()
