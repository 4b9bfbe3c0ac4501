"""Cluster API's MachineDrainRules, in loops: respected by windlass, not by Cluster Autoscaler."""

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.loop.builders import (
    NOW_S,
    PEER,
    WINDLASS,
    at_once,
    budget,
    choose,
    decide_once,
    drained,
    group,
    node,
    observe,
    reasons,
    running,
)
from windlass.engine import drain_loop, loop_memory, taints
from windlass.engine.model import facts, node_groups, plan
from windlass.engine.model.drains import DrainFailureReason
from windlass.engine.model.facts import DrainBehavior
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import PriorityGrace, Settings
from windlass.engine.observation import Observation
from windlass.explain import explain_context, nodes
from windlass.explain.nodes import PodDisposition
from windlass.selectors import LabelSelector, Operator, Requirement

NOT_SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector.of(Requirement(key, Operator.IN, (value,)) for key, value in labels.items())


def rule(
    name: str, behavior: DrainBehavior, *pods: node_groups.DrainedPodSelector, order: int = 0
) -> node_groups.MachineDrainRule:
    return node_groups.MachineDrainRule("capi", name, behavior, order, pods=pods)


SKIP, WAIT, DRAIN = (
    rule("skip", DrainBehavior.SKIP),
    rule("wait", DrainBehavior.WAIT_COMPLETED),
    rule("drain", DrainBehavior.DRAIN),
)


def observe_pods(
    *pods: facts.Pod,
    rules: tuple[node_groups.MachineDrainRule, ...] = (),
    unreadable: str = "",
    selecting: tuple[str, ...] | None = None,
    marked: bool = False,
    free: int = 4000,
    **more: Any,
) -> Observation:
    """Pods on g-0, whose Machine all rules select unless told otherwise; h-0 has so much room."""
    first, second = node("g-0"), node("h-0", cpu=free)
    if marked:
        first = replace(first, taints=(taints.make_to_be_deleted(NOW_S),), unschedulable=True)
    keys = tuple(machine_drain_rule.key for machine_drain_rule in rules) if selecting is None else selecting
    of_first = node_groups.Instance(first.provider_id, machine_drain_rules=keys, unreadable_drain_rules=unreadable)
    groups = [group("g", instances=[of_first]), group("h", [second], min_size=1)]
    observation = observe(groups, [first, second], pods, machine_drain_rules=rules, **more)
    observation.snapshot.set_namespaces(
        [facts.Namespace("default", {"team": "a"}), facts.Namespace("other", {"team": "b"})]
    )
    return observation


def evict_all(settings: Settings, *pods: facts.Pod, **more: Any) -> drain_loop.DrainLoopResult:
    """g-0 is chosen with these pods on it, marked and checked: what is asked for then."""
    remembered = decide_once(observe_pods(*pods, **more), settings).memory
    assert "g-0" in remembered.durable.drains
    for at_s in (1.0, 2.0):
        observation = observe_pods(*pods, **more, marked=at_s > 1.0)
        remembered = drain_loop.advance(observation, remembered, settings, NOW_S + at_s).memory
    return drain_loop.advance(observe_pods(*pods, **more, marked=True), remembered, settings, NOW_S + 8.0)


def list_evicted(advanced: drain_loop.DrainLoopResult) -> list[str]:
    return sorted(instruction.name for instruction in advanced.plan if isinstance(instruction, plan.Evict))


def keeps(*rules: node_groups.MachineDrainRule, pod: facts.Pod | None = None, **more: Any) -> UnremovableReason | None:
    """Why g-0 stays, with this pod on it; None where it goes."""
    decision = decide_once(observe_pods(pod or running("p", "g-0"), rules=rules, **more), at_once(WINDLASS))
    return None if drained(decision) == ["g-0"] else reasons(decision)["g-0"]


WAITS = UnremovableReason.BLOCKED_BY_ON_COMPLETION_POD


