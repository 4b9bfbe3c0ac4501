"""Flags that change one thing each: what a loop decides with and without them."""

import contextlib
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.engine.loop.builders import (
    AGENT,
    BOTH,
    FULL_CPU,
    NOT_READY,
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    choose,
    decide_at,
    decide_once,
    drained,
    group,
    node,
    nodes,
    observe,
    pending,
    reasons,
    resources,
    result,
    running,
    sizes,
)
from windlass.engine import loop, loop_memory
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.scale_up_status import ScaleUpResult
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.time_limits import MeasuredStep, Measurement

both = pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])


# ── Balancing ────────────────────────────────────────────────────────────────────────────────────────────────────


def raise_two(settings: Settings, first: facts.Node, second: facts.Node, running_pods: Iterable[facts.Pod] = ()) -> int:
    """How many of two groups are raised for two pods that fill a node each, where similar groups are balanced."""
    settings = choose(settings, "scale_up", balance_similar_node_groups=True)
    members = [replace(one, name=f"{id}-0", provider_id=f"id://{id}-0") for id, one in (("a", first), ("b", second))]
    groups = [
        group(id, [member], template=replace(member, name=f"{id}-template", provider_id=""))
        for id, member in zip("ab", members, strict=True)
    ]
    full = [running(f"full-{one.name}", one.name, 3000) for one in members]
    waiting = [pending(f"p{number}", 3000) for number in range(2)]
    return len(sizes(decide_once(observe(groups, members, [*full, *running_pods, *waiting]), settings)))


@both
def test_balancing_labels_alone_decide_what_is_similar(settings: Settings) -> None:
    first, second = (node("n", labels={"pool": "x"}), node("n", memory=2000, labels={"pool": "x"}))
    assert raise_two(settings, first, second) == 1
    assert raise_two(choose(settings, "scale_up", balancing_label=("pool",)), first, second) == 2


@both
def test_memory_of_similar_groups_may_differ_by_the_ratio(settings: Settings) -> None:
    first, second = node("n", memory=1000), node("n", memory=960)
    assert raise_two(settings, first, second) == 1
    assert raise_two(choose(settings, "scale_up", memory_difference_ratio=0.05), first, second) == 2


@both
def test_allocatable_resources_of_similar_groups_may_differ_by_the_ratio(settings: Settings) -> None:
    first, second = node("n"), node("n", allocatable=resources(3700, 1000, pods=100))
    assert raise_two(settings, first, second) == 1
    lax = choose(settings, "scale_up", max_allocatable_difference_ratio=0.1, max_free_difference_ratio=0.1)
    assert raise_two(lax, first, second) == 2
    assert raise_two(choose(lax, "scale_up", max_allocatable_difference_ratio=0.05), first, second) == 1


@both
def test_what_pods_leave_free_in_similar_groups_may_differ_by_the_ratio(settings: Settings) -> None:
    agent = running("agent", "b-0", 300, owner=AGENT)
    assert raise_two(settings, node("n"), node("n"), [agent]) == 1
    assert raise_two(choose(settings, "scale_up", max_free_difference_ratio=0.1), node("n"), node("n"), [agent]) == 2


# ── Pods that keep their node ────────────────────────────────────────────────────────────────────────────────────


def keep(settings: Settings, pod: facts.Pod, **more: object) -> UnremovableReason | None:
    """Why a node stays that has only this pod, which would fit elsewhere."""
    members = nodes("g", 2)
    observation = observe([group("g", members)], members, [pod, running("busy", "g-1", 3500)], **more)
    return reasons(decide_once(observation, at_once(settings))).get("g-0")


@both
def test_pods_of_the_system_keep_their_node_unless_they_may_not_or_are_old(settings: Settings) -> None:
    pod = running("dns", "g-0", namespace="kube-system", created_s=NOW_S - 60.0)
    assert keep(settings, pod) is UnremovableReason.BLOCKED_BY_POD
    assert keep(choose(settings, "drain", skip_nodes_with_system_pods=False), pod) is None
    assert keep(choose(settings, "drain", blocking_system_pod_distruption_timeout_s=30.0), pod) is None


