"""Every condition that a request can get, from where it stands, and what it does not get."""

import itertools
from dataclasses import replace

import pytest

from tests.engine.capacity_apis.provisioning_clusters import (
    ACCEPTED,
    FOUND,
    NOT_FOUND,
    NOW_S,
    ORDERED,
    SERVED,
    make,
    request,
)
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.loop import decide
from windlass.engine.model import facts
from windlass.engine.model.provisioning import CONSUME_ANNOTATION, Condition, PodSet, ProvisioningRequest

WEEK_S = 7 * 24 * 3600.0


def said(kind: str, status: str, since_s: float = NOW_S - 30) -> Condition:
    return Condition(kind, status, "X", "", since_s)


PROVISIONED, FAILED, EXPIRED = (
    provisioning_request_queue.PROVISIONED,
    provisioning_request_queue.FAILED,
    provisioning_request_queue.BOOKING_EXPIRED,
)
TEMPLATE_GONE = (PodSet("gone", 1),)
ATOMIC = provisioning_request_queue.ATOMIC_SCALE_UP_CLASS


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(request("r", 8), FOUND, id="room for all"),
        pytest.param(request("r", 9), NOT_FOUND, id="room for all but one"),
        pytest.param(
            request("r", 9, parameters={"noRetry": "true"}),
            {**ACCEPTED, FAILED: ("True", "CapacityIsNotFound")},
            id="no room and no second try",
        ),
        pytest.param(request("r", 9, parameters={"noRetry": "yes"}), NOT_FOUND, id="only true means no second try"),
        pytest.param(request("r", 8, kind=ATOMIC), FOUND, id="atomic, room for all"),
        pytest.param(request("r", 40, kind=ATOMIC), ORDERED, id="atomic, room that can be made"),
        pytest.param(request("r", 41, kind=ATOMIC), NOT_FOUND, id="atomic, more than the group may grow"),
        pytest.param(request("r", 1, cores=5), NOT_FOUND, id="larger than any node"),
        pytest.param(
            request("r", pod_sets=TEMPLATE_GONE), {FAILED: ("True", "FailedToCreatePods")}, id="its template is missing"
        ),
        pytest.param(
            request("r", conditions=(said(PROVISIONED, "True"),), pod_sets=TEMPLATE_GONE),
            {PROVISIONED: ("True", "X"), FAILED: ("True", "FailedToBookCapacity")},
            id="its template is missing once it is booked",
        ),
        pytest.param(request("r", 0), {FAILED: ("True", "FailedToCreatePods")}, id="no pods at all"),
        pytest.param(request("r", 1, kind="another"), {}, id="an unknown class is left alone"),
        pytest.param(request("r", 1, parameters={"processorInstance": "x"}), {}, id="another instance's is left alone"),
        pytest.param(
            request("r", 1, created_s=NOW_S - WEEK_S - 60), {FAILED: ("True", "Expired")}, id="nothing found for a week"
        ),
        pytest.param(
            request("r", conditions=(said(PROVISIONED, "True", NOW_S - 601),)),
            {PROVISIONED: ("True", "X"), EXPIRED: ("True", "CapacityReservationTimeExpired")},
            id="booked for longer than ten minutes",
        ),
        pytest.param(
            request("r", conditions=(said(PROVISIONED, "True", NOW_S - 599),)),
            {PROVISIONED: ("True", "X")},
            id="booked",
        ),
        pytest.param(
            request("r", conditions=(said(FAILED, "True"),)), {FAILED: ("True", "X")}, id="failed once, failed for good"
        ),
        pytest.param(
            request("r", conditions=(said(PROVISIONED, "Unknown"),)),
            {PROVISIONED: ("Unknown", "X")},
            id="nobody knows whether it is provisioned",
        ),
        pytest.param(
            request("r", conditions=(said(PROVISIONED, "False", NOW_S - 50),)),
            {PROVISIONED: ("False", "X")},
            id="tried less than a minute ago",
        ),
        pytest.param(
            request("r", conditions=(said(PROVISIONED, "False", NOW_S - 70),)),
            {PROVISIONED: ("True", "CapacityIsFound"), **ACCEPTED},
            id="tried more than a minute ago",
        ),
        pytest.param(
            request("r", conditions=(said("CapacityRevoked", "True"),)),
            {"CapacityRevoked": ("True", "X"), **FOUND},
            id="what others say of it stays",
        ),
    ],
)
def test_one_loop_says_of_a_request(asked: ProvisioningRequest, expected: dict[str, tuple[str, str]]) -> None:
    world = make(asked)
    world.loop(0.5)
    assert world.said("r") == expected


