"""Deviations from Cluster Autoscaler of which each changes one thing: what a loop decides with and without them."""

from dataclasses import replace

import pytest

from tests.engine.actuation.drain_cluster import START_S, Run, World, with_drain
from tests.engine.actuation.drain_cluster import node as drained_node
from tests.engine.capacity_apis.provisioning_clusters import NOW_S as BEGIN_S
from tests.engine.capacity_apis.provisioning_clusters import SERVED, make, make_pod, request
from tests.engine.loop.builders import (
    BOTH,
    NOT_READY,
    NOW_S,
    WINDLASS,
    at_once,
    choose,
    decide_once,
    drained,
    group,
    node,
    nodes,
    observe,
    pending,
    reasons,
    running,
    sizes,
)
from windlass.engine import taints
from windlass.engine.capacity_apis import provisioning_request_queue as conditions
from windlass.engine.model import facts, plan
from windlass.engine.model.provisioning import Condition, PodSet, ProvisioningRequest
from windlass.engine.model.scale_down_state import UnremovableReason
from windlass.engine.model.settings import Settings
from windlass.selectors import LabelSelector, Operator, Requirement

APP = LabelSelector.of([Requirement("app", Operator.IN, ("app",))])
both = pytest.mark.parametrize("settings", BOTH, ids=["peer", "windlass"])


def deviate(settings: Settings, **changes: object) -> Settings:
    return choose(settings, "deviations", **changes)


# ── Scaling up ───────────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_minimum_sizes_are_enforced_only_where_that_is_asked_for(settings: Settings) -> None:
    observation = observe([group("g", min_size=2)])
    assert sizes(decide_once(observation, settings)) == {}
    assert sizes(decide_once(observation, choose(settings, "scale_up", enforce_node_group_min_size=True))) == {"g": 2}


@both
def test_pods_without_a_controller_are_judged_as_one_if_they_are_alike(settings: Settings) -> None:
    observation = observe([group("g")], [], [pending(f"p{number}", owner=None) for number in range(3)])

    def count(is_one: bool) -> int:
        chosen = deviate(settings, group_pods_by_likeness=is_one)
        return len(decide_once(observation, chosen).story.scale_ups[0].considered)

    assert (count(False), count(True)) == (3, 1)


@both
def test_a_decision_stands_where_the_search_for_room_is_not_random(settings: Settings) -> None:
    observation = observe([group("g")], [], [pending("huge", 99_000, age_s=1000.0)])
    assert decide_once(observation, deviate(settings, tight_packing=True)).quiet_until_s > NOW_S
    assert decide_once(observation, deviate(settings, tight_packing=False)).quiet_until_s == NOW_S


def test_a_node_whose_group_is_not_known_yet_is_the_one_that_is_awaited() -> None:
    """It repels the pods still, so that those which must spread over all nodes would get another one beside it."""
    spread = (facts.SpreadConstraint(facts.HOSTNAME, 1, APP),)
    first = pending("p0", 1000, spec={"spread": spread})
    empty = observe([group("g", max_size=9)], [], [first])
    for is_recognised in (True, False):
        settings = deviate(WINDLASS, recognise_newcomers=is_recognised)
        before = decide_once(empty, settings).memory
        fresh = node("g-0", conditions=NOT_READY, created_s=NOW_S + 5.0, taints=(facts.Taint("x", "", "NoSchedule"),))
        stranger = replace(fresh, provider_id="")
        pods = [first, pending("p1", 1000, spec={"spread": spread})]
        came = observe([group("g", max_size=9, target=1)], [stranger], pods)
        decision = decide_once(came, settings, before, NOW_S + 10.0)
        assert sizes(decision).get("g", 1) == (1 if is_recognised else 2)


# ── Scaling down ─────────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_a_group_whose_instances_cannot_be_chosen_is_not_shrunk_blindly(settings: Settings) -> None:
    members = nodes("g", 2)
    blind = replace(group("g", members), can_choose=False)
    observation = observe([blind], members, [running("busy", "g-1", 3500)])
    for is_kept in (True, False):
        chosen = deviate(at_once(settings), never_shrink_blindly=is_kept)
        assert drained(decide_once(observation, chosen)) == ([] if is_kept else ["g-0"])


@both
def test_a_pod_that_must_not_be_disrupted_keeps_its_node(settings: Settings) -> None:
    members = nodes("g", 2)
    pod = running("p", "g-0", annotations={"karpenter.sh/do-not-disrupt": "true"})
    observation = observe([group("g", members)], members, [pod, running("busy", "g-1", 3500)])
    for is_kept in (True, False):
        chosen = deviate(at_once(settings), respect_do_not_disrupt=is_kept)
        found = reasons(decide_once(observation, chosen)).get("g-0")
        assert found == (UnremovableReason.BLOCKED_BY_POD if is_kept else None)


