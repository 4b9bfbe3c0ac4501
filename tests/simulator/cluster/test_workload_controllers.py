"""Workload controllers of the world: pods come, change and go as their owners want."""

from tests.simulator import small_clusters
from windlass.simulator.cluster import api_client


def test_a_deployments_pods_run_two_seconds_after_they_are_made() -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "web", 5)
    small_clusters.pass_time(world, 1.9)
    assert len(small_clusters.pods(world, "web")) == 5
    assert small_clusters.running(world) == []
    small_clusters.pass_time(world, 2.0)
    assert len(small_clusters.running(world, "web")) == 5
    (found,) = world.api.list_objects(api_client.REPLICA_SETS).values()
    owner = api_client.controller_of(small_clusters.pods(world)[0])
    assert owner is not None
    assert (owner["kind"], owner["name"]) == ("ReplicaSet", found["metadata"]["name"])


def test_pods_spread_over_the_emptier_node() -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "web", 4)
    small_clusters.pass_time(world, 5)
    seats = [api_client.node_of(pod) for pod in small_clusters.pods(world)]
    assert sorted(seats.count(name) for name in set(seats)) == [2, 2]


def test_scaling_down_takes_pods_that_wait_before_those_that_run() -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "web", 12)
    small_clusters.pass_time(world, 10)
    kept = {api_client.key_of(pod) for pod in small_clusters.running(world)}
    assert len(kept) == 8
    small_clusters.scale(world, api_client.DEPLOYMENTS, "web", 8)
    small_clusters.pass_time(world, 20)
    assert {api_client.key_of(pod) for pod in small_clusters.pods(world)} == kept


def test_a_pod_that_goes_is_replaced_while_it_terminates() -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "web", 3)
    small_clusters.pass_time(world, 10)
    world.api.delete_pod(small_clusters.pods(world)[0])
    small_clusters.pass_time(world, 10.5)
    assert len(small_clusters.pods(world)) == 4
    small_clusters.pass_time(world, 20)
    assert len(small_clusters.running(world)) == len(small_clusters.pods(world)) == 3


def test_a_rollout_never_falls_below_what_must_be_available() -> None:
    world = small_clusters.make(small_clusters.group(initial=4))
    small_clusters.deploy(world, "web", 8)
    small_clusters.pass_time(world, 10)
    least, most = [8], [8]

    def count() -> None:
        least.append(len(small_clusters.running(world)))
        most.append(len([pod for pod in small_clusters.pods(world) if api_client.is_active(pod)]))

    world.event_loop.after_each_step(count)
    found = world.api.list_objects(api_client.DEPLOYMENTS)["default/web"]
    changed = api_client.with_annotation(found["spec"]["template"], "version", "2")
    world.api.update_spec(api_client.DEPLOYMENTS, found, template=changed)
    small_clusters.pass_time(world, 120)
    assert (min(least), max(most)) == (6, 10)
    assert len(small_clusters.running(world)) == len(small_clusters.pods(world)) == 8
    assert {pod["metadata"]["annotations"].get("version") for pod in small_clusters.pods(world)} == {"2"}
    assert sorted(item["spec"]["replicas"] for item in world.api.list_objects(api_client.REPLICA_SETS).values()) == [
        0,
        8,
    ]


def test_a_job_ends_when_its_pods_have_succeeded_and_is_gone_after_its_time() -> None:
    world = small_clusters.make()
    spec = {
        "completions": 3,
        "parallelism": 2,
        "ttlSecondsAfterFinished": 30,
        "template": small_clusters.template("batch", run_s=100, restartPolicy="Never"),
    }
    world.api.post(api_client.JOBS, {"metadata": {"name": "batch", "namespace": "default"}, "spec": spec})
    small_clusters.pass_time(world, 50)
    assert len(small_clusters.running(world)) == 2
    small_clusters.pass_time(world, 150)
    assert [pod["status"]["phase"] for pod in small_clusters.pods(world)] == ["Succeeded", "Succeeded", "Running"]
    small_clusters.pass_time(world, 204.5)
    (job,) = world.api.list_objects(api_client.JOBS).values()
    assert api_client.condition_of(job, "Complete") is not None
    small_clusters.pass_time(world, 235)
    assert not world.api.list_objects(api_client.JOBS)
    assert not small_clusters.pods(world)


def test_a_pod_that_has_done_its_work_counts_though_it_is_gone() -> None:
    world = small_clusters.make()
    spec = {
        "completions": 3,
        "parallelism": 1,
        "template": small_clusters.template("batch", run_s=100, restartPolicy="Never"),
    }
    world.api.post(api_client.JOBS, {"metadata": {"name": "batch", "namespace": "default"}, "spec": spec})
    small_clusters.pass_time(world, 150)
    first, _ = small_clusters.pods(world)
    world.api.remove(api_client.PODS, api_client.key_of(first))
    small_clusters.pass_time(world, 310)
    (job,) = world.api.list_objects(api_client.JOBS).values()
    assert api_client.condition_of(job, "Complete") is not None
    assert job["status"]["succeeded"] == 3
    assert len(small_clusters.pods(world)) == 2


def test_a_stateful_set_starts_in_order_and_keeps_its_names() -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "db", 3, kind=api_client.STATEFUL_SETS)
    small_clusters.pass_time(world, 3)
    assert [pod["metadata"]["name"] for pod in small_clusters.pods(world)] == ["db-0", "db-1"]
    small_clusters.pass_time(world, 10)
    assert len(small_clusters.running(world)) == 3
    world.api.delete_pod(small_clusters.pods(world)[1])
    small_clusters.pass_time(world, 20)
    assert sorted(pod["metadata"]["name"] for pod in small_clusters.running(world)) == ["db-0", "db-1", "db-2"]
    small_clusters.scale(world, api_client.STATEFUL_SETS, "db", 1)
    small_clusters.pass_time(world, 30)
    assert [pod["metadata"]["name"] for pod in small_clusters.pods(world)] == ["db-0"]


def test_every_node_gets_its_daemon_but_those_whose_taint_is_not_tolerated() -> None:
    tainted = small_clusters.group("special", initial=1, taints=({"key": "special", "effect": "NoSchedule"},))
    world = small_clusters.make(small_clusters.group(), tainted)
    small_clusters.deploy(world, "agent", 0, "100m", kind=api_client.DAEMON_SETS)
    small_clusters.pass_time(world, 5)
    assert len(small_clusters.running(world)) == 2
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 3)
    small_clusters.pass_time(world, 100)
    assert len({api_client.node_of(pod) for pod in small_clusters.running(world)}) == 3


def test_a_deleted_deployment_takes_its_pods_with_it() -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "web", 3)
    small_clusters.pass_time(world, 10)
    world.api.request("DELETE", world.api.path_of(api_client.DEPLOYMENTS, "default") + "/web")
    small_clusters.pass_time(world, 20)
    assert not small_clusters.pods(world)
    assert not world.api.list_objects(api_client.REPLICA_SETS)


def test_budgets_count_what_is_healthy_and_what_may_go() -> None:
    world = small_clusters.make()
    small_clusters.budget(world, "web", maxUnavailable="25%")
    small_clusters.deploy(world, "web", 8)
    small_clusters.pass_time(world, 1)
    status = world.api.list_objects(api_client.BUDGETS)["default/web"]["status"]
    assert (status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]) == (0, 6, 0)
    small_clusters.pass_time(world, 5)
    status = world.api.list_objects(api_client.BUDGETS)["default/web"]["status"]
    assert (status["currentHealthy"], status["disruptionsAllowed"], status["expectedPods"]) == (8, 2, 8)
