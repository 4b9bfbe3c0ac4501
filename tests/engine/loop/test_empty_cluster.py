"""A cluster without any node: pods of every kind wait for the first one."""

from typing import Any

import pytest

from tests.engine.loop.builders import BOTH, decide_once, group, observe, pending, sizes
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.selectors import LabelSelector, Operator, Requirement

APP = LabelSelector.of([Requirement("app", Operator.IN, ("app",))])
SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "apart": {"anti_affinity": (facts.PodAffinityTerm(facts.HOSTNAME, APP, ("default",)),)},
    "together": {"affinity": (facts.PodAffinityTerm(facts.HOSTNAME, APP, ("default",)),)},
    "spread": {"spread": (facts.SpreadConstraint(facts.HOSTNAME, 1, APP),)},
    "with a port": {"host_ports": (facts.HostPort("0.0.0.0", "TCP", 80),)},
    "with a disk": {"volumes": (facts.Volume("disk", "gcePersistentDisk", identity=("disk",)),)},
}


@pytest.mark.parametrize("settings", BOTH)
@pytest.mark.parametrize("kind", SPECS)
def test_the_first_node_is_added_whatever_the_pods_mind(settings: Settings, kind: str) -> None:
    observation = observe([group("a")], (), [pending("p0", spec=SPECS[kind]), pending("p1", spec=SPECS[kind])])
    assert sizes(decide_once(observation, settings))["a"] >= 1
