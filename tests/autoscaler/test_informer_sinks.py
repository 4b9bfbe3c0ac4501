from typing import Any

import msgspec
import pytest

from windlass import errors, klog
from windlass.autoscaler import informer_sinks
from windlass.engine.model import facts
from windlass.engine.snapshot import cluster_snapshot
from windlass.kube import resources
from windlass.kube.models import core, pods
from windlass.selectors import EVERYTHING


def pod(name: str, *, node: str = "", uid: str = "", **status: Any) -> pods.Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    raw = {
        "metadata": {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}"},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running", **status},
    }
    return resources.PODS.decode(msgspec.json.encode(raw))


def node(name: str, cpu: str = "8") -> core.Node:
    return resources.NODES.decode(
        msgspec.json.encode({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu}}})
    )


class Scene:
    def __init__(self) -> None:
        self.kept = cluster_snapshot.Snapshot()
        self.gate = informer_sinks.ChangeBuffer()
        self.pods, self.nodes = (
            informer_sinks.pod_sink(self.kept, self.gate),
            informer_sinks.node_sink(self.kept, self.gate),
        )

    def put(self, *found: pods.Pod | core.Node) -> None:
        for item in found:
            if isinstance(item, pods.Pod):
                self.pods.put(item.meta, item)
            else:
                self.nodes.put(item.meta, item)

    def names(self) -> list[str]:
        return sorted(self.kept.pod(row).key for row in self.kept.pods.rows.values())

    def on(self, name: str) -> list[str]:
        row = self.kept.nodes.rows[name]
        return [self.kept.pod(pod_row).name for pod_row in self.kept.pods_on(row)]


def test_pods_are_counted_on_their_nodes_whichever_came_first() -> None:
    scene = Scene()
    scene.put(pod("early", node="n"), node("n"), pod("late", node="n"))

    assert scene.on("n") == ["early", "late"]


def test_a_pod_that_changes_is_counted_once() -> None:
    scene = Scene()
    scene.put(node("n"), node("m"), pod("a"), pod("a", node="n"), pod("a", node="m"))

    assert (scene.on("n"), scene.on("m")) == ([], ["a"])
    assert len(scene.kept.pods) == 1


def test_a_pod_that_goes_or_ends_is_counted_no_more() -> None:
    scene = Scene()
    scene.put(node("n"), pod("a", node="n"), pod("b", node="n"), pod("b", node="n", phase="Succeeded"))
    scene.pods.remove(pod("a").meta)
    scene.pods.remove(pod("never seen").meta)

    assert scene.on("n") == []


def test_that_a_pod_starts_on_its_node_is_no_change() -> None:
    scene = Scene()
    scene.put(node("n"), pod("a", node="n", phase="Pending"))
    before = scene.kept.generation
    scene.put(pod("a", node="n", phase="Running"))

    assert scene.kept.generation == before
    scene.put(pod("a", node="n", phase="Failed"))
    assert scene.kept.generation != before


def test_a_change_of_health_moves_no_pod_and_is_a_change_only_under_budgets() -> None:
    ready, unready = ([{"type": "Ready", "status": status}] for status in ("True", "False"))
    scene = Scene()
    scene.put(node("n"), pod("a", node="n", conditions=ready), pod("b", node="n", conditions=ready))
    before, kinds = scene.kept.generation, len(scene.kept.pods.template_keys)
    scene.put(pod("a", node="n", conditions=unready))

    assert [scene.kept.pod(row).health for row in scene.kept.pods_on(0)] == [
        facts.PodHealth.UNREADY,
        facts.PodHealth.READY,
    ]
    assert scene.on("n") == ["a", "b"]
    assert len(scene.kept.pods.template_keys) == kinds
    assert scene.kept.generation == before
    scene.kept.guarded = frozenset({"ns"})
    scene.put(pod("a", node="n", conditions=ready))
    assert not scene.kept.pods.health
    assert scene.kept.generation > before


