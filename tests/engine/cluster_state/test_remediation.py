from dataclasses import replace

import pytest

from tests.engine.cluster_state.builders import (
    NOW_S,
    PEER,
    PROVISION_S,
    WINDLASS,
    Cluster,
    failed,
    nodes,
    stuck,
    unready,
)
from windlass.engine.model import node_groups, settings
from windlass.engine.model.decision_record import GroupSize, LoopStop, SizeDecrease

LATE_S = NOW_S + PROVISION_S + 1
PRESETS = [PEER, WINDLASS]
ATOMIC = node_groups.GroupOptions(zero_or_max=True)


def forcing(chosen: settings.Settings) -> settings.Settings:
    forced = settings.HealthSettings(force_delete_unregistered_nodes=True, force_delete_failed_nodes=True)
    return replace(chosen, health=forced)


# ── Scale-ups that timed out ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chosen", PRESETS)
def test_a_scale_up_that_timed_out_is_taken_back(chosen: settings.Settings) -> None:
    cluster = Cluster(chosen).has("a", nodes("a", 1), target=4).asks("a", 3, NOW_S)
    _, planned = cluster.look(LATE_S)
    assert planned.reverts == (SizeDecrease("a", 3, GroupSize(4, 1)),)
    assert planned.reverts[0].is_possible
    assert planned.sizes["a"] == GroupSize(1, 1)


def test_where_some_nodes_came_the_peer_is_refused_and_windlass_takes_back_the_others() -> None:
    for chosen, by, is_possible, target in ((PEER, 3, False, 4), (WINDLASS, 2, True, 2)):
        cluster = Cluster(chosen).has("a", nodes("a", 2), target=4).asks("a", 3, NOW_S)
        _, planned = cluster.look(LATE_S)
        (revert,) = planned.reverts
        assert (revert.by, revert.is_possible) == (by, is_possible)
        assert planned.sizes["a"].target == target


def test_windlass_takes_nothing_back_below_the_minimum() -> None:
    cluster = Cluster(WINDLASS).has("a", nodes("a", 1), target=4, min_size=3).asks("a", 3, NOW_S)
    _, planned = cluster.look(LATE_S)
    assert planned.sizes["a"].target == 3


# ── Instances that never registered ──────────────────────────────────────────────────────────────────────────────────


def look_late(
    chosen: settings.Settings, count: int, min_size: int, options: node_groups.GroupOptions | None = None
) -> object:
    instances = stuck("a", count)
    cluster = Cluster(chosen).has("a", nodes("a", 1), instances=instances, min_size=min_size, options=options)
    cluster.look(NOW_S)
    _, planned = cluster.look(LATE_S)
    return [(removal.instances, removal.is_possible) for removal in planned.unregistered], planned.sizes["a"]


def names(count: int) -> tuple[str, ...]:
    return tuple(instance.provider_id for instance in stuck("a", count))


@pytest.mark.parametrize("chosen", PRESETS)
def test_instances_that_never_registered_go_down_to_the_minimum(chosen: settings.Settings) -> None:
    assert look_late(chosen, count=3, min_size=0) == ([(names(3), True)], GroupSize(1, 1))
    assert look_late(chosen, count=3, min_size=2) == ([(names(2), True)], GroupSize(2, 2))
    assert look_late(chosen, count=3, min_size=4) == ([], GroupSize(4, 4))


@pytest.mark.parametrize("chosen", PRESETS)
def test_force_ignores_the_minimum(chosen: settings.Settings) -> None:
    assert look_late(forcing(chosen), count=3, min_size=4) == ([(names(3), True)], GroupSize(1, 1))


@pytest.mark.parametrize("chosen", PRESETS)
def test_a_group_that_is_all_or_nothing_loses_all(chosen: settings.Settings) -> None:
    everything = ("id://a-0", *names(2))
    assert look_late(chosen, count=2, min_size=0, options=ATOMIC) == ([(everything, True)], GroupSize(0, 0))
    assert look_late(chosen, count=2, min_size=1, options=ATOMIC) == ([(everything, False)], GroupSize(3, 3))
    assert look_late(chosen, count=2, min_size=3, options=ATOMIC) == ([], GroupSize(3, 3))


def test_nothing_is_deleted_twice() -> None:
    cluster = Cluster(PEER).has("a", instances=[*stuck("a", 1), *failed("a", 1)], options=ATOMIC)
    cluster.look(NOW_S)
    _, planned = cluster.look(LATE_S)
    assert len(planned.unregistered[0].instances) == 2
    assert planned.uncreated == ()
    assert planned.sizes["a"] == GroupSize(0, 0)


