"""What an autoscaler is for: nodes come for pods that wait, and go when nobody needs them."""

import pytest

from tests.e2e.scale_scenario import Scene

ZONE = "topology.kubernetes.io/zone"


def test_pods_that_wait_get_nodes_in_one_step_and_kubectl_shows_how(scene: Scene) -> None:
    group = scene.group("a", 1)
    group.wait_nodes(1)
    scene.pods("web", 9, [group])
    scene.wait_running(9)
    assert group.replicas == 3
    assert scene.count_resized(group) == 1
    scene.wait("an event of the scale-up", lambda: scene.events("TriggeredScaleUp", scene.name))
    shown = scene.bed.kubectl("get", "events", "--field-selector=reason=TriggeredScaleUp")
    assert f"pod triggered scale-up: [{{{group.id} 1->3 (max: 9)}}]" in shown
    scene.wait("it is in the status", lambda: scene.status(group))
    about = scene.bed.kubectl("describe", "configmap", "-n", "kube-system", "cluster-autoscaler-status")
    assert f"name: {group.id}" in about
    size = f'cluster_autoscaler_node_group_target_count{{node_group="{group.id}"}}'
    scene.wait("the size is in the metrics", lambda: scene.live.metrics().get(size), lambda now: now == 3.0)


@pytest.mark.together
def test_groups_at_zero_grow_for_pods_that_tolerate_and_select_what_their_templates_say(scene: Scene) -> None:
    taint = {"key": "team", "value": "red", "effect": "NoSchedule"}
    red = scene.group("red", node={"taints": [taint]}, taints="team=red:NoSchedule")
    plain = scene.group("plain", cpu=8)
    fast = scene.group("fast", cpu=16, node={"labels": {"disk": "fast"}})
    scene.pods("anyone", 1, [red, plain])
    scene.pods("red", 1, [red], tolerations=[{"key": "team", "operator": "Equal", "value": "red"}])
    scene.pods("fast", 1, [plain, fast], nodeSelector={"disk": "fast"})
    scene.wait_running(3)
    assert [group.replicas for group in (red, plain, fast)] == [1, 1, 1]
    assert list(scene.places("red")) == red.names()
    assert list(scene.places("fast")) == fast.names()


@pytest.mark.together
def test_no_group_grows_over_its_maximum_and_pods_are_told(scene: Scene) -> None:
    group = scene.group("a", 1, max_size="2")
    group.wait_nodes(1)  # a pod is told once in five minutes: not before there is a node to count with
    scene.pods("web", 4, [group], cpu="3")
    scene.wait_running(2)
    scene.wait(
        "pods are told",
        lambda: [event["message"] for event in scene.events("NotTriggerScaleUp", scene.name)],
        lambda told: any(" max node group size reached" in message for message in told),  # of other tests' groups, too
    )
    scene.live.wait_looped(2)
    assert group.replicas == 2


@pytest.mark.together
def test_three_zones_are_kept_in_balance(scene: Scene) -> None:
    zones = [scene.group(zone, node={"labels": {ZONE: zone}}) for zone in ("east", "west", "south")]
    scene.pods("web", 6, zones, cpu="3")
    scene.wait_running(6)
    assert [group.replicas for group in zones] == [2, 2, 2]


@pytest.mark.together
def test_empty_nodes_go_down_to_the_minimum(scene: Scene) -> None:
    group = scene.group("a", 3, min_size="1")
    group.wait_nodes(3)  # else one may still be on its way when the others have gone
    group.annotate(unneeded="1s")
    group.wait_replicas(1)
    group.wait_nodes(1)
    assert scene.marked() == []
    scene.wait("events of the scale-down", lambda: scene.events("ScaleDown", scene.name))


@pytest.mark.together
def test_a_drained_node_goes_and_its_disruption_budget_is_kept(scene: Scene) -> None:
    group = scene.group("a", 3)
    before = group.wait_nodes(3)
    scene.pods("web", 3, [group], spread=True)
    scene.budget("web", 3)
    scene.wait_running(3)
    assert len(scene.places()) == 3
    group.annotate(unneeded="1s")
    scene.live.wait_looped(2)
    assert scene.marked() == []
    path = f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{scene.name}-web"
    scene.api.merge(path, {"spec": {"minAvailable": 2}})
    healthy: list[int] = []

    def probe() -> int:
        healthy.append(scene.api.get(path)["status"]["currentHealthy"])
        return len(group.nodes())

    scene.wait("one node has room for all", probe, lambda now: now == 1)
    assert min(healthy) >= 2
    scene.wait_running(3)
    asked = [call.status for call in scene.calls() if call.path.endswith("/eviction") and scene.name in call.path]
    assert 201 in asked
    assert not {429, 500} & set(asked), "none against a budget"
    assert group.replicas == 1
    assert set(group.names()) < set(before)
    assert scene.marked() == []


@pytest.mark.together
def test_a_machine_pool_grows_and_the_machine_that_was_drained_goes(scene: Scene) -> None:
    group = scene.group("a", kind="MachinePool", cores="4", memory="16Gi")
    scene.pods("web", 2, [group], cpu="3")
    scene.wait_running(2)
    assert group.replicas == 2
    scene.scale_pods("web", 1)
    scene.wait_running(1)
    (busy,) = scene.places()
    group.annotate(unneeded="1s")
    assert group.wait_nodes(1) == [busy]
    assert group.replicas == 1
    scene.wait_running(1)