def daemon_pod(daemon_set: str, pinned_to: str, *, is_bound: bool) -> pods.Pod:
    """As the DaemonSet controller writes it, before and after kube-scheduler has bound it."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pinned_to]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemon_set, "uid": daemon_set, "controller": True}
    name = f"{daemon_set}-{pinned_to}"
    raw = {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "ownerReferences": [owner]},
        "spec": {"affinity": {"nodeAffinity": required}, **({"nodeName": pinned_to} if is_bound else {})},
        "status": {"phase": "Running" if is_bound else "Pending"},
    }
    return resources.PODS.decode(msgspec.json.encode(raw))


def test_daemonset_pods_of_many_nodes_are_as_many_kinds_and_shapes_as_there_are_daemonsets() -> None:
    scene = Scene()
    for number in range(20):
        scene.put(node(f"n{number}"))
        for daemon_set in ("logs", "network", "storage"):
            scene.put(daemon_pod(daemon_set, f"n{number}", is_bound=False))
    assert len(set(scene.kept.pods.shape_ids.tolist())) == 20
    for number in range(20):
        for daemon_set in ("logs", "network", "storage"):
            scene.put(daemon_pod(daemon_set, f"n{number}", is_bound=True))

    assert len(scene.kept.pods) == 60
    assert len(set(scene.kept.pods.template_ids.tolist())) == 3
    assert len(set(scene.kept.pods.shape_ids.tolist())) == 1
    assert scene.on("n7") == ["logs-n7", "network-n7", "storage-n7"]


def test_a_fact_that_is_as_good_as_gone_is_not_kept_and_its_end_is_no_change() -> None:
    kept = informer_sinks.FactCache[str]()
    kept.put("a", "x")
    kept.put("b", "y")
    kept.put("b", None)
    before = kept.all
    kept.remove("b")

    assert before == ("x",)
    assert kept.all is before


def test_a_complete_list_removes_what_it_does_not_name() -> None:
    scene = Scene()
    scene.put(node("n"), node("m"), pod("a", node="n"), pod("b", node="m"))
    scene.pods.begin()
    scene.nodes.begin()
    scene.put(node("n"), pod("a", node="n"), pod("c", node="n"))
    scene.pods.end()
    scene.nodes.end()

    assert scene.names() == ["ns/a", "ns/c"]
    assert list(scene.kept.nodes.rows) == ["n"]


def test_a_pod_that_was_replaced_by_another_of_its_name_is_not_both() -> None:
    scene = Scene()
    scene.put(node("n"), pod("web-0", node="n", uid="one"))
    scene.pods.begin()
    scene.put(pod("web-0", node="n", uid="two"))
    scene.pods.end()

    assert list(scene.kept.pods.rows) == ["two"]


def test_what_cannot_be_read_is_refused_by_name() -> None:
    scene = Scene()

    with pytest.raises(errors.InvalidObject, match=r"Node n: status\.allocatable"):
        scene.put(node("n", cpu="lots"))


def test_what_is_seen_while_a_decision_is_made_waits() -> None:
    scene = Scene()
    scene.put(node("n"), pod("a", node="n"))
    with scene.gate.frozen():
        scene.put(pod("b", node="n"), pod("a"))
        scene.pods.remove(pod("b").meta)
        scene.put(pod("c", node="n"))
        assert scene.on("n") == ["a"]
    assert (scene.on("n"), scene.names()) == (["c"], ["ns/a", "ns/c"])


def test_a_pod_that_cannot_be_read_is_complained_about_at_once() -> None:
    scene = Scene()
    bad = {"metadata": {"name": "bad", "namespace": "ns"}, "spec": {"overhead": {"cpu": "much"}}}
    with scene.gate.frozen(), pytest.raises(errors.InvalidObject, match="ns/bad"):
        scene.put(resources.PODS.decode(msgspec.json.encode(bad)))


def test_nothing_changes_where_nothing_did() -> None:
    scene = Scene()
    scene.put(node("n"), pod("a", node="n"))
    generation = scene.kept.generation
    scene.put(node("n"), pod("a", node="n", conditions=[{"type": "ContainersReady", "status": "True"}]))
    assert scene.kept.generation == generation
    scene.put(pod("a", node="n", phase="Succeeded"))
    assert scene.kept.generation > generation


# ── What cannot be read is not gone ──────────────────────────────────────────────────────────────────────────────


def set_aside(scene: Scene, raw: dict[str, Any], kind: resources.Resource[Any] = resources.PODS) -> None:
    """As an informer does with an object of which the sink, or the decoder, can make nothing."""
    sink: informer_sinks.FactSink[Any, Any] = scene.pods if kind is resources.PODS else scene.nodes
    found = kind.read(msgspec.json.encode(raw))
    if isinstance(found, resources.Unreadable):
        sink.set_aside(found)
        return
    try:
        sink.put(found.meta, found)
    except errors.InvalidObject as error:
        sink.set_aside(resources.Unreadable(found.meta, error, found))


def odd_pod(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "odd", "namespace": "ns", "uid": "uid-odd", "labels": {"app": "web"}},
        "spec": spec,
        "status": {"phase": "Running"},
    }


def odd(scene: Scene) -> facts.Pod:
    return scene.kept.pod(scene.kept.pods.rows["uid-odd"])


ASKING = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "much"}}}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [ASKING]},
        {"containers": [ASKING], "priority": "high"},
        {"containers": [ASKING], "topologySpreadConstraints": [{"maxSkew": 0}]},
        {"containers": [ASKING, {"ports": [{"hostPort": "http"}]}], "affinity": 5},
    ],
)
def test_a_pod_on_a_node_that_cannot_be_read_stays_there_with_what_can_be_read(spec: dict[str, Any]) -> None:
    scene = Scene()
    scene.put(node("n"))
    set_aside(scene, odd_pod(nodeName="n", **spec))
    assert scene.on("n") == ["odd"]
    found = odd(scene)
    assert found.unreadable
    assert (found.labels, found.spec.requests) == ({"app": "web"}, ((facts.CPU, 1000),))


def test_a_pod_that_waits_and_cannot_be_read_is_left_out() -> None:
    scene = Scene()
    set_aside(scene, odd_pod(containers=[ASKING]))
    assert scene.names() == []


def test_a_pod_that_has_ended_and_cannot_be_read_keeps_no_node() -> None:
    scene = Scene()
    scene.put(node("n"))
    set_aside(scene, odd_pod(nodeName="n", containers=[ASKING]) | {"status": {"phase": "Succeeded"}})
    assert scene.on("n") == []


def test_of_a_pod_of_which_nothing_can_be_read_what_was_known_stays() -> None:
    scene = Scene()
    scene.put(node("n"), pod("odd", node="n"))
    known = pod("odd", node="n").meta
    scene.pods.set_aside(resources.Unreadable(known, errors.InvalidObject("Pod", "ns/odd", "spec", "?", "JSON")))
    assert scene.on("n") == ["odd"]
    assert odd(scene).unreadable


def test_a_pod_that_can_be_read_again_is_as_any_other() -> None:
    scene = Scene()
    scene.put(node("n"))
    set_aside(scene, odd_pod(nodeName="n", containers=[ASKING]))
    scene.put(pod("odd", node="n"))
    assert not odd(scene).unreadable


def test_an_unknown_operator_counts_for_nothing_and_is_named() -> None:
    scene = Scene()
    scene.put(node("n"))
    set_aside(scene, odd_pod(nodeName="n", tolerations=[{"key": "k", "operator": "Gt", "value": "1"}]))
    assert (odd(scene).unreadable, odd(scene).spec.tolerations) == ("", ())
    assert [str(invalid) for invalid in scene.pods.complaints.values()] == [
        "Pod ns/odd: spec.tolerations[0].operator: found 'Gt', expected Equal or Exists"
    ]
    scene.put(pod("odd", node="n"))
    assert not scene.pods.complaints


@pytest.mark.parametrize(
    ("raw", "provider_id"),
    [
        ({"spec": {"taints": [{"key": "k", "effect": "Perhaps"}], "providerID": "p"}}, "p"),
        ({"spec": {"providerID": "p"}, "status": {"allocatable": {"cpu": "many"}}}, "p"),
        ({"spec": {"providerID": 5, "taints": 7}}, ""),
        ({"status": "fine"}, ""),
    ],
)
def test_a_node_that_cannot_be_read_is_there_and_nothing_is_placed_on_it(raw: dict[str, Any], provider_id: str) -> None:
    scene = Scene()
    scene.put(pod("a", node="n"))
    set_aside(scene, {"metadata": {"name": "n", "uid": "u", "labels": {"zone": "z"}}, **raw}, resources.NODES)
    found = scene.kept.nodes.facts[scene.kept.nodes.rows["n"]]
    assert (found.provider_id, found.labels, found.unschedulable) == (provider_id, {"zone": "z"}, True)
    assert found.unreadable
    assert scene.on("n") == ["a"]


def test_a_pod_that_cannot_be_counted_stays_on_its_node_whenever_the_gate_opens(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    scene.put(node("n"))
    add = scene.kept.add_pod

    def fail(fact: facts.Pod) -> int | None:
        if fact.name == "odd" and not fact.unreadable:
            raise OverflowError("int too large to convert")
        return add(fact)

    monkeypatch.setattr(scene.kept, "add_pod", fail)
    before = klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.INFORMER]
    with scene.gate.frozen():
        scene.put(pod("a", node="n"), pod("odd", node="n"), pod("b", node="n"))
        assert scene.names() == []
    assert sorted(scene.on("n")) == ["a", "b", "odd"]
    assert odd(scene).unreadable
    assert klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.INFORMER] == before + 1
    assert list(scene.pods.complaints) == ["uid-odd"]
    assert "OverflowError: int too large to convert" in caplog.text


def test_an_object_that_cannot_be_removed_keeps_no_other_from_going(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.put(node("n"), pod("a", node="n"), pod("b", node="n"))
    remove = scene.kept.remove_pod

    def fail(identity: str) -> None:
        if identity == "uid-a":
            raise ValueError("not in list")
        remove(identity)

    monkeypatch.setattr(scene.pods._kept, "remove", fail)
    scene.pods.begin()
    scene.pods.end()
    assert scene.on("n") == ["a"]


def test_a_disruption_budget_that_cannot_be_read_allows_nothing() -> None:
    kept: informer_sinks.FactCache[facts.PodDisruptionBudget] = informer_sinks.FactCache()
    sink = informer_sinks.budget_sink(kept, informer_sinks.ChangeBuffer())
    raw = {"metadata": {"name": "b", "namespace": "ns"}, "spec": {"selector": 5}, "status": {"disruptionsAllowed": 3}}
    found = resources.POD_DISRUPTION_BUDGETS.read(msgspec.json.encode(raw))
    assert isinstance(found, resources.Unreadable)
    sink.set_aside(found)
    assert kept.all == (facts.PodDisruptionBudget("ns", "b", EVERYTHING, 0),)
