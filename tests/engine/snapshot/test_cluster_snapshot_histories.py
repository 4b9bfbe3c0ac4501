"""However a snapshot came about, it holds what one built at once would; and a revert brings back what was there."""

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.conformance import objects
from tests.engine.snapshot import column_values
from windlass.engine.model import facts
from windlass.engine.snapshot import cluster_snapshot

NAMES = strategies.NODE_NAMES[:4]
TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class Pool:
    """Objects that may appear: several versions of the same few nodes and pods."""

    nodes: list[facts.Node]
    pods: list[facts.Pod]
    replicas: list[facts.Pod]
    """Alike but for name and a label of their own; they wait."""
    template: facts.Node
    daemon: facts.Pod

    @property
    def questions(self) -> column_values.Questions:
        return column_values.Questions.about([*self.pods[:4], *self.replicas[:1], self.daemon])


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    specs = [draw(strategies.pod_spec()) for _ in range(4)]
    spec = strategies.pick(*specs)
    homes = strategies.pick(*NAMES, *NAMES, "", "gone")
    pods = [objects.pod(draw(strategies.pod(f"p{number % 5}", spec, draw(homes)))) for number in range(7)]
    model = draw(strategies.pod("r", spec))
    replicas = [
        objects.pod({**model, "metadata": {**model["metadata"], "name": f"r{n}", "uid": f"uid-r{n}"}}) for n in range(6)
    ]
    nodes = [objects.node(draw(strategies.node(name))) for name in (*NAMES, *NAMES[:2])]
    daemon = objects.pod(draw(strategies.pod("daemon", spec)))
    return Pool(nodes, pods, replicas, objects.node(draw(strategies.node(TEMPLATE))), daemon)


@dataclass
class World:
    """What should be there, in plain values."""

    nodes: dict[str, facts.Node] = field(default_factory=dict)
    pods: dict[str, facts.Pod] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    deleting: set[str] = field(default_factory=set)
    retired: set[str] = field(default_factory=set)
    imagined: list[tuple[facts.Pod, str, int]] = field(default_factory=list)
    appended: int = 0

    def build(self, questions: column_values.Questions) -> cluster_snapshot.Snapshot:
        """Built at once. A retired node is not there at all: it must count for nothing."""
        nodes = {name: node for name, node in self.nodes.items() if name not in self.retired}
        namespaces = [facts.Namespace(name, labels) for name, labels in self.namespaces.items()]
        found = cluster_snapshot.build_snapshot(nodes.values(), self.pods.values(), namespaces)
        for pod in questions.pods:
            found.shape_of(pod)  # what their selectors look at must be known before a pod is imagined
        for pod, name, count in self.imagined:
            if name in nodes:
                found.place(found.shape_of(pod), found.nodes.rows[name], count)
        for name in self.deleting & nodes.keys():
            found.mark_deleting(found.nodes.rows[name])
        return found

    @property
    def is_real(self) -> bool:
        """Is nothing here but what facts say? Facts change only then."""
        return not (self.imagined or self.appended)


