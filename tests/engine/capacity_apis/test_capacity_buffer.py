"""CapacityBuffers: how large they are, what quotas leave of that, and when room is kept for them."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.capacity_apis import capacity_buffer
from windlass.engine.capacity_apis.capacity_buffer import (
    ACTIVE_STRATEGY,
    BufferStatus,
    CapacityBuffer,
    QuotaAllowance,
    QuotaScope,
    ResourceQuota,
    SamplePod,
    ScalableRef,
)
from windlass.engine.model.provisioning import Condition
from windlass.quantity import Quantity, parse_quantity


def amounts(**texts: str) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in texts.items()}


POD = amounts(cpu="500m", memory="1Gi")


@pytest.mark.parametrize(
    ("buffer", "workload", "expected"),
    [
        pytest.param(CapacityBuffer("ns", "b", replicas=3), None, 3, id="fixed"),
        pytest.param(CapacityBuffer("ns", "b", replicas=-3), None, 0, id="never negative"),
        pytest.param(CapacityBuffer("ns", "b", percentage=30), 5, 2, id="a share, rounded up"),
        pytest.param(CapacityBuffer("ns", "b", percentage=30, replicas=4), 5, 4, id="the larger of both"),
        pytest.param(CapacityBuffer("ns", "b", percentage=30, replicas=1), None, 1, id="no workload, no share"),
        pytest.param(CapacityBuffer("ns", "b", limits=amounts(cpu="2200m")), None, 4, id="as many as the limit holds"),
        pytest.param(
            CapacityBuffer("ns", "b", limits=amounts(cpu="2", memory="1Gi")), None, 1, id="the tightest limit"
        ),
        pytest.param(
            CapacityBuffer("ns", "b", replicas=2, limits=amounts(cpu="9")), None, 2, id="no more than asked for"
        ),
        pytest.param(CapacityBuffer("ns", "b", replicas=0, limits=amounts(cpu="9")), None, 0, id="none at all"),
    ],
)
def test_a_buffer_is_so_large(buffer: CapacityBuffer, workload: int | None, expected: int) -> None:
    assert capacity_buffer.count_buffer_pods(buffer, POD, workload) == expected


@pytest.mark.parametrize(
    ("buffer", "said"),
    [
        (CapacityBuffer("ns", "b"), capacity_buffer.NO_SIZE_DEFINED),
        (CapacityBuffer("ns", "b", percentage=10), capacity_buffer.NO_SIZE_DEFINED),
        (CapacityBuffer("ns", "b", limits=amounts(gpu="1")), capacity_buffer.LIMITS_NOT_IN_TEMPLATE),
    ],
)
def test_a_buffer_that_nobody_can_size_says_so(buffer: CapacityBuffer, said: str) -> None:
    with pytest.raises(capacity_buffer.UndefinedBufferSize, match=said):
        capacity_buffer.count_buffer_pods(buffer, POD, None)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 10_000), st.integers(0, 10_000))
def test_buffers_together_never_exceed_a_quota_and_the_first_are_served_first(
    wanted: list[int], hard: int, used: int
) -> None:
    quota = ResourceQuota("q", {"requests.cpu": Quantity(hard * 10**6)}, {"requests.cpu": Quantity(used * 10**6)})
    allowance = QuotaAllowance([quota])
    got = [allowance.reserve(SamplePod(POD), count)[0] for count in wanted]
    assert sum(got) * 500 <= max(hard - used, 0)
    short = next((place for place, (item, most) in enumerate(zip(got, wanted, strict=True)) if item < most), len(got))
    assert got[:short] == wanted[:short]


@pytest.mark.parametrize(
    ("scope", "sample", "counts"),
    [
        (QuotaScope("NotTerminating"), SamplePod(POD), True),
        (QuotaScope("Terminating"), SamplePod(POD), False),
        (QuotaScope("BestEffort"), SamplePod(POD), False),
        (QuotaScope("BestEffort"), SamplePod(amounts(gpu="1")), True),
        (QuotaScope("NotBestEffort"), SamplePod(POD), True),
        (QuotaScope("PriorityClass"), SamplePod(POD, "high"), True),
        (QuotaScope("PriorityClass"), SamplePod(POD), False),
        (QuotaScope("PriorityClass", "In", ("high",)), SamplePod(POD, "low"), False),
        (QuotaScope("PriorityClass", "NotIn", ("high",)), SamplePod(POD), True),
        (QuotaScope("CrossNamespacePodAffinity"), SamplePod(POD, crosses_namespaces=True), True),
        (QuotaScope("of the future"), SamplePod(POD), False),
    ],
)
def test_a_quota_counts_the_pods_of_its_scopes(scope: QuotaScope, sample: SamplePod, counts: bool) -> None:
    allowance = QuotaAllowance([ResourceQuota("q", dict.fromkeys(sample.requests, Quantity(0)), {}, (scope,))])
    assert (allowance.reserve(sample, 1)[0] == 0) is counts


def test_a_scope_that_cannot_be_read_is_told_and_the_other_quotas_hold() -> None:
    bad = ResourceQuota("bad", amounts(cpu="0"), {}, (QuotaScope("PriorityClass", "Near", ("x",)),))
    allowance = QuotaAllowance([bad, ResourceQuota("good", amounts(cpu="1"), {})])
    assert allowance.reserve(SamplePod(POD), 5) == (2, ["good"])
    assert len(allowance.faults) == 1


def said(status: BufferStatus) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in status.conditions}


def test_a_status_goes_through_missing_ready_limited_and_unsized() -> None:
    def reconcile(
        buffer: CapacityBuffer,
        what: capacity_buffer.ResolvedTemplate | str,
        quota: Mapping[str, Quantity],
        now_s: float,
    ) -> BufferStatus:
        quotas = [ResourceQuota("q", quota, {})] if quota else []
        return capacity_buffer.reconcile_buffers([buffer], {buffer.key: what}, quotas, now_s).statuses[buffer.key]

    resolved_template = capacity_buffer.ResolvedTemplate(SamplePod(POD), 7)
    first = CapacityBuffer("ns", "b", generation=3, strategy=ACTIVE_STRATEGY, template="t", replicas=4)
    missing = reconcile(first, "no such template", {}, 1.0)
    assert said(missing) == {"ReadyForProvisioning": ("False", "error")}
    ready = reconcile(_with(first, missing), resolved_template, {}, 2.0)
    assert said(ready) == {
        "ReadyForProvisioning": ("True", "AttributesSetSuccessfully"),
        "LimitedByQuotas": ("False", "ResourceQuotasAllocated"),
    }
    assert (ready.pod_template, ready.pod_template_generation, ready.replicas) == (
        "capacitybuffer-b-pod-template",
        7,
        4,
    )
    limited = reconcile(_with(first, ready), resolved_template, amounts(cpu="1"), 3.0)
    assert limited.replicas == 2
    assert said(limited)["LimitedByQuotas"][0] == "True"
    assert [condition.since_s for condition in limited.conditions] == [2.0, 3.0], "what stays so, stays so since then"
    unsized = reconcile(
        _with(CapacityBuffer("ns", "b", strategy=ACTIVE_STRATEGY, template="t"), limited), resolved_template, {}, 4.0
    )
    assert unsized.replicas is None
    assert said(unsized)["ReadyForProvisioning"] == ("False", "error")


def _with(buffer: CapacityBuffer, status: BufferStatus) -> CapacityBuffer:
    return CapacityBuffer(
        buffer.namespace, buffer.name, buffer.uid, buffer.generation, buffer.created_s, buffer.strategy,
        buffer.template, None, buffer.replicas,
        status=status,
    )  # fmt: skip


def test_another_strategy_is_left_alone() -> None:
    other = CapacityBuffer("ns", "b", strategy="someone/elses", template="t", replicas=1)
    assert capacity_buffer.reconcile_buffers([other], {}, [], 0.0).statuses == {}
    assert capacity_buffer.inject_buffer(other, lambda name: 1, 0.0).pods == 0


READY = Condition(capacity_buffer.READY_FOR_PROVISIONING, "True", "R", "", 0.0)


@pytest.mark.parametrize(
    ("status", "generation", "pods", "reason"),
    [
        (BufferStatus("t", 1, 3, ACTIVE_STRATEGY, (READY,)), 1, 3, "FakePodsInjected"),
        (BufferStatus("t", 1, 0, ACTIVE_STRATEGY, (READY,)), 1, 0, "BufferIsEmpty"),
        (BufferStatus("t", 1, None, ACTIVE_STRATEGY, (READY,)), 1, 0, "NotReadyForProvisioning"),
        (BufferStatus("t", 1, 3, ACTIVE_STRATEGY, (READY,)), None, 0, "FailedToGetPodTemplate"),
        (BufferStatus("t", 1, 3, ACTIVE_STRATEGY, (READY,)), 2, 0, None),
        (BufferStatus("t", 1, 3, ACTIVE_STRATEGY), 1, 0, None),
    ],
)
def test_room_is_kept_for_what_a_status_says(
    status: BufferStatus, generation: int | None, pods: int, reason: str
) -> None:
    injected = capacity_buffer.inject_buffer(CapacityBuffer("ns", "b", status=status), lambda name: generation, 9.0)
    assert injected.pods == pods
    found = [
        condition.reason for condition in injected.status.conditions if condition.type == capacity_buffer.PROVISIONING
    ]
    assert found == ([reason] if reason else [])


def test_a_long_name_is_cut_so_that_its_template_can_be_named() -> None:
    assert len(capacity_buffer.pod_template_name(CapacityBuffer("ns", "b" * 253))) == 253
    assert capacity_buffer.unresolved_message(ScalableRef("a", "B", "c"), "", "x").endswith(
        "kind a/B is not supported to use pod template"
    )
