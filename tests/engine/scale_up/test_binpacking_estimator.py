"""Binpacking comes out as the peer's loop does, pod by pod; here that loop is written plainly and asked every time."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.builders import GIB, node, pod, selector, spread, term
from tests.conformance import objects
from tests.engine.snapshot import column_values
from tests.strategies import Json, Objects
from windlass.autoscaler.readers import cluster_dump
from windlass.engine.model import facts, settings
from windlass.engine.model.scheduling_reasons import StatusCode
from windlass.engine.predicates import pod_topology_spread, registry
from windlass.engine.scale_up import binpacking_estimator
from windlass.engine.scale_up.binpacking_estimator import Estimate, NodeTemplate, ShapeCount
from windlass.engine.snapshot import cluster_snapshot as snapshots
from windlass.engine.snapshot.cluster_snapshot import Snapshot


@dataclass
class PlainLoop:
    """The peer's estimator: existing new nodes first, then the newest, then another; one pod after the other."""

    snapshot: Snapshot
    template: NodeTemplate
    most_nodes: int
    first: int
    opened: int = 0
    pointer: int = -1
    used: set[int] = field(default_factory=set)

    def estimate(self, groups: list[ShapeCount]) -> Estimate:
        placed = [0] * len(groups)
        may_open = True
        for number in sorted(range(len(groups)), key=lambda one: (-self._score(groups[one].shape), one)):
            shape, count = groups[number].shape, groups[number].count
            while placed[number] < count and self._schedule_anywhere(shape, lambda row: row >= self.first):
                placed[number] += 1
            if may_open:
                helped, may_open = self._open_for(shape, count - placed[number])
                placed[number] += helped
        return Estimate(len(self.used), tuple(placed))

    def _open_for(self, shape: facts.PodShape, count: int) -> tuple[int, bool]:
        for helped in range(count):
            if self._newest is not None and self._try_newest(shape, self._newest):
                continue
            if self._newest is not None and self._newest not in self.used:
                return helped, True
            if self.most_nodes and self.opened >= self.most_nodes:
                return helped, False
            self._open()
            if not self._schedule(shape, self._newest):
                return helped, True
        return count, True

    def _try_newest(self, shape: facts.PodShape, newest: int) -> bool:
        if self._schedule(shape, newest):
            return True
        by_hostname = any(constraint.topology_key == facts.HOSTNAME for constraint in shape.spec.spread)
        refusal = registry.diagnose(self.snapshot, shape, settings.DEFAULT_FILTER_CONFIG)[newest]
        is_skewed = (
            refusal is not None
            and refusal.rule == pod_topology_spread.NAME
            and refusal.code is StatusCode.UNSCHEDULABLE
        )
        return by_hostname and is_skewed and self._schedule_anywhere(shape, lambda row: row != newest)

    def _schedule_anywhere(self, shape: facts.PodShape, is_acceptable: Callable[[int], bool]) -> bool:
        rows = self.snapshot.nodes.count
        feasible = (
            registry.find_feasible(self.snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
            & ~self.snapshot.nodes.unschedulable
        )
        for row in [*range(self.pointer + 1, rows), *range(min(self.pointer + 1, rows))]:
            if feasible[row] and is_acceptable(row):
                self.pointer = row
                self._place(shape, row)
                return True
        return False

    def _schedule(self, shape: facts.PodShape, row: int | None) -> bool:
        if row is None or not registry.find_feasible(self.snapshot, shape, settings.DEFAULT_FILTER_CONFIG)[row]:
            return False
        self._place(shape, row)
        return True

    def _place(self, shape: facts.PodShape, row: int) -> None:
        self.snapshot.place(shape, row)
        self.used.add(row)

    def _open(self) -> None:
        (row,) = self.snapshot.append(self.template.node, [f"plain-{self.opened}"])
        self.opened += 1
        for shape in self.template.pods:
            self.snapshot.place(shape, row)

    @property
    def _newest(self) -> int | None:
        return self.snapshot.nodes.count - 1 if self.opened else None

    def _score(self, shape: facts.PodShape) -> float:
        wanted, has = dict(shape.spec.requests), dict(self.template.node.allocatable)
        return sum(wanted.get(name, 0) / has[name] for name in (facts.CPU, facts.MEMORY) if has.get(name, 0) > 0)


def estimate_plainly(
    snapshot: Snapshot, groups: list[ShapeCount], template: NodeTemplate, most_nodes: int = 0
) -> Estimate:
    snapshot.fork()
    found = PlainLoop(snapshot, template, most_nodes, snapshot.nodes.count).estimate(groups)
    snapshot.revert()
    return found


def estimate(snapshot: Snapshot, groups: list[ShapeCount], template: NodeTemplate, most_nodes: int = 0) -> Estimate:
    limiter = binpacking_estimator.EstimationLimiter([binpacking_estimator.make_static_threshold(most_nodes)])
    return binpacking_estimator.estimate(snapshot, groups, template, limiter, settings.DEFAULT_FILTER_CONFIG)


@st.composite
def questions(draw: st.DrawFn, features: tuple[str, ...] = strategies.FEATURES) -> tuple[Objects, Json, list[int], int]:
    """A cluster, a template, how many there are of each pending pod, and a limit."""
    found = draw(strategies.clusters(nodes=2, bound=3, pending=4, features=features, roomy=True))
    template = draw(strategies.node("template", roomy=True))
    template["spec"].pop("unschedulable", None)
    counts = [draw(st.integers(1, 7)) for _ in found.pending]
    return found, template, counts, draw(strategies.pick(0, 0, 0, 1, 2, 4))


@given(questions() | questions(strategies.MINDING), st.booleans())
@strategies.examples(150)
def test_an_estimate_is_that_of_a_plain_loop_over_pods(
    asked: tuple[Objects, Json, list[int], int], with_daemon: bool
) -> None:
    found, written, counts, most_nodes = asked
    snapshot = cluster_dump.build_snapshot(cluster_dump.read_objects(found.all))
    asking = [objects.pod(pod) for pod in found.pending]
    groups = [ShapeCount(snapshot.shape_of(one), count) for one, count in zip(asking, counts, strict=True)]
    template = NodeTemplate(objects.node(written), (groups[-1].shape,) if with_daemon else ())
    before = column_values.freeze(snapshot)
    held = column_values.describe(snapshot, column_values.Questions.about(asking))
    expected = estimate_plainly(snapshot, groups, template, most_nodes)
    answer = estimate(snapshot, groups, template, most_nodes)
    assert replace(answer, stopped_by=None) == expected
    assert column_values.freeze(snapshot) == before
    assert column_values.describe(snapshot, column_values.Questions.about(asking)) == held


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 8), st.integers(1, 9)), min_size=2, max_size=7),
    strategies.pick(0, 0, 3),
)
@strategies.examples(150)
def test_plain_groups_are_packed_as_a_plain_loop_packs_them(asked: list[tuple[int, int, int]], most_nodes: int) -> None:
    snapshot = snapshots.build_snapshot([node("old")], [])
    wanted = [(pod("p", cpu=200 * cpu, memory=GIB * memory), count) for cpu, memory, count in asked]
    groups, template = make_groups(snapshot, *wanted), NodeTemplate(node("t"))
    expected = estimate_plainly(snapshot, groups, template, most_nodes)
    assert replace(estimate(snapshot, groups, template, most_nodes), stopped_by=None) == expected


