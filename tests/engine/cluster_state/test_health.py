from dataclasses import replace

import pytest

from tests.engine.cluster_state.builders import (
    NOW_S,
    PEER,
    PROVISION_S,
    STOCKOUT,
    WINDLASS,
    Cluster,
    failed,
    nodes,
    stuck,
    unready,
)
from windlass.engine.cluster_state import health, scale_requests
from windlass.engine.model import cluster_health, node_groups, settings
from windlass.engine.model.cluster_health import (
    AcceptableRange,
    HealthVerdict,
    IncorrectSize,
    Readiness,
    RequestOutcome,
    ScaleRequests,
)

LIMITS = settings.HealthSettings()


def some(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


# ── The cluster ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("unready_count", "count", "is_healthy"),
    [(3, 3, True), (4, 8, False), (4, 9, True), (9, 20, True), (10, 20, False), (0, 0, True)],
)
def test_the_cluster_halts_if_more_than_three_and_more_than_45_percent_are_unready(
    unready_count: int, count: int, is_healthy: bool
) -> None:
    total = Readiness(ready=some(count - unready_count), unready=some(unready_count))
    assert health.check_cluster(total, count, LIMITS) == HealthVerdict(is_healthy, unready_count, count)


def test_nodes_that_have_not_started_do_not_halt_the_cluster() -> None:
    starting = [unready(f"a-{number}", NOW_S) for number in range(6)]
    assert Cluster().has("a", starting).look()[0].verdict == HealthVerdict(True, 0, 6)


def test_nodes_without_a_group_count_for_the_cluster() -> None:
    cluster = Cluster().has("a", nodes("a", 2))
    cluster.members += [unready(f"other-{number}") for number in range(4)]
    assert cluster.look()[0].verdict == HealthVerdict(False, 4, 6)


# ── Groups ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("target", "minimum", "is_healthy"), [(0, 0, True), (0, -2, True), (3, 0, True), (3, 1, False), (3, -1, False)]
)
def test_a_group_with_nothing_is_healthy_if_nothing_should_be_there_yet(
    target: int, minimum: int, is_healthy: bool
) -> None:
    assert health.check_group(None, AcceptableRange(minimum, target, target), LIMITS).is_healthy is is_healthy


@pytest.mark.parametrize(
    ("ready", "unready_count", "is_healthy"), [(5, 5, False), (5, 3, True), (6, 4, True), (9, 7, True), (9, 8, False)]
)
def test_a_group_is_unhealthy_if_too_many_of_its_nodes_lack(ready: int, unready_count: int, is_healthy: bool) -> None:
    readiness = Readiness(ready=some(ready), unready=some(unready_count))
    target = ready + unready_count
    verdict = health.check_group(readiness, AcceptableRange(target, target, target), LIMITS)
    assert verdict == HealthVerdict(is_healthy, unready_count, target)


def test_suspended_nodes_are_not_lacking() -> None:
    readiness = Readiness(ready=some(1), suspended=some(9))
    assert health.check_group(readiness, AcceptableRange(10, 10, 10), LIMITS) == HealthVerdict(True, 0, 10)


def test_nodes_that_were_asked_for_are_not_lacking_yet() -> None:
    cluster = Cluster().has("a", nodes("a", 2), target=12)
    assert not cluster.look()[0].groups["a"].verdict.is_healthy
    found, _ = cluster.asks("a", 10, NOW_S).look()
    assert found.groups["a"].verdict == HealthVerdict(True, 0, 2)
    assert found.groups["a"].range == AcceptableRange(2, 12, 12)


def test_instances_that_were_given_up_widen_the_range_downwards_and_deletions_upwards() -> None:
    readinesses = {"a": Readiness(ready=some(4), long_unregistered=some(2))}
    under_way = scale_requests.register_scale_down(
        scale_requests.register_scale_up(ScaleRequests(), "a", 1, 0.0, 1.0), "a", "n", 0.0
    )
    assert health.find_ranges({"a": 6}, readinesses, under_way) == {"a": AcceptableRange(3, 7, 6)}


def test_a_request_of_a_group_that_is_gone_is_forgotten() -> None:
    cluster = Cluster().has("a", nodes("a", 1)).asks("gone", 3, NOW_S)
    found, _ = cluster.look()
    assert found.groups.keys() == {"a"}
    assert found.memory.requests == ScaleRequests()


# ── Wrong sizes ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_size_is_wrong_if_nodes_lack_for_which_there_is_no_instance() -> None:
    assert Cluster().has("a", nodes("a", 2), target=3).look()[0].groups["a"].wrong_size == IncorrectSize(2, 3, NOW_S)
    assert Cluster().has("a", nodes("a", 2), instances=stuck("a", 1)).look()[0].groups["a"].wrong_size is None
    assert Cluster().has("a", nodes("a", 2), target=1).look()[0].groups["a"].wrong_size == IncorrectSize(2, 1, NOW_S)