class History:
    """A snapshot that lives through changes, and the world as it should look."""

    def __init__(self, pool: Pool) -> None:
        self.pool, self.questions = pool, pool.questions
        self.snapshot, self.world = cluster_snapshot.Snapshot(), World()
        self.saved: list[tuple[World, dict[str, Any]]] = []
        self.scratches: list[tuple[int, contextlib.ExitStack]] = []
        for pod in self.questions.pods:
            self.snapshot.shape_of(pod)  # as above: and before any fork

    def check(self) -> None:
        built = self.world.build(self.questions)
        assert column_values.describe(self.snapshot, self.questions) == column_values.describe(built, self.questions)
        waiting = {self.snapshot.pod(row).key for row in self.snapshot.pending()}
        assert waiting == {pod.key for pod in self._waiting()}

    # Facts

    def add_node(self, one: int, other: int) -> None:
        if not self.saved and self.world.is_real:
            node = self.pool.nodes[one % len(self.pool.nodes)]
            self.snapshot.add_node(node)
            self.world.nodes[node.name] = node
            self.world.deleting.discard(node.name)
            self.world.retired.discard(node.name)

    def remove_node(self, one: int, other: int) -> None:
        if not self.saved and self.world.is_real and (name := self._name(one)):
            self.snapshot.remove_node(name)
            del self.world.nodes[name]
            self.world.deleting.discard(name)
            self.world.retired.discard(name)

    def add_pod(self, one: int, other: int) -> None:
        if not self.saved and self.world.is_real:
            pods = [*self.pool.pods, *self.pool.replicas]
            pod = pods[one % len(pods)]
            self.snapshot.add_pod(pod)
            self.world.pods[pod.uid] = pod

    def remove_pod(self, one: int, other: int) -> None:
        if not self.saved and self.world.is_real and self.world.pods:
            pod = list(self.world.pods.values())[one % len(self.world.pods)]
            self.snapshot.remove_pod(pod.uid)
            del self.world.pods[pod.uid]

    def set_namespaces(self, one: int, other: int) -> None:
        if not self.saved:
            names = list(strategies.NAMESPACES)[: one % 4]
            self.world.namespaces = {name: [{}, {"env": "prod"}, {"team": "a"}][other % 3] for name in names}
            found = self.world.namespaces.items()
            self.snapshot.set_namespaces(facts.Namespace(name, labels) for name, labels in found)

    def forget_unused(self, one: int, other: int) -> None:
        if not self.saved:
            self.snapshot.forget_unused()

    # What-ifs

    def bind(self, one: int, other: int) -> None:
        if (waiting := self._waiting()) and (name := self._name(other)):
            pod = waiting[one % len(waiting)]
            self.snapshot.bind(self._row(pod), self.snapshot.nodes.rows[name])
            self.world.pods[pod.uid] = replace(pod, node_name=name)

    def bind_many(self, one: int, other: int) -> None:
        alike = [pod for pod in self._waiting() if pod.name.startswith("r")]
        shapes = {pod.key: self.snapshot.shape_of_row(self._row(pod)).id for pod in alike}
        alike = [pod for pod in alike if shapes[pod.key] == shapes[alike[0].key]]
        if alike and self.world.nodes:
            names = [self._name(other + number * one) for number in range(len(alike))]
            names.sort(key=self.snapshot.nodes.rows.__getitem__)
            rows, counts = np.unique([self.snapshot.nodes.rows[name] for name in names], return_counts=True)
            self.snapshot.bind_many([self._row(pod) for pod in alike], rows, counts)
            for pod, name in zip(alike, names, strict=True):
                self.world.pods[pod.uid] = replace(pod, node_name=name)

    def unbind_pod(self, one: int, other: int) -> None:
        if bound := [pod for pod in self._counted() if pod.node_name in self.world.nodes]:
            pod = bound[one % len(bound)]
            self.snapshot.unbind(self._row(pod))
            self.world.pods[pod.uid] = replace(pod, node_name="")

    def clear_node(self, one: int, other: int) -> None:
        if name := self._name(one):
            there = [pod for pod in self._counted() if pod.node_name == name]
            rows = self.snapshot.clear_node(self.snapshot.nodes.rows[name])
            assert sorted(rows) == sorted(self._row(pod) for pod in there)
            for pod in there:
                self.world.pods[pod.uid] = replace(pod, node_name="")

    def relocate(self, one: int, other: int) -> None:
        if not (name := self._name(one)):
            return
        home = self.snapshot.nodes.rows[name]
        there = [self.snapshot.pod(row) for row in self.snapshot.pods_on(home)]
        shapes = {pod.key: self.snapshot.shape_of_row(self._row(pod)).id for pod in there}
        alike = [pod for pod in there if shapes[pod.key] == shapes[there[0].key]]
        others = [row for row in self.snapshot.nodes.rows.values() if row != home]
        if alike and others:
            homes = sorted(others[(other + number) % len(others)] for number in range(len(alike)))
            rows, counts = np.unique(homes, return_counts=True)
            self.snapshot.relocate(home, np.array([self._row(pod) for pod in alike]), rows, counts)
            names = dict(
                zip((pod.key for pod in alike), map(self.snapshot.nodes.names.__getitem__, homes), strict=True)
            )
            for pod in there:
                self.world.pods[pod.uid] = replace(self.world.pods[pod.uid], node_name=names.get(pod.key, ""))

    def place(self, one: int, other: int) -> None:
        if name := self._name(other):
            pod = self.questions.pods[one % len(self.questions.pods)]
            self.snapshot.place(self.snapshot.shape_of(pod), self.snapshot.nodes.rows[name], 1 + one % 2)
            self.world.imagined.append((pod, name, 1 + one % 2))

    def place_many(self, one: int, other: int) -> None:
        if names := list(self.world.nodes)[other % 3 :]:
            pod = self.questions.pods[one % len(self.questions.pods)]
            rows = np.array([self.snapshot.nodes.rows[name] for name in names])
            counts = 1 + np.arange(len(rows)) % 2
            self.snapshot.place_many(self.snapshot.shape_of(pod), rows, counts)
            self.world.imagined += [(pod, name, count) for name, count in zip(names, counts.tolist(), strict=True)]

    def append(self, one: int, other: int) -> None:
        if self.saved:
            names = [f"new-{self.world.appended + number}" for number in range(1 + one % 3)]
            rows = self.snapshot.append(self.pool.template, names)
            self.snapshot.place_many(
                self.snapshot.shape_of(self.pool.daemon), np.array(rows), np.ones(len(rows), np.int64)
            )
            for name in names:
                labels = {**self.pool.template.labels, facts.HOSTNAME: name}
                self.world.nodes[name] = replace(self.pool.template, name=name, labels=labels)
                self.world.imagined.append((self.pool.daemon, name, 1))
            self.world.appended += len(names)

    def empty_out(self, one: int, other: int) -> None:
        if self.saved and (name := self._name(one)) and name not in self.world.deleting:
            self.snapshot.mark_deleting(self.snapshot.nodes.rows[name])
            self.world.deleting.add(name)

    def remove_unused(self, one: int, other: int) -> None:
        if self.saved and (name := self._name(one)) and name not in self.world.retired:
            self.snapshot.mark_gone(self.snapshot.nodes.rows[name])
            self.world.retired.add(name)

    # Forks

    def fork(self, one: int, other: int) -> None:
        self.saved.append((copy.deepcopy(self.world), column_values.freeze(self.snapshot)))
        self.snapshot.fork()

    def scratch(self, one: int, other: int) -> None:
        self.saved.append((copy.deepcopy(self.world), column_values.freeze(self.snapshot)))
        self.scratches.append((len(self.saved), contextlib.ExitStack()))
        self.scratches[-1][1].enter_context(self.snapshot.scratch())

    def revert(self, one: int, other: int) -> None:
        if self.saved:
            if self._is_scratch():
                self.scratches.pop()[1].close()
            else:
                self.snapshot.revert()
            self.world, before = self.saved.pop()
            assert column_values.freeze(self.snapshot) == before

    def commit(self, one: int, other: int) -> None:
        if self.saved and not self._is_scratch():
            self.snapshot.commit()
            self.saved.pop()

    # Helpers

    def _is_scratch(self) -> bool:
        """Is the innermost what-if a scratch? It can only end as it began."""
        return bool(self.scratches) and self.scratches[-1][0] == len(self.saved)

    def _counted(self) -> list[facts.Pod]:
        return [pod for pod in self.world.pods.values() if pod.phase not in ("Succeeded", "Failed")]

    def _waiting(self) -> list[facts.Pod]:
        return [pod for pod in self._counted() if not pod.node_name]

    def _name(self, number: int) -> str:
        """A node that exists; empty if there is none."""
        names = list(self.world.nodes)
        return names[number % len(names)] if names else ""

    def _row(self, pod: facts.Pod) -> int:
        return self.snapshot.pods.rows[pod.uid]


