"""What Machines are to the engine, and which nodes are theirs."""

from typing import Any

import pytest

from tests.engine.loop import builders
from tests.providers.clusterapi.management_cluster import GROUP, Bed, Json, node, play
from windlass.engine.model import facts, node_groups
from windlass.engine.model.node_groups import Instance
from windlass.engine.model.settings import Settings

G = "MachineDeployment/default/g"
P = "MachinePool/default/p"


def see(nodes: list[facts.Node] | None = None, /, version: str = "v1beta2", **machine: Any) -> tuple[Instance, ...]:
    """The instances of a group with one Machine, `g-0`, that is like this."""
    found: list[tuple[Instance, ...]] = []

    def arrange(bed: Bed) -> None:
        bed.group("g", 1)
        bed.machine("g-0", "g-1", **machine)

    async def scenario(bed: Bed) -> None:
        found.append((await bed.observe(nodes))[G].instances)

    play(scenario, arrange, version=version)
    return found[0]


# ── Nodes and their Machines ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spelled", ["fake:///g-0", "fake:////g-0", "fake:///zone-1/g-0", "g-0"])
def test_an_instance_carries_its_nodes_own_provider_id(spelled: str) -> None:
    assert see([node("n", spelled)]) == (Instance(spelled),)


def test_a_node_that_registered_before_its_machine_knows_is_no_longer_awaited() -> None:
    assert see([node("g-0")], node=False) == (Instance("fake:///g-0"),)


def test_a_machine_without_provider_id_is_found_by_the_nodes_annotations_or_its_own_reference() -> None:
    annotations = {f"{GROUP}/machine": "g-0", f"{GROUP}/cluster-namespace": "default"}
    told = node("n", "other:///1", annotations=annotations)
    assert see([told], provider_id=False, node=False) == (Instance("other:///1"),)
    assert see([node("g-0", "other:///2")], provider_id=False) == (Instance("other:///2"),)


def test_a_node_of_the_same_name_with_another_id_is_someone_elses() -> None:
    assert see([node("g-0", "fake:///elsewhere")]) == (Instance("fake:///g-0", had_node=True),)


def test_a_machine_without_a_node_is_pending() -> None:
    assert see(node=False) == (Instance("pending-machine-default_g-0", "Creating"),)


def test_a_machine_whose_node_is_gone_is_known_by_its_provider_id() -> None:
    assert see() == (Instance("fake:///g-0", had_node=True),)


def test_a_machine_on_its_way_out_is_deleting_with_and_without_a_node() -> None:
    async def scenario(bed: Bed) -> None:
        for name in ("g-0", "g-1"):
            await bed.begin_deleting(name)
        groups = await bed.observe([node("g-0")])
        assert groups[G].instances == (
            Instance("fake:///g-0", "Deleting"),
            Instance("deleting-machine-default_g-1", "Deleting"),
        )

    def arrange(bed: Bed) -> None:
        bed.group("g", 2)
        bed.members("g", 2, finalize=True)

    play(scenario, arrange)


# ── Failures ─────────────────────────────────────────────────────────────────────────────────────────────────────

_BROKEN = {"type": "InfrastructureReady", "status": "False", "severity": "Error", "reason": "Quota", "message": "full"}


@pytest.mark.parametrize(
    ("version", "status", "message"),
    [
        ("v1beta1", {"failureReason": "CreateError", "failureMessage": "no quota"}, "CreateError: no quota"),
        ("v1beta1", {"failureMessage": "no quota"}, "no quota"),
        ("v1beta2", {"deprecated": {"v1beta1": {"failureMessage": "no quota"}}}, "no quota"),
        ("v1beta2", {"deprecated": {"v1beta1": {"failureReason": "CreateError"}}}, "CreateError"),
        ("v1beta1", {"phase": "Failed"}, "Machine provisioning failed"),
        ("v1beta1", {"conditions": [_BROKEN]}, "Quota: full"),
        ("v1beta2", {"deprecated": {"v1beta1": {"conditions": [_BROKEN]}}}, "Quota: full"),
    ],
)
def test_d5_a_machine_that_failed_is_an_instance_with_an_error_whatever_its_phase(
    version: str, status: Json, message: str
) -> None:
    error = node_groups.InstanceError("Other", "ProvisioningFailed", message)
    instances = see(version=version, node=False, provider_id=False, **status)
    assert instances == (Instance("failed-machine-default_g-0", "Creating", error),)


@pytest.mark.parametrize(
    "condition",
    [
        _BROKEN | {"severity": "Warning"},
        _BROKEN | {"status": "Unknown"},
        _BROKEN | {"type": "BootstrapReady"},
        {"type": "InfrastructureReady", "status": "False", "reason": "NotReady"},
    ],
)
def test_a_machine_that_may_still_come_has_not_failed(condition: Json) -> None:
    instances = see(node=False, provider_id=False, conditions=[condition])
    assert instances == (Instance("pending-machine-default_g-0", "Creating"),)


