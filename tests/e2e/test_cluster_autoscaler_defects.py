"""The defects of Cluster Autoscaler on Cluster API, each by its name, and absent. D11: `test_two_hundred_groups`."""

from typing import Any

import pytest

from testbed import clusterapi
from tests.e2e import rbac
from tests.e2e.node_groups import CANDIDATE, MARK, Group, taints
from tests.e2e.scale_scenario import Scene

OTHER = "e2e-other"
UNNEEDED_S = 20.0
"""Much longer than it takes to look and to mark a node, on a busy machine as well."""


def wait_backoff(scene: Scene, group: Group) -> Any:
    return scene.wait(
        f"the status says that {group.id} backs off",
        lambda: scene.status(group).get("scaleUp", {}),
        lambda now: now.get("status") == "Backoff",
    )


def test_d01_groups_of_every_namespace_that_is_asked_for_are_seen(scene: Scene) -> None:
    scene.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER}})
    clusterapi.add_cluster(scene.api, scene.bed.kubeconfig, OTHER, OTHER)
    here, there = scene.group("here"), scene.group("there", namespace=OTHER)
    scene.live.kill()
    specs = [f"--node-group-auto-discovery=clusterapi:namespace={name}" for name in ("default", OTHER)]
    scene.live.start(*specs)
    scene.pods("here", 1, [here])
    scene.pods("there", 1, [there])
    scene.wait_running(2)
    assert (here.replicas, there.replicas) == (1, 1)
    scene.live.kill()


@pytest.mark.together
def test_d02_one_bad_bound_hides_no_other_group_and_is_complained_about(scene: Scene) -> None:
    bad = [scene.group(f"bad-{n}", max_size=text) for n, text in enumerate(("abc", "5.0", "-1"))]
    bad.append(scene.group("upside-down", min_size="4", max_size="2"))
    good = scene.group("good")
    scene.pods("web", 1, [good])
    scene.wait_running(1)
    assert scene.wait("it is in the status", lambda: scene.status(good))
    log = scene.live.read_log()
    assert [group.name for group in bad if f"default/{group.name}" not in log] == []
    counted = 'windlass_set_aside_objects{kind="MachineDeployment"}'
    scene.wait("they are counted", lambda: scene.live.metrics().get(counted, 0.0), lambda now: now >= len(bad))
    bad[0].annotate(max_size="1")
    scene.pods("repaired", 1, [bad[0]])
    scene.wait_running(1, "repaired")


@pytest.mark.together
def test_d03_as_many_pods_are_expected_on_a_node_as_its_template_says(scene: Scene) -> None:
    group = scene.group("a", max_size="0", node={"capacity": {"cpu": "4", "memory": "16Gi", "pods": "3"}})
    scene.pods("web", 4, [group], cpu="100m")  # and one of kube-proxy on each node, for all anyone knows
    scene.wait_unschedulable(4)  # all are there before the group may grow: one step is enough
    group.annotate(max_size="9")
    scene.wait_running(4)
    assert group.replicas == 2
    assert scene.count_resized(group) == 1


@pytest.mark.together
def test_d04_a_template_that_tells_no_architecture_is_taken_for_the_usual_one(scene: Scene) -> None:
    group = scene.group("a", template={"fake.infrastructure/tells": "capacity"})
    scene.pods("web", 1, [group], nodeSelector={"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"})
    scene.wait_running(1)
    assert group.replicas == 1


@pytest.mark.together
def test_d05_a_machine_that_the_cloud_refuses_is_a_failure_and_not_waited_for(scene: Scene) -> None:
    failing, working = scene.group("a", fail="quota exceeded", provision="1h"), scene.group("b", cpu=8)
    scene.pods("web", 1, [failing, working], cpu="3")
    scene.wait_running(1)
    assert "quota exceeded" in wait_backoff(scene, failing)["backoffInfo"]["errorMessage"]
    failing.wait_replicas(0)
    scene.live.wait_looped(2)
    assert (failing.replicas, working.replicas) == (0, 1)


@pytest.mark.together
def test_d06_a_stale_mark_kills_no_busy_machine(scene: Scene) -> None:
    group = scene.group("a", 3)
    group.wait_nodes(3)
    scene.pods("web", 2, [group], cpu="3")
    scene.wait_running(2)
    busy = sorted(scene.places())
    path = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines/{busy[0]}"  # Nodes are named after Machines
    scene.api.merge(path, {"metadata": {"annotations": {MARK: "long ago"}}})
    group.annotate(unneeded="1s")
    group.wait_replicas(2)
    assert sorted(group.wait_nodes(2)) == busy
    assert len(scene.running()) == 2
    assert MARK not in scene.api.get(path)["metadata"].get("annotations", {})


