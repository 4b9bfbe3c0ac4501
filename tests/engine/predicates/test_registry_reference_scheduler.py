"""The engine and the simulator's plain scheduler, which share no rule, say the same of random clusters.

They also say the same after every step of a random history: the engine changes its columns in place and undoes them,
the other is built anew from the objects each time.
"""

import copy
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.conformance import objects, reference_scheduler, scheduler
from tests.strategies import Json, Objects
from windlass.autoscaler.readers import cluster_dump
from windlass.engine.model import facts, settings
from windlass.engine.predicates import registry
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.simulator.reference_scheduler import scheduling_cycle
from windlass.simulator.reference_scheduler.cluster_view import ClusterView


def first_opinion(snapshot: Snapshot, pod: Json) -> dict[str, Json | None]:
    judgement = registry.diagnose(
        snapshot, snapshot.shape_of(objects.pod(pod, pending=True)), settings.DEFAULT_FILTER_CONFIG
    )
    return {snapshot.nodes.names[row]: scheduler.to_text(judgement[row]) for row in judgement.rows.tolist()}


def other_opinion(view: ClusterView, pod: Json) -> dict[str, Json | None]:
    return {
        name: reference_scheduler.to_text(refusal) for name, refusal in scheduling_cycle.run_filters(view, pod).items()
    }


def build_both(found: list[Json]) -> tuple[Snapshot, ClusterView]:
    read, view = cluster_dump.read_objects(found), ClusterView.of(found)
    assert read.set_aside == []
    assert view.rejected == []
    return cluster_dump.build_snapshot(read), view


@given(strategies.clusters() | strategies.clusters(features=strategies.MINDING, roomy=True))
@strategies.examples(150)
def test_both_say_the_same_of_every_pod_on_every_node(found: Objects) -> None:
    snapshot, view = build_both(found.all)
    for pod in found.pending:
        assert first_opinion(snapshot, pod) == other_opinion(view, pod)


