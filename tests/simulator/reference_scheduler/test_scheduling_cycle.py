from hypothesis import given
from hypothesis import strategies as st

from tests.simulator import builders
from windlass.simulator.reference_scheduler import scheduling_cycle, volume_binding
from windlass.simulator.reference_scheduler.cluster_view import ClusterView


def place(cluster: ClusterView, pod: builders.Json) -> scheduling_cycle.Placement:
    placement = scheduling_cycle.schedule(cluster, pod)
    assert isinstance(placement, scheduling_cycle.Placement)
    return placement


def test_a_pod_goes_to_the_node_that_stays_emptiest() -> None:
    busy = builders.pod("busy", on="a", cpu="2")
    cluster = ClusterView.of([builders.node("a"), builders.node("b"), busy])
    assert place(cluster, builders.pod("new")).node_name == "b"


def test_equal_nodes_are_taken_by_name() -> None:
    cluster = ClusterView.of([builders.node(name) for name in ("c", "a", "b")])
    assert place(cluster, builders.pod("new")).node_name == "a"


def test_bound_pods_take_their_share() -> None:
    cluster = ClusterView.of([builders.node("a", cpu="2")])
    for name in ("one", "two"):
        cluster.put(builders.pod(name))
        scheduling_cycle.bind(cluster, place(cluster, cluster.waiting[f"default/{name}"]))
    assert cluster.waiting == {}
    assert isinstance(scheduling_cycle.schedule(cluster, builders.pod("three")), scheduling_cycle.SchedulingFailure)


def test_scheduling_changes_nothing_until_it_is_bound() -> None:
    pod = builders.pod("new")
    cluster = ClusterView.of([builders.node("a"), pod])
    place(cluster, pod)
    assert cluster.waiting == {"default/new": pod}
    assert cluster.nodes["a"].pods == {}


def test_a_pod_returns_to_the_node_it_was_promised_even_if_another_is_emptier() -> None:
    busy = builders.pod("busy", on="a", cpu="2")
    cluster = ClusterView.of([builders.node("a"), builders.node("b"), busy])
    assert place(cluster, builders.pod("new", nominated="a")).node_name == "a"


def test_a_promised_node_that_went_away_is_forgotten() -> None:
    cluster = ClusterView.of([builders.node("b")])
    assert place(cluster, builders.pod("new", nominated="gone")).node_name == "b"


def test_a_finished_pod_leaves_its_node() -> None:
    cluster = ClusterView.of([builders.node("a", cpu="1")])
    running = builders.pod("old", on="a")
    cluster.put(running)
    assert isinstance(scheduling_cycle.schedule(cluster, builders.pod("new")), scheduling_cycle.SchedulingFailure)
    cluster.put({**running, "status": {"phase": "Succeeded"}})
    assert place(cluster, builders.pod("new")).node_name == "a"


def claim(name: str, size: str, storage_class: str) -> builders.Json:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
        },
        "status": {"phase": "Pending"},
    }


def volume(name: str, size: str) -> builders.Json:
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"},
        "status": {"phase": "Available"},
    }


def storage_class(name: str, provisioner: str) -> builders.Json:
    mode = "WaitForFirstConsumer"
    return {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def uses(*claims: str) -> list[builders.Json]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def test_binding_a_pod_gives_its_claim_the_smallest_volume_and_the_next_pod_another() -> None:
    cluster = ClusterView.of([
        builders.node("a"),
        storage_class("local", "kubernetes.io/no-provisioner"),
        *(claim(name, "1Gi", "local") for name in ("one", "two", "three")),
        *(volume(name, size) for name, size in (("large", "9Gi"), ("small", "2Gi"))),
    ])  # fmt: skip
    taken = []
    for name in ("one", "two"):
        placement = place(cluster, builders.pod(name, volumes=uses(name)))
        scheduling_cycle.bind(cluster, placement)
        taken += [found["metadata"]["name"] for _, found in placement.volumes.bindings]
    assert taken == ["small", "large"]
    bound = cluster.all_of("PersistentVolumeClaim")["default/one"]
    assert bound["spec"]["volumeName"] == "small"
    assert volume_binding.BIND_COMPLETED in bound["metadata"]["annotations"]
    failure = scheduling_cycle.schedule(cluster, builders.pod("three", volumes=uses("three")))
    assert isinstance(failure, scheduling_cycle.SchedulingFailure)
    assert failure.message.startswith(f"0/1 nodes are available: 1 {volume_binding.NOTHING_TO_BIND}.")


def test_a_claim_that_needs_a_new_volume_is_marked_with_the_node_and_stays_there() -> None:
    nodes = [builders.node("a"), builders.node("b")]
    cluster = ClusterView.of([*nodes, storage_class("fast", "csi.example.com"), claim("data", "1Gi", "fast")])
    placement = place(cluster, builders.pod("first", volumes=uses("data")))
    scheduling_cycle.bind(cluster, placement)
    assert [item["metadata"]["name"] for item in placement.volumes.provisions] == ["data"]
    marked = cluster.all_of("PersistentVolumeClaim")["default/data"]
    assert marked["metadata"]["annotations"] == {volume_binding.SELECTED_NODE: "a"}
    # Node b is emptier now, but the volume is being made for a.
    assert place(cluster, builders.pod("second", volumes=uses("data"))).node_name == "a"


@given(st.lists(st.integers(1, 4000), max_size=30), st.integers(1, 4))
def test_no_node_is_ever_filled_beyond_what_it_has(sizes_millicpu: list[int], node_count: int) -> None:
    cluster = ClusterView.of([builders.node(f"n{i}") for i in range(node_count)])
    for index, size_millicpu in enumerate(sizes_millicpu):
        outcome = scheduling_cycle.schedule(cluster, builders.pod(f"p{index}", cpu=f"{size_millicpu}m"))
        if isinstance(outcome, scheduling_cycle.Placement):
            scheduling_cycle.bind(cluster, outcome)
        else:
            free = [
                4000 - sum(assigned_pod.requests["cpu"] for assigned_pod in node.pods.values())
                for node in cluster.nodes.values()
            ]
            assert max(free) < size_millicpu
    for node in cluster.nodes.values():
        assert sum(one.requests["cpu"] for one in node.pods.values()) <= 4000