def test_a_group_without_any_node_has_no_wrong_size() -> None:
    assert Cluster().has("a", target=3).look()[0].groups["a"].wrong_size is None


def test_a_wrong_size_is_dated_from_when_the_same_numbers_were_first_seen() -> None:
    cluster = Cluster().has("a", nodes("a", 2), target=4)
    cluster.look(NOW_S)
    assert cluster.look(NOW_S + 10)[0].groups["a"].wrong_size == IncorrectSize(2, 4, NOW_S)
    cluster.has("a", nodes("a", 3), target=4)
    assert cluster.look(NOW_S + 20)[0].groups["a"].wrong_size == IncorrectSize(3, 4, NOW_S + 20)


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_is_fulfilled_when_its_nodes_are_there() -> None:
    cluster = Cluster().has("a", nodes("a", 3), target=4).asks("a", 1, NOW_S)
    assert cluster.look(NOW_S + 10)[0].groups["a"].progress.ending is None
    found, _ = cluster.has("a", nodes("a", 4)).look(NOW_S + 20)
    assert found.groups["a"].progress.ending is RequestOutcome.FULFILLED
    assert found.memory.requests.scale_ups == {}
    assert found.failures == ()


def test_a_node_that_is_starting_has_not_come_yet() -> None:
    cluster = Cluster().has("a", [*nodes("a", 1), unready("a-new", NOW_S)]).asks("a", 1, NOW_S)
    found, planned = cluster.look(NOW_S + 10)
    assert found.groups["a"].progress.ending is None
    assert planned.upcoming["a"] == cluster_health.UpcomingNodes(1, ("a-new",))


def test_a_request_that_times_out_backs_its_group_off() -> None:
    cluster = Cluster().has("a", nodes("a", 1), target=3).asks("a", 2, NOW_S)
    assert cluster.look(NOW_S + PROVISION_S)[0].failures == ()
    found, _ = cluster.look(NOW_S + PROVISION_S + 1)
    (failure,) = found.failures
    assert (failure.group, failure.nodes, failure.error.code) == ("a", 2, "timeout")
    assert found.groups["a"].progress.ending is RequestOutcome.TIMED_OUT
    assert found.groups["a"].backoff is not None
    assert not found.groups["a"].may_grow
    assert found.memory.requests.scale_ups == {}


def test_a_group_may_have_its_own_time() -> None:
    cluster = Cluster().has("a", nodes("a", 1), target=2, options=node_groups.GroupOptions(max_node_provision_s=60.0))
    cluster.memory = cluster_health.HealthMemory(scale_requests.register_scale_up(ScaleRequests(), "a", 1, NOW_S, 60.0))
    assert cluster.look(NOW_S + 61)[0].groups["a"].progress.ending is RequestOutcome.TIMED_OUT


@pytest.mark.parametrize("chosen", [PEER, WINDLASS])
def test_an_instance_that_cannot_be_created_backs_its_group_off_once(chosen: settings.Settings) -> None:
    cluster = Cluster(chosen).has("a", nodes("a", 1), instances=failed("a", 2), target=4).asks("a", 3, NOW_S)
    found, _ = cluster.look(NOW_S + 10)
    (failure,) = found.failures
    assert (failure.nodes, failure.error) == (2, STOCKOUT)
    assert found.memory.requests.scale_ups["a"].increase == 1
    again, _ = cluster.look(NOW_S + 20)
    assert again.failures == ()
    assert again.memory.requests.scale_ups["a"].increase == 1
    assert again.memory.backoffs == found.memory.backoffs


def test_an_instance_that_fails_while_nothing_is_asked_for_changes_nothing() -> None:
    found, _ = Cluster().has("a", nodes("a", 1), instances=failed("a", 1)).look()
    assert found.failures == ()
    assert found.groups["a"].may_grow


def test_causes_are_told_apart_and_end_with_the_request() -> None:
    quota = node_groups.InstanceError("Other", "QUOTA", "too many")
    instances = [*failed("a", 1), *failed("a", 1, quota)]
    both, _ = Cluster().has("a", instances=instances).asks("a", 2, NOW_S).look()
    assert [failure.error.code for failure in both.failures] == ["QUOTA", "STOCKOUT"]
    one, _ = Cluster().has("a", instances=instances).asks("a", 1, NOW_S).look()
    assert [failure.error.code for failure in one.failures] == ["QUOTA"]


# ── Upcoming ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_that_a_growing_group_lacks_is_upcoming() -> None:
    _, planned = Cluster().has("a", nodes("a", 2), target=6).asks("a", 1, NOW_S).look()
    assert planned.upcoming["a"].nodes == 4


def test_a_group_that_backs_off_is_not_relied_upon() -> None:
    cluster = Cluster().has("a", nodes("a", 1), instances=failed("a", 1), target=4).asks("a", 3, NOW_S)
    _, planned = cluster.look()
    assert "a" in cluster.memory.requests.scale_ups
    assert planned.upcoming == {}


