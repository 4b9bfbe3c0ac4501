"""What the cluster must keep at least: nodes that are on their way count."""

import pytest

from tests.engine.loop.builders import (
    BOTH,
    NOW_S,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    node,
    observe,
    pending,
    reasons,
    running,
    sizes,
)
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Bounds, Settings
from windlass.engine.observation import Observation

behaviors = pytest.mark.parametrize("settings", BOTH, ids=["cluster-autoscaler", "windlass"])


def see(target: int) -> Observation:
    """A full node and an empty one of four cores each, and a pod that only a third group helps."""
    full, empty = node("a-0"), node("b-0")
    special = node("c-template", labels={"pool": "c"}, provider_id="")
    groups = [group("a", [full]), group("b", [empty]), group("c", target=target, template=special)]
    waiting = pending("p", 3000, spec={"node_selector": (("pool", "c"),)})
    return observe(groups, [full, empty], [running("busy", "a-0", 3900), waiting])


@behaviors
def test_a_node_may_go_where_one_that_is_on_its_way_keeps_the_minimum(settings: Settings) -> None:
    settings = at_once(choose(settings, "limits", cores_total=Bounds(8, 1000)))
    first = decide_once(see(0), settings)
    assert sizes(first) == {"c": 1}
    assert reasons(first)["b-0"] is UnremovableReason.MINIMAL_RESOURCE_LIMIT_EXCEEDED
    second = decide_once(see(1), settings, first.memory, NOW_S + 20.0)
    assert drained(second) == ["b-0"]


@behaviors
def test_it_may_not_where_even_that_leaves_too_little(settings: Settings) -> None:
    settings = at_once(choose(settings, "limits", cores_total=Bounds(9, 1000)))
    first = decide_once(see(0), settings)
    second = decide_once(see(1), settings, first.memory, NOW_S + 20.0)
    assert drained(second) == []
    assert reasons(second)["b-0"] is UnremovableReason.MINIMAL_RESOURCE_LIMIT_EXCEEDED
