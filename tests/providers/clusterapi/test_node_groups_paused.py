"""Groups that exist and must be left alone: paused, not read yet, or not readable any more."""

import asyncio
from typing import Any

import pytest

from tests.providers.clusterapi.management_cluster import CAPACITY, Bed, enough, node, play, refusal
from windlass import klog
from windlass.engine.model import facts, plan
from windlass.kube import transport
from windlass.providers import base
from windlass.providers.clusterapi import group_annotations, scalable_resources

G = "MachineDeployment/default/g"
PAUSED = {"type": "Paused", "status": "True", "reason": "Paused", "message": "Cluster spec.paused is set to true"}
SINCE = {"lastTransitionTime": "2026-01-01T00:00:00Z"}


def three(bed: Bed) -> None:
    bed.group("g", 3, annotations=enough())
    bed.members("g", 3)


def nodes(count: int = 3) -> list[facts.Node]:
    return [node(f"g-{i}") for i in range(count)]


async def probe(bed: Bed) -> base.ObservedNodeGroups:
    await bed.settle()
    return bed.provider.observe(nodes())


def refuse_lists(bed: Bed, plural: str, code: int, reason: str, times: int = 1_000_000) -> None:
    """Refuse so many lists and watches of a kind."""
    left = [times]

    def refuse(request: transport.Request) -> transport.Response | None:
        if not request.path.endswith(f"/{plural}") or request.method != "GET" or left[0] <= 0:
            return None
        left[0] -= 1
        return refusal(code, reason)

    bed.carrier.refuse = refuse


# ── Not read yet ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("code", "reason", "times"), [(403, "Forbidden", 1), (404, "NotFound", 3), (503, "x", 6)])
def test_the_first_decision_knows_all_groups_though_their_kind_was_refused_for_a_moment(
    code: int, reason: str, times: int
) -> None:
    def arrange(bed: Bed) -> None:
        three(bed)
        refuse_lists(bed, "machinedeployments", code, reason, times)

    async def scenario(bed: Bed) -> None:
        assert [group.id for group in bed.provider.observe(nodes()).groups] == [G]

    play(scenario, arrange)


def test_a_kind_that_was_never_read_makes_everything_wait_and_says_why() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.stop()
        three(bed)
        refuse_lists(bed, "machinedeployments", 503, "ServiceUnavailable")
        starting = asyncio.create_task(bed.start())
        await bed.clock.sleep(100.0)
        assert not starting.done()
        assert "MachineDeployment: " in bed.provider.unavailable_reason
        assert "503" in bed.provider.unavailable_reason
        bed.carrier.allow()
        await starting
        assert bed.provider.unavailable_reason == ""
        assert [group.id for group in bed.provider.observe(nodes()).groups] == [G]

    play(scenario)


def test_a_kind_that_is_refused_for_good_is_gone_on_without_and_its_groups_are_held() -> None:
    def arrange(bed: Bed) -> None:
        three(bed)
        bed.group("s", 1, kind="MachineSet", annotations=enough())
        refuse_lists(bed, "machinedeployments", 403, "Forbidden")

    async def scenario(bed: Bed) -> None:
        assert 30.0 <= bed.clock.monotonic_s() < 60.0
        assert bed.provider.unavailable_reason == ""
        observed = bed.provider.observe(nodes())
        assert [group.id for group in observed.groups] == ["MachineSet/default/s"]
        assert [(held_group.id, held_group.covers(G), "403" in held_group.why) for held_group in observed.held] == [
            ("MachineDeployment/", True, True)
        ]

    play(scenario, arrange)


# ── Not readable any more ────────────────────────────────────────────────────────────────────────────────────────


def test_a_kind_that_may_not_be_read_any_more_has_its_groups_held_until_it_may() -> None:
    def arrange(bed: Bed) -> None:
        three(bed)
        bed.group("s", 1, kind="MachineSet", annotations=enough())

    async def scenario(bed: Bed) -> None:
        refuse_lists(bed, "machinedeployments", 403, "Forbidden")
        while "MachineDeployment" not in bed.provider.trouble:
            await bed.clock.sleep(1.0)
        assert [group.id for group in (await probe(bed)).groups] == [G, "MachineSet/default/s"], "as it was last"
        await bed.clock.sleep(30.0)
        observed = await probe(bed)
        assert [group.id for group in observed.groups] == ["MachineSet/default/s"]
        assert [(held_group.id, held_group.instances) for held_group in observed.held] == [
            (G, ("fake:///g-0", "fake:///g-1", "fake:///g-2"))
        ]
        assert bed.provider.unavailable_reason == "", "others can be read"
        bed.carrier.allow()
        await bed.clock.sleep(120.0)
        assert (await probe(bed)).held == ()

    play(scenario, arrange)


