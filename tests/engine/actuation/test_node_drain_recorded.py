"""Drains of the real Cluster Autoscaler: whom it evicted, and which nodes were gone by its next loop."""

from pathlib import Path

import pytest

from tests.conformance import scenario_cluster
from tests.conformance.outcome import Json, read_lines
from tests.engine.actuation.drain_cluster import Run, World
from windlass.autoscaler.options import flags
from windlass.engine import loop, loop_memory
from windlass.engine.model import plan
from windlass.engine.observation import Observation

VECTORS = Path(__file__).parents[4] / "shared" / "vectors" / "autoscaler"


def copy_world(observation: Observation, now_s: float) -> World:
    """The recorded world at one step. It deletes at once, evicted pods and nodes alike."""
    snapshot = observation.snapshot
    world = World(observation.nodes, [snapshot.pod(row) for row in snapshot.pods.rows.values()])
    world.now_s, world.machine_takes_s, world.budget_recovers_s = now_s, 0.0, float("inf")
    world.group_of |= {name: group.id for name, group in observation.group_of_nodes().items()}
    world.groups = {group.id: group for group in observation.groups}
    world.budgets = {budget.name: budget for budget in observation.budgets}
    world.ends_after_s = dict.fromkeys(world.pods, 0.0)
    return world


def drain_until(run: Run, end_s: float) -> None:
    while (next_s := min(run.settle().next_s, run.world.next_s)) <= end_s:
        run.world.move_to(next_s)


def compare(scenario: Json) -> int:
    """Carry out the drains of each step, and compare with what the next one found. Returns how many were compared."""
    settings = flags.parse_settings({"behavior": "cluster-autoscaler", **scenario["flags"]})
    recorded, remembered, compared = scenario_cluster.World(scenario), loop_memory.LoopMemory(), 0
    for step, following in zip(scenario["steps"], scenario["steps"][1:], strict=False):
        observation, now_s = recorded.move_on(step), scenario_cluster.EPOCH_S + step["at_s"]
        decision = loop.decide(observation, remembered, settings, now_s)
        remembered = decision.memory
        going = {instruction.node for instruction in decision.plan if isinstance(instruction, plan.Drain)}
        if not going or "expect" not in step:
            continue
        run = Run(copy_world(observation, now_s), settings, remembered)
        run.world.execute(decision.plan)
        drain_until(run, scenario_cluster.EPOCH_S + following["at_s"])
        env = following["env"]
        evicted = {f"{one.namespace}/{one.name}" for _, one in run.done if isinstance(one, plan.Evict)}
        assert evicted == set(env.get("evicted", ())), (scenario["name"], step["at_s"])
        assert going - set(run.world.nodes) == going & set(env.get("nodes_removed", ())), scenario["name"]
        compared += len(going)
    return compared


@pytest.mark.skipif(not VECTORS.exists(), reason="no recorded scenarios at hand")
def test_drains_end_as_recorded() -> None:
    assert sum(map(compare, read_lines(VECTORS / "scale_down.jsonl.gz"))) > 100