def test_nodes_that_someone_else_asked_for_are_upcoming_for_windlass_alone() -> None:
    for chosen, expected in ((PEER, None), (WINDLASS, 2)):
        cluster = Cluster(chosen).has("a", nodes("a", 2))
        cluster.look(NOW_S)
        _, planned = cluster.has("a", nodes("a", 2), target=4).look(NOW_S + 10)
        assert (planned.upcoming["a"].nodes if planned.upcoming else None) == expected


def test_nodes_awaited_from_others_time_out_like_own_ones_but_are_not_taken_back() -> None:
    cluster = Cluster(WINDLASS).has("a", nodes("a", 2))
    cluster.look(NOW_S)
    cluster.has("a", nodes("a", 2), target=4).look(NOW_S + 10)
    found, planned = cluster.look(NOW_S + 10 + PROVISION_S + 1)
    assert [failure.nodes for failure in found.failures] == [2]
    assert planned.reverts == ()
    later, planned = cluster.look(NOW_S + 5000)
    assert later.memory.requests.scale_ups == {}, "what did not come once is not awaited again"
    assert planned.upcoming == {}


def test_a_node_that_is_unready_for_a_moment_is_not_awaited_as_new() -> None:
    young = [*nodes("a", 1), unready("a-1", NOW_S)]
    cluster = Cluster(WINDLASS).has("a", nodes("a", 2))
    cluster.look(NOW_S)
    found, _ = cluster.has("a", young).look(NOW_S + 10)
    assert found.groups["a"].readiness == Readiness(ready=("a-0",), not_started=("a-1",))
    assert found.memory.requests.scale_ups == {}


# ── Nodes that never come ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_peer_takes_instances_that_were_given_up_for_nodes_that_came() -> None:
    """Two timers race: here the instances' own, and so the group is free to grow again at once."""
    cluster = Cluster(PEER).has("a", nodes("a", 1), instances=stuck("a", 2)).asks("a", 2, NOW_S)
    cluster.look(NOW_S)
    found, planned = cluster.look(NOW_S + PROVISION_S + 1)
    assert found.groups["a"].progress.ending is RequestOutcome.FULFILLED
    assert found.groups["a"].may_grow
    assert len(planned.unregistered[0].instances) == 2


def test_the_peer_backs_off_if_the_request_times_out_first() -> None:
    cluster = Cluster(PEER).has("a", nodes("a", 1), instances=stuck("a", 2)).asks("a", 2, NOW_S)
    cluster.look(NOW_S + 10)
    found, planned = cluster.look(NOW_S + PROVISION_S + 5)
    assert found.groups["a"].progress.ending is RequestOutcome.TIMED_OUT
    assert planned.unregistered == ()


@pytest.mark.parametrize("seen_after_s", [0.0, 10.0])
def test_windlass_backs_off_whichever_timer_is_first(seen_after_s: float) -> None:
    cluster = Cluster(WINDLASS).has("a", nodes("a", 1), instances=stuck("a", 2)).asks("a", 2, NOW_S)
    cluster.look(NOW_S + seen_after_s)
    found, _ = cluster.look(NOW_S + PROVISION_S + 5)
    assert [(failure.nodes, failure.error.code) for failure in found.failures] == [(2, "timeout")]
    assert not found.groups["a"].may_grow
    again, _ = cluster.look(NOW_S + PROVISION_S + 15)
    assert again.failures == ()


def test_a_scale_up_is_not_blamed_for_a_node_that_was_lost_before() -> None:
    careful = replace(PEER, deviations=replace(PEER.deviations, only_ready_nodes_fulfil_requests=True))
    cluster = Cluster(careful).has("a", nodes("a", 2), instances=stuck("a", 1))
    cluster.look(NOW_S)
    cluster.has("a", nodes("a", 2), instances=stuck("a", 1), target=4).asks("a", 1, NOW_S + 500)
    found, _ = cluster.look(NOW_S + PROVISION_S + 1)
    assert found.groups["a"].readiness is not None
    assert len(found.groups["a"].readiness.long_unregistered) == 1
    assert found.failures == ()


def test_a_new_node_that_never_becomes_ready_backs_its_group_off_for_windlass_alone() -> None:
    options = node_groups.GroupOptions(max_node_startup_s=60.0)
    for chosen, codes in ((PEER, []), (WINDLASS, ["notReady"])):
        cluster = Cluster(chosen).has("a", [*nodes("a", 1), unready("a-old")])
        cluster.look(NOW_S)
        members = [*nodes("a", 1), unready("a-old"), unready("a-new", NOW_S + 5)]
        cluster.has("a", members, options=options).asks("a", 1, NOW_S + 1)
        assert cluster.look(NOW_S + 64)[0].failures == ()
        found, _ = cluster.look(NOW_S + 65)
        assert [failure.error.code for failure in found.failures] == codes
        assert found.groups["a"].may_grow == (not codes)
        assert found.memory.requests.scale_ups == {}
        assert cluster.look(NOW_S + 75)[0].failures == ()