@both
def test_pods_of_custom_controllers_keep_their_node_unless_they_may_not(settings: Settings) -> None:
    pod = running("p", "g-0", owner=facts.Owner("example.com/v1", "Fleet", "fleet", "uid-fleet"))
    assert keep(settings, pod) is UnremovableReason.BLOCKED_BY_POD
    assert keep(choose(settings, "drain", skip_nodes_with_custom_controller_pods=False), pod) is None


@both
def test_pods_with_local_storage_keep_their_node_unless_they_may_not(settings: Settings) -> None:
    pod = running("p", "g-0", spec={"volumes": (facts.Volume("scratch", "emptyDir"),)})
    assert keep(settings, pod) is UnremovableReason.BLOCKED_BY_POD
    assert keep(choose(settings, "drain", skip_nodes_with_local_storage=False), pod) is None


@both
def test_a_controller_with_few_replicas_keeps_the_nodes_of_its_pods(settings: Settings) -> None:
    few = {("ReplicaSet", "default", "app"): facts.Controller("ReplicaSet", "default", "app", replicas=2)}
    pod = running("p", "g-0")
    assert keep(settings, pod, controllers=few) is None
    enough = choose(settings, "drain", min_replica_count=3)
    assert keep(enough, pod, controllers=few) is UnremovableReason.BLOCKED_BY_POD


@both
def test_pods_below_the_cutoff_keep_no_room(settings: Settings) -> None:
    present = nodes("g", 1)
    low = running("low", "g-0", FULL_CPU, spec={"priority": 5})
    observation = observe([group("g", present)], present, [low, pending("p", FULL_CPU, spec={"priority": 20})])
    assert sizes(decide_once(observation, settings)) == {"g": 2}
    lifted = choose(settings, "pods", expendable_pods_priority_cutoff=10)
    assert result(decide_once(observation, lifted)) is ScaleUpResult.NOT_NEEDED


