"""A target size that is lowered twice in one loop: a scale-up is taken back, and the size is fixed."""

from tests.conformance.scenario_cluster import World
from tests.conformance.scenarios import report
from tests.engine.loop.builders import NOW_S, PEER, WINDLASS, decide_once, group, node, observe, pending, running, sizes
from windlass.engine import loop
from windlass.engine.model import plan
from windlass.engine.model.decision_record import LoopStop
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation

LATE_S = 1000.0
"""When the scale-up has timed out, and the size has been wrong for longer than a node may take to come."""


def see(target: int) -> Observation:
    """One node, and two pods that need one each; nothing ever comes."""
    there = node("g-0")
    pods = [running("busy", "g-0", 4000), *(pending(f"p{number}", 4000) for number in range(2))]
    return observe([group("g", [there], target=target)], [there], pods)


def order_and_wait(settings: Settings) -> loop.Decision:
    first = decide_once(see(1), settings)
    assert sizes(first) == {"g": 3}
    second = decide_once(see(3), settings, first.memory, NOW_S + 20)
    return decide_once(see(3), settings, second.memory, NOW_S + LATE_S)


def test_cluster_autoscaler_ends_the_loop_with_an_error() -> None:
    """It fixes the size by what it was before the scale-up was taken back, which the provider refuses."""
    decision = order_and_wait(PEER)
    assert [instruction.by for instruction in decision.plan if isinstance(instruction, plan.ReduceTarget)] == [2, 2]
    assert decision.story.repairs.stop is LoopStop.REFUSED
    told = report(decision, World({"groups": [], "objects": []}), see(3), PEER, NOW_S + LATE_S)
    assert told["error"] == "cloudProviderError"
    assert (told["scale_up"]["result"], told["scale_down"]["result"]) == ("ScaleUpNotTried", "NotTried")
    assert told["target_sizes"] == {"g": 1}


def test_windlass_lowers_it_once_and_goes_on() -> None:
    decision = order_and_wait(WINDLASS)
    assert [instruction.by for instruction in decision.plan if isinstance(instruction, plan.ReduceTarget)] == [2]
    assert decision.story.repairs.stop is None
