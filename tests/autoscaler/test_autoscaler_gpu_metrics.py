"""Metrics of GPUs and of controllers with many kinds of pods, on loops in which they move."""

from dataclasses import replace

from tests.autoscaler.in_process_cluster import AMOUNTS, HAS, Cluster, play, template
from tests.autoscaler.test_autoscaler import quick
from tests.engine.loop import builders
from tests.observability.recorded_situations import PEER
from tests.observability.reporter_cluster import Stage
from tests.observability.test_metric_definitions import value
from tests.providers import fake_provider
from windlass.engine.model import facts, node_groups, plan
from windlass.kube import request_builders, resources

GPU = {"gpu_resource_name": "nvidia.com/gpu", "gpu_name": "generic"}


def equip(node: facts.Node) -> facts.Node:
    """The node with two GPUs."""
    more = (("nvidia.com/gpu", 2),)
    return replace(node, allocatable=(*node.allocatable, *more), capacity=(*node.capacity, *more))


def play_loop(group: node_groups.NodeGroup, pods: list[facts.Pod], refused: plan.Plan = ()) -> str:
    """What /metrics says after a loop; the provider refuses some of it."""

    async def script(stage: Stage) -> None:
        stage.loop(builders.observe([group], [], pods), dict.fromkeys(refused, "no capacity"))

    return Stage(PEER).play(script).reporter.metrics.render().decode()


def wanting(count: int) -> facts.Pod:
    pod = builders.pending("p")
    return replace(pod, spec=replace(pod.spec, requests=(("cpu", 100), ("nvidia.com/gpu", count))))


def test_nodes_with_gpus_that_are_asked_for_are_counted_as_such() -> None:
    group = builders.group("g", template=equip(builders.node("t", provider_id="")), max_size=10)
    text = play_loop(group, [wanting(2)])
    assert value(text, "cluster_autoscaler_scaled_up_gpu_nodes_total", **GPU) == 1
    assert value(text, "cluster_autoscaler_scaled_up_nodes_total", dra_drivers="", **GPU) == 1


def test_nodes_with_gpus_that_are_refused_are_counted_as_such() -> None:
    group = builders.group("g", template=equip(builders.node("t", provider_id="")), max_size=10)
    text = play_loop(group, [wanting(2)], refused=(plan.Resize("g", 0, 1, 10),))
    assert value(text, "cluster_autoscaler_failed_gpu_scale_ups_total", reason="cloudProviderError", **GPU) == 1


def test_nodes_with_gpus_that_are_removed_are_counted_as_such() -> None:
    has = (*HAS, ("nvidia.com/gpu", 2))

    async def scenario(cluster: Cluster) -> None:
        equipped = replace(template("g"), allocatable=has, capacity=has)
        cluster.provider.add(fake_provider.Group("g", 0, 10, equipped, size=1))
        cluster.register_nodes()
        shown = {"capacity": {**AMOUNTS, "nvidia.com/gpu": "2"}, "allocatable": {**AMOUNTS, "nvidia.com/gpu": "2"}}
        (name,) = (node.name for node in cluster.provider.nodes)
        status = request_builders.build_merge_patch(resources.NODES, name, {"status": shown}, "", subresource="status")
        assert cluster.server.handle(status).status == 200
        async with cluster.autoscaling() as running:
            await cluster.until(lambda: not cluster.provider.nodes)
            text = running._reporter.metrics.render().decode()
        assert value(text, "cluster_autoscaler_scaled_down_gpu_nodes_total", reason="empty", **GPU) == 1
        assert value(text, "cluster_autoscaler_scaled_down_nodes_total", reason="empty", dra_drivers="", **GPU) == 1

    play(scenario, quick())


def test_controllers_whose_pods_differ_too_much_are_counted() -> None:
    group = builders.group("g", template=builders.node("t", provider_id=""), max_size=10)
    owner = facts.Owner("apps/v1", "ReplicaSet", "rs", "uid-rs")
    pods = [replace(builders.pending(f"p{number}", 100 + number), owner=owner) for number in range(12)]
    text = play_loop(group, pods)
    assert value(text, "cluster_autoscaler_overflowing_controllers_count") == 1