def test_those_that_have_been_unregistered_longest_go_first() -> None:
    first, second = stuck("a", 2)
    cluster = Cluster(PEER).has("a", nodes("a", 1), instances=[second])
    cluster.look(NOW_S)
    cluster.has("a", nodes("a", 1), instances=[first, second], min_size=2)
    cluster.look(NOW_S + 1)
    _, planned = cluster.look(LATE_S + 1)
    assert planned.unregistered[0].instances == (second.provider_id,)


def test_what_was_reverted_counts_before_the_minimum() -> None:
    """Nodes that were asked for and do not exist are taken back first; an instance that does exist goes after them."""
    cluster = Cluster(WINDLASS).has("a", nodes("a", 2), instances=stuck("a", 1), target=5, min_size=2)
    cluster.look(NOW_S - 10)
    cluster.asks("a", 3, NOW_S)
    _, planned = cluster.look(LATE_S)
    assert [revert.by for revert in planned.reverts] == [2]
    assert planned.unregistered[0].before == GroupSize(3, 3)
    assert planned.sizes["a"] == GroupSize(2, 2)


# ── Instances that could not be created ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chosen", PRESETS)
def test_instances_that_could_not_be_created_go_at_once(chosen: settings.Settings) -> None:
    cluster = Cluster(chosen).has("a", nodes("a", 1), instances=failed("a", 2)).asks("a", 2, NOW_S)
    _, planned = cluster.look(NOW_S + 10)
    assert [(len(removal.instances), removal.is_possible) for removal in planned.uncreated] == [(2, True)]
    assert planned.sizes["a"] == GroupSize(1, 1)


def test_they_stay_if_they_cannot_all_go_unless_forced() -> None:
    for chosen, target in ((PEER, 3), (forcing(PEER), 1)):
        _, planned = Cluster(chosen).has("a", nodes("a", 1), instances=failed("a", 2), min_size=2).look()
        assert planned.sizes["a"].target == target


# ── Wrong sizes ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chosen", PRESETS)
def test_a_target_that_nothing_comes_up_to_is_lowered_after_the_time_a_node_may_take(chosen: settings.Settings) -> None:
    cluster = Cluster(chosen).has("a", nodes("a", 2), target=5)
    cluster.look(NOW_S)
    assert cluster.look(NOW_S + PROVISION_S)[1].fixes == ()
    _, planned = cluster.look(NOW_S + PROVISION_S + 0.001)
    assert planned.fixes == (SizeDecrease("a", 3, GroupSize(5, 2)),)
    assert planned.sizes["a"] == GroupSize(2, 2)
    assert planned.stop is (LoopStop.FIXED if chosen is PEER else None)


def test_a_group_with_too_many_nodes_is_left_alone() -> None:
    cluster = Cluster(PEER).has("a", nodes("a", 4), target=2)
    cluster.look(NOW_S)
    assert cluster.look(LATE_S)[1].fixes == ()


def test_a_fix_that_would_touch_instances_ends_the_peers_loop_and_only_it() -> None:
    """The same loop takes back the scale-up, so that the fix comes too late."""
    for chosen, stop in ((PEER, LoopStop.REFUSED), (WINDLASS, None)):
        cluster = Cluster(chosen).has("a", nodes("a", 1), target=4).has("b", nodes("b", 1), target=2)
        cluster.asks("a", 3, NOW_S).look(NOW_S)
        _, planned = cluster.look(LATE_S)
        assert planned.sizes["a"] == GroupSize(1, 1)
        assert planned.stop is stop
        assert planned.sizes["b"].target == (2 if chosen is PEER else 1)


# ── The cluster ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unhealthy_cluster_is_repaired_no_further_than_unregistered_instances() -> None:
    cluster = Cluster(PEER).has("a", [unready(f"a-{n}") for n in range(6)], instances=stuck("a", 1))
    cluster.has("b", nodes("b", 1), target=3).has("c", instances=failed("c", 1))
    cluster.look(NOW_S)
    _, planned = cluster.look(LATE_S)
    assert planned.stop is LoopStop.UNHEALTHY
    assert [removal.group for removal in planned.unregistered] == ["a"]
    assert (planned.uncreated, planned.fixes, planned.upcoming) == ((), (), {})
    assert {group: size.target for group, size in planned.sizes.items()} == {"a": 6, "b": 3, "c": 1}


def test_removing_instances_that_were_given_up_leaves_the_upcoming_as_they_were() -> None:
    cluster = Cluster(PEER).has("a", nodes("a", 2), instances=stuck("a", 1))
    cluster.look(NOW_S)
    cluster.has("a", nodes("a", 2), instances=stuck("a", 1), target=4).asks("a", 1, NOW_S + 100)
    _, planned = cluster.look(LATE_S)
    assert planned.sizes["a"].target == 3
    assert planned.upcoming["a"].nodes == 1
