"""The independent check speaks up: every rule, against a world where it is broken on purpose."""

from typing import Any

from tests.simulator import small_clusters
from windlass import clock
from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.machines import DELETE_MACHINE_ANNOTATION
from windlass.simulator.cluster.simulated_cluster import SimulatedCluster
from windlass.simulator.invariants import InvariantChecker

Json = dict[str, Any]


def _watched(world: SimulatedCluster) -> InvariantChecker:
    checker = InvariantChecker(world.event_loop, set())
    world.event_loop.add_components((checker,))
    return checker


def _make(replicas: int = 4) -> tuple[SimulatedCluster, InvariantChecker]:
    world = SimulatedCluster(clock.VirtualClock(small_clusters.NOON_S), (small_clusters.group(),), 1)
    checker = _watched(world)
    world.create()
    world.start()
    small_clusters.budget(world, "web", minAvailable=3)
    small_clusters.deploy(world, "web", replicas)
    small_clusters.pass_time(world, 10)
    return world, checker


def _rules(checker: InvariantChecker) -> list[str]:
    return [violation.rule for violation in checker.violations]


def test_a_world_that_behaves_breaks_no_rule() -> None:
    world, checker = _make()
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 1)
    small_clusters.pass_time(world, 100)
    assert len(small_clusters.nodes(world)) == 1
    assert checker.violations == []
    assert checker.steps > 10


def test_a_pod_that_changes_its_node_is_seen() -> None:
    world, checker = _make()
    pod = small_clusters.pods(world)[0]
    other = next(name for name in small_clusters.nodes(world) if name != api_client.node_of(pod))
    world.api.update(api_client.PODS, api_client.with_part(pod, "spec", nodeName=other))
    small_clusters.pass_time(world, 11)
    assert _rules(checker) == ["no pod on two nodes"]


def test_a_node_with_more_than_it_has_is_seen() -> None:
    world, checker = _make()
    node = world.api.list_objects(api_client.NODES)[small_clusters.nodes(world)[0]]
    world.api.update(
        api_client.NODES,
        api_client.with_part(node, "status", allocatable={"cpu": "1", "memory": "1Gi", "pods": "9"}),
    )
    small_clusters.pass_time(world, 11)
    assert set(_rules(checker)) == {"no node over capacity"}
    assert "has 1 cpu, its pods ask for 2" in checker.violations[0].said


def test_a_group_beyond_its_bounds_is_seen_and_one_on_its_way_back_is_not() -> None:
    world, checker = _make()
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 25)
    small_clusters.pass_time(world, 11)
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 22)
    small_clusters.pass_time(world, 12)
    assert _rules(checker) == ["no group outside its bounds"]
    assert checker.violations[0].said == "set from 2 to 25, bounds are 0 to 20"


def test_a_size_that_the_story_sets_is_excused() -> None:
    world = small_clusters.make()
    checker = InvariantChecker(world.event_loop, {("default/general", 25)})
    world.event_loop.add_components((checker,))
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 25)
    small_clusters.pass_time(world, 5)
    assert checker.violations == []


def test_an_eviction_that_leaves_too_few_is_seen() -> None:
    world, checker = _make()
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    for pod in small_clusters.pods(world)[:2]:
        conditions = api_client.with_conditions(pod, [evicted], world.api.now())
        world.api.delete_pod(api_client.with_part(pod, "status", conditions=conditions))
    small_clusters.pass_time(world, 10.1)
    assert _rules(checker) == ["no eviction against a budget"]
    assert checker.violations[0].said == "evicted, budget default/web wants 3 healthy pods, 2 are left"


def test_a_machine_that_goes_before_its_pods_is_seen() -> None:
    world, checker = _make()
    machine = next(iter(small_clusters.machines(world).values()))
    world.api.update(api_client.MACHINES, api_client.with_annotation(machine, DELETE_MACHINE_ANNOTATION, "now"))
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 1)
    world.cloud.terminate(api_client.key_of(machine))
    world.api.request("DELETE", world.api.path_of(api_client.BUDGETS, "default") + "/web")
    pods = [pod for pod in small_clusters.pods(world) if api_client.node_of(pod) == machine["metadata"]["name"]]
    stuck = [api_client.with_annotation(pod, "simulator.windlass.internal/stop", "100 0 0") for pod in pods]
    for pod in stuck:
        world.api.update(api_client.PODS, pod)
    small_clusters.pass_time(world, 60)
    assert _rules(checker) == ["no running pod lost by a scale-down"] * len(pods)