def test_nothing_is_decided_while_machines_are_not_current() -> None:
    async def scenario(bed: Bed) -> None:
        assert bed.provider.unavailable_reason == ""
        refuse_lists(bed, "machines", 403, "Forbidden")
        while not bed.provider.unavailable_reason:
            await bed.clock.sleep(1.0)
        assert "Machine: " in bed.provider.unavailable_reason
        bed.carrier.allow()
        await bed.clock.sleep(120.0)
        assert bed.provider.unavailable_reason == ""

    play(scenario, three)


def test_a_group_with_a_bound_that_cannot_be_read_is_held() -> None:
    async def scenario(bed: Bed) -> None:
        bed.group("g", 3, ("many", 10), annotations=enough())
        observed = await probe(bed)
        assert [group.id for group in observed.groups] == []
        assert [
            (held_group.id, len(held_group.instances), "many" in held_group.why) for held_group in observed.held
        ] == [(G, 3, True)]
        assert len(observed.set_aside) == 1

    play(scenario, three)


def test_no_group_shrinks_while_one_of_its_machines_may_be_unreadable() -> None:
    async def scenario(bed: Bed) -> None:
        bed.apply("Machine", "odd", spec={"providerID": 7})
        (group,) = (await probe(bed)).groups
        assert group.kept == {"fake:///g-0", "fake:///g-1", "fake:///g-2"}
        with pytest.raises(base.ProviderError, match="default/odd"):
            await bed.provider.reduce_target(plan.ReduceTarget(G, 1, "", 3))
        with pytest.raises(base.ProviderError, match="default/odd"):
            await bed.provider.delete_nodes(G, nodes(1))
        await bed.provider.resize(plan.Resize(G, 3, 4, 10))
        assert (await bed.replicas(G), await bed.marked()) == (4, set())

    play(scenario, three)


# ── Paused ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def pause(bed: Bed, kind: str, name: str, *, is_paused: bool = True) -> None:
    """Say so as Cluster API does in this version."""
    condition = {**PAUSED, **SINCE} if is_paused else {**PAUSED, **SINCE, "status": "False", "reason": "NotPaused"}
    told: dict[str, Any] = {"conditions": [condition]}
    status = told if bed.version == "v1beta2" else {"v1beta2": told}
    await bed.api.merge_patch(bed.resource(kind), name, {"status": status}, "default")
    await bed.settle()


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize(("kind", "name"), [("MachineDeployment", "g"), ("MachineSet", "g-1")])
def test_a_group_of_a_paused_cluster_is_held_and_nothing_of_it_is_changed(kind: str, name: str, version: str) -> None:
    async def scenario(bed: Bed) -> None:
        await pause(bed, kind, name)
        observed = await probe(bed)
        assert observed.groups == ()
        assert [(held_group.id, held_group.instances) for held_group in observed.held] == [
            (G, ("fake:///g-0", "fake:///g-1", "fake:///g-2"))
        ]
        assert "Cluster spec.paused is set to true" in observed.held[0].why
        with pytest.raises(base.ProviderError, match="is paused"):
            await bed.provider.delete_nodes(G, nodes(1))
        with pytest.raises(base.ProviderError, match="is paused"):
            await bed.provider.resize(plan.Resize(G, 3, 4, 10))
        with pytest.raises(base.ProviderError, match="is paused"):
            await bed.provider.reduce_target(plan.ReduceTarget(G, 1, "", 3))
        with pytest.raises(base.ProviderError, match="is paused"):
            await bed.provider.delete_instances(plan.DeleteInstances(G, ("fake:///g-0",), ""))
        assert (await bed.replicas(G), await bed.marked()) == (3, set())
        await pause(bed, kind, name, is_paused=False)
        assert ([group.id for group in (await probe(bed)).groups], (await probe(bed)).held) == ([G], ())

    play(scenario, three, version=version)


