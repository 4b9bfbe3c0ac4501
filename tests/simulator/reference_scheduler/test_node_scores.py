"""Scores of the real kube-scheduler's default profile, by plugin, and what follows from them in the world."""

from pathlib import Path

import numpy as np
import pytest

from tests.conformance.outcome import Json, read_lines
from tests.simulator import builders, small_clusters
from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.simulated_cluster import SimulatedCluster
from windlass.simulator.fast_scheduler import node_table
from windlass.simulator.reference_scheduler import node_scores, scheduling_cycle, scoring
from windlass.simulator.reference_scheduler.cluster_view import ClusterView

RECORDED = Path(__file__).parent / "data" / "scores.jsonl.gz"
SOFT = {"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize("case", list(read_lines(RECORDED)), ids=lambda case: case["name"])
def test_every_node_has_the_scores_that_kube_scheduler_gave_it(case: Json) -> None:
    cluster = ClusterView.of(case["objects"])
    assert cluster.rejected == []
    for pod in case["pending"]:
        recorded = case["scores"][pod["metadata"]["name"]]
        verdicts = scheduling_cycle.run_filters(cluster, pod)
        passed = [node for name, node in cluster.nodes.items() if verdicts[name] is None]
        assert {node.name for node in passed} == set(recorded)
        found = node_scores.score_nodes(cluster, pod, passed)
        without_nothing = {
            name: {plugin: score for plugin, score in plugins.items() if score} for name, plugins in found.items()
        }
        assert without_nothing == recorded


def test_recorded_scores_know_every_plugin() -> None:
    plugins = {
        plugin
        for case in read_lines(RECORDED)
        for nodes in case["scores"].values()
        for scores in nodes.values()
        for plugin in scores
    }
    assert plugins == set(scoring.WEIGHTS)


def place(cluster: ClusterView, pod: Json) -> str:
    placement = scheduling_cycle.schedule(cluster, pod)
    assert isinstance(placement, scheduling_cycle.Placement)
    return placement.node_name


def test_a_fuller_node_is_better_than_one_with_a_soft_taint() -> None:
    busy = [builders.pod(f"busy-{number}", on="a") for number in range(3)]
    cluster = ClusterView.of([builders.node("a"), builders.node("b", taints=[SOFT]), *busy])
    assert place(cluster, builders.pod("new")) == "a"
    tolerant = builders.pod("new", tolerations=[{"key": SOFT["key"], "operator": "Exists"}])
    assert place(cluster, tolerant) == "b"


def test_pods_of_one_service_are_spread_even_where_another_node_is_emptier() -> None:
    service = {"kind": "Service", "metadata": {"name": "s", "namespace": "default"}}
    service["spec"] = {"selector": {"app": "web"}}
    host = "kubernetes.io/hostname"
    nodes = [builders.node(name, labels={host: name}) for name in ("a", "b")]
    pods = [builders.pod("web-1", on="a", cpu="500m", labels={"app": "web"}), builders.pod("other", on="b")]
    new = builders.pod("web-2", labels={"app": "web"})
    assert place(ClusterView.of([*nodes, *pods, service]), new) == "b"
    assert place(ClusterView.of([*nodes, *pods]), new) == "a"


# ── The world ────────────────────────────────────────────────────────────────────────────────────────────────────


def taint(world: SimulatedCluster, name: str) -> None:
    node = world.api.list_objects(api_client.NODES)[name]
    world.api.update(
        api_client.NODES, api_client.with_part(node, "spec", taints=[*(node["spec"].get("taints") or ()), SOFT])
    )


def where(world: SimulatedCluster, app: str) -> list[str]:
    return sorted(api_client.node_of(pod) for pod in small_clusters.running(world, app))


def test_pods_keep_off_a_node_with_a_soft_taint_until_there_is_no_other() -> None:
    world = small_clusters.make()
    spare, other = sorted(small_clusters.nodes(world))
    taint(world, spare)
    small_clusters.deploy(world, "web", 3)
    small_clusters.pass_time(world, 10)
    assert where(world, "web") == [other] * 3
    small_clusters.scale(world, api_client.DEPLOYMENTS, "web", 6)
    small_clusters.pass_time(world, 20)
    assert where(world, "web") == sorted([other] * 4 + [spare] * 2)


def test_pods_of_one_owner_are_spread_over_zones_without_being_asked() -> None:
    world = small_clusters.make(*(small_clusters.group(f"g-{zone}", zone, initial=1) for zone in "abc"))
    small_clusters.deploy(world, "web", 3, "100m")
    small_clusters.pass_time(world, 10)
    assert where(world, "web") == sorted(small_clusters.nodes(world))


def choices(seed: int) -> list[str]:
    world = small_clusters.make(small_clusters.group(initial=8), seed=seed)
    numbers = {name: str(number) for number, name in enumerate(small_clusters.nodes(world))}
    for number in range(8):
        small_clusters.deploy(world, f"app-{number}", 1, "10m")
    small_clusters.pass_time(world, 10)
    return [numbers[api_client.node_of(pod)] for pod in small_clusters.pods(world)]


def test_equal_nodes_are_taken_by_chance_and_the_same_seed_has_the_same_chance() -> None:
    assert choices(1) == choices(1)
    assert len({tuple(choices(seed)) for seed in range(1, 5)}) == 4


# ── The search ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("nodes", "enough"), [(1, 1), (99, 99), (100, 100), (150, 100), (300, 144), (1000, 420), (5000, 500), (15000, 750)]
)
def test_a_search_ends_after_as_many_feasible_nodes_as_kube_schedulers(nodes: int, enough: int) -> None:
    assert node_table.feasible_nodes_to_find(nodes) == enough


def test_the_next_search_goes_on_where_the_last_one_ended_and_takes_the_zones_in_turn() -> None:
    tree = node_table.NodeTree()
    for slot in range(240):
        tree.add(slot, {ZONE: "a" if slot < 160 else "b"})
    fits = np.ones(256, bool)
    first, second, third = (tree.search(fits).tolist() for _ in range(3))
    assert first[:4] == [0, 160, 1, 161]
    assert len(first) == len(second) == 117
    assert len(set(first) | set(second) | set(third)) == 240
    assert not set(first) & set(second)
    tree.remove(0)
    fits[0] = False
    assert 0 not in [slot for _ in range(3) for slot in tree.search(fits).tolist()]


def test_a_node_that_moves_to_another_zone_is_searched_there() -> None:
    tree = node_table.NodeTree()
    for slot in range(200):
        tree.add(slot, {ZONE: "a"})
    tree.add(5, {ZONE: "b"})
    found = tree.search(np.ones(200, bool)).tolist()
    assert found[:3] == [0, 5, 1]
    assert found.count(5) == 1