Step = Callable[[History, int, int], None]
FACTS: tuple[Step, ...] = (
    History.add_node, History.add_node, History.add_pod, History.add_pod, History.add_pod, History.remove_node,
    History.remove_pod, History.set_namespaces, History.forget_unused,
)  # fmt: skip
WHAT_IFS: tuple[Step, ...] = (
    History.bind, History.bind_many, History.unbind_pod, History.clear_node, History.relocate, History.place,
    History.place_many, History.append, History.empty_out, History.remove_unused,
)  # fmt: skip
FORKS: tuple[Step, ...] = (History.fork, History.fork, History.scratch, History.revert, History.commit)


def steps(*kinds: Step, most: int) -> st.SearchStrategy[list[tuple[Step, int, int, bool]]]:
    """Steps, each with two numbers to choose by, and whether everything is asked after it."""
    return st.lists(
        st.tuples(st.sampled_from(kinds), st.integers(0, 40), st.integers(0, 40), st.booleans()), max_size=most
    )


@given(pools(), steps(*FACTS, most=25))
@strategies.examples(80)
def test_a_snapshot_that_changed_bit_by_bit_equals_one_built_at_once(
    pool: Pool, taken: list[tuple[Step, int, int, bool]]
) -> None:
    history = History(pool)
    for step, item, other, asks in taken:
        step(history, item, other)
        if asks:
            history.check()
    history.check()


@given(pools(), steps(*FACTS, most=12), steps(*WHAT_IFS, *FORKS, most=20), steps(*FACTS, most=4))
@strategies.examples(120)
def test_what_ifs_show_what_a_cluster_built_so_would_and_leave_nothing_behind_when_reverted(
    pool: Pool,
    before: list[tuple[Step, int, int, bool]],
    inside: list[tuple[Step, int, int, bool]],
    after: list[tuple[Step, int, int, bool]],
) -> None:
    history = History(pool)
    for number in range(4):
        history.add_node(number, 0)
    for step, item, other, asks in (*before, (History.fork, 0, 0, False), *inside):
        step(history, item, other)
        if asks:
            history.check()
    while history.saved:
        history.check()
        history.revert(0, 0)
    history.check()
    for step, item, other, _ in after:
        step(history, item, other)
    history.check()
