"""The quick scheduler of the world against the plain one: the same nodes pass, with the same scores."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator import small_clusters
from windlass.simulator.cluster import api_client
from windlass.simulator.fast_scheduler import node_plugins, node_table, pod_shapes, scheduler, topology_counts
from windlass.simulator.fast_scheduler.scheduler import NO_SLOT
from windlass.simulator.reference_scheduler import node_scores, pod_topology_spread, scheduling_cycle, scoring
from windlass.simulator.reference_scheduler.cluster_view import ClusterView

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
APPS = ("red", "green")
TAINT = {"key": "special", "effect": "NoSchedule"}
SOFT_TAINTS = [{"key": key, "effect": "PreferNoSchedule"} for key in ("special", "old")]
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def make_placing(table: node_table.NodeTable, counted: topology_counts.TopologyCounts) -> scheduler.Placer:
    scores = node_plugins.NodeScores(table, counted)
    return scheduler.Placer(table, node_plugins.StaticFilters(table), counted, scores, random.Random(1))


@st.composite
def nodes(draw: st.DrawFn) -> list[Json]:
    found = []
    for i in range(draw(st.integers(1, 5))):
        labels = {HOST: f"n{i}", "disk": draw(st.sampled_from(["fast", "slow"]))}
        if draw(st.booleans()):
            labels[ZONE] = draw(st.sampled_from("abc"))
        taints = [TAINT] if draw(st.booleans()) and draw(st.booleans()) else []
        spec: Json = {"taints": taints + SOFT_TAINTS[: draw(st.integers(0, 2))]}
        if draw(st.integers(0, 6)) == 0:
            spec["unschedulable"] = True
        has = {"cpu": str(draw(st.integers(1, 8))), "memory": f"{draw(st.integers(1, 16))}Gi"}
        has["pods"] = str(draw(st.integers(1, 9)))
        found.append(
            {
                "kind": "Node",
                "metadata": {"name": f"n{i}", "labels": labels},
                "spec": spec,
                "status": {"allocatable": has},
            }
        )
    return found


@st.composite
def pods(draw: st.DrawFn, number: int) -> Json:
    app = draw(st.sampled_from(APPS))
    wanted = {"cpu": f"{draw(st.integers(0, 3000))}m", "memory": f"{draw(st.integers(0, 4))}Gi"}
    if draw(st.integers(0, 4)) == 0:
        del wanted[draw(st.sampled_from(["cpu", "memory"]))]
    selector: Json = {"matchLabels": {"app": draw(st.sampled_from(APPS))}}
    spec: Json = {"containers": [{"name": "main", "resources": {"requests": wanted}}]}
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "special", "operator": "Exists"}]
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = {"disk": "fast"}
    key = draw(st.sampled_from([ZONE, HOST]))
    broken = draw(st.integers(0, 5)) == 0
    if broken:
        selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["not a label"]}]}
    match draw(st.integers(0, 5)):
        case 0:
            constraint = {"maxSkew": draw(st.integers(1, 2)), "topologyKey": key, "labelSelector": selector}
            constraint["nodeTaintsPolicy"] = draw(st.sampled_from(["Honor", "Ignore"]))
            when = draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]))
            spec["topologySpreadConstraints"] = [{**constraint, "whenUnsatisfiable": when}]
        case 1 | 2 as kind:
            term = {"topologyKey": key, "labelSelector": selector}
            name = "podAffinity" if kind == 1 else "podAntiAffinity"
            weighted = {"weight": draw(st.integers(1, 100)), "podAffinityTerm": term}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec["affinity"] = {name: required if draw(st.booleans()) else {PREFERRED: [weighted]}}
        case 3:
            spec["containers"][0]["ports"] = [{"hostPort": draw(st.sampled_from([80, 81]))}]
        case 4:
            wish = {"matchExpressions": [{"key": "disk", "operator": "Gt" if broken else "In", "values": ["slow"]}]}
            spec["affinity"] = {"nodeAffinity": {PREFERRED: [{"weight": 7, "preference": wish}]}}
    metadata: Json = {"name": f"p{number}", "namespace": draw(st.sampled_from(["x", "y"])), "uid": f"u{number}"}
    if draw(st.booleans()):
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
        metadata["ownerReferences"] = [owner]
    return {"kind": "Pod", "metadata": {**metadata, "labels": {"app": app}}, "spec": spec, "status": {}}


def replica_set(app: str, namespace: str) -> Json:
    metadata = {"name": app, "namespace": namespace}
    return {"kind": "ReplicaSet", "metadata": metadata, "spec": {"selector": {"matchLabels": {"app": app}}}}


OWNERS = {(app, namespace): replica_set(app, namespace) for app in APPS for namespace in ("x", "y")}


def find_selector(pod: Json) -> Json | None:
    owners = pod["metadata"].get("ownerReferences")
    owner = OWNERS[owners[0]["name"], pod["metadata"]["namespace"]] if owners else None
    return pod_topology_spread.default_selector(pod, owner, ())


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Json], list[Json]]:
    return draw(nodes()), [draw(pods(number)) for number in range(draw(st.integers(1, 12)))]


@settings(max_examples=300, deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_both_schedulers_agree_pod_by_pod_while_pods_come_and_go(
    cluster: tuple[list[Json], list[Json]], chance: Any
) -> None:
    view = ClusterView.of([*cluster[0], *OWNERS.values()])
    table, seen = node_table.NodeTable(), pod_shapes.PodShapes(find_selector)
    counted = topology_counts.TopologyCounts(table)
    quick = make_placing(table, counted)
    for node in cluster[0]:
        table.put_node(node)
    for pod in cluster[1]:
        shape = seen.shape_pod(pod).shape
        slot = quick.find_node(pod, shape)
        outcome = scheduling_cycle.schedule(view, pod)
        if not isinstance(outcome, scheduling_cycle.Placement):
            has_failed = outcome.reason == scheduling_cycle.SCHEDULER_ERROR
            errors = {NO_SLOT: shape.pre_filter_error, scheduler.SCORE_FAILED: shape.pre_score_error}
            assert errors[slot] == (outcome.message if has_failed else ""), f"the plain one says {outcome.message}"
            continue
        assert slot != NO_SLOT, f"the plain one says {outcome.node_name}"
        passed = [
            view.nodes[name] for name, refusal in scheduling_cycle.run_filters(view, pod).items() if refusal is None
        ]
        assert table.names[slot] in {node.name for node in node_scores.best_nodes(view, pod, passed)}
        found = quick.scores.score(pod, shape, np.array([table.slots[node.name] for node in passed]))
        theirs = node_scores.score_nodes(view, pod, passed)
        for plugin in scoring.WEIGHTS:
            ours = found[plugin].tolist() if plugin in found else [0] * len(passed)
            assert ours == [theirs[node.name].get(plugin, 0) for node in passed], plugin
        bound = scheduling_cycle.bind(view, outcome)
        seat = table.place(api_client.key_of(pod), pod, shape, outcome.node_name)
        assert seat is not None
        counted.add_pod(seat)
        if chance.random() < 0.2:
            view.remove(bound)
            left = table.remove_pod(api_client.key_of(pod))
            assert left is not None
            counted.remove_pod(left)


def test_what_is_known_of_nodes_that_were_is_forgotten_and_the_rest_is_judged_as_before() -> None:
    table, seen = node_table.NodeTable(), pod_shapes.PodShapes()
    counted = topology_counts.TopologyCounts(table)
    quick = make_placing(table, counted)
    metadata = {"name": "p", "namespace": "x"}
    shape = seen.shape_pod({"kind": "Pod", "metadata": metadata, "spec": {"containers": []}, "status": {}}).shape
    for number in range(4000):
        name = f"n{number % 5}"
        spec: Json = {"taints": [{**TAINT, "value": f"since {number}"}]} if number % 2 else {}
        table.put_node({"kind": "Node", "metadata": {"name": name, "labels": {HOST: name}}, "spec": spec, "status": {}})
        if number % 7 == 0:
            free = {f"n{item % 5}" for item in range(max(number - 4, 0), number + 1) if not item % 2}
            assert {table.names[slot] for slot in np.flatnonzero(quick.static_filters.allows(shape))} == free
            domains = counted.domains(HOST)[0]
            assert len(set(domains[table.is_present].tolist())) == len(table.slots)
    assert table.era > 2
    assert len(table.class_examples) < 1500


def test_a_more_important_pod_takes_the_place_of_a_less_important_one() -> None:
    world = small_clusters.make()
    for name, value in (("high", 1000), ("low", -10)):
        world.api.post(api_client.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    small_clusters.deploy(world, "pause", 4, "2", priorityClassName="low", terminationGracePeriodSeconds=5)
    small_clusters.pass_time(world, 10)
    assert len(small_clusters.running(world, "pause")) == 4
    small_clusters.deploy(world, "web", 2, "2", priorityClassName="high")
    small_clusters.pass_time(world, 10.5)
    waiting = [pod for pod in small_clusters.pods(world, "web") if not api_client.node_of(pod)]
    assert len(waiting) == 2
    assert all(pod["status"]["nominatedNodeName"] for pod in waiting)
    small_clusters.pass_time(world, 20)
    assert len(small_clusters.running(world, "web")) == 2
    assert len(small_clusters.running(world, "pause")) == 2
    assert len([pod for pod in small_clusters.pods(world, "pause") if not api_client.node_of(pod)]) == 2


def test_a_pod_that_never_preempts_waits() -> None:
    world = small_clusters.make()
    world.api.post(
        api_client.PRIORITY_CLASSES, {"metadata": {"name": "meek"}, "value": 10, "preemptionPolicy": "Never"}
    )
    small_clusters.deploy(world, "web", 8)
    small_clusters.pass_time(world, 10)
    small_clusters.deploy(world, "meek", 1, priorityClassName="meek")
    small_clusters.pass_time(world, 20)
    assert small_clusters.running(world, "meek") == []
    assert len(small_clusters.running(world, "web")) == 8


UNPARSABLE = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a b"]}]}
SPREAD = {"maxSkew": 1, "topologyKey": HOST, "labelSelector": UNPARSABLE}
NEWEST = {"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["new"]}]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}]},
            'running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod\'s hard topology '
            'spread constraints: values[0][app]: Invalid value: "a b": ',
        ),
        (
            {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]},
            'running PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining pod\'s soft topology '
            'spread constraints: values[0][app]: Invalid value: "a b": ',
        ),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 7, "preference": NEWEST}]}}},
            'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0]: Invalid value: "new": for '
            "'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_a_pod_that_cannot_be_filtered_or_scored_waits_with_the_schedulers_error(spec: Json, message: str) -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "web", 2, **spec)
    small_clusters.pass_time(world, 10)
    for pod in small_clusters.pods(world, "web"):
        (condition,) = [item for item in pod["status"]["conditions"] if item["type"] == "PodScheduled"]
        assert (condition["status"], condition["reason"]) == ("False", "SchedulerError")
        assert condition["message"].startswith(message)


def test_a_pod_that_cannot_be_scored_goes_to_the_only_node_where_it_fits() -> None:
    world = small_clusters.make()
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 1)
    small_clusters.pass_time(world, 300)
    small_clusters.deploy(
        world, "web", 1, topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]
    )
    small_clusters.pass_time(world, 310)
    assert len(small_clusters.running(world, "web")) == 1


def test_pods_of_one_line_are_placed_in_the_order_of_their_coming() -> None:
    world = small_clusters.make()
    small_clusters.deploy(world, "first", 10)
    small_clusters.pass_time(world, 5)
    small_clusters.deploy(world, "second", 10)
    small_clusters.pass_time(world, 10)
    small_clusters.scale(world, api_client.MACHINE_DEPLOYMENTS, "general", 3)
    small_clusters.pass_time(world, 100)
    assert len(small_clusters.running(world, "first")) == 10
    assert len(small_clusters.running(world, "second")) == 2
