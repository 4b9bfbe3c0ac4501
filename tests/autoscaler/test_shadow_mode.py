"""Whole sequences: a scripted autoscaler acts, a shadow decides with the engine and compares."""

from collections.abc import Sequence
from dataclasses import replace

import prometheus_client

from tests.engine.loop.builders import NOW_S, WINDLASS, at_once, group, nodes, observe, pending, running
from windlass.autoscaler.shadow_comparison import AutoscalerEvent, ScaleDirection, VerdictKind
from windlass.autoscaler.shadow_mode import Shadow
from windlass.engine import taints
from windlass.engine.loop import decide
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation


class Stage:
    """A cluster that changes only by the other's hand, seen every ten seconds."""

    def __init__(self, settings: Settings = WINDLASS) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self.shadow = Shadow(60.0, self.registry)
        self.now_s = NOW_S
        self._settings, self._memory = settings, LoopMemory()

    def show(self, observation: Observation, times: int = 1) -> None:
        for _ in range(times):
            before = self.shadow.before_decision(observation, self._memory, self._settings, self.now_s)
            decision = decide(observation, before, self._settings, self.now_s)
            self._memory = self.shadow.after_decision(observation, before, decision, self.now_s)
            self.now_s += 10.0

    def count(self, direction: ScaleDirection, kind: VerdictKind) -> float:
        labels = {"direction": direction.value, "verdict": kind.value}
        return self.registry.get_sample_value("windlass_shadow_verdicts_total", labels) or 0.0

    def kinds(self) -> dict[tuple[ScaleDirection, VerdictKind], int]:
        return dict(self.shadow.totals.counts)


def waiting(targets: dict[str, int], max_size: int = 10) -> Observation:
    """Groups with one full node each and these target sizes, and three pods that need a node of their own."""
    found = {name: nodes(name, 1) for name in targets}
    groups = [group(name, found[name], target=target, max_size=max_size) for name, target in targets.items()]
    every = [node for members in found.values() for node in members]
    busy = [running(f"busy-{one.name}", one.name, 4000) for one in every]
    return observe(groups, every, [*busy, *(pending(f"p-{n}", 4000) for n in range(3))])


def spare(count: int, marked: Sequence[str] = (), at_s: float = NOW_S) -> Observation:
    found = [
        replace(node, taints=(facts.Taint(facts.TO_BE_DELETED, str(int(at_s)), "NoSchedule"),))
        if node.name in marked
        else node
        for node in nodes("a", count)
    ]
    return observe([group("a", found, min_size=1)], found, [running("p", "a-0", 3000)])


def test_both_raise_the_same_group_to_the_same_size() -> None:
    stage = Stage()
    stage.show(waiting({"a": 1}), times=2)
    stage.shadow.on_event(
        AutoscalerEvent("default/p-0", "TriggeredScaleUp", "pod triggered scale-up: [{a 1->4 (max: 10)}]")
    )
    stage.show(waiting({"a": 4}), times=20)

    assert stage.kinds() == {(ScaleDirection.UP, VerdictKind.AGREED): 1}
    assert stage.count(ScaleDirection.UP, VerdictKind.AGREED) == 1.0
    assert stage.registry.get_sample_value("windlass_shadow_lead_seconds_sum", {"direction": "scale-up"}) == 20.0
    assert "agreed on 1 of 1" in stage.shadow.end()


def test_the_other_goes_in_small_steps() -> None:
    stage = Stage()
    for target in (1, 2, 3, 4):
        stage.show(waiting({"a": target}))
    stage.show(waiting({"a": 4}), times=10)
    assert stage.kinds() == {(ScaleDirection.UP, VerdictKind.AGREED): 1}


def test_the_other_takes_too_few() -> None:
    stage = Stage()
    stage.show(waiting({"a": 1}))
    stage.show(waiting({"a": 2}), times=20)
    (verdict,) = stage.shadow.differences
    assert (verdict.kind, verdict.wanted, verdict.done) == (VerdictKind.OTHER_SIZE, 3, 1)
    assert verdict.ours.startswith("for default/p-")


