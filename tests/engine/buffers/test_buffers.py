"""CapacityBuffers: how large they are, what quotas leave of that, and when room is kept for them."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.buffers import buffer as buffers
from windlass.engine.buffers import injecting, reconciling, sizing
from windlass.engine.buffers.buffer import ACTIVE, Buffer, Sample, Scalable, Status
from windlass.engine.buffers.resource_quotas import Allowance, ResourceQuota, Scope
from windlass.engine.provisioning.request import Condition
from windlass.quantity import Quantity, parse


def amounts(**texts: str) -> dict[str, Quantity]:
    return {name: parse(text) for name, text in texts.items()}


POD = amounts(cpu="500m", memory="1Gi")


@pytest.mark.parametrize(
    ("buffer", "workload", "expected"),
    [
        pytest.param(Buffer("ns", "b", replicas=3), None, 3, id="fixed"),
        pytest.param(Buffer("ns", "b", replicas=-3), None, 0, id="never negative"),
        pytest.param(Buffer("ns", "b", percentage=30), 5, 2, id="a share, rounded up"),
        pytest.param(Buffer("ns", "b", percentage=30, replicas=4), 5, 4, id="the larger of both"),
        pytest.param(Buffer("ns", "b", percentage=30, replicas=1), None, 1, id="no workload, no share"),
        pytest.param(Buffer("ns", "b", limits=amounts(cpu="2200m")), None, 4, id="as many as the limit holds"),
        pytest.param(Buffer("ns", "b", limits=amounts(cpu="2", memory="1Gi")), None, 1, id="the tightest limit"),
        pytest.param(Buffer("ns", "b", replicas=2, limits=amounts(cpu="9")), None, 2, id="no more than asked for"),
        pytest.param(Buffer("ns", "b", replicas=0, limits=amounts(cpu="9")), None, 0, id="none at all"),
    ],
)
def test_a_buffer_is_so_large(buffer: Buffer, workload: int | None, expected: int) -> None:
    assert sizing.count_pods(buffer, POD, workload) == expected


@pytest.mark.parametrize(
    ("buffer", "said"),
    [
        (Buffer("ns", "b"), sizing.UNSIZED),
        (Buffer("ns", "b", percentage=10), sizing.UNSIZED),
        (Buffer("ns", "b", limits=amounts(gpu="1")), sizing.UNLIMITED),
    ],
)
def test_a_buffer_that_nobody_can_size_says_so(buffer: Buffer, said: str) -> None:
    with pytest.raises(sizing.Unsizable, match=said):
        sizing.count_pods(buffer, POD, None)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 10_000), st.integers(0, 10_000))
def test_buffers_together_never_exceed_a_quota_and_the_first_are_served_first(
    wanted: list[int], hard: int, used: int
) -> None:
    quota = ResourceQuota("q", {"requests.cpu": Quantity(hard * 10**6)}, {"requests.cpu": Quantity(used * 10**6)})
    allowance = Allowance([quota])
    got = [allowance.take(Sample(POD), count)[0] for count in wanted]
    assert sum(got) * 500 <= max(hard - used, 0)
    short = next((place for place, (one, most) in enumerate(zip(got, wanted, strict=True)) if one < most), len(got))
    assert got[:short] == wanted[:short]


@pytest.mark.parametrize(
    ("scope", "sample", "counts"),
    [
        (Scope("NotTerminating"), Sample(POD), True),
        (Scope("Terminating"), Sample(POD), False),
        (Scope("BestEffort"), Sample(POD), False),
        (Scope("BestEffort"), Sample(amounts(gpu="1")), True),
        (Scope("NotBestEffort"), Sample(POD), True),
        (Scope("PriorityClass"), Sample(POD, "high"), True),
        (Scope("PriorityClass"), Sample(POD), False),
        (Scope("PriorityClass", "In", ("high",)), Sample(POD, "low"), False),
        (Scope("PriorityClass", "NotIn", ("high",)), Sample(POD), True),
        (Scope("CrossNamespacePodAffinity"), Sample(POD, crosses_namespaces=True), True),
        (Scope("of the future"), Sample(POD), False),
    ],
)
def test_a_quota_counts_the_pods_of_its_scopes(scope: Scope, sample: Sample, counts: bool) -> None:
    allowance = Allowance([ResourceQuota("q", dict.fromkeys(sample.requests, Quantity(0)), {}, (scope,))])
    assert (allowance.take(sample, 1)[0] == 0) is counts


def test_a_scope_that_cannot_be_read_is_told_and_the_other_quotas_hold() -> None:
    bad = ResourceQuota("bad", amounts(cpu="0"), {}, (Scope("PriorityClass", "Near", ("x",)),))
    allowance = Allowance([bad, ResourceQuota("good", amounts(cpu="1"), {})])
    assert allowance.take(Sample(POD), 5) == (2, ["good"])
    assert len(allowance.faults) == 1


def said(status: Status) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in status.conditions}


def test_a_status_goes_through_missing_ready_limited_and_unsized() -> None:
    def reconcile(one: Buffer, what: reconciling.Found | str, quota: Mapping[str, Quantity], now_s: float) -> Status:
        quotas = [ResourceQuota("q", quota, {})] if quota else []
        return reconciling.reconcile([one], {one.key: what}, quotas, now_s).statuses[one.key]

    found = reconciling.Found(Sample(POD), 7)
    first = Buffer("ns", "b", generation=3, strategy=ACTIVE, template="t", replicas=4)
    missing = reconcile(first, "no such template", {}, 1.0)
    assert said(missing) == {"ReadyForProvisioning": ("False", "error")}
    ready = reconcile(_with(first, missing), found, {}, 2.0)
    assert said(ready) == {
        "ReadyForProvisioning": ("True", "AttributesSetSuccessfully"),
        "LimitedByQuotas": ("False", "ResourceQuotasAllocated"),
    }
    assert (ready.pod_template, ready.pod_template_generation, ready.replicas) == (
        "capacitybuffer-b-pod-template",
        7,
        4,
    )
    limited = reconcile(_with(first, ready), found, amounts(cpu="1"), 3.0)
    assert limited.replicas == 2
    assert said(limited)["LimitedByQuotas"][0] == "True"
    assert [one.since_s for one in limited.conditions] == [2.0, 3.0], "what stays so, stays so since then"
    unsized = reconcile(_with(Buffer("ns", "b", strategy=ACTIVE, template="t"), limited), found, {}, 4.0)
    assert unsized.replicas is None
    assert said(unsized)["ReadyForProvisioning"] == ("False", "error")


def _with(one: Buffer, status: Status) -> Buffer:
    return Buffer(
        one.namespace, one.name, one.uid, one.generation, one.created_s, one.strategy, one.template, None, one.replicas,
        status=status,
    )  # fmt: skip


def test_another_strategy_is_left_alone() -> None:
    other = Buffer("ns", "b", strategy="someone/elses", template="t", replicas=1)
    assert reconciling.reconcile([other], {}, [], 0.0).statuses == {}
    assert injecting.inject(other, lambda name: 1, 0.0).pods == 0


READY = Condition(buffers.READY, "True", "R", "", 0.0)


@pytest.mark.parametrize(
    ("status", "generation", "pods", "reason"),
    [
        (Status("t", 1, 3, ACTIVE, (READY,)), 1, 3, "FakePodsInjected"),
        (Status("t", 1, 0, ACTIVE, (READY,)), 1, 0, "BufferIsEmpty"),
        (Status("t", 1, None, ACTIVE, (READY,)), 1, 0, "NotReadyForProvisioning"),
        (Status("t", 1, 3, ACTIVE, (READY,)), None, 0, "FailedToGetPodTemplate"),
        (Status("t", 1, 3, ACTIVE, (READY,)), 2, 0, None),
        (Status("t", 1, 3, ACTIVE), 1, 0, None),
    ],
)
def test_room_is_kept_for_what_a_status_says(status: Status, generation: int | None, pods: int, reason: str) -> None:
    injected = injecting.inject(Buffer("ns", "b", status=status), lambda name: generation, 9.0)
    assert injected.pods == pods
    found = [one.reason for one in injected.status.conditions if one.type == buffers.PROVISIONING]
    assert found == ([reason] if reason else [])


def test_a_long_name_is_cut_so_that_its_template_can_be_named() -> None:
    assert len(reconciling.name_template(Buffer("ns", "b" * 253))) == 253
    assert reconciling.say_unresolved(Scalable("a", "B", "c"), "", "x").endswith(
        "kind a/B is not supported to use pod template"
    )