def test_a_pod_to_skip_keeps_no_node_and_needs_room_elsewhere() -> None:
    bare = running("p", "g-0", 600, owner=None)
    guarded = (budget(0),)
    assert keeps(SKIP, pod=bare, budgets=guarded) is None
    assert keeps(DRAIN, pod=bare, budgets=guarded) is UnremovableReason.BLOCKED_BY_POD
    assert keeps(SKIP, pod=bare, free=500) is UnremovableReason.NO_PLACE_TO_MOVE_PODS
    observation = observe_pods(bare, rules=(SKIP,), budgets=guarded)
    assert drained(decide_once(observation, at_once(PEER))) == []


def test_a_pod_to_skip_is_not_evicted_and_not_waited_for() -> None:
    only_web = rule("skip", DrainBehavior.SKIP, node_groups.DrainedPodSelector(labelled(app="web")))
    other, skipped = running("other", "g-0"), running("skipped", "g-0", labels={"app": "web"})
    advanced = evict_all(at_once(WINDLASS), other, skipped, rules=(only_web,))
    assert list_evicted(advanced) == ["other"]
    left = observe_pods(skipped, rules=(only_web,), marked=True)
    gone = drain_loop.advance(left, advanced.memory, at_once(WINDLASS), NOW_S + 20.0)
    assert plan.DeleteNode in map(type, gone.plan)
    assert list_evicted(evict_all(at_once(PEER), other, skipped, rules=(only_web,))) == ["other", "skipped"]


def test_a_node_waits_for_a_pod_to_finish_and_goes_then() -> None:
    pod = running("p", "g-0")
    observation = observe_pods(pod, rules=(WAIT,))
    first = decide_once(observation, at_once(WINDLASS))
    assert (drained(first), reasons(first)["g-0"]) == ([], WAITS)
    observation.snapshot.add_pod(replace(pod, phase="Succeeded"))
    assert drained(decide_once(observation, at_once(WINDLASS), first.memory, NOW_S + 1.0)) == ["g-0"]
    assert drained(decide_once(observe_pods(pod, rules=(WAIT,)), at_once(PEER))) == ["g-0"]


def test_a_change_of_rules_ends_a_decision_that_stands() -> None:
    pod = running("p", "g-0")
    first = decide_once(observe_pods(pod, rules=(WAIT,)), at_once(WINDLASS))
    observation = observe_pods(pod, rules=(replace(WAIT, behavior=DrainBehavior.DRAIN),))
    assert drained(decide_once(observation, at_once(WINDLASS), first.memory, NOW_S + 1.0)) == ["g-0"]


def test_a_rule_that_selects_no_machine_of_the_node_says_nothing() -> None:
    assert keeps(WAIT, selecting=()) is None


@pytest.mark.parametrize(
    ("selector", "is_waited_for"),
    [
        (node_groups.DrainedPodSelector(), True),
        (node_groups.DrainedPodSelector(labelled(app="web")), True),
        (node_groups.DrainedPodSelector(labelled(app="db")), False),
        (node_groups.DrainedPodSelector(namespace=labelled(team="a")), True),
        (node_groups.DrainedPodSelector(namespace=labelled(team="b")), False),
        (node_groups.DrainedPodSelector(labelled(app="web"), labelled(team="b")), False),
        (node_groups.DrainedPodSelector(LabelSelector((Requirement("tier", Operator.DOES_NOT_EXIST),))), True),
    ],
)
def test_pods_are_selected_by_their_labels_and_those_of_their_namespaces(
    selector: node_groups.DrainedPodSelector, is_waited_for: bool
) -> None:
    pod = running("p", "g-0", labels={"app": "web"})
    expected = WAITS if is_waited_for else None
    never = node_groups.DrainedPodSelector(labelled(app="none"))
    assert keeps(rule("a", DrainBehavior.WAIT_COMPLETED, selector), pod=pod) is expected
    assert keeps(rule("a", DrainBehavior.WAIT_COMPLETED, never, selector), pod=pod) is expected


def test_of_pods_of_one_kind_those_that_a_rule_selects_are_waited_for() -> None:
    """Labels are no part of a kind."""
    selected = rule("a", DrainBehavior.WAIT_COMPLETED, node_groups.DrainedPodSelector(labelled(app="web")))
    pods = [running("p", "g-0", labels={"app": "db"}), running("q", "g-0", labels={"app": "web"})]
    decision = decide_once(observe_pods(*pods, rules=(selected,)), at_once(WINDLASS))
    assert reasons(decision)["g-0"] is WAITS
    assert drained(decide_once(observe_pods(pods[0], rules=(selected,)), at_once(WINDLASS))) == ["g-0"]


