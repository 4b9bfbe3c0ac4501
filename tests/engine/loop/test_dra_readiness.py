"""Ready nodes that lack devices of their template are unready for their resource.

The cases are those of Cluster Autoscaler's tests of its processor of devices. A pool is complete if its newest
generation has as many slices as it says; drivers that the template does not name do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.engine.loop.builders import BOTH, NOT_READY, READY, decide_once, group, node
from windlass.engine.model import dynamic_resources
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot


@dataclass(frozen=True)
class Slices:
    """Slices of pools of one driver: by pool, the generations that are there, each with the number it should have."""

    driver: str = "driver"
    pools: int = 1
    generations: Sequence[tuple[int, int]] = ((1, 1),)


@dataclass(frozen=True)
class Case:
    template: Sequence[Slices] = ()
    own: Sequence[Slices] = ()
    is_ready: bool = True
    """What conditions say."""
    expected: bool = field(default=True)


def incomplete(driver: str, pools: int = 1) -> Slices:
    return Slices(driver, pools, ((1, 2),))


A, B = Slices("a", 5), Slices("b", 3)
CASES = {
    "no devices": Case(),
    "no devices, and not ready": Case(is_ready=False, expected=False),
    "devices, and not ready": Case([Slices()], [Slices()], is_ready=False, expected=False),
    "a complete pool": Case([Slices()], [Slices()]),
    "complete pools of several drivers": Case([Slices("a", 5), Slices("b", 9)], [Slices("a", 5), Slices("b", 9)]),
    "more pools than the template": Case([Slices("a"), Slices("b")], [Slices("a", 10), Slices("b", 10)]),
    "an incomplete pool of another driver": Case([A, B], [A, B, incomplete("c")]),
    "a complete pool of another driver": Case([A, B], [A, B, Slices("c")]),
    "an incomplete pool": Case([Slices()], [incomplete("driver")], expected=False),
    "incomplete pools of several drivers": Case([A, B], [incomplete("a", 5), incomplete("b", 3)], expected=False),
    "incomplete pools of one driver": Case([A, B], [A, incomplete("b", 3)], expected=False),
    "both generations are incomplete": Case([Slices()], [Slices(generations=((1, 2), (2, 2)))], expected=False),
    "the old generation is complete": Case([Slices()], [Slices(generations=((1, 1), (2, 2)))], expected=False),
    "the new generation is complete": Case([Slices()], [Slices(generations=((1, 2), (2, 1)))]),
    "both generations are complete": Case([Slices()], [Slices(generations=((1, 1), (2, 1)))]),
    "pools are missing": Case([Slices(pools=5)], [Slices(pools=4)], expected=False),
    "all pools are missing": Case([Slices(pools=5)], expected=False),
}


def make(of: str, given: Sequence[Slices]) -> tuple[dynamic_resources.ResourceSlice, ...]:
    return tuple(
        dynamic_resources.ResourceSlice(
            f"{of}-{one.driver}-{pool}-{generation}", one.driver, f"{of}-pool-{pool}", generation, count,
            dynamic_resources.NodeReach(node_name=of),
        )
        for one in given
        for pool in range(one.pools)
        for generation, count in one.generations
    )  # fmt: skip


@pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_node_is_ready_with_the_devices_of_its_template(case: Case, settings: Settings) -> None:
    member = node("g-0", conditions=READY if case.is_ready else NOT_READY)
    template = replace(node("template", provider_id=""), slices=make("template", case.template))
    observation = Observation(
        cluster_snapshot.build_snapshot([member], [], offered=make("g-0", case.own)),
        (group("g", [member], template=template),),
    )
    health = decide_once(observation, settings).story.health.total
    assert (health.ready == ("g-0",)) is case.expected
    assert (health.resource_unready == ("g-0",)) is (case.is_ready and not case.expected)
