"""A process that is killed, at any step, loses nothing: the next one goes on, or gives back."""

import pytest

from tests.e2e.node_groups import MARK, TO_BE_DELETED, Group
from tests.e2e.scale_scenario import Scene

MEMORY = "/api/v1/namespaces/kube-system/configmaps/windlass-memory"


def die(scene: Scene, method: str, path: str, *, before: bool, body: str = "") -> None:
    """Let the autoscaler, which is started if it does not run, die at its next such call."""
    sprung = scene.gateway.trap(method, path, scene.live.crash, before=before, body=body)
    if not scene.live.is_alive:
        scene.live.start()
    try:
        scene.wait(f"it dies at {method} {path}", sprung.is_set)
    finally:
        sprung.set()  # whatever became of it, no other test is to die of it
    assert not scene.live.is_alive


@pytest.mark.parametrize("before", [False, True], ids=["after_the_size_is_written", "before"])
def test_killed_while_it_scales_up_it_orders_each_node_once(scene: Scene, before: bool) -> None:
    group = scene.group("a", 1, boot_seconds="3")
    group.wait_nodes(1)
    scene.live.kill()
    scene.pods("web", 4, [group], cpu="3")
    scene.wait_unschedulable(3)  # it sees all of them at once: one step is enough
    die(scene, "PATCH", f"/{group.name}/scale", before=before)
    scene.live.start()
    scene.wait_running(4)
    assert group.replicas == 4
    assert scene.count_resized(group) == 1


def start_drain(scene: Scene, *, before: bool = False) -> tuple[Group, str]:
    """Two nodes with a pod each, whose end is held, and one of the nodes about to go. Its group and its name.

    The autoscaler is dead when the node is marked. `before`: it died once more, about to mark it.
    """
    group = scene.group("a", 2)
    group.wait_nodes(2)
    scene.pods("web", 2, [group], hold=True, spread=True)
    scene.wait_running(2)
    assert len(scene.places()) == 2
    group.annotate(unneeded="1s")
    die(scene, "PUT", f"/api/v1/nodes/{group.name}-", before=before, body=TO_BE_DELETED)
    if before:
        assert scene.marked() == []
        die(scene, "PUT", f"/api/v1/nodes/{group.name}-", before=False, body=TO_BE_DELETED)
    (going,) = scene.marked()
    return group, going


def test_killed_at_every_step_of_a_drain_it_goes_on_where_it_was(scene: Scene) -> None:
    group, going = start_drain(scene, before=True)  # it died when the node was about to be marked, and when it was
    eviction = f"/pods/{scene.name}-web-[^/]+/eviction$"
    for before in (
        True,  # settled, and the first pod is about to be evicted
        False,  # the pod is on its way out
    ):
        die(scene, "POST", eviction, before=before)
        assert scene.marked() == [going]
    scene.live.start()
    scene.live.wait_looped(2)  # it waits for the pod
    assert scene.marked() == [going]
    scene.live.kill()
    scene.release()
    for method, path, before in (
        ("PUT", f"/machines/{going}$", True),  # empty, and the Machine is about to be marked
        ("PATCH", f"/{group.name}/scale$", True),  # the Machine is marked, the size is not lowered
        ("PATCH", f"/{group.name}/scale$", False),  # lowered
    ):
        die(scene, method, path, before=before)
    scene.live.start()
    (left,) = group.wait_nodes(1)
    assert left != going
    scene.release()
    scene.wait_running(2)
    scene.live.wait_looped(2)
    assert group.replicas == 1
    assert scene.marked() == []
    assert MARK not in group.machines()[0]["metadata"].get("annotations", {})


def test_a_drain_that_became_impossible_while_nobody_was_there_is_given_back(scene: Scene) -> None:
    group, _ = start_drain(scene)
    scene.budget("web", 2)
    scene.live.start()
    scene.wait("the node is given back", scene.marked, lambda now: now == [])
    scene.live.wait_looped()
    assert len(scene.running()) == 2
    assert group.replicas == 2


def test_a_node_whose_drain_nobody_remembers_is_given_back(scene: Scene) -> None:
    group, _ = start_drain(scene)
    scene.api.delete(MEMORY)
    group.annotate(unneeded=None)
    scene.live.start()
    scene.wait("the node is given back", scene.marked, lambda now: now == [])
    assert len(scene.running()) == 2
    assert group.replicas == 2
    assert scene.wait("it is told", lambda: scene.events("ClusterAutoscalerCleanup", scene.name))


def test_stopped_in_the_middle_of_a_drain_it_ends_well_and_the_next_one_goes_on(scene: Scene) -> None:
    group = scene.group("a", 2)
    group.wait_nodes(2)
    scene.pods("web", 2, [group], hold=True, spread=True)
    scene.wait_running(2)
    group.annotate(unneeded="1s")
    (going,) = scene.wait("a pod is being evicted", scene.leaving)
    assert "SchedulingDisabled" in scene.bed.kubectl("get", "node", going)
    assert TO_BE_DELETED in scene.bed.kubectl("describe", "node", going)
    assert scene.live.stop() == 0
    status = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
    scene.wait("its status is gone", lambda: scene.api.find(status) is None)
    scene.live.start()
    scene.live.wait_looped()
    assert scene.marked() == [going]
    scene.release()
    assert group.wait_nodes(1) != [going]
    assert scene.marked() == []
