from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.scale_down.builders import (
    AGENT,
    APP,
    NOW_S,
    PEER,
    group,
    node,
    pod,
    scene,
    with_group,
    with_scale_down,
)
from windlass.engine import resource_quotas
from windlass.engine.model import facts, scale_down_state, well_known
from windlass.engine.model.scale_down_state import NodeRemoval, ScaleDownState, UnremovableNode, UnremovableReason
from windlass.engine.model.settings import Settings
from windlass.engine.scale_down import deletion_budgets, planner
from windlass.engine.scale_down.deletion_budgets import DeletionsInProgress
from windlass.engine.scale_down.removal_simulator import ScaleDownContext
from windlass.selectors import LabelSelector, Operator, Requirement

NO_MINIMUM = resource_quotas.QuotaTracker(())
ON_COMPLETION = {well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"}
UNNEEDED_S = PEER.groups.scale_down_unneeded_time_s


def probe(
    where: ScaleDownContext, state: ScaleDownState | None = None, settings: Settings = PEER, now_s: float = NOW_S
) -> scale_down_state.CandidateEvaluation:
    before = ScaleDownState() if state is None else state
    names = planner.find_candidates(where, before, {}, settings, now_s)
    return planner.evaluate_candidates(where, names, before, settings, now_s)


def unneeded(evaluation: scale_down_state.CandidateEvaluation) -> list[str]:
    return [removal.node_name for removal in evaluation.trials.removals]


def reasons(kept: Sequence[UnremovableNode]) -> dict[str, str]:
    return {unremovable.node_name: str(unremovable.reason) for unremovable in kept}


def choose(
    where: ScaleDownContext, waited_s: float = UNNEEDED_S + 1, settings: Settings = PEER
) -> scale_down_state.NodesToDelete:
    """What may go if all that is unneeded now has been for so long."""
    return choose_among(where, probe(where, settings=settings), waited_s, settings)


def choose_among(
    where: ScaleDownContext,
    evaluation: scale_down_state.CandidateEvaluation,
    waited_s: float = UNNEEDED_S + 1,
    settings: Settings = PEER,
) -> scale_down_state.NodesToDelete:
    before = replace(evaluation.state, since=dict.fromkeys(evaluation.state.since, NOW_S - waited_s))
    return planner.select_nodes_to_delete(where, replace(evaluation, state=before), NO_MINIMUM, settings, NOW_S)


def names(removals: Sequence[NodeRemoval]) -> list[str]:
    return [removal.node_name for removal in removals]


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nodes_are_unneeded_from_the_first_look_that_finds_them_so() -> None:
    where = scene([node("a"), node("b", cpu=2000)], [pod("p", "a", cpu=100), pod("q", "b", cpu=1500)])
    first = probe(where)
    assert first.state.since == {"a": NOW_S}
    assert reasons(first.kept) == {"b": "NotUnderutilized"}
    assert probe(where, first.state, now_s=NOW_S + 10).state.since == {"a": NOW_S}


def test_nodes_that_go_make_those_tried_after_them_stay() -> None:
    where = scene([node("a"), node("b")], [pod("p", "a", cpu=400), pod("q", "b", cpu=400)])
    evaluation = probe(where)
    assert unneeded(evaluation) == ["a"]
    assert reasons(evaluation.kept) == {"b": "NoPlaceToMovePods"}


def test_looking_leaves_everything_as_it_was_found() -> None:
    covers = facts.PodDisruptionBudget("default", "b", LabelSelector((Requirement("app", Operator.EXISTS),)), 5)
    pods = [pod("p", "a", cpu=300, labels={"app": "x"}), pod("q", "b", cpu=300, labels={"app": "x"})]
    where = scene([node("a"), node("b"), node("c")], pods, budgets=[covers])
    free = where.snapshot.nodes.free.copy()
    first = probe(where)
    assert unneeded(first) == ["c", "a"]
    assert (where.snapshot.nodes.free == free).all()
    assert where.snapshot.nodes.alive.all()
    assert where.budgets.allowed == (5,)
    assert unneeded(probe(where)) == unneeded(first)


def test_groups_at_their_minimum_are_not_spoken_of_and_lose_their_times() -> None:
    where = scene([node("a"), node("b")], group_of=dict.fromkeys(("a", "b"), group("g", 2, minimum=2)))
    evaluation = probe(where, ScaleDownState(since={"a": 0.0}))
    assert (evaluation.state.since, evaluation.kept) == ({}, [])


def test_nodes_on_their_way_out_are_neither_candidates_nor_destinations() -> None:
    leaving = DeletionsInProgress(drain=frozenset({"b"}))
    where = scene([node("a"), node("b")], [pod("p", "a", cpu=100)], in_progress=leaving)
    assert reasons(probe(where).kept) == {"a": "NoPlaceToMovePods"}


def test_recently_evicted_pods_are_given_their_places_first() -> None:
    assert unneeded(probe(scene([node("a"), node("b")]))) == ["a", "b"]
    waiting = scene([node("a"), node("b")], [pod("p", "", cpu=600), pod("agent", "", owner=AGENT)])
    rows = planner.find_rows_to_recreate(waiting.snapshot, [0, 1], {})
    assert rows == [0]
    evaluation = planner.evaluate_candidates(
        replace(waiting, recently_evicted=rows), ["a", "b"], ScaleDownState(), PEER, NOW_S
    )
    assert len(unneeded(evaluation)) == 1
    assert waiting.snapshot.pods.node_rows[0] == -1  # waits again


def test_enough_is_enough_but_nodes_of_whole_groups_do_not_count() -> None:
    nodes = [node(f"n{i}") for i in range(5)]
    few = with_scale_down(max_scale_down_parallelism=1)
    evaluation = probe(scene(nodes), settings=few)
    assert unneeded(evaluation) == ["n0", "n1"]
    assert evaluation.trials.skipped == ("n2", "n3", "n4")
    assert evaluation.changes_at_s == NOW_S  # the next look has more to say
    whole = dict.fromkeys((one.name for one in nodes), group("w", 5, zero_or_max=True))
    assert len(unneeded(probe(scene(nodes, group_of=whole), settings=few))) == 5


@dataclass(slots=True)
class Calls:
    """A budget of so many checkpoints."""

    left: int

    def exhausted(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_trying_ends_when_time_runs_out() -> None:
    where = scene([node(f"n{i}") for i in range(4)])
    evaluation = planner.evaluate_candidates(where, ["n0", "n1", "n2", "n3"], ScaleDownState(), PEER, NOW_S, Calls(2))
    assert (unneeded(evaluation), evaluation.trials.skipped) == (["n0", "n1"], ("n2", "n3"))


def test_nodes_that_could_not_go_are_not_tried_again_for_a_while() -> None:
    blocked = [node("a"), node("b")], [pod("p", "a", owner=None), pod("q", "b", cpu=900)]
    first = probe(scene(*blocked))
    assert reasons(first.kept) == {"a": "BlockedByPod", "b": "NotUnderutilized"}
    assert first.state.rechecks == {"a": NOW_S + 300}
    assert first.changes_at_s == NOW_S + 300
    freed = scene(blocked[0], blocked[1][1:])
    assert reasons(probe(freed, first.state, now_s=NOW_S + 299).kept)["a"] == "RecentlyUnremovable"
    assert unneeded(probe(freed, first.state, now_s=NOW_S + 300)) == ["a"]


def test_windlass_tries_them_again_at_once() -> None:
    own = Settings()
    first = probe(scene([node("a"), node("b")], [pod("p", "a", owner=None)]), settings=own)
    assert first.state.rechecks == {}
    freed = scene([node("a"), node("b")], settings=own)
    assert "a" in unneeded(probe(freed, first.state, own, NOW_S + 10))


def test_a_system_pod_grows_old_enough_to_be_moved() -> None:
    own = Settings()
    young = replace(pod("p", "a", cpu=10, created_s=NOW_S - 3000), namespace="kube-system")
    where = scene([node("a"), node("b")], [young], settings=own)
    evaluation = probe(where, settings=own)
    assert reasons(evaluation.kept) == {"a": "BlockedByPod"}
    assert evaluation.changes_at_s == NOW_S + 600


def test_nodes_unneeded_before_are_tried_first_even_after_their_times_were_cleared() -> None:
    pods = [pod("p", "a", cpu=400), pod("q", "b", cpu=400)]
    state = ScaleDownState(since={"b": 5.0}, previous=frozenset({"b"})).clear()
    assert state.since == {}
    evaluation = probe(scene([node("a"), node("b")], pods), state)
    assert evaluation.state.since == {"b": NOW_S}


def test_with_local_delays_only_the_group_concerned_pauses() -> None:
    where = scene([node("a"), node("b")], group_of={"a": group("g", 1), "b": group("h", 1)})
    busy = {"g": scale_down_state.ScaleActivity(added_s=NOW_S)}
    local = with_scale_down(scale_down_delay_type_local=True)
    assert planner.find_candidates(where, ScaleDownState(), busy, local, NOW_S) == ["b"]
    assert planner.find_candidates(where, ScaleDownState(), busy, PEER, NOW_S) == ["a", "b"]


# ── Choosing ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_goes_when_it_has_been_unneeded_for_longer_than_its_group_asks() -> None:
    where = scene([node("a"), node("b")], group_of={"a": group("g", 1, scale_down_unneeded_s=60.0), "b": group("h", 1)})
    choice = choose(where, waited_s=61.0)
    assert names(choice.empty) == ["a"]
    assert reasons(choice.kept) == {"b": "NotUnneededLongEnough"}
    assert choice.changes_at_s == NOW_S - 61 + 600


def test_nodes_that_wait_for_pods_to_finish_stay() -> None:
    choice = choose(scene([node("a"), node("b")], [pod("p", "a", annotations=ON_COMPLETION)]))
    assert names(choice.empty) == ["b"]
    assert [(unremovable.node_name, unremovable.reason, unremovable.found) for unremovable in choice.kept] == [
        ("a", "BlockedByOnCompletionPod", 1)
    ]


def test_nodes_whose_pods_must_leave_one_after_another_come_last() -> None:
    covers = facts.PodDisruptionBudget("default", "b", LabelSelector((Requirement("app", Operator.EXISTS),)), 1)
    to_c = facts.PodSpec(requests=((facts.CPU, 10),), node_selector=(("pool", "c"),))
    pods = [pod(f"p{i}", "a", labels={"app": "x"}, spec=to_c) for i in range(2)]
    pods += [pod("q", "b", cpu=10), pod("r", "c", cpu=600)]
    choice = choose(scene([node("a"), node("b"), node("c", labels={"pool": "c"})], pods, budgets=[covers]))
    assert [(removal.node_name, removal.is_risky) for removal in choice.drain] == [("b", False), ("a", True)]


def test_a_whole_group_stays_while_one_of_its_nodes_is_needed() -> None:
    group_of = {**dict.fromkeys(("w0", "w1"), group("w", 2, zero_or_max=True)), "a": group("g", 1)}
    where = scene([node("w0"), node("w1"), node("a")], [pod("p", "w1", cpu=600)], group_of)
    choice = choose(where)
    assert names(choice.empty) == ["a"]
    assert [
        (unremovable.node_name, unremovable.reason, unremovable.found, unremovable.limit) for unremovable in choice.kept
    ] == [("w0", UnremovableReason.ATOMIC_SCALE_DOWN_FAILED, 1, 2)]
    emptied = choose(scene([node("w0"), node("w1"), node("a")], [], group_of))
    assert names(emptied.empty) == ["a", "w0", "w1"]


def test_the_choice_at_the_minimum_is_the_same_every_time() -> None:
    nodes = [node(f"n{i}") for i in range(6)]
    group_of = dict.fromkeys((one.name for one in nodes), group("g", 6, minimum=4))
    assert [names(choose(scene(nodes, group_of=group_of)).empty) for _ in range(3)] == [["n0", "n1"]] * 3


def test_pods_of_two_nodes_that_need_the_same_room() -> None:
    """The FAQ's example: pods of A and of B fit on X, those of C on Y. A goes; then C may at once, but not B."""
    settings = with_group(with_scale_down(max_drain_parallelism=1), scale_down_utilization_threshold=0.4)
    labels = {"X": {"pool": "x"}, "Y": {"pool": "y"}, "A": {}, "B": {}, "C": {}}

    def movable(name: str, on: str, pool: str) -> facts.Pod:
        spec = facts.PodSpec(requests=((facts.CPU, 400),), node_selector=(("pool", pool),))
        return pod(name, on, spec=spec)

    full = [pod("x", "X", cpu=600), pod("y", "Y", cpu=600)]
    pods = [movable("a", "A", "x"), movable("b", "B", "x"), movable("c", "C", "y"), *full]
    where = scene([node(name, labels=of) for name, of in labels.items()], pods, settings=settings)
    state = ScaleDownState()
    for after_s in (0.0, 300.0, 601.0):
        evaluation = probe(where, state, settings, NOW_S + after_s)
        state = evaluation.state
        assert sorted(state.since) == ["A", "C"]
    choice = planner.select_nodes_to_delete(where, evaluation, NO_MINIMUM, settings, NOW_S + 601)
    registered = where.count_registered()
    started = deletion_budgets.crop_nodes(
        (), names(choice.drain), where.group_of, registered, where.in_progress, settings
    )
    assert [bucket.nodes for bucket in started.drain] == [("A",)]

    moved = [movable("a", "X", "x"), *pods[1:]]
    left = scene([node(name, labels=of) for name, of in labels.items() if name != "A"], moved, settings=settings)
    evaluation = probe(left, state, settings, NOW_S + 611)
    assert names(planner.select_nodes_to_delete(left, evaluation, NO_MINIMUM, settings, NOW_S + 611).drain) == ["C"]
    assert "B" not in evaluation.state.since


# ── Properties ───────────────────────────────────────────────────────────────────────────────────────────────────

some_nodes = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(
            st.builds(
                pod,
                name=st.just(""),
                cpu=st.sampled_from([50, 200, 400]),
                owner=st.sampled_from([APP, APP, APP, AGENT, None]),
                annotations=st.sampled_from([{}, {}, {}, ON_COMPLETION]),
            ),
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=7,
)
minima = st.tuples(*[st.integers(0, 3)] * 3)
Nodes = list[tuple[int, list[facts.Pod]]]


def build(found: Nodes, lowest: tuple[int, ...], *more: facts.Node) -> ScaleDownContext:
    """Nodes of up to three groups, of which the first is all or nothing; more nodes come first, and have no group."""
    sizes = Counter(number for number, _ in found)
    groups = [group(f"g{i}", sizes[i], lowest[i], zero_or_max=i == 0) for i in range(3)]
    nodes = [node(f"n{i}") for i in range(len(found))]
    pods = [
        replace(one, name=f"p{i}-{j}", uid=f"p{i}-{j}", node_name=f"n{i}")
        for i, (_, own) in enumerate(found)
        for j, one in enumerate(own)
    ]
    return scene([*more, *nodes], pods, {f"n{i}": groups[number] for i, (number, _) in enumerate(found)})


def decide(where: ScaleDownContext) -> tuple[scale_down_state.NodesToDelete, scale_down_state.StartedDeletions]:
    choice = choose(where)
    empty, drain = names(choice.empty), names(choice.drain)
    registered = where.count_registered()
    return choice, deletion_budgets.crop_nodes(empty, drain, where.group_of, registered, where.in_progress, PEER)


@given(some_nodes, minima)
def test_no_plan_undercuts_a_minimum_or_splits_a_whole_group(found: Nodes, lowest: tuple[int, ...]) -> None:
    where = build(found, lowest)
    _, started = decide(where)
    going = Counter({bucket.group: 0 for bucket in started.empty})
    for bucket in (*started.empty, *started.drain):
        going[bucket.group] += len(bucket.nodes)
    for node_group in {of.id: of for of in where.group_of.values()}.values():
        assert not going[node_group.id] or node_group.target_size - going[node_group.id] >= node_group.min_size
        assert not node_group.options.zero_or_max or going[node_group.id] in (0, node_group.target_size)


@given(some_nodes, minima)
def test_every_candidate_gets_exactly_one_answer(found: Nodes, lowest: tuple[int, ...]) -> None:
    where = build(found, lowest)
    evaluation = probe(where)
    choice = choose_among(where, evaluation)
    candidates = planner.find_candidates(where, ScaleDownState(), {}, PEER, NOW_S)
    answered = [*reasons(evaluation.kept), *reasons(choice.kept), *names(choice.empty), *names(choice.drain)]
    assert sorted(answered) == sorted(candidates)


@given(some_nodes, minima)
def test_the_same_scene_gives_the_same_plan(found: Nodes, lowest: tuple[int, ...]) -> None:
    assert decide(build(found, lowest)) == decide(build(found, lowest))


@given(some_nodes, minima)
def test_a_node_that_tells_nothing_of_itself_changes_nothing_about_the_others(
    found: Nodes, lowest: tuple[int, ...]
) -> None:
    bad = facts.Node("bad")
    choice, started = decide(build(found, lowest))
    beside, started_beside = decide(build(found, lowest, bad))
    assert started_beside == started
    assert reasons(beside.kept) == reasons(choice.kept)
