from hypothesis import given
from hypothesis import strategies as st

from tests.simulator import builders
from tests.simulator.builders import budget, node, pod
from windlass.simulator.reference_scheduler import scheduling_cycle
from windlass.simulator.reference_scheduler.cluster_view import ClusterView, priority_of

NOON, ONE, TWO = (f"2026-01-01T{hour}:00:00Z" for hour in (12, 13, 14))


def fail(objects: list[builders.Json], new: builders.Json) -> scheduling_cycle.SchedulingFailure:
    failure = scheduling_cycle.schedule(ClusterView.of([*objects, new]), new)
    assert isinstance(failure, scheduling_cycle.SchedulingFailure)
    return failure


def victims(objects: list[builders.Json], new: builders.Json) -> tuple[str | None, list[str]]:
    failure = fail(objects, new)
    return failure.nominated_node, builders.named(failure.victims)


def test_less_important_pods_make_room() -> None:
    failure = fail([node("a"), pod("low", on="a", cpu="4")], pod("new", priority=1))
    assert failure.nominated_node == "a"
    assert builders.named(failure.victims) == ["low"]
    assert failure.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_equally_important_pods_stay() -> None:
    failure = fail([node("a"), pod("same", on="a", cpu="4", priority=1)], pod("new", priority=1))
    assert (failure.nominated_node, failure.victims) == ("", ())
    assert failure.message.endswith("0/1 nodes are available: 1 No preemption victims found for incoming pod.")


def test_a_pod_that_never_preempts_says_so_and_keeps_its_nomination() -> None:
    new = pod("new", priority=1, preemptionPolicy="Never")
    failure = fail([node("a"), pod("low", on="a", cpu="4")], new)
    assert (failure.nominated_node, failure.victims) == (None, ())
    assert failure.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_a_node_that_would_refuse_the_pod_even_empty_is_not_emptied() -> None:
    tainted = node("a", taints=[{"key": "spot", "effect": "NoSchedule"}])
    failure = fail([tainted, pod("low", on="a", cpu="4")], pod("new", priority=1))
    assert failure.victims == ()
    assert failure.message.endswith("0/1 nodes are available: 1 Preemption is not helpful for scheduling.")


def test_what_is_in_the_way_after_all_victims_is_the_reason() -> None:
    keeps = pod("keeps", on="a", cpu="2", priority=9)
    failure = fail([node("a"), keeps, pod("low", on="a", cpu="2")], pod("new", cpu="3", priority=1))
    assert failure.message.endswith("preemption: 0/1 nodes are available: 1 Insufficient cpu.")


def test_only_as_many_go_as_must_and_the_more_important_stay() -> None:
    running = [pod(f"p{priority}", on="a", cpu="1", priority=priority) for priority in range(4)]
    assert victims([node("a"), *running], pod("new", cpu="2", priority=9)) == ("a", ["p1", "p0"])


def test_among_equals_the_longer_running_stay() -> None:
    running = [pod("old", on="a", cpu="2", started=NOON), pod("young", on="a", cpu="2", started=ONE)]
    assert victims([node("a"), *running], pod("new", cpu="2", priority=1)) == ("a", ["young"])


def test_a_pod_that_has_not_started_goes_before_one_that_has() -> None:
    running = [pod("waiting", on="a", cpu="2"), pod("started", on="a", cpu="2", started=TWO)]
    assert victims([node("a"), *running], pod("new", cpu="2", priority=1)) == ("a", ["waiting"])


def test_pods_under_a_budget_that_is_used_up_are_put_back_first() -> None:
    guarded = pod("guarded", on="a", cpu="2", labels={"app": "db"}, priority=1)
    free = pod("free", on="a", cpu="2", priority=2)
    objects = [node("a"), guarded, free, budget("db", {"app": "db"}, allowed=0)]
    assert victims(objects, pod("new", cpu="2", priority=9)) == ("a", ["free"])


def test_a_budget_covers_only_so_many_victims() -> None:
    """Three pods share a budget of one; the least important two of them would break it and are put back first."""
    running = [pod(f"db{i}", on="a", cpu="1", labels={"app": "db"}, priority=3 - i) for i in range(3)]
    objects = [node("a"), *running, pod("web", on="a", cpu="1"), budget("db", {"app": "db"}, allowed=1)]
    assert victims(objects, pod("new", cpu="2", priority=9)) == ("a", ["db0", "web"])


