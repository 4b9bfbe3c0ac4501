"""Decisions and drains together: what `decide` begins, `advance` carries out, and both see the same limits."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.actuation.drain_cluster import START_S, WINDLASS, Run, World, budget_of
from tests.engine.scale_down.builders import PEER, node, pod
from windlass.engine import loop as engine_loop
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, plan
from windlass.engine.model.settings import Settings


def eager(base: Settings, total: int = 10, drains: int = 1) -> Settings:
    """Nodes go as soon as they are found to be unneeded."""
    down = replace(
        base.scale_down,
        max_scale_down_parallelism=total,
        max_drain_parallelism=drains,
        scale_down_delay_after_failure_s=0.0,
    )
    return replace(base, scale_down=down, groups=replace(base.groups, scale_down_unneeded_time_s=0.0))


def loop(run: Run) -> engine_loop.Decision:
    """One loop of the autoscaler, with the steps of drains that follow it."""
    decision = engine_loop.decide(run.world.observe(run.failed), run.memory, run.settings, run.world.now_s)
    run.memory = decision.memory
    run.world.execute(decision.plan)
    run.settle()
    return decision


def pass_time(run: Run, seconds: float) -> None:
    """Let drains go on until the next loop."""
    end_s = run.world.now_s + seconds
    while (next_s := min(run.settle().next_s, run.world.next_s)) < end_s:
        run.world.move_to(next_s)
    run.world.move_to(end_s)


def count_in_progress(run: Run) -> tuple[int, int]:
    """Nodes on their way out, and those of them that have pods to be moved."""
    drains = run.memory.durable.drains.values()
    busy = [
        started_drain
        for started_drain in drains
        if started_drain.progress.failure is None and started_drain.progress.deleting_s is None
    ]
    return len(busy), sum(not one.is_empty for one in busy)


def test_what_is_decided_is_carried_out() -> None:
    world = World([node("a"), node("b"), node("c")], [pod("p", "a", 100), pod("q", "b", 600)])
    world.recreates = True
    run = Run(world, eager(WINDLASS), LoopMemory())
    first = loop(run)
    assert {instruction.node for instruction in first.plan if isinstance(instruction, plan.Drain)} == {"a", "c"}
    pass_time(run, 60.0)
    assert set(world.nodes) == {"b"}
    assert {(one.name, one.node_name) for one in world.pods.values()} == {("p-r", "b"), ("q", "b")}
    assert world.groups["g"].target_size == 1


def test_where_pods_found_a_place_is_remembered() -> None:
    world = World([node("a"), node("b")], [pod("p", "a", 100), pod("q", "b", 600)])
    decision = engine_loop.decide(world.observe(), LoopMemory(), eager(WINDLASS), START_S)
    begun = decision.memory.durable.drains["a"]
    assert begun.places == {"uid-p": "b"}
    assert not begun.was_cordoned


def test_nodes_that_cannot_be_seen_to_be_marked_yet_count() -> None:
    """Deciding again before the taint appears must not begin more than may be on their way out."""
    world = World([node(name) for name in "abcd"], [pod(f"p{name}", name, 100) for name in "abcd"])
    chosen = eager(PEER)
    observation = world.observe()
    first = engine_loop.decide(observation, LoopMemory(), chosen, START_S)
    second = engine_loop.decide(observation, first.memory, chosen, START_S + 1)
    assert len(first.memory.durable.drains) == 1
    assert second.memory.durable.drains == first.memory.durable.drains


def test_a_node_that_the_provider_deletes_makes_room_for_the_next_drain() -> None:
    world = World([node(name) for name in "abc"], [pod(f"p{name}", name, 100) for name in "abc"])
    world.recreates, world.machine_takes_s = True, 1000.0
    run = Run(world, eager(WINDLASS), LoopMemory())
    for _ in range(3):
        loop(run)
        pass_time(run, 10.0)
    assert [name for _, name in run.deletions()] == ["a", "b"]


def test_after_a_failed_drain_no_other_begins_for_a_while() -> None:
    world = World([node("a"), node("b"), node("c")], [pod(f"p{name}", name, 100) for name in "abc"])
    world.refuse = lambda instruction: "no" if isinstance(instruction, plan.DeleteNode) else None
    base = eager(WINDLASS)
    chosen = replace(base, scale_down=replace(base.scale_down, scale_down_delay_after_failure_s=180.0))
    run = Run(world, chosen, LoopMemory())
    begun = []
    for _ in range(25):
        decision = loop(run)
        begun += [world.now_s - START_S for one in decision.plan if isinstance(one, plan.Drain)]
        pass_time(run, 10.0)
    assert sorted(set(begun)) == [0.0, 190.0]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([PEER, WINDLASS]),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([100, 300]), st.sampled_from("xyz")), max_size=12),
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(0, 3),
    st.sampled_from([1.0, 12.0, 35.0]),
    st.frozensets(st.integers(1, 12), max_size=4),
)
def test_no_more_nodes_are_on_their_way_out_than_allowed(
    base: Settings,
    pods: list[tuple[int, int, str]],
    total: int,
    drains: int,
    minimum: int,
    ends_after_s: float,
    refusals: frozenset[int],
) -> None:
    names = [f"n{number}" for number in range(6)]
    made = [pod(f"p{n}", names[on], cpu, labels={"app": app}) for n, (on, cpu, app) in enumerate(pods)]
    world = World([node(name) for name in names], made)
    world.recreates = True
    world.budgets = {"x": budget_of("x", 1)}
    world.groups["g"] = replace(world.groups["g"], min_size=minimum)
    world.ends_after_s = {one.uid: ends_after_s for one in made}
    count = [0]

    def refuse(instruction: plan.Instruction) -> str | None:
        count[0] += not isinstance(instruction, plan.Drain)
        return "no" if count[0] in refusals and not isinstance(instruction, plan.RemoveTaint | plan.Cordon) else None

    world.refuse = refuse
    run = Run(world, eager(base, total, drains), LoopMemory())
    for _ in range(12):
        loop(run)
        busy, emptied = count_in_progress(run)
        assert busy <= total
        assert emptied <= drains
        pass_time(run, 10.0)
        assert world.groups["g"].target_size >= minimum
    cpu = sum(dict(one.spec.requests).get(facts.CPU, 0) for one in world.pods.values())
    assert cpu == sum(asked for _, asked, _ in pods)
