"""--max-nodes-total: which nodes count before a scale-up is tried."""

from tests.engine.loop.builders import (
    PEER,
    WINDLASS,
    choose,
    decide_once,
    group,
    node,
    nodes,
    observe,
    pending,
    result,
    running,
    sizes,
)
from windlass.engine import loop
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import Settings

LIMIT = 3


def _decide(settings: Settings, third_is_cordoned: bool) -> loop.Decision:
    """Three full nodes, as many as there may be, and a pod that fits on none of them."""
    present = [*nodes("g", 2), node("g-2", unschedulable=third_is_cordoned)]
    pods = [running(f"busy-{number}", f"g-{number}", 4000) for number in range(LIMIT)]
    observation = observe([group("g", present)], present, [*pods, pending("waits", 4000)])
    return decide_once(observation, choose(settings, "limits", max_nodes_total=LIMIT))


def test_schedulable_nodes_that_fill_the_limit_end_the_scale_up_in_both_behaviors() -> None:
    assert {result(_decide(settings, False)) for settings in (PEER, WINDLASS)} == {
        ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
    }


def test_cluster_autoscaler_does_not_count_cordoned_nodes_as_ready() -> None:
    decision = _decide(PEER, True)
    assert result(decision) is ScaleUpResult.NO_OPTIONS
    assert sizes(decision) == {}


def test_with_the_flag_cordoned_nodes_count_and_the_limit_is_named() -> None:
    decision = _decide(choose(PEER, "deviations", count_cordoned_nodes_in_max_nodes_total=True), True)
    assert result(decision) is result(_decide(WINDLASS, True)) is ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL
    assert sizes(decision) == {}