class TestTheNodeThatLosesLeast:
    """One test per criterion, in order; each but the last node loses on this one and wins on all that follow."""

    def test_no_budget_is_broken_if_it_can_be_helped(self) -> None:
        guarded = pod("guarded", on="a", cpu="4", labels={"app": "db"}, priority=0)
        other = pod("other", on="b", cpu="4", priority=5)
        objects = [node("a"), node("b"), guarded, other, budget("db", {"app": "db"}, allowed=0)]
        assert victims(objects, pod("new", priority=9)) == ("b", ["other"])

    def test_the_most_important_victim_is_as_unimportant_as_possible(self) -> None:
        on_a = [pod("a3", on="a", cpu="4", priority=3)]
        on_b = [pod("b2", on="b", cpu="2", priority=2), pod("b1", on="b", cpu="2", priority=2)]
        new = pod("new", cpu="4", priority=9)
        assert victims([node("a"), node("b"), *on_a, *on_b], new) == ("b", ["b1", "b2"])

    def test_the_sum_of_priorities_is_small(self) -> None:
        on_a = [pod("a2", on="a", cpu="2", priority=2), pod("a1", on="a", cpu="2", priority=1)]
        on_b = [pod("b2", on="b", cpu="2", priority=2), pod("b0", on="b", cpu="2", priority=0)]
        new = pod("new", cpu="4", priority=9)
        assert victims([node("a"), node("b"), *on_a, *on_b], new) == ("b", ["b2", "b0"])

    def test_fewer_victims_are_better_even_if_priorities_are_negative(self) -> None:
        on_a = [pod("a1", on="a", cpu="2", priority=-5), pod("a2", on="a", cpu="2", priority=-5)]
        on_b = [pod("b1", on="b", cpu="4", priority=-5)]
        new = pod("new", cpu="4", priority=9)
        assert victims([node("a"), node("b"), *on_a, *on_b], new) == ("b", ["b1"])

    def test_those_who_started_last_have_least_to_lose(self) -> None:
        running = [pod("a1", on="a", cpu="4", started=NOON), pod("b1", on="b", cpu="4", started=ONE)]
        assert victims([node("a"), node("b"), *running], pod("new", priority=9)) == ("b", ["b1"])

    def test_at_last_the_name_decides(self) -> None:
        running = [pod(f"{name}1", on=name, cpu="4", started=NOON) for name in ("b", "a")]
        assert victims([node("b"), node("a"), *running], pod("new", priority=9)) == ("a", ["a1"])


def test_a_victim_on_another_node_does_not_help_within_a_zone() -> None:
    """Anti-affinity over a zone: preemption looks at one node at a time, and the other pod stays in the zone."""
    zone = {"topology.kubernetes.io/zone": "z"}
    rival = pod("rival", on="b", labels={"app": "db"})
    new = pod("new", priority=1, affinity=builders.anti_affinity({"app": "db"}, "topology.kubernetes.io/zone"))
    low = pod("low", on="a")
    assert victims([node("a", labels=zone), node("b", labels=zone), rival, low], new) == ("b", ["rival"])


class TestWaitingForVictims:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}  # noqa: RUF012

    def test_nobody_else_is_preempted_while_they_go(self) -> None:
        leaving = builders.terminating(pod("leaving", on="a", cpu="2"), conditions=[self.condition])
        staying = pod("staying", on="a", cpu="2")
        failure = fail([node("a"), leaving, staying], pod("new", cpu="3", priority=1, nominated="a"))
        assert (failure.nominated_node, failure.victims) == (None, ())
        assert failure.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")

    def test_pods_that_leave_for_other_reasons_are_not_waited_for(self) -> None:
        leaving = builders.terminating(pod("leaving", on="a", cpu="2"))
        staying = pod("staying", on="a", cpu="2")
        new = pod("new", cpu="3", priority=1, nominated="a")
        assert victims([node("a"), leaving, staying], new) == ("a", ["staying"])

    def test_pods_on_their_way_out_are_not_deleted_again(self) -> None:
        leaving = builders.terminating(pod("leaving", on="a", cpu="4"))
        assert victims([node("a"), leaving], pod("new", priority=1)) == ("a", [])

    def test_a_nominated_node_that_has_become_hopeless_is_given_up(self) -> None:
        leaving = builders.terminating(pod("leaving", on="a", cpu="4"), conditions=[self.condition])
        tainted = node("a", taints=[{"key": "spot", "effect": "NoSchedule"}])
        objects = [tainted, node("b"), leaving, pod("low", on="b", cpu="4")]
        assert victims(objects, pod("new", priority=1, nominated="a")) == ("b", ["low"])


