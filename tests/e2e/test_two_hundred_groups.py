"""D11: what many groups cost. The peer asks 17 times for the size of each, in every loop."""

from concurrent import futures

from testbed import objects
from tests.e2e.gateway import Call
from tests.e2e.node_groups import LABEL
from tests.e2e.scale_scenario import Scene

GROUPS = 200


def test_d11_two_hundred_groups_cost_no_reads(scene: Scene) -> None:
    model = scene.group("a", 1)
    add_groups(scene)
    model.wait_nodes(1)
    # Its node is marked as a candidate, and events are late: that ends. Reads in every loop would never end.
    scene.wait("loops cost no calls", lambda: list_calls(scene), lambda calls: calls == [])


def list_calls(scene: Scene) -> list[Call]:
    """What four loops ask for, but for what they write of themselves."""
    began_s = scene.now_s()
    scene.live.wait_looped(4)
    own = ("/cluster-autoscaler-status", "/windlass-memory")
    calls = [call for call in scene.gateway.since(began_s) if not call.is_watch]
    return [call for call in calls if call.method == "GET" or not call.path.endswith(own)]


def count_seen(scene: Scene) -> int:
    """How many groups of the test have a size in the metrics."""
    metric = f'cluster_autoscaler_node_group_target_count{{node_group="MachineDeployment/default/{scene.name}-'
    return sum(series.startswith(metric) for series in scene.live.metrics())


def add_groups(scene: Scene) -> None:
    """Groups at zero, of a Cluster that has nothing else: Cluster API has little work with them."""
    scene.add(objects.cluster("idle", b"")[3])
    template, _ = objects.machine_deployment(f"{scene.name}-n", 0, cluster="idle", node={"labels": {LABEL: "idle"}})
    scene.add(template)
    with futures.ThreadPoolExecutor(8) as several:
        made = several.map(
            lambda n: scene.deployment(f"n-{n}", "idle", f"{scene.name}-n", min_size="0", max_size="9"), range(GROUPS)
        )
        list(made)
    scene.wait("all are seen", lambda: count_seen(scene), lambda now: now == GROUPS + 1)