@given(st.integers(0, 40), st.integers(1, 1500), st.integers(1, 8 << 30), st.integers(0, 6))
@strategies.examples(100)
def test_plain_pods_need_as_many_nodes_as_when_each_is_a_group_of_its_own(
    count: int, cpu: int, memory: int, most_nodes: int
) -> None:
    snapshot = snapshots.build_snapshot([], [])
    shape = snapshot.shape_of(pod("p", cpu=cpu, memory=memory))
    template = NodeTemplate(node("template", cpu=1000))
    at_once = estimate(snapshot, [ShapeCount(shape, count)], template, most_nodes)
    singly = estimate(snapshot, [ShapeCount(shape, 1)] * count, template, most_nodes)
    assert (at_once.nodes, sum(at_once.placed)) == (singly.nodes, sum(singly.placed))
    assert not most_nodes or at_once.nodes <= most_nodes
    assert (at_once.stopped_by is None) == (singly.stopped_by is None)


# ── By behaviour ─────────────────────────────────────────────────────────────────────────────────────────────────


def make_groups(snapshot: Snapshot, *pods: tuple[facts.Pod, int]) -> list[ShapeCount]:
    return [ShapeCount(snapshot.shape_of(one), count) for one, count in pods]


def test_large_pods_go_first_and_small_ones_fill_the_gaps() -> None:
    snapshot = snapshots.build_snapshot([], [])
    groups = make_groups(snapshot, (pod("small", cpu=1000), 2), (pod("large", cpu=3000), 2))
    assert estimate(snapshot, groups, NodeTemplate(node("t"))) == Estimate(2, (2, 2))


def test_pods_that_fit_on_no_new_node_open_one_and_use_none() -> None:
    snapshot = snapshots.build_snapshot([], [])
    groups = make_groups(snapshot, (pod("huge", cpu=5000), 3), (pod("small", cpu=1000), 1))
    assert estimate(snapshot, groups, NodeTemplate(node("t"))) == Estimate(1, (0, 1))


def test_a_limit_ends_all_opening_but_not_the_filling_of_open_nodes() -> None:
    snapshot = snapshots.build_snapshot([], [])
    groups = make_groups(snapshot, (pod("large", cpu=3000), 5), (pod("small", cpu=1000), 5))
    found = estimate(snapshot, groups, NodeTemplate(node("t")), most_nodes=2)
    assert found == Estimate(2, (2, 2), "max nodes per scale-up")


def test_pods_of_the_template_take_their_room() -> None:
    snapshot = snapshots.build_snapshot([], [])
    groups = make_groups(snapshot, (pod("p", cpu=1000), 6))
    daemon = snapshot.shape_of(pod("daemon", cpu=1500))
    assert estimate(snapshot, groups, NodeTemplate(node("t"), (daemon,))) == Estimate(3, (6,))


