"""Quotas: what they allow, what is left, and whose resources count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine import resource_quotas
from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import ExceededQuota, Quota
from windlass.engine.resource_quotas import ClusterLimits, QuotaBound, QuotaCheck
from windlass.selectors import LabelSelector, Operator, Requirement

POOL_A = LabelSelector((Requirement("pool", Operator.IN, ("a",)),))


def node(name: str = "n", millicpu: int = 2000, memory: int = 100, **labels: str) -> facts.Node:
    return facts.Node(name, labels=labels, capacity=((facts.CPU, millicpu), (facts.MEMORY, memory)))


def tracker(
    bound: QuotaBound = QuotaBound.MAXIMUM, *quota: Quota, nodes: tuple[facts.Node, ...] = ()
) -> resource_quotas.QuotaTracker:
    return resource_quotas.make_tracker(bound, quota, [(one, None) for one in nodes])


def limit(**limits: int) -> Quota:
    return Quota("q", limits)


def left(tracked: resource_quotas.QuotaTracker) -> dict[str, int]:
    return dict(tracked.headrooms[0].left)


def test_cores_are_counted_whole_and_rounded_up() -> None:
    assert resource_quotas.count_whole(node(millicpu=3500, memory=7), None) == {"cpu": 4, "memory": 7, "nodes": 1}
    assert resource_quotas.count_whole(facts.Node("bare"), None) == {"cpu": 0, "memory": 0, "nodes": 1}


def test_a_maximum_leaves_what_is_not_used_yet() -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(cpu=10, nodes=3), nodes=(node(), node()))
    assert left(tracked) == {"cpu": 6, "nodes": 1}


def test_a_minimum_leaves_what_is_used_beyond_it() -> None:
    tracked = tracker(QuotaBound.MINIMUM, limit(cpu=3, nodes=5), nodes=(node(), node()))
    assert left(tracked) == {"cpu": 1, "nodes": 0}


def test_the_scarcest_resource_decides_and_all_short_ones_are_named() -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(cpu=7, memory=250, nodes=9))
    assert tracked.check(None, node(), 4) == QuotaCheck(2, (ExceededQuota("q", ("cpu", "memory")),))


def test_every_quota_that_applies_is_asked() -> None:
    everywhere, pool = Quota("all", {"nodes": 5}), Quota("pool", {"nodes": 1}, POOL_A)
    tracked = tracker(QuotaBound.MAXIMUM, everywhere, pool)
    assert tracked.check(None, node(pool="a"), 3) == QuotaCheck(1, (ExceededQuota("pool", ("nodes",)),))
    assert tracked.check(None, node(pool="b"), 3) == QuotaCheck(3)


def test_a_quota_counts_only_the_nodes_that_it_selects() -> None:
    nodes = (node(pool="a"), node(pool="b"), node())
    tracked = tracker(QuotaBound.MAXIMUM, Quota("pool", {"nodes": 3}, POOL_A), nodes=nodes)
    assert left(tracked) == {"nodes": 2}


def test_virtual_nodes_are_no_usage() -> None:
    assert left(tracker(QuotaBound.MAXIMUM, limit(nodes=3), nodes=(node(type="virtual-kubelet"),))) == {"nodes": 3}


def test_checking_changes_nothing() -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(nodes=3))
    tracked.check(None, node(), 3)
    assert left(tracked) == {"nodes": 3}


def test_consuming_takes_all_or_nothing() -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(cpu=5, nodes=3))
    assert tracked.consume(None, node(), 3).allowed == 2
    assert left(tracked) == {"cpu": 5, "nodes": 3}
    assert tracked.consume(None, node(), 2).allowed == 2
    assert left(tracked) == {"cpu": 1, "nodes": 1}


def test_a_resource_that_nodes_have_none_of_never_stands_in_the_way() -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(gpu=0, memory=0))
    assert tracked.check(None, node(memory=0), 5) == QuotaCheck(5)


def test_a_negative_number_of_nodes_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="never negative"):
        tracker(QuotaBound.MINIMUM, limit(nodes=1)).consume(None, node(), -1)


def test_the_first_node_of_a_group_stands_for_all_of_it() -> None:
    tracked = resource_quotas.make_tracker(
        QuotaBound.MAXIMUM, [limit(cpu=10)], [(node(millicpu=1000), "g"), (node(millicpu=9000), "g")]
    )
    assert left(tracked) == {"cpu": 8}
    assert tracked.check("g", node(millicpu=9000), 9).allowed == 8


def test_a_template_met_first_stands_for_its_group_too() -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(cpu=10))
    tracked.check("g", node(millicpu=1000), 0)
    assert tracked.check("g", node(millicpu=9000), 10).allowed == 10


def test_nodes_without_group_count_as_they_are() -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(cpu=10))
    tracked.check(None, node(millicpu=1000), 0)
    assert tracked.check(None, node(millicpu=9000), 10).allowed == 1


def test_the_labels_of_a_node_are_its_own() -> None:
    tracked = tracker(QuotaBound.MAXIMUM, Quota("pool", {"nodes": 1}, POOL_A))
    tracked.check("g", node(pool="b"), 1)
    assert tracked.check("g", node(pool="a"), 2).allowed == 1


def test_a_fork_is_spent_on_its_own() -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(nodes=3))
    fork = tracked.fork()
    fork.consume("g", node(), 3)
    assert left(tracked) == {"nodes": 3}
    assert left(fork) == {"nodes": 0}


def test_limits_of_the_cluster_serve_both_directions() -> None:
    limits = ClusterLimits(minimum={"cpu": 2}, maximum={"cpu": 8, "memory": 1000})
    assert limits.make_quota(QuotaBound.MAXIMUM) == Quota("cluster-wide", {"cpu": 8, "memory": 1000})
    assert limits.make_quota(QuotaBound.MINIMUM) == Quota("cluster-wide", {"cpu": 2, "memory": 0})


# ── GPUs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def gpu_node(ready: int, shown: int = 0) -> facts.Node:
    return facts.Node(
        "n",
        labels={"cluster-api/accelerator": "tesla"},
        capacity=((facts.CPU, 1000), ("nvidia.com/gpu", shown)),
        allocatable=(("nvidia.com/gpu", ready),),
    )


def test_gpus_count_under_their_type() -> None:
    measure = resource_quotas.GpuMeasure("cluster-api/accelerator", {})
    assert measure(gpu_node(ready=2), None)["tesla"] == 2
    tracked = resource_quotas.make_tracker(
        QuotaBound.MAXIMUM, [Quota("q", {"tesla": 5})], [(gpu_node(ready=2), None)], measure
    )
    assert tracked.check(None, gpu_node(ready=2), 3) == QuotaCheck(1, (ExceededQuota("q", ("tesla",)),))


def test_gpus_that_do_not_show_yet_are_taken_from_the_template_of_the_group() -> None:
    measure = resource_quotas.GpuMeasure("cluster-api/accelerator", {"g": gpu_node(ready=0, shown=4)})
    assert measure(gpu_node(ready=0), "g")["tesla"] == 4
    assert "tesla" not in measure(gpu_node(ready=0), "other")
    assert "tesla" not in measure(gpu_node(ready=0), None)


# ── Properties ───────────────────────────────────────────────────────────────────────────────────────────────────

limits_strategy = st.dictionaries(st.sampled_from(["cpu", "memory", "nodes"]), st.integers(0, 60), max_size=3)
nodes_strategy = st.builds(node, st.just("n"), st.integers(0, 5000), st.integers(0, 20))


@given(limits_strategy, nodes_strategy, st.integers(0, 30), st.integers(0, 30))
def test_what_is_allowed_grows_with_what_is_asked_for_and_never_beyond(
    limits: dict[str, int], one: facts.Node, few: int, more: int
) -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(**limits))
    low, high = sorted((few, more))
    allowed_low, allowed_high = (tracked.check(None, one, count).allowed for count in (low, high))
    assert allowed_low <= allowed_high <= high
    assert allowed_low in (low, allowed_high)


@given(limits_strategy, st.integers(0, 20), nodes_strategy, st.integers(0, 30))
def test_a_larger_limit_never_allows_less(limits: dict[str, int], extra: int, one: facts.Node, count: int) -> None:
    raised = {name: amount + extra for name, amount in limits.items()}
    tight, wide = (tracker(QuotaBound.MAXIMUM, limit(**amounts)) for amounts in (limits, raised))
    assert tight.check(None, one, count).allowed <= wide.check(None, one, count).allowed


@given(limits_strategy, nodes_strategy, st.integers(0, 30))
def test_what_is_allowed_can_be_consumed_and_one_more_cannot(
    limits: dict[str, int], one: facts.Node, count: int
) -> None:
    tracked = tracker(QuotaBound.MAXIMUM, limit(**limits))
    allowed = tracked.check(None, one, count).allowed
    assert tracked.fork().consume(None, one, allowed) == QuotaCheck(allowed)
    if allowed < count:
        assert tracked.check(None, one, allowed + 1).allowed == allowed