def test_an_error_of_an_instance_that_was_given_may_pass() -> None:
    (instance,) = see(node=False, conditions=[_BROKEN])
    assert instance.error is None


def test_a_machine_that_has_a_node_and_failed_later_is_still_that_node() -> None:
    assert see([node("g-0")], failureMessage="disk", phase="Failed") == (Instance("fake:///g-0"),)


# ── MachinePools ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pool_has_the_instances_that_it_lists() -> None:
    async def scenario(bed: Bed) -> None:
        group = (await bed.observe([node("p-0", "fake:////p-0")]))[P]
        assert group.instances == (Instance("fake:////p-0"), Instance("fake:///p-1"))
        assert not group.can_choose

    play(
        scenario, lambda bed: bed.group("p", 2, kind="MachinePool", providerIDList=["fake:///zone/p-0", "fake:///p-1"])
    )


def test_a_pool_with_machines_knows_each_of_them_once() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("p", 3, kind="MachinePool", providerIDList=["fake:///p-0", "fake:///p-2"])
        bed.machine("p-0", "p", kind="MachinePool")
        bed.machine("p-1", "p", kind="MachinePool", node=False, provider_id=False)

    async def scenario(bed: Bed) -> None:
        group = (await bed.observe([node("p-0")]))[P]
        assert group.instances == (
            Instance("fake:///p-0"),
            Instance("pending-machine-default_p-1", "Creating"),
            Instance("fake:///p-2"),
        )
        assert group.can_choose

    play(scenario, arrange)


def test_instances_of_azures_scale_sets_are_told_apart_by_their_whole_id() -> None:
    ids = [f"azure:///subscriptions/s/virtualMachineScaleSets/v{i}/virtualMachines/0" for i in range(2)]

    async def scenario(bed: Bed) -> None:
        group = (await bed.observe([node("n", ids[1])]))[P]
        assert [instance.provider_id for instance in group.instances] == ids

    play(scenario, lambda bed: bed.group("p", 2, kind="MachinePool", providerIDList=ids))


# ── Rollouts ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("old", "is_rolling_out"),
    [
        ({"replicas": 1}, True),
        ({"replicas": 0, "status": {"replicas": 1}}, True),
        ({"replicas": 0, "status": {"replicas": 0}}, False),
    ],
)
def test_a_deployment_rolls_out_while_an_earlier_machine_set_has_replicas(old: Json, is_rolling_out: bool) -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 2)
        bed.machine_set("g-10", "g", 2, revision="10")
        bed.machine_set("g-9", "g", revision="9", **old)
        bed.machine_set("g-1", "g", 0)

    async def scenario(bed: Bed) -> None:
        assert (await bed.observe())[G].is_rolling_out is is_rolling_out

    play(scenario, arrange)


@pytest.mark.parametrize("settings", builders.BOTH, ids=["cluster-autoscaler", "windlass"])
@pytest.mark.parametrize(
    ("revisions", "is_rolling_out"),
    [
        ({"g-1": ("2", 2)}, False),
        ({"g-1": ("1", 0), "g-2": ("2", 2)}, False),
        ({"g-1": (None, 0), "g-2": ("2", 2)}, False),
        ({"g-1": (None, 1), "g-2": ("2", 1)}, True),
        ({"g-1": (None, 2)}, True),
        ({"g-1": (None, 1), "g-2": (None, 1)}, True),
        ({"g-1": (None, 2), "g-2": (None, 0)}, True),
        ({"g-1": (None, 0), "g-2": (None, 2)}, True),
        ({"g-1": ("2", 1), "g-2": ("2", 1)}, False),
        ({"g-1": ("first", 0), "g-2": ("2", 2)}, True),
    ],
    ids=str,
)
def test_a_machine_set_without_the_newest_revision_keeps_the_nodes_of_its_deployment(
    settings: Settings, revisions: dict[str, tuple[str | None, int]], is_rolling_out: bool
) -> None:
    """As Cluster Autoscaler counts revisions: a MachineSet without one is outdated, as long as it has replicas."""

    def arrange(bed: Bed) -> None:
        bed.group("g", 2)
        for name, (revision, replicas) in revisions.items():
            bed.machine_set(name, "g", replicas, revision=revision)
        owners = [name for name, (_, replicas) in revisions.items() for _ in range(replicas)]
        for number, owner in enumerate(owners):
            bed.machine(f"n{number}", owner)

    async def scenario(bed: Bed) -> None:
        there = [builders.node(f"n{number}", provider_id=f"fake:///n{number}") for number in range(2)]
        groups = (await bed.observe(there)).values()
        assert [group.is_rolling_out for group in groups] == [is_rolling_out]
        decision = builders.decide_once(builders.observe(groups, there), builders.at_once(settings))
        assert builders.drained(decision) == ([] if is_rolling_out else ["n0", "n1"])

    play(scenario, arrange)