# ── Draining ─────────────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_the_next_step_follows_the_taint_after_the_delay_of_the_flag(settings: Settings) -> None:
    for delay_s in (5.0, 20.0):
        chosen = with_drain(settings, node_delete_delay_after_taint_s=delay_s)
        run = Run(World([drained_node("a"), drained_node("z")]), chosen).begin("a", is_empty=True).resume()
        assert [at_s for at_s, _ in run.deletions()] == [delay_s]


@both
def test_old_marks_of_nobody_are_removed(settings: Settings) -> None:
    marked = replace(drained_node("a"), taints=(facts.Taint(taints.TO_BE_DELETED_KEY, "1", "NoSchedule"),))
    for is_cleared in (True, False):
        run = Run(World([marked, drained_node("z")]), deviate(settings, clear_abandoned_marks=is_cleared)).resume(60.0)
        assert run.is_marked("a") is not is_cleared


def test_a_mark_that_is_not_five_minutes_old_may_be_of_a_drain_in_progress() -> None:
    young = facts.Taint(taints.TO_BE_DELETED_KEY, str(int(START_S) - 100), "NoSchedule")
    run = Run(World([replace(drained_node("a"), taints=(young,)), drained_node("z")]))
    for after_s, is_marked in ((190.0, True), (210.0, False)):
        run.world.move_to(START_S + after_s)
        run.settle()
        assert run.is_marked("a") is is_marked


@both
def test_scale_down_pauses_after_any_failed_removal(settings: Settings) -> None:
    for pauses in (True, False):
        world = World([drained_node("a"), drained_node("z")])
        world.refuse = lambda instruction: "no" if isinstance(instruction, plan.DeleteNode) else None
        run = Run(world, deviate(settings, pause_after_failed_drains=pauses)).begin("a", is_empty=True).resume()
        assert (run.memory.durable.activity.failed_s is not None) is pauses


# ── ProvisioningRequests ─────────────────────────────────────────────────────────────────────────────────────────


def test_requests_are_served_only_where_that_is_asked_for() -> None:
    for is_served in (True, False):
        chosen = replace(SERVED.provisioning_requests, enable_provisioning_requests=is_served)
        world = make(request("r"), settings=replace(SERVED, provisioning_requests=chosen))
        world.loop()
        assert bool(world.requests["r"].conditions) is is_served


def count_booked(is_rest: bool) -> int:
    """How many pods a booking holds room for, of a request for four of which one is there."""
    world = make(request("r", 4), settings=deviate(SERVED, book_only_what_is_left=is_rest))
    world.loop()
    owner = facts.Owner("batch/v1", "Job", "job", "uid-job")
    world.pods = [replace(make_pod("r", 1), name="p", uid="p", owner=owner, node_name="a-0", phase="Running")]
    requests = world.loop().story.requests
    assert requests is not None
    return requests.booked["ns/r"]


def test_capacity_is_booked_for_the_pods_that_are_missing() -> None:
    assert (count_booked(True), count_booked(False)) == (3, 4)


def old(kind: str) -> ProvisioningRequest:
    """A request of a class that was answered two weeks ago."""
    answered = Condition(conditions.PROVISIONED, "True", "Done", "", BEGIN_S - 14 * 86400.0)
    return request("r", kind=kind, conditions=(answered,), created_s=BEGIN_S - 15 * 86400.0)


def test_old_requests_of_other_classes_are_left_alone() -> None:
    for is_left in (True, False):
        world = make(old("example.com/other"), settings=deviate(SERVED, leave_others_requests_alone=is_left))
        world.loop()
        assert bool(world.requests) is is_left


def test_a_request_without_pods_fails() -> None:
    for fails in (True, False):
        world = make(request("r", pod_sets=()), settings=deviate(SERVED, fail_empty_requests=fails))
        for _ in range(3):
            world.loop()
        assert (world.said("r").get(conditions.FAILED, ("", ""))[0] == "True") is fails


def test_what_stands_in_the_way_of_a_request_is_told() -> None:
    for is_told in (True, False):
        world = make(request("r", cores=99), settings=deviate(SERVED, say_why_not_found=is_told))
        for _ in range(3):
            world.loop()
        (found,) = (one for one in world.requests["r"].conditions if one.type == conditions.PROVISIONED)
        assert ("cpu" in found.message) is is_told


def test_a_request_waits_for_its_template_as_long_as_the_flag_says() -> None:
    for grace_s in (5.0, 100.0):
        young = replace(request("r", created_s=BEGIN_S), pod_sets=(PodSet("t", 1, None),))
        world = make(young, settings=deviate(SERVED, pod_template_grace_s=grace_s))
        world.loop(20.0)
        assert (world.said("r").get(conditions.FAILED, ("", ""))[0] == "True") is (grace_s < 20.0)


def test_capacity_stays_booked_where_it_was_found() -> None:
    places = list[dict[str, str]]()
    for is_kept in (True, False):
        world = make(request("r", 1), settings=deviate(SERVED, keep_places_found=is_kept))
        world.loop()
        places.append(dict(world.memory.volatile.booking.hints.old))
    assert places[0]
    assert not places[1]
