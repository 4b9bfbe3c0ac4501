from typing import Any

import msgspec
import pytest

from windlass import errors
from windlass.autoscaler.observe import gate, sinks
from windlass.engine import snapshot
from windlass.kube import resources
from windlass.kube.models import core, pods


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
        self.kept = snapshot.Snapshot()
        self.gate = gate.Gate()
        self.pods, self.nodes = sinks.pod_sink(self.kept, self.gate), sinks.node_sink(self.kept, self.gate)

    def put(self, *found: pods.Pod | core.Node) -> None:
        for each in found:
            if isinstance(each, pods.Pod):
                self.pods.put(each.meta, each)
            else:
                self.nodes.put(each.meta, each)

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


def test_a_fact_that_is_as_good_as_gone_is_not_kept_and_its_end_is_no_change() -> None:
    kept = sinks.Kept[str]()
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
    with scene.gate.closed():
        scene.put(pod("b", node="n"), pod("a"))
        scene.pods.remove(pod("b").meta)
        scene.put(pod("c", node="n"))
        assert scene.on("n") == ["a"]
    assert (scene.on("n"), scene.names()) == (["c"], ["ns/a", "ns/c"])


def test_a_pod_that_cannot_be_read_is_complained_about_at_once() -> None:
    scene = Scene()
    bad = {"metadata": {"name": "bad", "namespace": "ns"}, "spec": {"tolerations": [{"operator": "Likes"}]}}
    with scene.gate.closed(), pytest.raises(errors.InvalidObject, match="ns/bad"):
        scene.put(resources.PODS.decode(msgspec.json.encode(bad)))


def test_nothing_changes_where_nothing_did() -> None:
    scene = Scene()
    scene.put(node("n"), pod("a", node="n"))
    generation = scene.kept.generation
    scene.put(node("n"), pod("a", node="n", conditions=[{"type": "ContainersReady", "status": "True"}]))
    assert scene.kept.generation == generation
    scene.put(pod("a", node="n", phase="Succeeded"))
    assert scene.kept.generation > generation