def test_the_first_rule_that_selects_the_pod_counts() -> None:
    first, second = rule("a", DrainBehavior.DRAIN), rule("b", DrainBehavior.WAIT_COMPLETED)
    assert keeps(first, second) is None
    assert keeps(second, first) is WAITS  # in the order in which the instance names them


def test_the_label_of_a_pod_says_more_than_a_rule() -> None:
    skipped = running("p", "g-0", owner=None, drain_behavior=DrainBehavior.SKIP)
    assert keeps(WAIT, pod=skipped) is None
    assert keeps(SKIP, pod=replace(skipped, drain_behavior=DrainBehavior.WAIT_COMPLETED)) is WAITS


@pytest.mark.parametrize("rules", [SKIP, WAIT], ids=["skip", "wait"])
def test_a_pod_that_must_stay_keeps_its_node_whatever_a_rule_says(rules: node_groups.MachineDrainRule) -> None:
    assert keeps(rules, pod=running("p", "g-0", annotations=NOT_SAFE)) is UnremovableReason.BLOCKED_BY_POD


def test_pods_of_daemonsets_are_none_of_a_rule() -> None:
    daemon = running("d", "g-0", owner=facts.Owner("apps/v1", "DaemonSet", "d", "uid-d"))
    assert keeps(WAIT, pod=daemon) is None
    settings = choose(at_once(WINDLASS), "drain", daemonset_eviction_for_empty_nodes=True)
    labelled_so = replace(daemon, drain_behavior=DrainBehavior.WAIT_COMPLETED)
    for pod, rules in ((daemon, (WAIT,)), (labelled_so, ())):
        assert list_evicted(evict_all(settings, pod, rules=rules)) == ["d"]


@pytest.mark.parametrize("value", [True, False])
def test_the_flag_alone_decides(value: bool) -> None:
    settings = choose(at_once(PEER), "deviations", respect_machine_drain_rules=value)
    observation = observe_pods(running("p", "g-0", owner=None), rules=(SKIP,))
    assert drained(decide_once(observation, settings)) == ["g-0"] * value


def test_while_rules_cannot_be_read_no_node_with_pods_goes() -> None:
    daemon = running("d", "g-0", owner=facts.Owner("apps/v1", "DaemonSet", "d", "uid-d"))
    for pod in (running("p", "g-0"), daemon):
        assert keeps(pod=pod, unreadable="capi/a: found nothing") is UnremovableReason.BLOCKED_BY_POD
    assert drained(decide_once(observe_pods(daemon, unreadable="capi/a"), at_once(PEER))) == ["g-0"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rules": (WAIT,)}, "is left to finish by MachineDrainRule capi/wait"),
        ({"unreadable": "capi/a: found nothing"}, "may be the subject of a MachineDrainRule: capi/a: found nothing"),
    ],
    ids=["wait", "unreadable"],
)
def test_a_rule_that_comes_during_the_drain_is_respected_and_then_the_node_is_given_back(
    more: dict[str, Any], said: str
) -> None:
    settings = choose(at_once(WINDLASS), "drain", max_pod_eviction_time_s=120.0)
    pod = running("p", "g-0")
    asked = evict_all(settings, pod)
    (order,) = [instruction for instruction in asked.plan if isinstance(instruction, plan.Evict)]
    remembered, failures = asked.memory, []
    for after_s in range(10, 200, 10):
        failed = {order: "no"} if after_s == 10 else {}
        observation = observe_pods(pod, marked=True, failed=failed, **more)
        advanced = drain_loop.advance(observation, remembered, settings, NOW_S + 8.0 + after_s)
        remembered = advanced.memory
        assert not list_evicted(advanced)
        failures += [drain.failure for drain in advanced.story if drain.failure]
    assert failures[0].why is DrainFailureReason.EVICTION_REFUSED
    assert said in failures[0].details[0]


