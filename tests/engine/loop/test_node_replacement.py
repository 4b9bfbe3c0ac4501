"""Nodes that others replace, over and over: neither a timeout nor a backoff, as long as each comes in time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.outcome import read_lines
from tests.conformance.scenario_cluster import EPOCH_S, World
from tests.engine.loop.builders import LONG_AGO_S, NOW_S, WINDLASS, decide_once, group, node, observe, pending, running
from windlass.autoscaler.options import flags
from windlass.engine.cluster_state import backoff
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import cluster_health, facts, node_groups
from windlass.engine.observation import Observation

VECTORS = Path(__file__).parents[4] / "shared" / "vectors" / "autoscaler-more" / "replacement.jsonl.gz"
LOOP_S, PROVISION_S = 10, 900
Failures = list[tuple[float, cluster_health.ScaleUpFailure]]


def play(loops: Iterator[tuple[float, Observation]]) -> tuple[Failures, LoopMemory]:
    """Decide in every loop; what failed, and when."""
    remembered, failures = LoopMemory(), Failures()
    for at_s, observation in loops:
        decision = decide_once(observation, WINDLASS, remembered, NOW_S + at_s)
        remembered = decision.memory
        failures += [(at_s, failure) for failure in decision.story.health.failures]
    return failures, remembered


def observe_group(names: dict[str, float], instances: Sequence[node_groups.Instance], target: int) -> Observation:
    """A group with these nodes, by when they were created, and instances beside them."""
    nodes = [
        node(name, created_s=created_s, conditions=(facts.Condition("Ready", "True", created_s),))
        for name, created_s in names.items()
    ]
    whole = group("g", nodes, max_size=20, target=target, instances=instances)
    return observe([whole], nodes, [running(f"on-{name}", name, 3000) for name in names])


def roll_out(size: int = 8, each_s: int = 300, boots: bool = True) -> Iterator[tuple[float, Observation]]:
    """maxSurge 0: each Machine goes for a minute, then another takes its place; when that is there the next goes."""
    for at_s in range(0, size * each_s, LOOP_S):
        number, phase_s = divmod(at_s, each_s)
        names = {f"new-{n}": NOW_S + (n + 1) * each_s - LOOP_S for n in range(number)}
        names |= {f"old-{n}": LONG_AGO_S for n in range(number + 1, size)}
        coming = [node_groups.Instance(f"machine-{number}", "Creating")] if phase_s >= 60 and boots else []
        yield at_s, observe_group(names, coming, size)


def test_a_rollout_without_surge_is_no_timeout() -> None:
    failures, remembered = play(roll_out())
    assert failures == []
    assert not remembered.durable.health.backoffs


def test_nor_is_one_whose_machines_show_only_as_nodes() -> None:
    failures, _ = play(roll_out(boots=False))
    assert failures == []


def test_nor_is_a_group_in_which_one_instance_is_always_being_replaced() -> None:
    def churn() -> Iterator[tuple[float, Observation]]:
        for at_s in range(0, 7200, LOOP_S):
            gone = at_s // 300
            names = {f"g-{n}": LONG_AGO_S for n in range(10) if n != gone % 10}
            yield at_s, observe_group(names, [node_groups.Instance(f"spot-{gone}", "Creating")], 10)

    failures, remembered = play(churn())
    assert failures == []
    assert not remembered.durable.health.backoffs


def test_a_rollout_beside_a_scale_up_that_came_is_no_timeout() -> None:
    """The node that was ordered comes after two minutes, but never are all there at once."""
    grown_s = 300

    def grow() -> Iterator[tuple[float, Observation]]:
        for at_s, observation in roll_out():
            node_group = observation.groups[0]
            names = {found.name: found.created_s for found in observation.nodes}
            size = node_group.target_size
            if at_s > grown_s:
                size += 1
            if at_s > grown_s + 120:
                names["ordered"] = NOW_S + grown_s + 120
            coming = [instance for instance in node_group.instances if instance.state == "Creating"]
            if grown_s < at_s <= grown_s + 120:
                coming.append(node_groups.Instance("ordered", "Creating"))
            made = observe_group(names, coming, size)
            if at_s == grown_s:
                waiting = replace(pending("new", 3000), created_s=NOW_S + at_s - 30)
                made.snapshot.add_pod(waiting)
            yield at_s, made

    failures, _ = play(grow())
    assert failures == []


def test_a_node_that_never_comes_is_a_timeout_once() -> None:
    def lose() -> Iterator[tuple[float, Observation]]:
        for at_s in range(0, 3600, LOOP_S):
            names = {f"g-{n}": LONG_AGO_S for n in range(8) if n or at_s < 100}
            yield at_s, observe_group(names, [], 8)

    failures, _ = play(lose())
    assert [at_s for at_s, _ in failures] == [100 + PROVISION_S + LOOP_S]


def test_a_replacement_that_does_not_register_is_one() -> None:
    """Others are replaced in time beside it."""

    def stick() -> Iterator[tuple[float, Observation]]:
        for at_s, observation in roll_out():
            node_group = observation.groups[0]
            names = {found.name: found.created_s for found in observation.nodes if found.name != "new-0"}
            coming = [instance for instance in node_group.instances if instance.state == "Creating"]
            if at_s >= 300:
                coming.append(node_groups.Instance("machine-0", "Creating"))
            yield at_s, observe_group(names, coming, node_group.target_size)

    failures, _ = play(stick())
    assert [failure.nodes for _, failure in failures] == [1]


@pytest.mark.skipif(not VECTORS.exists(), reason=f"{VECTORS} is not there: recorded replacements are not played")
def test_recorded_replacements_put_no_group_into_backoff() -> None:
    for scenario in read_lines(VECTORS):
        settings = flags.parse_settings({"behavior": "windlass", **scenario["flags"]})
        world, remembered = World(scenario), LoopMemory()
        for step in scenario["steps"]:
            now_s = EPOCH_S + step["at_s"]
            remembered = decide_once(world.move_on(step), settings, remembered, now_s).memory
            waiting = [
                item for item in world.groups if backoff.find_backoff(remembered.durable.health.backoffs, item, now_s)
            ]
            assert not waiting, (scenario["name"], step["at_s"])
