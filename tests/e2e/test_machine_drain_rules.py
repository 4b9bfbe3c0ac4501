"""MachineDrainRules of the real Cluster API: windlass' drain, and Cluster API's after it, come to the same."""

import pytest

from testbed import objects
from tests.e2e.node_groups import CAPI, Group
from tests.e2e.scale_scenario import Scene


def add_rule(scene: Scene, group: Group, app: str, behavior: str) -> str:
    """About pods of an app on Machines of a group, in a Cluster whose labels must be known."""
    machines = {
        "selector": {"matchLabels": {f"{CAPI}deployment-name": group.name}},
        "clusterSelector": {"matchExpressions": [{"key": "e2e/none", "operator": "DoesNotExist"}]},
    }
    pods = {
        "selector": {"matchLabels": {"app": f"{scene.name}-{app}"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    }
    spec = {"drain": {"behavior": behavior}, "machines": [machines], "pods": [pods]}
    made = objects.made(objects.CLUSTER_API, "MachineDrainRule", scene.name, "default", spec)
    scene.add(made)
    return f"/apis/{objects.CLUSTER_API}/namespaces/default/machinedrainrules/{scene.name}"


def list_evicted(scene: Scene) -> list[str]:
    """Pods of this test: others drain nodes at the same time."""
    pods = [call.path.split("/")[-2] for call in scene.calls() if call.path.endswith("/eviction")]
    return [pod for pod in pods if pod.startswith(f"{scene.name}-")]


@pytest.mark.together
def test_a_rule_keeps_a_node_until_it_lets_the_pod_end_with_it(scene: Scene) -> None:
    group = scene.group("a", 1)
    group.wait_nodes(1)
    scene.pods("base", 1, [group], cpu="3")
    scene.pods("filler", 1, [group], cpu="900m")
    scene.wait_running(2)
    scene.pods("kept", 1, [group], cpu="900m")
    scene.wait_running(3)
    (pod,) = scene.running("kept")
    node = pod["spec"]["nodeName"]
    rule = add_rule(scene, group, "kept", "WaitCompleted")
    scene.wait(
        "the rule is known",
        lambda: scene.live.find(f"/explain/node/{node}"),
        lambda told: f"is left to finish by MachineDrainRule default/{scene.name}" in told,
    )
    scene.scale_pods("filler", 0)
    scene.wait_running(2)
    group.annotate(unneeded="1s")
    scene.wait(
        "nothing else keeps the node",
        lambda: scene.live.find(f"/explain/node/{node}"),
        lambda told: "BlockedByOnCompletionPod" in told,
    )
    scene.live.wait_looped(3)
    assert (scene.marked(), list_evicted(scene), group.replicas) == ([], [], 2)
    scene.api.merge(rule, {"spec": {"drain": {"behavior": "Skip"}}})
    group.wait_replicas(1)
    scene.wait("the node is gone", group.names, lambda names: node not in names)
    assert pod["metadata"]["name"] not in list_evicted(scene)
