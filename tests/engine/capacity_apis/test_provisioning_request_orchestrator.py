"""What requests may rely on, whatever comes: no double booking, nothing by halves, nothing beyond its time."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.capacity_apis.provisioning_clusters import CORES, NOT_FOUND, ORDERED, SERVED, make, request
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model import facts
from windlass.engine.model.provisioning import ProvisioningRequest

BATCHED = replace(
    SERVED, provisioning_requests=replace(SERVED.provisioning_requests, check_capacity_batch_processing=True)
)
STILL = replace(SERVED, scale_down=replace(SERVED.scale_down, scale_down_enabled=False))


@st.composite
def requests(draw: st.DrawFn) -> list[ProvisioningRequest]:
    kinds = st.sampled_from(
        [provisioning_request_queue.CHECK_CAPACITY_CLASS, provisioning_request_queue.ATOMIC_SCALE_UP_CLASS]
    )
    return [
        request(f"r{number}", draw(st.integers(1, 6)), cores=draw(st.integers(1, CORES)), kind=draw(kinds))
        for number in range(draw(st.integers(1, 6)))
    ]


def is_booked(provisioning_request: ProvisioningRequest) -> bool:
    return provisioning_request_queue.is_booked(provisioning_request, "")


@given(requests(), st.integers(1, 4), st.booleans(), st.lists(st.sampled_from([1.0, 61.0, 300.0]), max_size=12))
def test_room_is_booked_once_and_no_longer_than_ten_minutes(
    asked: list[ProvisioningRequest], nodes: int, batched: bool, waits: list[float]
) -> None:
    world = make(*asked, sizes={"a": nodes}, most={"a": 6}, settings=BATCHED if batched else SERVED)
    world.settings = replace(world.settings, scale_down=STILL.scale_down)
    for wait_s in waits:
        decision = world.loop(wait_s)
        booked = [
            provisioning_request for provisioning_request in world.requests.values() if is_booked(provisioning_request)
        ]
        cores = sum(
            one.pod_count * one.pod_sets[0].pod.spec.requests[0][1] // 1000 for one in booked if one.pod_sets[0].pod
        )
        assert cores <= CORES * world.sizes["a"], "more was promised than there will be"
        ends = [provisioning_request_queue.booking_ends_at_s(one) for one in booked]
        assert all(world.now_s <= end_s for end_s in ends)
        for key, count in decision.story.requests.booked.items():
            assert count == world.requests[key.removeprefix("ns/")].pod_count, "what was promised is kept, all of it"
        world.come()


@given(
    requests(), st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), min_size=1), st.sets(st.sampled_from("abc"))
)
def test_an_atomic_request_gets_all_or_leaves_nothing_behind(
    asked: list[ProvisioningRequest], most: dict[str, int], refusing: set[str]
) -> None:
    atomic = [
        replace(provisioning_request, class_name=provisioning_request_queue.ATOMIC_SCALE_UP_CLASS)
        for provisioning_request in asked
    ]
    world = make(*atomic, sizes=dict.fromkeys(most, 0), most=most, refusing=frozenset(refusing), settings=STILL)
    for _ in range(len(asked) + 1):
        before = dict(world.sizes)
        world.loop()
        provisioning_requests = [
            one
            for one in world.requests.values()
            if provisioning_request_queue.is_condition_true(one, provisioning_request_queue.PROVISIONED)
        ]
        wanted = sum(
            one.pod_count * one.pod_sets[0].pod.spec.requests[0][1] // 1000
            for one in provisioning_requests
            if one.pod_sets[0].pod
        )
        assert wanted <= CORES * sum(world.sizes.values())
        if world.sizes != before:
            changed = [one for one in provisioning_requests if one.conditions[-1].since_s == world.now_s]
            assert len(changed) == 1, "nodes were asked for, and nobody was told"


def test_several_groups_together_serve_what_none_can_alone() -> None:
    world = make(
        request("r", 12, kind=provisioning_request_queue.ATOMIC_SCALE_UP_CLASS),
        sizes={"a": 0, "b": 0},
        most={"a": 2, "b": 2},
        settings=STILL,
    )
    world.loop()
    assert world.said("r") == ORDERED
    assert sum(world.sizes.values()) == 3
    world.come()
    assert world.loop().story.requests.booked == {"ns/r": 12}


def test_pods_of_one_request_may_need_different_groups() -> None:
    asked = request("r", 4, kind=provisioning_request_queue.ATOMIC_SCALE_UP_CLASS, selector="a")
    other = request("r", 4, kind=provisioning_request_queue.ATOMIC_SCALE_UP_CLASS, selector="b").pod_sets
    world = make(replace(asked, pod_sets=(*asked.pod_sets, *other)), sizes={"a": 0, "b": 0}, settings=STILL)
    world.loop()
    assert world.said("r") == ORDERED
    assert world.sizes == {"a": 1, "b": 1}


def test_what_several_groups_cannot_serve_whole_is_not_begun() -> None:
    world = make(
        request("r", 17, kind=provisioning_request_queue.ATOMIC_SCALE_UP_CLASS),
        sizes={"a": 0, "b": 0},
        most={"a": 2, "b": 2},
        settings=STILL,
    )
    world.loop()
    assert world.said("r") == NOT_FOUND
    assert world.sizes == {"a": 0, "b": 0}


def test_one_refusal_takes_back_what_the_others_were_raised_by() -> None:
    world = make(
        request("r", 12, kind=provisioning_request_queue.ATOMIC_SCALE_UP_CLASS),
        sizes={"a": 0, "b": 0},
        most={"a": 2, "b": 2},
        settings=STILL,
    )
    world.refusing = frozenset({"b"})
    world.loop()
    assert world.said("r") == NOT_FOUND
    assert world.sizes == {"a": 0, "b": 0}


def test_more_than_one_scale_up_may_bring_is_refused_however_many_groups_there_are() -> None:
    limited = replace(STILL, scale_up=replace(STILL.scale_up, max_nodes_per_scaleup=2))
    world = make(
        request("r", 12, kind=provisioning_request_queue.ATOMIC_SCALE_UP_CLASS),
        sizes={"a": 0, "b": 0},
        most={"a": 2, "b": 2},
        settings=limited,
    )
    world.loop()
    assert world.said("r") == NOT_FOUND
    assert world.sizes == {"a": 0, "b": 0}


def test_as_the_peer_does_one_group_serves_a_request_or_none() -> None:
    peer = replace(STILL, deviations=replace(STILL.deviations, atomic_across_groups=False))
    world = make(
        request("r", 12, kind=provisioning_request_queue.ATOMIC_SCALE_UP_CLASS),
        sizes={"a": 0, "b": 0},
        most={"a": 2, "b": 2},
        settings=peer,
    )
    world.loop()
    assert world.said("r") == NOT_FOUND


def test_booked_room_keeps_its_nodes_from_scale_down() -> None:
    world = make(request("r", 3, cores=4), sizes={"a": 3})
    for _ in range(50):
        decision = world.loop(11)
    assert decision.story.requests.booked == {"ns/r": 3}
    assert not decision.memory.durable.scale_down.since
    evicted = [instruction for instruction in decision.plan if getattr(instruction, "evict", ())]
    assert not evicted


def test_a_booking_stays_where_it_is_while_others_come_and_go() -> None:
    world = make(request("r", 2, cores=2), sizes={"a": 3}, settings=STILL)
    world.loop()
    world.loop()
    places = dict(world.memory.volatile.booking.hints.old)
    assert len(places) == 2
    free = next(f"a-{n}" for n in range(3) if f"a-{n}" not in places.values())
    world.pods = [facts.Pod("ns", "p", "p", spec=facts.PodSpec(requests=(("cpu", 1000),)), node_name=free)]
    world.loop()
    assert dict(world.memory.volatile.booking.hints.old) == places
