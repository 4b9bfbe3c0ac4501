"""Nodes on their way out beside other things that happen: pods that wait, Machines that others replace."""

from tests.e2e.node_groups import TO_BE_DELETED, taints
from tests.e2e.scale_scenario import Scene


def test_a_node_is_ordered_for_pods_of_a_drained_node_whose_room_another_pod_took(scene: Scene) -> None:
    scene.live.kill()
    scene.live.start("--node-delete-delay-after-taint=30s")
    group = scene.group("a", 1)
    group.wait_nodes(1)
    scene.pods("base", 1, [group], cpu="3")
    scene.pods("filler", 1, [group], cpu="900m")
    scene.wait_running(2)
    scene.pods("leaving", 1, [group], cpu="900m")
    scene.wait_running(3)
    (drained,) = scene.places("leaving")
    scene.scale_pods("filler", 0)
    scene.wait_running(2)
    group.annotate(unneeded="1s")
    scene.wait(
        "it is marked",
        lambda: [node["metadata"]["name"] for node in group.nodes() if TO_BE_DELETED in taints(node)],
        lambda now: now == [drained],
    )
    scene.scale_pods("filler", 1)
    group.wait_replicas(3)
    group.annotate(unneeded="1h")
    scene.wait("its pod moves there", lambda: list(scene.places("leaving")), lambda now: now and now != [drained])
    group.wait_replicas(2)
    scene.live.kill()


def test_a_rollout_without_surge_over_eight_nodes_is_no_failed_scale_up(scene: Scene) -> None:
    """It takes longer than a node may take to come; each node comes in time."""
    group = scene.group("a", 8, boot_seconds="4", max_size="12")
    before = set(group.wait_nodes(8))
    group.annotate(boot_seconds="8", provision="50s")
    limits = {"maxSurge": 0, "maxUnavailable": 1}
    strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
    scene.api.merge(
        group.path, {"spec": {"rollout": {"strategy": strategy}, "template": {"spec": {"version": "v1.36.4"}}}}
    )
    began_s = scene.now_s()
    scene.wait(
        "all are replaced",
        lambda: set(group.names()),
        lambda now: len(now) == 8 and not now & before,
        within_s=900.0,
    )
    assert scene.now_s() - began_s > 50.0, "not long enough to tell"
    group.wait_nodes(8)
    scene.live.wait_looped(2)
    assert [item["message"] for item in scene.events("ScaleUpTimedOut") if group.name in item["message"]] == []
    growing = scene.wait("the status says how it grows", lambda: scene.status(group).get("scaleUp", {}))
    assert growing["status"] != "Backoff"
    assert scene.resizes(group) == []