class TestPromisedPlaces:
    def test_a_place_is_kept_for_a_pod_at_least_as_important(self) -> None:
        for priority in (1, 2):
            promised = pod("promised", cpu="4", priority=priority, nominated="a")
            assert fail([node("a"), promised], pod("new", priority=1)).message.startswith(
                "0/1 nodes are available: 1 Insufficient cpu."
            )

    def test_a_less_important_pod_has_no_claim(self) -> None:
        promised = pod("promised", cpu="4", priority=0, nominated="a")
        cluster = ClusterView.of([node("a"), promised])
        assert isinstance(scheduling_cycle.schedule(cluster, pod("new", priority=1)), scheduling_cycle.Placement)

    def test_a_pod_is_not_in_its_own_way(self) -> None:
        new = pod("new", cpu="4", nominated="a")
        assert isinstance(scheduling_cycle.schedule(ClusterView.of([node("a"), new]), new), scheduling_cycle.Placement)

    def test_the_pod_must_also_fit_without_the_promised_one(self) -> None:
        """Affinity to a pod that is only promised to the node: it may yet end up elsewhere."""
        host = {"kubernetes.io/hostname": "a"}
        promised = pod("promised", labels={"app": "db"}, nominated="a")
        term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        failure = fail([node("a", labels=host), promised], pod("new", affinity=affinity))
        assert failure.message.startswith("0/1 nodes are available: 1 node(s) didn't match pod affinity rules.")

    def test_less_important_pods_lose_their_promise_with_the_victims(self) -> None:
        promised = pod("promised", cpu="1", priority=1, nominated="a")
        failure = fail([node("a"), pod("low", on="a", cpu="4"), promised], pod("new", cpu="4", priority=2))
        assert builders.named(failure.victims) == ["low"]
        assert builders.named(failure.denominated) == ["promised"]

    def test_gated_pods_and_those_of_other_schedulers_are_promised_nothing(self) -> None:
        gated = pod("gated", cpu="4", nominated="a", schedulingGates=[{"name": "wait"}])
        foreign = pod("foreign", cpu="4", nominated="a", schedulerName="other")
        cluster = ClusterView.of([node("a"), gated, foreign])
        assert isinstance(scheduling_cycle.schedule(cluster, pod("new")), scheduling_cycle.Placement)


running_pods = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 8), st.integers(0, 5)), max_size=12
)  # node, half cores, priority


@given(running_pods, st.integers(1, 8), st.integers(0, 6))
def test_once_the_victims_are_gone_the_pod_fits_and_with_any_of_them_it_would_not(
    running: list[tuple[int, int, int]], halves: int, priority: int
) -> None:
    objects = [node(f"n{i}") for i in range(3)]
    for index, (where, size, rank) in enumerate(running):
        objects.append(pod(f"p{index}", on=f"n{where}", cpu=f"{size * 500}m", priority=rank))
    cluster = ClusterView.of(objects)
    new = pod("new", cpu=f"{halves * 500}m", priority=priority)
    outcome = scheduling_cycle.schedule(cluster, new)
    if isinstance(outcome, scheduling_cycle.Placement) or not outcome.victims:
        return
    assert all(priority_of(victim) < priority for victim in outcome.victims)
    for victim in outcome.victims:
        cluster.remove(victim)
    placement = scheduling_cycle.schedule(cluster, new)
    assert isinstance(placement, scheduling_cycle.Placement)
    assert placement.node_name == outcome.nominated_node
    for victim in outcome.victims:
        cluster.put(victim)
        assert isinstance(scheduling_cycle.schedule(cluster, new), scheduling_cycle.SchedulingFailure)
        cluster.remove(victim)