@pytest.mark.together
def test_d07_a_pool_that_cannot_choose_loses_no_busy_node_and_none_stays_tainted(scene: Scene) -> None:
    group = scene.group("a", 3, kind="MachinePool", machines=False)
    group.wait_nodes(3)
    scene.pods("web", 1, [group])
    scene.wait_running(1)
    group.annotate(unneeded="1s")
    scene.live.wait_looped(3)
    assert group.replicas == 3
    assert scene.marked() == []
    assert len(scene.running()) == 1


@pytest.mark.together
def test_d08_a_rollout_that_is_stuck_loses_no_node_that_runs(scene: Scene) -> None:
    group = scene.group("a", 2)
    scene.pods("web", 2, [group], cpu="3")
    scene.wait_running(2)
    busy = sorted(group.names())
    group.annotate(provision_seconds="3600", provision="3s", unneeded="1s")
    scene.api.merge(group.path, {"spec": {"template": {"spec": {"version": "v1.36.4"}}}})
    scene.wait("a machine more, which is stuck", group.machines, lambda now: len(now) == 3)
    scene.live.wait_looped(4)
    assert group.replicas == 2
    assert scene.resizes(group) == []
    assert sorted(group.names()) == busy
    assert len(scene.running()) == 2


@pytest.mark.together
def test_d08_a_group_whose_machine_is_stuck_is_left_for_another_within_a_loop(scene: Scene) -> None:
    stuck, working = scene.group("a", provision="6s", provision_seconds="3600"), scene.group("b", cpu=8)
    check_fallback(scene, stuck, working, 6.0)
    stuck.wait_replicas(0)


@pytest.mark.together
def test_d09_a_group_whose_node_is_never_ready_is_left_for_another_within_a_loop(scene: Scene) -> None:
    unready = scene.group("a", provision="6s", startup="6s", ready_seconds="3600")
    check_fallback(scene, unready, scene.group("b", cpu=8), 6.0)


def check_fallback(scene: Scene, failing: Group, working: Group, timeout_s: float) -> None:
    scene.pods("web", 1, [failing, working], cpu="3")
    scene.wait_running(1)
    assert list(scene.places()) == working.names()
    wait_backoff(scene, failing)
    raised, fallback = (scene.resizes(group)[0] for group in (failing, working))
    assert scene.live.find_loops(raised.at_s, fallback.at_s)
    late = scene.live.find_loops(raised.at_s + timeout_s, fallback.at_s)
    assert len(late) <= 1  # the peer: twice the time, or never
    scene.live.wait_looped(2)
    assert failing.replicas <= 1


def test_d10_unneeded_times_survive_a_restart(scene: Scene) -> None:
    group = scene.group("a", 1, unneeded=f"{UNNEEDED_S:g}s")
    group.wait_nodes(1)
    scene.wait("it is a candidate", lambda: [CANDIDATE in taints(node) for node in group.nodes()], any)
    scene.live.kill()
    candidate_s = scene.now_s()
    scene.wait("its time is up", lambda: scene.now_s() - candidate_s, lambda now: now > UNNEEDED_S)
    scene.live.start()
    began_s = scene.now_s()
    group.wait_replicas(0)
    marked = next(
        call for call in scene.calls() if call.at_s > began_s and call.path.startswith(f"/api/v1/nodes/{group.name}")
    )
    assert marked.at_s - scene.live.find_loops(began_s)[0] < UNNEEDED_S


def test_d12_templates_that_may_not_be_read_hold_nothing_up(scene: Scene) -> None:
    scene.expects_refusals = True
    try:
        rbac.revoke_templates(scene.api)
        scene.live.kill()
        scene.live.start()
        group = scene.group("told", cores="4", memory="16Gi")
        with_node = scene.group("with-node", 1)
        scene.pods("told", 1, [group])
        scene.pods("with-node", 2, [with_node], cpu="3")
        scene.wait_running(3)
    finally:
        rbac.restore_templates(scene.api)
    dark = scene.group("dark")
    scene.pods("dark", 1, [dark])
    scene.wait_running(1, "dark")
