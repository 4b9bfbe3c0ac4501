"""Pods that must be spread over zones, before there is a node in any of them."""

from typing import Any

import pytest

from tests.engine.loop.builders import BOTH, choose, decide_once, group, node, observe, pending, sizes
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.selectors import LabelSelector, Operator, Requirement

ZONES = ("a", "b", "c")
APP = LabelSelector.of([Requirement("app", Operator.IN, ("app",))])
SPREAD: dict[str, Any] = {"spread": (facts.SpreadConstraint(facts.ZONE, 1, APP),)}


def observe_empty_zones(pods: int) -> Observation:
    """A group without nodes in each zone, and pods that fill a node each."""
    groups = [group(zone, template=node(f"template-{zone}", labels={facts.ZONE: zone})) for zone in ZONES]
    return observe(groups, [], [pending(f"p{number}", 4000, spec=SPREAD) for number in range(pods)])


@pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])
@pytest.mark.parametrize(("pods", "expected"), [(6, [2, 2, 2]), (7, [2, 2, 3])])
def test_balanced_groups_grow_in_every_zone_in_one_loop(settings: Settings, pods: int, expected: list[int]) -> None:
    decision = decide_once(observe_empty_zones(pods), choose(settings, "scale_up", balance_similar_node_groups=True))
    assert sorted(sizes(decision).values()) == expected


@pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])
def test_without_balancing_one_zone_gets_all_nodes(settings: Settings) -> None:
    """Zones without a node do not count for kube-scheduler: all pods may run in the one that has nodes."""
    assert list(sizes(decide_once(observe_empty_zones(6), settings)).values()) == [6]