@pytest.mark.parametrize(
    ("more", "fate", "said"),
    [
        ({"rules": (SKIP,)}, PodDisposition.MOVES, "is skipped by MachineDrainRule capi/skip"),
        ({"rules": (WAIT,)}, PodDisposition.FINISHES, "is left to finish by MachineDrainRule capi/wait"),
        ({"unreadable": "capi/a"}, PodDisposition.STAYS, "may be the subject of a MachineDrainRule: capi/a"),
    ],
    ids=["skip", "wait", "unreadable"],
)
def test_explain_names_the_rule(more: dict[str, Any], fate: PodDisposition, said: str) -> None:
    at = explain_context.evaluate(
        observe_pods(running("p", "g-0"), **more), loop_memory.LoopMemory(), at_once(WINDLASS), NOW_S
    )
    (pod_on_removal,) = nodes.explain_node(at, "g-0").pods
    assert pod_on_removal.fate is fate
    assert said in pod_on_removal.why


# ── Order ────────────────────────────────────────────────────────────────────────────────────────────────────────


FIRST = rule("a", DrainBehavior.DRAIN, node_groups.DrainedPodSelector(labelled(app="first")), order=-2)
LAST = rule("b", DrainBehavior.DRAIN, node_groups.DrainedPodSelector(labelled(app="last")), order=7)
ORDERED = (FIRST, LAST)


def list_turns(
    settings: Settings, *pods: facts.Pod, rules: tuple[node_groups.MachineDrainRule, ...]
) -> list[list[str]]:
    """Which pods are evicted together, each turn being gone before the next moment is looked at."""
    advanced, left, found = evict_all(settings, *pods, rules=rules), list(pods), []
    for round_ in range(1, 10):
        evicted = list_evicted(advanced)
        found += [evicted] if evicted else []
        ending = [replace(pod, deleted_s=NOW_S) for pod in left if pod.name in evicted]
        staying = [pod for pod in left if pod.name not in evicted]
        # They take a moment to end, and nobody else is evicted meanwhile.
        waiting = drain_loop.advance(
            observe_pods(*ending, *staying, rules=rules, marked=True), advanced.memory, settings,
            NOW_S + 8.0 + 4 * round_,
        )  # fmt: skip
        assert list_evicted(waiting) == []
        left = staying
        observation = observe_pods(*left, rules=rules, marked=True)
        advanced = drain_loop.advance(observation, waiting.memory, settings, NOW_S + 10.0 + 4 * round_)
        if not left:
            return found
    raise AssertionError(f"left behind: {left}, after {found}")


def test_pods_of_a_lower_order_are_gone_before_others_are_evicted() -> None:
    pods = [running(name, "g-0", labels={"app": name}) for name in ("last", "plain", "first", "other")]
    assert list_turns(at_once(WINDLASS), *pods, rules=ORDERED) == [["first"], ["other", "plain"], ["last"]]
    assert list_turns(at_once(PEER), *pods, rules=ORDERED) == [["first", "last", "other", "plain"]]


def test_an_order_comes_before_priorities_and_these_within_it() -> None:
    def pod(app: str, priority: int) -> facts.Pod:
        return running(f"{app}-{priority}", "g-0", labels={"app": app}, spec={"priority": priority})

    tiers = (PriorityGrace(0, 60), PriorityGrace(1000, 60))
    settings = choose(at_once(WINDLASS), "drain", drain_priority_config=tiers)
    pods = [pod(app, priority) for app in ("last", "plain", "first") for priority in (2000, 0)]
    turns = list_turns(settings, *pods, rules=ORDERED)
    assert turns == [["first-0"], ["first-2000"], ["plain-0"], ["plain-2000"], ["last-0"], ["last-2000"]]


def test_pods_of_daemonsets_are_evicted_with_the_last() -> None:
    tiers = (PriorityGrace(0, 60), PriorityGrace(1000, 60))
    settings = choose(
        at_once(WINDLASS), "drain", drain_priority_config=tiers, daemonset_eviction_for_occupied_nodes=True
    )
    owner = facts.Owner("apps/v1", "DaemonSet", "d", "uid-d")
    daemon = running("daemon", "g-0", owner=owner, labels={"app": "first"}, spec={"priority": 2000})
    pods = [daemon, *(running(name, "g-0", labels={"app": name}) for name in ("last", "first"))]
    assert list_turns(settings, *pods, rules=ORDERED) == [["first"], ["last"], ["daemon"]]