def test_pods_that_keep_apart_need_a_node_each_and_one_per_zone_helps_one() -> None:
    snapshot = snapshots.build_snapshot([], [])
    apart = pod("p", labels={"app": "a"}, spec=facts.PodSpec(anti_affinity=(term(facts.HOSTNAME, app="a"),)))
    assert estimate(snapshot, make_groups(snapshot, (apart, 4)), NodeTemplate(node("t"))) == Estimate(4, (4,))
    by_zone = pod("p", labels={"app": "a"}, spec=facts.PodSpec(anti_affinity=(term(facts.ZONE, app="a"),)))
    assert estimate(snapshot, make_groups(snapshot, (by_zone, 4)), NodeTemplate(node("t", zone="x"))) == Estimate(
        1, (1,)
    )


def test_zonal_spread_helps_as_many_as_the_other_zones_allow() -> None:
    there = [pod(f"q{i}", on="b", labels={"app": "a"}) for i in range(2)]
    snapshot = snapshots.build_snapshot([node("b", zone="y")], there)
    wanted = pod("p", labels={"app": "a"}, spec=facts.PodSpec(spread=(spread(facts.ZONE, 1, selector(app="a")),)))
    assert estimate(snapshot, make_groups(snapshot, (wanted, 9)), NodeTemplate(node("t", zone="x"))) == Estimate(
        1, (3,)
    )


def test_hostname_spread_returns_to_other_nodes_where_the_newest_is_ahead() -> None:
    spec = facts.PodSpec(spread=(spread(facts.HOSTNAME, 1, selector(app="a")),))
    snapshot = snapshots.build_snapshot([node("old")], [])
    found = estimate(
        snapshot, make_groups(snapshot, (pod("p", labels={"app": "a"}, spec=spec), 3)), NodeTemplate(node("t"))
    )
    assert found == Estimate(2, (3,))  # the second went to the old node, which counts as used by the estimate


def test_a_pod_that_a_fresh_node_refuses_is_not_tried_elsewhere() -> None:
    snapshot = snapshots.build_snapshot([node("old")], [])
    spec = facts.PodSpec(spread=(spread(facts.HOSTNAME, 1, selector(app="a")),))
    groups = make_groups(snapshot, (pod("p", labels={"app": "a"}, spec=spec), 1))
    daemon = snapshot.shape_of(pod("daemon", labels={"app": "a"}))
    assert estimate(snapshot, groups, NodeTemplate(node("t"), (daemon,))) == Estimate(0, (0,))


def test_a_time_budget_that_runs_out_stops_the_opening() -> None:
    class RunsOut:
        asked = 0

        def exhausted(self) -> bool:
            self.asked += 1
            return self.asked > 1

    snapshot = snapshots.build_snapshot([], [])
    limiter = binpacking_estimator.EstimationLimiter([], RunsOut())
    groups = make_groups(snapshot, (pod("a", cpu=4000), 1), (pod("b", cpu=3000), 1))
    found = binpacking_estimator.estimate(
        snapshot, groups, NodeTemplate(node("t")), limiter, settings.DEFAULT_FILTER_CONFIG
    )
    assert found == Estimate(1, (1, 0), "time")


def test_dividing_counts_the_last_group_without_packing_it() -> None:
    snapshot = snapshots.build_snapshot([], [])
    groups = make_groups(snapshot, (pod("p", cpu=1500), 7))
    template = NodeTemplate(node("t"))
    limiter = binpacking_estimator.EstimationLimiter([binpacking_estimator.make_static_threshold(3)])
    found = binpacking_estimator.estimate(
        snapshot, groups, template, limiter, settings.DEFAULT_FILTER_CONFIG, fastpath=True
    )
    assert found == Estimate(3, (6,), "max nodes per scale-up")


def test_scattered_pods_use_no_fewer_nodes_and_are_all_helped() -> None:
    snapshot = snapshots.build_snapshot([], [])
    groups = make_groups(snapshot, (pod("large", cpu=2500), 4), (pod("small", cpu=700), 9))
    tight = estimate(snapshot, groups, NodeTemplate(node("t")))
    for seed in range(5):
        loose = binpacking_estimator.estimate(
            snapshot, groups, NodeTemplate(node("t")), binpacking_estimator.EstimationLimiter([]),
            settings.DEFAULT_FILTER_CONFIG, scatter=np.random.default_rng(seed),
        )  # fmt: skip
        assert loose.placed == (4, 9)
        assert loose.nodes >= tight.nodes


def test_capacity_without_checks_does_not_overflow() -> None:
    snapshot = snapshots.build_snapshot([], [])
    profile = settings.FilterConfig(disabled=frozenset({"NodeResourcesFit"}))
    groups = make_groups(snapshot, (pod("p", cpu=9000), 1000))
    found = binpacking_estimator.estimate(
        snapshot, groups, NodeTemplate(node("t")), binpacking_estimator.EstimationLimiter([]), profile
    )
    assert found == Estimate(1, (1000,))