# ── Templates ────────────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_daemonsets_that_an_example_lacks_count_by_force(settings: Settings) -> None:
    present = nodes("g", 1)
    agent = node_groups.DaemonSet("default", "agent", "uid-agent", running("agent", "", FULL_CPU // 2, owner=AGENT))
    pods = [running("full", "g-0", FULL_CPU), *(pending(f"p{number}", FULL_CPU // 2) for number in range(2))]
    observation = observe([group("g", present)], present, pods, daemon_sets=(agent,))
    assert sizes(decide_once(observation, settings)) == {"g": 2}
    assert sizes(decide_once(observation, choose(settings, "templates", force_ds=True))) == {"g": 3}


@both
@pytest.mark.parametrize("flag", ["startup_taint", "status_taint", "startup_taint_prefix"])
def test_taints_that_will_pass_keep_no_pod_from_new_nodes(settings: Settings, flag: str) -> None:
    template = node("t", taints=(facts.Taint("example.com/booting", "", "NoSchedule"),))
    observation = observe([group("g", template=template)], [], [pending("p")])
    assert sizes(decide_once(observation, settings)) == {}
    key = "example.com/" if flag.endswith("prefix") else "example.com/booting"
    assert sizes(decide_once(observation, choose(settings, "templates", **{flag: (key,)}))) == {"g": 1}


# ── Health and backoff ───────────────────────────────────────────────────────────────────────────────────────────


@both
def test_so_many_nodes_may_be_unready(settings: Settings) -> None:
    good, bad = nodes("g", 6), nodes("h", 4, conditions=NOT_READY)
    pods = [running(f"on-{one.name}", one.name, FULL_CPU) for one in (*good, *bad)]
    observation = observe([group("g", good), group("h", bad)], [*good, *bad], [*pods, pending("p", FULL_CPU)])
    assert result(decide_once(observation, settings)) is ScaleUpResult.SUCCESSFUL
    strict = choose(settings, "health", max_total_unready_percentage=30.0)
    assert result(decide_once(observation, strict)) is ScaleUpResult.NOT_TRIED
    few = choose(strict, "health", ok_total_unready_count=4)
    assert result(decide_once(observation, few)) is ScaleUpResult.SUCCESSFUL


def backed_off(settings: Settings, *failures_s: float) -> float:
    """Until when a group backs off after its resize was refused at these times."""
    refused = {"g": node_groups.InstanceError("Other", "no more")}
    observation = observe([group("g")], [], [pending("p", age_s=1000.0)], refused=refused)
    memory = loop_memory.LoopMemory()
    for now_s in failures_s:
        memory = decide_once(observation, settings, memory, NOW_S + now_s).memory
    return memory.durable.health.backoffs["g"].until_s - NOW_S


@both
def test_a_group_that_failed_backs_off_as_long_as_flags_say(settings: Settings) -> None:
    assert backed_off(settings, 0.0) == 300.0
    assert backed_off(choose(settings, "health", initial_node_group_backoff_duration_s=60.0), 0.0) == 60.0
    assert backed_off(settings, 0.0, 301.0) == 301.0 + 600.0
    short = choose(settings, "health", max_node_group_backoff_duration_s=400.0)
    assert backed_off(short, 0.0, 301.0) == 301.0 + 400.0
    forgetful = choose(settings, "health", node_group_backoff_reset_timeout_s=1000.0)
    assert backed_off(settings, 0.0, 1100.0) == 1100.0 + 600.0
    assert backed_off(forgetful, 0.0, 1100.0) == 1100.0 + 300.0


# ── Time limits ──────────────────────────────────────────────────────────────────────────────────────────────────


class Slow:
    """A clock that is a second further at each reading."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def begin(self, part: str, limit_s: float) -> "Part":
        return Part(self, limit_s)

    def measure(self, step: MeasuredStep) -> Measurement:
        return contextlib.nullcontext()


class Part:
    """A part of a decision on a slow clock."""

    def __init__(self, clock: Slow, limit_s: float) -> None:
        self._clock, self._limit_s, self._began_s = clock, limit_s, clock.now_s

    def begin(self, part: str, limit_s: float) -> "Part":
        return Part(self._clock, limit_s)

    def measure(self, step: MeasuredStep) -> Measurement:
        return contextlib.nullcontext()

    def exhausted(self) -> bool:
        self._clock.now_s += 1.0
        return self._clock.now_s - self._began_s > self._limit_s


def decide_slowly(observation: Observation, settings: Settings) -> loop.Decision:
    return loop.decide(observation, loop_memory.LoopMemory(), settings, NOW_S, Slow())


def test_one_group_is_estimated_for_no_longer_than_the_flag_says() -> None:
    pods = [pending(f"p{number}", FULL_CPU, owner=None) for number in range(9)]
    observation = observe([group("g", max_size=20)], [], pods)

    def count(limit_s: float) -> int:
        chosen = choose(PEER, "scale_up", max_nodegroup_binpacking_duration_s=limit_s)
        return sum(sizes(decide_slowly(observation, chosen)).values())

    assert count(3.0) < count(99.0) == 9


@both
def test_groups_are_estimated_for_no_longer_than_the_flag_says(settings: Settings) -> None:
    groups = [group("a", template=node("t", FULL_CPU)), group("b", template=node("t", 2 * FULL_CPU))]
    observation = observe(groups, [], [pending("p", FULL_CPU)])

    def count(limit_s: float) -> int:
        up = choose(settings, "scale_up", max_binpacking_time_s=limit_s, max_nodegroup_binpacking_duration_s=99.0)
        choice = decide_slowly(observation, up).story.scale_ups[0].choice
        return 0 if choice is None else len(choice.options)

    assert count(99.0) == 2
    assert count(1.0) < 2


@both
def test_nodes_are_tried_for_removal_for_no_longer_than_the_flag_says(settings: Settings) -> None:
    members = nodes("g", 6)
    observation = observe([group("g", members)], members)

    def count(limit_s: float) -> int:
        chosen = choose(at_once(settings), "scale_down", scale_down_simulation_timeout_s=limit_s)
        return len(drained(decide_slowly(observation, chosen)))

    assert count(3.0) < count(99.0) == 6


def test_rounds_of_a_scale_up_go_on_for_no_longer_than_the_flag_says() -> None:
    groups = [group(id, template=node("t", labels={"k": id})) for id in "abc"]
    pods = [pending(f"p{id}", FULL_CPU, spec={"node_selector": (("k", id),)}) for id in "abc"]

    def count(limit_s: float) -> int:
        chosen = choose(WINDLASS, "scale_up", salvo_scale_up_budget_s=limit_s)
        return len(sizes(decide_slowly(observe(groups, [], pods), chosen)))

    assert count(99.0) == 3
    assert count(0.5) == 1


def test_with_the_fast_path_the_pods_that_gain_most_are_counted_last_and_by_division() -> None:
    other = facts.Owner("apps/v1", "ReplicaSet", "other", "uid-other")
    pods = [*(pending(f"a{i}", 2500) for i in range(8)), *(pending(f"b{i}", 1000, owner=other) for i in range(3))]
    observation = observe([group("g", max_size=20)], [], pods)
    assert sizes(decide_once(observation, PEER)) == {"g": 8}
    assert sizes(decide_once(observation, choose(PEER, "scale_up", fastpath_binpacking_enabled=True))) == {"g": 9}


# ── Ties ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_ties_between_equal_groups_are_drawn_from_the_seed(settings: Settings) -> None:
    observation = observe([group(id) for id in "abcdefgh"], [], [pending("p")])

    def find(seed: int) -> dict[str, int]:
        return sizes(decide_once(observation, replace(settings, seed=seed)))

    assert find(1) == find(1)
    assert len({str(find(seed)) for seed in range(9)}) > 1


# ── Removal ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_could_not_be_removed_is_looked_at_again_after_the_time_of_the_flag() -> None:
    members = nodes("g", 2)
    busy = running("busy", "g-1", 3500)
    blocked = observe([group("g", members)], members, [busy, running("p", "g-0", owner=None)])
    free = observe([group("g", members)], members, [busy])

    def look_again(timeout_s: float) -> UnremovableReason | None:
        settings = choose(PEER, "scale_down", unremovable_node_recheck_timeout_s=timeout_s)
        before = decide_once(blocked, settings).memory
        return reasons(decide_once(free, settings, before, NOW_S + 100.0)).get("g-0")

    assert look_again(300.0) is UnremovableReason.RECENTLY_UNREMOVABLE
    assert look_again(60.0) is not UnremovableReason.RECENTLY_UNREMOVABLE


def forces_removal(observation: Observation, settings: Settings, after_s: float = 0.0) -> bool:
    """Are instances removed even below the minimum of their group, now or after a while?"""
    last = decide_at(observation, settings, *dict.fromkeys([NOW_S, NOW_S + after_s]))
    return any(isinstance(instruction, plan.DeleteInstances) and instruction.force for instruction in last.plan)


@both
def test_failed_instances_of_a_group_at_its_minimum_are_deleted_by_force_only(settings: Settings) -> None:
    failed = node_groups.Instance("id://new", "Creating", node_groups.InstanceError("Other", "no"))
    observation = observe([group("g", instances=[failed], min_size=1)])
    assert not forces_removal(observation, settings)
    assert forces_removal(observation, choose(settings, "health", force_delete_failed_nodes=True))


@both
def test_instances_without_a_node_are_deleted_below_the_minimum_by_force_only(settings: Settings) -> None:
    observation = observe([group("g", instances=[node_groups.Instance("id://new")], min_size=1)])
    assert not forces_removal(observation, settings, 1000.0)
    assert forces_removal(observation, choose(settings, "health", force_delete_unregistered_nodes=True), 1000.0)
