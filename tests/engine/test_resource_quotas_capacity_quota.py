"""CapacityQuota objects: their status, and what is enforced."""

from dataclasses import replace

from windlass.engine import resource_quotas
from windlass.engine.resource_quotas import CapacityQuota, QuotaNode
from windlass.quantity import Quantity, parse_quantity
from windlass.selectors import MatchExpression, UnparsedLabelSelector

BAD = UnparsedLabelSelector(match_expressions=(MatchExpression("pool", "Bogus", ("a",)),))
POOL_A = UnparsedLabelSelector({"pool": "a"})


def amounts(**texts: str) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in texts.items()}


def whole(number: int) -> Quantity:
    return parse_quantity(str(number))


def quota(selector: UnparsedLabelSelector | None = None, **limits: str) -> CapacityQuota[Quantity]:
    return CapacityQuota("q", amounts(**limits), selector, generation=3)


def node(name: str, labels: dict[str, str] | None = None, **capacity: str) -> QuotaNode[Quantity]:
    return QuotaNode(name, labels or {}, amounts(**capacity))


def settle(
    capacity_quota: CapacityQuota[Quantity], *nodes: QuotaNode[Quantity], now_s: float = 5.0
) -> CapacityQuota[Quantity]:
    return replace(capacity_quota, status=resource_quotas.update_status(capacity_quota, nodes, whole, now_s))


def show_used(capacity_quota: CapacityQuota[Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in (capacity_quota.status.used or {}).items()}


def test_usage_is_exact_and_printed_as_the_nodes_spell_it() -> None:
    nodes = (node("a", cpu="500m", memory="1Gi"), node("b", cpu="3", memory="3Gi"))
    assert show_used(settle(quota(cpu="10", memory="1", nodes="9"), *nodes)) == {
        "cpu": "3500m",
        "memory": "4Gi",
        "nodes": "2",
    }


def test_usage_counts_only_what_is_limited_on_nodes_that_are_selected() -> None:
    nodes = (
        node("in", {"pool": "a"}, cpu="1"),
        node("out", {"pool": "b"}, cpu="2"),
        node("virtual", {"pool": "a", "type": "virtual-kubelet"}, cpu="4"),
    )
    assert show_used(settle(quota(POOL_A, cpu="10", gpu="1"), *nodes)) == {"cpu": "1", "gpu": "0"}


def test_a_valid_quota_says_so_and_is_enforced() -> None:
    settled = settle(quota(POOL_A, cpu="3500m", nodes="2"))
    assert [(quota_condition.type, quota_condition.status) for quota_condition in settled.status.conditions] == [
        ("cluster-autoscaler.kubernetes.io/valid", "True"),
        ("Reconciled", "True"),
    ]
    rule = resource_quotas.make_enforced_quota(settled)
    assert rule is not None
    assert (rule.id, rule.limits) == ("CapacityQuota/q", {"cpu": 4, "nodes": 2})
    assert rule.selector.matches({"pool": "a"})
    assert not rule.selector.matches({})


def test_a_quota_without_status_is_not_enforced_yet() -> None:
    assert resource_quotas.make_enforced_quota(quota(cpu="1")) is None


def test_a_bad_selector_is_named_and_nothing_is_enforced() -> None:
    settled = settle(quota(BAD, cpu="1"))
    valid, reconciled = settled.status.conditions
    assert valid.status == reconciled.status == "False"
    assert valid.message.endswith('"Bogus" is not a valid label selector operator')
    assert valid.observed_generation == settled.status.observed_generation == 3
    assert settled.status.used is None
    assert resource_quotas.make_enforced_quota(settled) is None


def test_a_quota_that_turns_invalid_keeps_its_usage_and_loses_its_force() -> None:
    good = settle(quota(cpu="10"), node("a", cpu="1"))
    bad = settle(replace(good, selector=BAD, generation=4))
    assert show_used(bad) == {"cpu": "1"}
    assert resource_quotas.make_enforced_quota(bad) is None


def test_a_stale_status_does_not_enforce_a_selector_that_went_bad() -> None:
    assert resource_quotas.make_enforced_quota(replace(settle(quota(cpu="10")), selector=BAD)) is None


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    first = settle(quota(cpu="1"), now_s=5.0)
    second = settle(replace(first, generation=4), now_s=9.0)
    assert [
        (quota_condition.since_s, quota_condition.observed_generation) for quota_condition in second.status.conditions
    ] == [(5.0, 4), (5.0, 4)]
    third = settle(replace(second, selector=BAD), now_s=11.0)
    assert [one.since_s for one in third.status.conditions] == [11.0, 11.0]


def test_conditions_of_others_are_left_alone() -> None:
    foreign = resource_quotas.QuotaCondition("Someone/Else", "True", "R", "m", 1, 1.0)
    capacity_quota = replace(quota(cpu="1"), status=resource_quotas.CapacityQuotaStatus(conditions=(foreign,)))
    assert settle(capacity_quota).status.conditions[0] is foreign