def test_a_paused_pool_is_held() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("p", 1, kind="MachinePool", annotations=enough(), providerIDList=["fake:///g-0"])

    async def scenario(bed: Bed) -> None:
        await pause(bed, "MachinePool", "p")
        observed = await probe(bed)
        assert (observed.groups, [held_group.instances for held_group in observed.held]) == ((), [("fake:///g-0",)])

    play(scenario, arrange)


def test_a_paused_object_that_is_no_group_is_not_held() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("fixed", 1, None)

    async def scenario(bed: Bed) -> None:
        await pause(bed, "MachineDeployment", "fixed")
        assert await probe(bed) == base.ObservedNodeGroups()

    play(scenario, arrange)


def test_a_paused_machine_keeps_its_node_and_no_other() -> None:
    async def scenario(bed: Bed) -> None:
        await pause(bed, "Machine", "g-1")
        (group,) = (await probe(bed)).groups
        assert group.kept == {"fake:///g-1"}
        refused = await bed.provider.delete_nodes(G, nodes())
        assert {name: "is paused" in str(why) for name, why in refused.items()} == {"g-1": True}
        assert (await bed.replicas(G), await bed.marked()) == (1, {"g-0", "g-2"})

    play(scenario, three)


def test_what_was_told_to_go_is_still_known_after_a_pause() -> None:
    async def scenario(bed: Bed) -> None:
        await bed.provider.delete_nodes(G, nodes(1))
        await pause(bed, "MachineDeployment", "g")
        await probe(bed)
        await pause(bed, "MachineDeployment", "g", is_paused=False)
        (group,) = (await probe(bed)).groups
        assert [instance.provider_id for instance in group.instances if instance.state == "Deleting"] == ["fake:///g-0"]
        assert group.target_size == 2

    play(scenario, three)


# ── What nothing foresees ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("owner", [group_annotations, scalable_resources])
@pytest.mark.parametrize("error", [ValueError, RecursionError, OverflowError, KeyError, MemoryError])
def test_a_group_that_raises_is_held_and_the_others_are_read(
    owner: Any, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "read_size_bounds" if owner is group_annotations else "is_rolling_out"
    real = getattr(owner, name)

    def raising(about: Any, *more: Any) -> Any:
        if "odd" in about if owner is group_annotations else any(item.meta.name == "g-1" for item in about):
            raise error("odd")
        return real(about, *more)

    def arrange(bed: Bed) -> None:
        bed.group("g", 3, annotations={**enough(), "odd": "odd"})
        bed.members("g", 3)
        bed.group("other", 1, annotations=enough())

    async def scenario(bed: Bed) -> None:
        monkeypatch.setattr(owner, name, raising)
        bed.provider._note()
        before = klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.PROVIDER]
        observed = bed.provider.observe(nodes())
        assert [group.id for group in observed.groups] == ["MachineDeployment/default/other"]
        assert [(group.id, f"{error.__name__}: " in group.why) for group in observed.held] == [(G, True)]
        assert klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.PROVIDER] > before
        if owner is group_annotations:
            assert len(observed.held[0].instances) == 3

    play(scenario, arrange)


@pytest.mark.parametrize(
    ("key", "amount"),
    [
        ("cpu", "1e5000"),
        ("cpu", "9" * 4400),
        ("cpu", "9999Ei"),
        ("memory", "9999Ei"),
        ("maxPods", str(2**63 - 1)),
        ("gpu-count", str(2**40)),
    ],
)
def test_a_capacity_that_no_node_has_is_told_and_counts_for_nothing(key: str, amount: str) -> None:
    def arrange(bed: Bed) -> None:
        driver = {f"{CAPACITY}dra-driver": "gpu.example.com"}
        bed.group("g", 1, annotations={**enough(), **driver, f"{CAPACITY}{key}": amount})
        bed.group("other", 1, annotations=enough())

    async def scenario(bed: Bed) -> None:
        observed = await probe(bed)
        [complaint] = observed.set_aside
        assert f"capacity.cluster-autoscaler.kubernetes.io/{key}" in complaint.field
        assert [group.id for group in observed.groups if group.template is not None] == [
            "MachineDeployment/default/other"
        ]

    play(scenario, arrange)
