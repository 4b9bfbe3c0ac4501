"""Pods that were evicted and are not created anew yet hold room elsewhere."""

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.loop.builders import (
    AGENT,
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    node,
    observe,
    running,
)
from windlass.engine import taints
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts
from windlass.engine.model.drains import DrainProgress, EvictionProgress
from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
from windlass.engine.model.settings import Settings

STATEFUL = facts.Owner("apps/v1", "StatefulSet", "db", "uid-db")
CUSTOM = facts.Owner("example.com/v1", "Swarm", "bees", "uid-bees")


def choose_beside(settings: Settings, owner: facts.Owner | None, wanted: int = 1, **fields: Any) -> list[str]:
    """What is drained while the pod of a-0 is terminating? x-0 has room for it or for the pod of b-0."""
    chosen = choose(at_once(settings), "scale_down", max_drain_parallelism=2)
    leaving = replace(node("a-0"), taints=(taints.make_to_be_deleted(NOW_S - 10),), unschedulable=True)
    nodes = [leaving, node("b-0"), node("x-0")]
    pods = [
        running("pa", "a-0", 1500, owner=owner, deleted_s=NOW_S - 1, grace_s=600.0, **fields),
        running("pb", "b-0", 1500, labels={"app": "b"}),
        running("px", "x-0", 2400, labels={"app": "x"}),
    ]
    controllers = {}
    if owner is not None:
        controller = facts.Controller(owner.kind, "default", owner.name, owner.uid, wanted)
        controllers = {(controller.kind, controller.namespace, controller.name): controller}
    app = facts.Controller("ReplicaSet", "default", "app", "uid-app", 2)
    controllers["ReplicaSet", "default", "app"] = app
    groups = [group(one.name[0], [one], min_size=int(one.name == "x-0")) for one in nodes]
    progress = DrainProgress(
        asked_s=NOW_S - 10, marked_s=NOW_S - 9, evicting=EvictionProgress(NOW_S - 4, frozenset({"uid-pa"}))
    )
    drain = StartedDrain("a", NOW_S - 10, False, {"uid-pa": "x-0"}, "uid-a-0", progress=progress)
    observation = observe(groups, nodes, pods, controllers=controllers)
    return drained(decide_once(observation, chosen, LoopMemory(DurableMemory(loop=5, drains={"a-0": drain}))))


@pytest.mark.parametrize("owner", [STATEFUL, CUSTOM, None], ids=["StatefulSet", "unknown controller", "none"])
def test_a_pod_that_comes_back_once_it_is_gone_holds_its_room(owner: facts.Owner | None) -> None:
    assert choose_beside(WINDLASS, owner) == []


def test_a_pod_that_its_controller_does_not_want_any_more_holds_none() -> None:
    assert choose_beside(WINDLASS, STATEFUL, wanted=0) == ["b-0"]


def test_a_pod_that_belongs_to_its_node_holds_none() -> None:
    assert choose_beside(WINDLASS, AGENT) == ["b-0"]


def test_the_peer_forgets_evictions_at_once() -> None:
    assert choose_beside(PEER, STATEFUL) == ["b-0"]
