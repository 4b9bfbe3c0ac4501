"""What holds for any cluster: groups are independent, looking again shows the same, sizes stay within reason."""

import copy
import math
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.cluster_state.builders import NOW_S, PEER, WINDLASS, Cluster, condition, failed, node, stuck, unready
from windlass.engine.cluster_state import backoff
from windlass.engine.model import cluster_health, node_groups, settings
from windlass.engine.steps import conclusion

TOLERANT = settings.HealthSettings(ok_total_unready_count=1000)
"""A cluster that is never unhealthy, so that groups cannot affect each other through it."""

presets = st.sampled_from([PEER, WINDLASS]).map(lambda chosen: replace(chosen, health=TOLERANT))
ages_s = st.sampled_from([0.0, 1.0, 59.0, 60.0, 899.0, 900.0, 901.0, 4000.0])
few = st.integers(0, 3)
times_s = st.sampled_from([0.0, 1.0, 10.0, 300.0, 600.0, 899.0, 900.0, 901.0, 3600.0, 20_000.0])


@st.composite
def loops(draw: st.DrawFn) -> tuple[Cluster, float]:
    """A cluster of three groups that was looked at a few times while it changed; and the time of the next look."""
    cluster = Cluster(draw(presets))
    now_s = NOW_S
    for _ in range(draw(st.integers(1, 4))):
        for group in draw(st.permutations(["a", "b", "c"])):
            change(draw, cluster, group, now_s)
        cluster.look(now_s)
        now_s += draw(times_s)
    return cluster, now_s


def change(draw: st.DrawFn, cluster: Cluster, group: str, now_s: float) -> None:
    ready = [node(f"{group}-{number}") for number in range(draw(few))]
    starting = [unready(f"{group}-late-{number}", now_s - draw(ages_s)) for number in range(draw(few))]
    asleep = [node(f"{group}-zz", condition("Ready", "False"), condition("Suspended", "True"))] * draw(
        st.integers(0, 1)
    )
    instances = [*stuck(group, draw(few)), *failed(group, draw(st.integers(0, 1)))]
    members = [*ready, *starting, *asleep]
    target = max(len(members) + len(instances) + draw(st.integers(-1, 3)), 0)
    options = node_groups.GroupOptions(
        max_node_provision_s=draw(st.sampled_from([None, 60.0])),
        zero_or_max=draw(st.sampled_from([False, False, True])),
    )
    cluster.has(group, members, target, instances, min_size=draw(st.integers(0, 2)), options=options)
    increase = draw(few)
    if increase:
        cluster.asks(group, increase, now_s)


def sort(readiness: cluster_health.Readiness | None) -> object:
    return readiness and {field: sorted(getattr(readiness, field)) for field in cluster_health.Readiness.__slots__}


def only(cluster: Cluster, group: str) -> Cluster:
    """The cluster as if there were no other group."""
    alone = copy.deepcopy(cluster)
    for other in cluster.groups:
        if other.id != group:
            alone.has(other.id, [], 0)
    alone.groups = [node_group for node_group in alone.groups if node_group.id == group]
    return alone


@given(loops(), st.randoms(use_true_random=False))
def test_the_order_of_groups_and_nodes_does_not_matter(state: tuple[Cluster, float], random: Random) -> None:
    cluster, now_s = state
    shuffled = copy.deepcopy(cluster)
    random.shuffle(shuffled.groups)
    random.shuffle(shuffled.members)
    (found, planned), (again, replanned) = cluster.look(now_s), shuffled.look(now_s)
    assert found.memory == again.memory
    assert found.verdict == again.verdict
    assert sort(found.total) == sort(again.total)
    for group, group_health in found.groups.items():
        assert replace(group_health, readiness=None) == replace(again.groups[group], readiness=None)
        assert sort(group_health.readiness) == sort(again.groups[group].readiness)
    assert set(planned.reverts) == set(replanned.reverts)
    assert set(planned.uncreated) == set(replanned.uncreated)


@given(loops(), st.sampled_from("abc"))
def test_other_groups_change_nothing_for_a_group(state: tuple[Cluster, float], group: str) -> None:
    cluster, now_s = state
    alone = only(cluster, group)
    (found, planned), (again, replanned) = cluster.look(now_s), alone.look(now_s)
    assert found.groups[group] == again.groups[group]
    assert [size_decrease for size_decrease in planned.reverts if size_decrease.group == group] == list(
        replanned.reverts
    )
    assert [instance_removal for instance_removal in planned.unregistered if instance_removal.group == group] == list(
        replanned.unregistered
    )
    assert [each for each in planned.uncreated if each.group == group] == list(replanned.uncreated)
    if cluster.chosen.deviations.isolate_size_fixes:
        assert [each for each in planned.fixes if each.group == group] == list(replanned.fixes)
        assert planned.sizes[group] == replanned.sizes[group]
        assert planned.upcoming.get(group) == replanned.upcoming.get(group)


@given(loops())
def test_a_second_look_at_the_same_things_finds_nothing_new(state: tuple[Cluster, float]) -> None:
    cluster, now_s = state
    cluster.look(now_s)
    found, _ = cluster.look(now_s)
    assert found.failures == ()
    remembered = cluster.memory
    cluster.look(now_s)
    assert cluster.memory == remembered


@given(loops(), st.floats(0, 0.999))
def test_nothing_changes_before_the_next_change(state: tuple[Cluster, float], share: float) -> None:
    cluster, now_s = state
    cluster.look(now_s)
    found, planned = cluster.look(now_s)
    until_s = conclusion.find_next_health_change_s(
        found, cluster.members, cluster.groups, cluster.group_of, cluster.chosen, now_s
    )
    assert until_s >= now_s
    between_s = now_s + share * (min(until_s, now_s + 1e6) - now_s)
    assert cluster.look(between_s) == (found, planned)


@given(loops())
def test_after_all_changes_nothing_changes_any_more(state: tuple[Cluster, float]) -> None:
    cluster, now_s = state
    for _ in range(60):
        cluster.look(now_s)
        found, _ = cluster.look(now_s)
        until_s = conclusion.find_next_health_change_s(
            found, cluster.members, cluster.groups, cluster.group_of, cluster.chosen, now_s
        )
        if until_s == math.inf:
            break
        now_s = until_s + 1.0
    assert until_s == math.inf
    assert not found.memory.requests.scale_ups
    assert not found.memory.backoffs


@given(loops())
def test_repairs_lead_to_sizes_that_the_provider_accepts(state: tuple[Cluster, float]) -> None:
    cluster, now_s = state
    _, planned = cluster.look(now_s)
    for group in cluster.groups:
        size = planned.sizes[group.id]
        assert size.target <= group.target_size
        assert 0 <= size.instances <= len(group.instances)
        assert size.target - size.instances >= min(group.target_size - len(group.instances), 0)
    if cluster.chosen.deviations == WINDLASS.deviations:
        assert all(size_decrease.is_possible for size_decrease in (*planned.reverts, *planned.fixes))
        for group in cluster.groups:
            assert planned.sizes[group.id].target >= min(group.min_size, group.target_size)


@given(loops())
def test_only_groups_that_were_asked_and_do_not_back_off_have_upcoming_nodes(state: tuple[Cluster, float]) -> None:
    cluster, now_s = state
    found, planned = cluster.look(now_s)
    for group, upcoming in planned.upcoming.items():
        assert upcoming.nodes > 0
        assert group in found.memory.requests.scale_ups
        assert backoff.find_backoff(found.memory.backoffs, group, now_s) is None
