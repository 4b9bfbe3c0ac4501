"""What a user reads in `kubectl describe pod`."""

from tests.simulator import builders
from windlass.simulator.reference_scheduler import scheduling_cycle
from windlass.simulator.reference_scheduler.cluster_view import ClusterView

SPOT = [{"key": "spot", "effect": "NoSchedule"}]


def fail(objects: list[builders.Json], pod: builders.Json) -> scheduling_cycle.SchedulingFailure:
    failure = scheduling_cycle.schedule(ClusterView.of(objects), pod)
    assert isinstance(failure, scheduling_cycle.SchedulingFailure)
    return failure


def test_reasons_are_counted_over_the_nodes_and_sorted_as_text() -> None:
    full = [builders.node(f"full{i}", cpu="1") for i in range(2)]
    tainted = [builders.node(f"tainted{i}", taints=SPOT) for i in range(10)]
    busy = [builders.pod(f"busy{i}", on=f"full{i}") for i in range(2)]
    assert fail([*full, *tainted, *busy], builders.pod("new")).message == (
        "0/12 nodes are available: 10 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        "no new claims to deallocate, preemption: 0/12 nodes are available: "
        "10 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."
    )


def test_a_node_that_lacks_several_things_counts_for_each() -> None:
    node = builders.node("small", cpu="1", memory="1Gi", pods="0")
    pod = builders.pod("new", cpu="2", overhead={"memory": "2Gi"})
    assert fail([node], pod).message.startswith(
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 Too many pods. "
    )


def test_a_pod_that_no_node_can_help_is_told_so_once() -> None:
    pod = builders.pod("new", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}])
    failure = fail([builders.node("a"), builders.node("b")], pod)
    # The last words are those of the plugin for device claims, which was not asked in time.
    assert failure.message == '0/2 nodes are available: persistentvolumeclaim "gone" not found. not found'
    assert failure.nominated_node is None


def test_without_nodes_there_is_nothing_to_count() -> None:
    failure = fail([], builders.pod("new", nominated="gone"))
    assert (failure.message, failure.nominated_node) == ("no nodes available to schedule pods", "")


def test_nodes_that_the_affinity_does_not_name_are_counted_under_it() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    pod = builders.pod(
        "new", cpu="5", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    )
    assert fail([builders.node("a"), builders.node("b"), builders.node("c")], pod).message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
    )


def test_a_filter_that_cannot_tell_stops_the_cycle_even_if_another_node_would_do() -> None:
    disk = {"name": "disk", "azureDisk": {"diskName": "d", "diskURI": "/d", "kind": "Dedicated"}}
    csi_node = {"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": []}}
    failure = fail([builders.node("a"), builders.node("b"), csi_node], builders.pod("new", volumes=[disk]))
    assert failure.reason == "SchedulerError"
    assert failure.message == (
        'running "NodeVolumeLimits" filter plugin: converting volume(disk) from inline to csi: '
        "kind(Dedicated) is not supported in csi migration"
    )


def test_a_pod_that_cannot_be_scored_has_no_place_where_scores_decide() -> None:
    fields = [{"key": "metadata.name", "operator": "Exists"}, {"key": "metadata.name", "operator": "In"}]
    expressions = [
        {"key": "generation", "operator": "Gt", "values": ["new"]},
        {"key": "disk", "operator": "Like", "values": ["f*"]},
        {"key": "disk", "operator": "In", "values": ["fast"]},
    ]
    terms = [
        {"weight": 0, "preference": {"matchExpressions": expressions}},
        {"weight": 1, "preference": {"matchExpressions": expressions, "matchFields": fields}},
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    failure = fail([builders.node("a"), builders.node("b")], builders.pod("new", affinity=affinity))
    assert (failure.reason, failure.nominated_node) == ("SchedulerError", "")
    assert failure.message == (
        'running PreScore plugin "NodeAffinity": '
        "[[1].matchExpressions[0].values[0]: Invalid value: \"new\": for 'Gt', 'Lt' operators, the value must be an "
        'integer, [1].matchExpressions[1].operator: Unsupported value: "Like": supported values: "In", "NotIn", '
        '"Exists", "DoesNotExist", "Gt", "Lt", [1].matchFields[0].operator: Unsupported value: "Exists": supported '
        'values: "In", "NotIn", [1].matchFields[1].values: Invalid value: null: must have one element]'
    )
    alone = scheduling_cycle.schedule(ClusterView.of([builders.node("a")]), builders.pod("new", affinity=affinity))
    assert isinstance(alone, scheduling_cycle.Placement), "one feasible node needs no score"