def test_a_booking_ends_once_its_pods_are_there() -> None:
    world = make(request("r", 2, conditions=(said(PROVISIONED, "True"),)))
    running = facts.Pod("ns", "p", "p", annotations={CONSUME_ANNOTATION: "r"}, node_name="a-0", phase="Running")
    world.pods = [running]
    world.loop()
    assert world.said("r") == {PROVISIONED: ("True", "X")}
    world.pods.append(replace(running, name="q", uid="q"))
    world.loop()
    assert world.said("r") == {PROVISIONED: ("True", "X"), EXPIRED: ("True", "CapacityBookingConsumed")}


def test_a_request_is_deleted_a_week_after_its_answer_unless_it_is_someone_elses() -> None:
    old = (said(FAILED, "True", NOW_S - WEEK_S - 1),)
    world = make(request("mine", conditions=old), request("theirs", kind="another", conditions=old))
    world.loop()
    assert set(world.requests) == {"theirs"}


def test_each_try_waits_twice_as_long_up_to_the_limit() -> None:
    world = make(request("r", 100))
    tries = []
    for _ in range(400):
        world.loop(10)
        if world.requests["r"].conditions[1].since_s == world.now_s:
            tries.append(world.now_s)
    waits = [then - before for before, then in itertools.pairwise(tries)]
    assert waits == [70, 130, 250, 490, 610, 610, 610, 610, 610]


def test_delays_and_turns_outlive_the_process_but_nothing_of_a_request_that_is_gone() -> None:
    world = make(request("r", 100))
    world.loop()
    world.loop(61)
    assert dict(world.memory.durable.requests.delays) == {"uid-r": 120.0}
    del world.requests["r"]
    world.loop()
    assert not world.memory.durable.requests.delays


def test_requests_and_ordinary_pods_are_served_in_turns() -> None:
    pending = facts.Pod(
        "ns",
        "w",
        "w",
        spec=facts.PodSpec(requests=(("cpu", 4000),)),
        created_s=NOW_S - 100,
        unschedulable_since_s=NOW_S,
    )
    full = [replace(pending, name=f"f{n}", uid=f"f{n}", node_name=f"a-{n}", unschedulable_since_s=None) for n in (0, 1)]
    world = make(request("r", 1, kind=ATOMIC), pods=[*full, pending])
    first = world.loop()
    assert [proposal.helped != () for proposal in first.story.scale_ups] == [True]
    assert world.said("r") == ACCEPTED, "accepted, but not its turn"
    second = world.loop()
    assert world.said("r") == ORDERED
    assert second.story.requests.helped == {"ns/r": 1}


def test_pods_that_use_a_request_trigger_nothing() -> None:
    world = make(sizes={"a": 1})
    asks = facts.PodSpec(requests=(("cpu", 4000),))
    world.pods = [
        facts.Pod("ns", f"p{n}", f"p{n}", annotations={key: "r"}, spec=asks, created_s=0.0, unschedulable_since_s=1.0)
        for n, key in enumerate(
            (CONSUME_ANNOTATION, "cluster-autoscaler.kubernetes.io/consume-provisioning-request") * 2
        )
    ]
    decision = world.loop()
    assert world.sizes == {"a": 1}
    assert len(decision.story.requests.ignored) == 3, "one of the four has a place"


def test_nothing_is_done_unless_requests_are_served() -> None:
    world = make(request("r"), settings=replace(SERVED, provisioning_requests=type(SERVED.provisioning_requests)()))
    world.loop()
    assert world.said("r") == {}


def test_a_decision_about_a_booking_stands_until_it_ends() -> None:
    world = make(request("r", conditions=(said(PROVISIONED, "True", NOW_S - 30),)))
    world.settings = replace(SERVED, scale_down=replace(SERVED.scale_down, scale_down_enabled=False))
    world.loop()
    until_s = world.loop().quiet_until_s
    assert until_s <= NOW_S - 30 + 600
    early = decide(world.observe(), world.memory, world.settings, NOW_S - 30 + 600)
    assert early.plan == ()
