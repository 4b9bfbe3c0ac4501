"""Where time is up a decision goes on with what it has, says so, and comes to the same end when it is repeated."""

import contextlib
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.loop import builders, strategies
from tests.engine.loop.test_properties import outcome
from windlass.engine import loop_memory
from windlass.engine.loop import decide
from windlass.engine.model.settings import Settings
from windlass.engine.time_limits import MeasuredStep, Measurement, ReplayedTimer


@dataclass(slots=True)
class Strict:
    """Every part ends at its n-th checkpoint; its limits are written down."""

    checkpoints: int
    limits: dict[str, float]

    def begin(self, part: str, limit_s: float) -> "Strict":
        self.limits[part] = limit_s
        return Strict(self.checkpoints, {})

    def measure(self, step: MeasuredStep) -> Measurement:
        return contextlib.nullcontext()

    def exhausted(self) -> bool:
        self.checkpoints -= 1
        return self.checkpoints <= 0


def strict(checkpoints: int) -> Strict:
    return Strict(checkpoints, {})


def test_nodes_that_were_not_tried_in_time_stay_and_the_next_loop_goes_on() -> None:
    nodes = builders.nodes("a", 3)
    observation = builders.observe([builders.group("a", nodes)], nodes)
    chosen = builders.at_once(builders.WINDLASS)
    decision = decide(observation, loop_memory.LoopMemory(), chosen, builders.NOW_S, strict(3))
    assert decision.ran_out == {"scale-down simulation": 3}
    assert len(builders.drained(decision)) == 2
    assert decision.quiet_until_s == builders.NOW_S


def test_estimates_have_a_limit_each_and_one_together() -> None:
    timer = strict(99)
    observation = builders.observe([builders.group("a"), builders.group("b")], [], [builders.pending("p", 1000)])
    decide(observation, loop_memory.LoopMemory(), builders.WINDLASS, builders.NOW_S, timer)
    assert timer.limits["estimates"] == 300.0
    assert (timer.limits["estimate of a"], timer.limits["estimate of b"]) == (10.0, 10.0)
    assert timer.limits["scale-down simulation"] == 30.0


def test_without_time_for_an_estimate_nobody_is_helped() -> None:
    observation = builders.observe([builders.group("a")], [], [builders.pending("p", 1000)])
    decision = decide(observation, loop_memory.LoopMemory(), builders.WINDLASS, builders.NOW_S, strict(1))
    assert builders.sizes(decision) == {}
    assert "estimates" in decision.ran_out


def test_rounds_end_when_their_time_is_over() -> None:
    groups = [
        builders.group(id, template=builders.node(f"{id}-t", labels={"kind": id}, provider_id="")) for id in ("a", "b")
    ]
    pods = [builders.pending(id, 1000, spec={"node_selector": (("kind", id),)}) for id in ("a", "b")]
    observation = builders.observe(groups, [], pods)
    assert len(builders.sizes(builders.decide_once(observation))) == 2

    @dataclass(slots=True)
    class OneRound:
        def begin(self, part: str, limit_s: float) -> Strict:
            return strict(1 if part == "rounds" else 99)

        measure = Strict.measure

    decision = decide(observation, loop_memory.LoopMemory(), builders.WINDLASS, builders.NOW_S, OneRound())
    assert len(builders.sizes(decision)) == 1
    assert decision.ran_out == {"rounds": 1}


@given(strategies.worlds(), strategies.some_settings(), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_a_replay_stops_where_the_first_one_did(world: strategies.World, chosen: Settings, checkpoints: int) -> None:
    observation = world.observe()
    first = decide(observation, loop_memory.LoopMemory(), chosen, builders.NOW_S, strict(checkpoints))
    again = decide(observation, loop_memory.LoopMemory(), chosen, builders.NOW_S, ReplayedTimer(first.ran_out))
    assert outcome(replace(again)) == outcome(first)
    assert again.ran_out == first.ran_out
