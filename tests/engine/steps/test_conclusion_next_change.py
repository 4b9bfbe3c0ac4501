"""A decision stands until the time it names, unless something changes before."""

import math
from dataclasses import replace

from hypothesis import assume, event, given
from hypothesis import settings as hsettings
from hypothesis import strategies as st

from tests.engine.loop import builders, strategies
from windlass.engine import loop_memory
from windlass.engine.loop import Decision, decide
from windlass.engine.model import durable_memory, facts, node_groups
from windlass.engine.model.deviations import ALL_DEVIATIONS
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation

DAY_S = 86_400.0


@st.composite
def unhurried(draw: st.DrawFn) -> Settings:
    """Settings under which not every loop marks nodes, or draws anything at random."""
    settings = replace(draw(strategies.some_settings()), deviations=ALL_DEVIATIONS)
    return builders.choose(settings, "scale_down", max_bulk_soft_taint_count=0)


def decide_anew(observation: Observation, before: loop_memory.LoopMemory, settings: Settings, now_s: float) -> Decision:
    """Without being reminded of what was decided."""
    return decide(observation, replace(before, volatile=replace(before.volatile, standing=None)), settings, now_s)


def settle(observation: Observation, settings: Settings) -> Decision:
    """Decide twice at the same moment: what is unneeded is known then."""
    return builders.decide_at(observation, settings, builders.NOW_S, builders.NOW_S)


def durable_but_loops(decision: Decision) -> durable_memory.DurableMemory:
    return replace(decision.memory.durable, loop=0)


def last_moment_s(first: Decision, share: float) -> float:
    """A moment of the quiet: its end is not part of it."""
    length_s = min(first.quiet_until_s - builders.NOW_S, DAY_S)
    return min(builders.NOW_S + share * length_s, math.nextafter(first.quiet_until_s, 0.0))


@hsettings(max_examples=150, deadline=None)
@given(strategies.worlds(), unhurried(), st.sampled_from((0.0, 0.3, 1.0)))
def test_what_is_decided_before_it_ends_is_the_same(world: strategies.World, settings: Settings, share: float) -> None:
    observation = world.observe()
    first = settle(observation, settings)
    assume(first.quiet_until_s > builders.NOW_S)
    at_s = last_moment_s(first, share)
    event(f"a quiet of {'forever' if first.quiet_until_s == math.inf else 'some time'}")
    again = decide_anew(observation, first.memory, settings, at_s)
    assert again.plan == first.plan == ()
    assert durable_but_loops(again) == durable_but_loops(first)
    assert again.quiet_until_s == first.quiet_until_s


@hsettings(max_examples=40, deadline=None)
@given(strategies.worlds(), unhurried())
def test_a_decision_that_stands_is_given_again_and_nothing_new_is_remembered(
    world: strategies.World, settings: Settings
) -> None:
    observation = world.observe()
    first = settle(observation, settings)
    assume(first.quiet_until_s > builders.NOW_S)
    again = decide(observation, first.memory, settings, last_moment_s(first, 1.0))
    assert again.story is first.story
    assert again.memory is first.memory


def one_idle_node(**pods: facts.Pod) -> Observation:
    nodes = builders.nodes("a", 1)
    return builders.observe([builders.group("a", nodes)], nodes, pods.values())


def test_it_ends_when_a_node_has_been_unneeded_for_long_enough() -> None:
    observation = one_idle_node()
    settings = builders.choose(builders.WINDLASS, "scale_down", max_bulk_soft_taint_count=0)
    first = settle(observation, settings)
    assert first.plan == ()
    assert first.quiet_until_s == builders.NOW_S + 600
    assert builders.drained(decide(observation, first.memory, settings, first.quiet_until_s)) == []
    assert builders.drained(decide(observation, first.memory, settings, first.quiet_until_s + 1)) == ["a-0"]


def test_it_ends_when_a_pod_is_old_enough() -> None:
    observation = one_idle_node(big=builders.pending("big", 9000, age_s=10.5))
    settings = builders.choose(builders.WINDLASS, "pods", new_pod_scale_up_delay_s=40.0)
    settings = builders.choose(settings, "scale_down", max_bulk_soft_taint_count=0)
    assert settle(observation, settings).quiet_until_s == builders.NOW_S + 29.5


def test_a_decision_that_orders_something_is_not_quiet() -> None:
    nodes = builders.nodes("a", 1)
    observation = builders.observe(
        [builders.group("a", nodes)], nodes, [builders.pending("p", 3000), builders.running("r", "a-0", 3000)]
    )
    first = builders.decide_once(observation)
    assert builders.sizes(first) == {"a": 2}
    assert first.quiet_until_s == builders.NOW_S


def test_it_ends_when_anything_changes() -> None:
    settings = builders.choose(builders.WINDLASS, "scale_down", max_bulk_soft_taint_count=0)
    observation = one_idle_node()
    first = settle(observation, settings)
    assert decide(observation, first.memory, settings, builders.NOW_S + 1).story is first.story
    later_s = builders.NOW_S + 20
    for changed in (
        replace(observation, budgets=(builders.budget(1),)),
        replace(observation, groups=(replace(observation.groups[0], max_size=9),)),
        one_idle_node(),
    ):
        assert decide(changed, first.memory, settings, later_s).story is not first.story
    assert decide(observation, first.memory, replace(settings, seed=1), later_s).story is not first.story
    started = replace(first.memory, durable=replace(first.memory.durable, loop=7))
    assert decide(observation, started, settings, later_s).story is not first.story
    observation.snapshot.add_pod(builders.pending("p", 3900, age_s=0.0))
    assert decide(observation, first.memory, settings, later_s).story is not first.story


def test_the_peer_draws_anew_in_every_loop() -> None:
    assert builders.decide_once(one_idle_node(), builders.PEER).quiet_until_s == builders.NOW_S


def test_a_decision_that_knows_of_a_refusal_does_not_stand() -> None:
    """The next observation is without the refusal, and the group's backoff begins with this decision."""
    refused = {"g": node_groups.InstanceError("Other", "no more")}
    observation = builders.observe([builders.group("g")], [], [builders.pending("p", age_s=1000.0)], refused=refused)
    assert builders.decide_once(observation).quiet_until_s == builders.NOW_S
