"""D11: what many groups cost. The peer asks 17 times for the size of each, in every loop."""

from concurrent import futures

from testbed import objects
from tests.e2e.groups import LABEL
from tests.e2e.scene import Scene

GROUPS = 200


def test_d11_two_hundred_groups_cost_no_reads(scene: Scene) -> None:
    model = scene.group("a", 1)
    add_groups(scene)
    model.wait_nodes(1)
    scene.live.wait_looped(2)
    began_s = scene.now_s()
    scene.live.wait_looped(4)
    calls = [call for call in scene.gateway.since(began_s) if not call.is_watch]
    assert [call for call in calls if call.method == "GET"] == []
    assert {call.path.rpartition("/")[2] for call in calls} <= {"cluster-autoscaler-status", "windlass-memory"}
    assert sum(name.startswith("cluster_autoscaler_node_group_target_count") for name in scene.live.metrics()) > GROUPS


def add_groups(scene: Scene) -> None:
    """Groups at zero, of a Cluster that has nothing else: Cluster API has little work with them."""
    scene.add(objects.cluster("idle", b"")[3])
    template, _ = objects.machine_deployment(f"{scene.name}-n", 0, cluster="idle", node={"labels": {LABEL: "idle"}})
    scene.add(template)
    with futures.ThreadPoolExecutor(8) as several:
        made = several.map(
            lambda n: scene.deployment(f"n-{n}", "idle", f"{scene.name}-n", min_size="0", max_size="9"), range(GROUPS)
        )
        last = list(made)[-1]
    scene.wait("all are seen", lambda: scene.status(last))