class History:
    """One cluster, twice: the engine's snapshot, and the objects as they would be in the API server."""

    def __init__(self, found: Objects, spares: list[Json]) -> None:
        self.probes, self.spares = found.pending, spares
        self.found = {self._key(item): item for item in [*found.all, *found.pending]}
        self.saved: list[dict[str, Json]] = []
        self.imagined = 0
        self.snapshot, _ = build_both(list(self.found.values()))

    def check(self) -> None:
        view = ClusterView.of(self.found.values())
        for probe in self.probes:
            assert first_opinion(self.snapshot, probe) == other_opinion(view, probe)

    # What-ifs

    def bind(self, one: int, other: int) -> None:
        waiting = [pod for pod in self._pods() if not pod["spec"].get("nodeName")]
        if waiting and (name := self._node(other)):
            pod = waiting[one % len(waiting)]
            self.snapshot.bind(self._row(pod), self.snapshot.nodes.rows[name])
            self._put({**pod, "spec": {**pod["spec"], "nodeName": name}})

    def unbind_pod(self, one: int, other: int) -> None:
        bound = [pod for pod in self._pods() if f"Node/{pod['spec'].get('nodeName')}" in self.found]
        if bound:
            pod = bound[one % len(bound)]
            self.snapshot.unbind(self._row(pod))
            self._unbind(pod)

    def clear_node(self, one: int, other: int) -> None:
        if name := self._node(one):
            self.snapshot.clear_node(self.snapshot.nodes.rows[name])
            for pod in self._pods():
                if pod["spec"].get("nodeName") == name and not pod["metadata"]["name"].startswith("imagined"):
                    self._unbind(pod)

    def place_many(self, one: int, other: int) -> None:
        probe = self.probes[one % len(self.probes)]
        names = [name for name in strategies.NODE_NAMES if f"Node/{name}" in self.found][: 1 + other % 3]
        if names:
            rows = np.array([self.snapshot.nodes.rows[name] for name in names])
            self.snapshot.place_many(self.snapshot.shape_of(objects.pod(probe)), rows, np.full(len(rows), 1 + one % 2))
            self._inject(probe, [name for name in names for _ in range(1 + one % 2)])

    def place(self, one: int, other: int) -> None:
        probe = self.probes[one % len(self.probes)]
        if name := self._node(other):
            self.snapshot.place(self.snapshot.shape_of(objects.pod(probe)), self.snapshot.nodes.rows[name])
            self._inject(probe, [name])

    def fork(self, one: int, other: int) -> None:
        self.snapshot.fork()
        self.saved.append(copy.copy(self.found))

    def revert(self, one: int, other: int) -> None:
        if self.saved:
            self.snapshot.revert()
            self.found = self.saved.pop()

    # Facts, which change outside of what-ifs only

    def add(self, one: int, other: int) -> None:
        if not self.saved:
            new = self.spares[one % len(self.spares)]
            self._put(new)
            match new["kind"]:
                case "Node":
                    self.snapshot.add_node(objects.node(new))
                case "Pod":
                    self.snapshot.add_pod(objects.pod(new))
                case "Namespace":
                    self._tell_namespaces()

    def remove(self, one: int, other: int) -> None:
        if not self.saved:
            old = list(self.found.values())[one % len(self.found)]
            if old["kind"] == "Node" and not self.imagined:
                self.snapshot.remove_node(old["metadata"]["name"])
            elif old["kind"] == "Pod" and not old["metadata"]["name"].startswith("imagined"):
                self.snapshot.remove_pod(old["metadata"]["uid"])
            else:
                return
            del self.found[self._key(old)]

    def rename_namespaces(self, one: int, other: int) -> None:
        if not self.saved:
            name = list(strategies.NAMESPACES)[one % 3]
            self._put(strategies.namespace(name, [{}, {"env": "dev"}, {"env": "prod", "team": "b"}][other % 3]))
            self._tell_namespaces()

    def _tell_namespaces(self) -> None:
        found = [item["metadata"] for item in self.found.values() if item["kind"] == "Namespace"]
        self.snapshot.set_namespaces(facts.Namespace(entry["name"], entry["labels"]) for entry in found)

    # Helpers

    def _pods(self) -> list[Json]:
        """Pods that hold something or wait to; those that are only imagined have no row of their own."""
        pods = [item for item in self.found.values() if item["kind"] == "Pod"]
        return [
            pod
            for pod in pods
            if pod["status"]["phase"] not in ("Succeeded", "Failed") and not pod["metadata"]["uid"].startswith("im")
        ]

    def _node(self, number: int) -> str | None:
        names = [item["metadata"]["name"] for item in self.found.values() if item["kind"] == "Node"]
        return names[number % len(names)] if names else None

    def _row(self, pod: Json) -> int:
        return self.snapshot.pods.rows[pod["metadata"]["uid"]]

    def _put(self, new: Json) -> None:
        self.found = {**self.found, self._key(new): new}

    def _unbind(self, pod: Json) -> None:
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        self._put({**pod, "spec": spec})

    def _inject(self, probe: Json, homes: list[str]) -> None:
        for name in homes:
            self.imagined += 1
            metadata = {**probe["metadata"], "name": f"imagined-{self.imagined}", "uid": f"imagined-{self.imagined}"}
            self._put({**probe, "metadata": metadata, "spec": {**probe["spec"], "nodeName": name}})

    @staticmethod
    def _key(one: Json) -> str:
        return f"{one['kind']}/{one['metadata']['name']}"


STEPS: tuple[Callable[[History, int, int], None], ...] = (
    History.bind, History.bind, History.unbind_pod, History.clear_node, History.place_many, History.place, History.fork,
    History.fork, History.revert, History.revert, History.add, History.add, History.remove, History.rename_namespaces,
)  # fmt: skip


@st.composite
def spares(draw: st.DrawFn) -> list[Json]:
    """Other versions of nodes and pods, and new ones."""
    nodes = [draw(strategies.node(name)) for name in ("n0", "n5")]
    pods = [
        draw(strategies.pod("p0", home="n0")),
        draw(strategies.pod("p9", home="n5")),
        draw(strategies.pod("p1", home="n1")),
    ]
    return nodes + pods


@given(
    strategies.clusters(nodes=4, bound=5, pending=3)
    | strategies.clusters(nodes=4, bound=5, pending=3, features=strategies.MINDING, roomy=True),
    spares(),
    st.lists(st.tuples(strategies.pick(*STEPS), st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=12),
)
@strategies.examples(150)
def test_both_say_the_same_after_every_step_of_a_history(
    found: Objects, more: list[Json], steps: list[tuple[Callable[[History, int, int], None], int, int]]
) -> None:
    history = History(found, more)
    history.check()
    for step, item, other in steps:
        step(history, item, other)
        history.check()
    while history.saved:
        history.revert(0, 0)
        history.check()