def test_the_other_takes_another_group() -> None:
    stage = Stage()
    stage.show(waiting({"a": 1, "b": 1}))
    chosen = next(iter(stage.shadow._comparisons.groups))
    other = "b" if chosen == "a" else "a"
    stage.show(waiting({chosen: 1, other: 4}), times=20)
    (verdict,) = stage.shadow.differences
    assert (verdict.kind, verdict.subject, verdict.instead) == (VerdictKind.OTHER_CHOICE, chosen, other)
    assert (verdict.wanted, verdict.done) == (3, 3)


def test_the_other_does_nothing_and_says_why() -> None:
    stage = Stage()
    for number in range(3):
        stage.shadow.on_event(
            AutoscalerEvent(f"default/p-{number}", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 x")
        )
    stage.show(waiting({"a": 1}), times=30)
    (verdict,) = stage.shadow.differences
    assert (verdict.kind, verdict.wanted, verdict.done) == (VerdictKind.ONLY_WINDLASS, 3, 0)
    assert verdict.theirs == "pod didn't trigger scale-up: 1 x"


def test_the_other_raises_a_group_that_nobody_needs() -> None:
    stage = Stage()
    stage.show(spare(1))
    found = nodes("a", 1)
    stage.show(observe([group("a", found, target=3)], found, [running("p", "a-0", 3000)]), times=10)
    (verdict,) = stage.shadow.differences
    assert (verdict.kind, verdict.wanted, verdict.done) == (VerdictKind.ONLY_OTHER, 0, 2)
    assert verdict.ours == "ScaleUpNotNeeded"


def test_both_remove_the_same_nodes() -> None:
    stage = Stage(at_once(WINDLASS))
    stage.show(spare(3), times=2)
    stage.show(spare(3, marked=["a-1", "a-2"], at_s=stage.now_s), times=2)
    stage.show(spare(1), times=10)
    assert stage.kinds() == {(ScaleDirection.DOWN, VerdictKind.AGREED): 2}


def test_the_other_removes_what_we_keep_and_is_told_why() -> None:
    stage = Stage()
    stage.show(spare(3), times=2)
    stage.show(spare(3, marked=["a-1"], at_s=stage.now_s), times=10)
    (verdict,) = stage.shadow.differences
    assert (verdict.direction, verdict.kind, verdict.subject) == (ScaleDirection.DOWN, VerdictKind.ONLY_OTHER, "a-1")
    assert verdict.ours.startswith("NotUnneededLongEnough: a-1 ")


def test_nothing_happens_and_nothing_is_told() -> None:
    stage = Stage()
    stage.show(spare(1), times=20)
    assert stage.kinds() == {}
    assert stage.shadow.end().splitlines()[-1] == "neither of both did anything"


def test_the_summary_is_a_table_and_the_differences() -> None:
    stage = Stage()
    stage.show(waiting({"a": 1}))
    stage.show(waiting({"a": 2}), times=20)
    lines = stage.shadow.end().splitlines()

    assert lines[0] == "shadow of another autoscaler for 3m20s"
    assert lines[2].split("  ")[-1].strip() == "sooner by"
    assert lines[3].split() == ["scale-up", "0", "0", "1", "0", "0", "0", "3", "1", "-"]
    assert lines[4].split() == ["scale-down", "0", "0", "0", "0", "0", "0", "0", "0", "-"]
    assert lines[6] == "agreed on 0 of 1"
    assert lines[9].startswith("  scale-up a: other size: windlass +3 (for default/p-")
    assert lines[9].endswith("the other +1, 10s later")


def test_marks_of_candidates_are_no_removals() -> None:
    stage = Stage()
    found = nodes("a", 2)
    marked = [replace(node, taints=(taints.make_deletion_candidate(NOW_S),)) for node in found]
    stage.show(observe([group("a", found)], found), times=2)
    stage.show(observe([group("a", marked)], marked), times=10)
    assert stage.kinds() == {}
