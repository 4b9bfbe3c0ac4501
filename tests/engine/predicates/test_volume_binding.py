from dataclasses import replace
from typing import Any

import pytest

from tests.engine.predicates.volume_builders import (
    DISKS,
    GIB,
    LOCAL,
    bound,
    cluster,
    disk,
    ephemeral,
    local,
    node,
    pod,
    refuse,
    refused,
    uses,
    waiting,
    where,
)
from windlass.engine.model import facts, settings
from windlass.engine.model.scheduling_reasons import StatusCode
from windlass.engine.predicates import volume_binding
from windlass.engine.snapshot.volume_usage import StorageFact
from windlass.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Operator, Requirement

UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
UNBINDABLE = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NODES = (node("n0", zone="a"), node("n1", zone="b"))
SELECTED = "volume.kubernetes.io/selected-node"


# Before any node


@pytest.mark.parametrize(
    ("volume", "stored", "text"),
    [
        (uses("data"), (), 'persistentvolumeclaim "data" not found'),
        (
            ephemeral("x"),
            (),
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-x"',
        ),
        (
            uses("data"),
            (bound("data", "v", phase="Lost"),),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
        ),
        (uses("data"), (bound("data", "v", terminating=True),), 'persistentvolumeclaim "data" is being deleted'),
        (
            ephemeral("x"),
            (bound("p-x", "v", owner_uids=("uid-other",)),),
            "PVC default/p-x was not created for pod default/p (pod is not owner)",
        ),
        (uses("data"), (waiting("data"),), "pod has unbound immediate PersistentVolumeClaims"),
        (uses("data"), (waiting("data", None),), "pod has unbound immediate PersistentVolumeClaims"),
        (
            uses("data"),
            (waiting("data"), replace(DISKS, waits_for_consumer=False)),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            uses("data"),
            (waiting("data", volume_name="v"), DISKS),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (uses("data"), (waiting("data"), DISKS), None),
        (uses("data"), (bound("data", "v"),), None),
        (ephemeral("x"), (bound("p-x", "v", owner_uids=("uid-p",)),), None),
    ],
)
def test_a_claim_that_cannot_be_used_refuses_all_nodes(
    volume: facts.Volume, stored: tuple[StorageFact, ...], text: str | None
) -> None:
    refusal = refuse(cluster(*NODES, *stored), volume_binding, pod(volume))
    assert (refusal and refusal.texts) == (text and [text])
    assert refusal is None or refusal.code is StatusCode.UNRESOLVABLE


def test_a_pod_without_claims_is_not_looked_at() -> None:
    snapshot = cluster(*NODES)
    assert (
        volume_binding.mask(
            snapshot, snapshot.shape_of(pod(facts.Volume("x", "emptyDir"))), settings.DEFAULT_FILTER_CONFIG
        )
        is None
    )


# Volumes that are bound


def test_a_bound_volume_must_be_reached() -> None:
    snapshot = cluster(*NODES, bound("data", "v"), disk("v", node_affinity=where(facts.ZONE, "b")))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n0": UNREACHABLE}


def test_a_bound_volume_without_affinity_is_reached_from_everywhere() -> None:
    assert refused(cluster(*NODES, bound("data", "v"), disk("v")), volume_binding, pod(uses("data"))) == {}


def test_a_volume_that_is_gone_refuses_every_node() -> None:
    assert refused(cluster(*NODES, bound("data", "v")), volume_binding, pod(uses("data"))) == {"n0": GONE, "n1": GONE}


def test_the_first_bound_volume_at_fault_speaks() -> None:
    snapshot = cluster(
        *NODES, bound("data", "v"), disk("v", node_affinity=where(facts.ZONE, "b")), bound("logs", "gone")
    )
    assert refused(snapshot, volume_binding, pod(uses("data"), uses("logs"))) == {"n0": UNREACHABLE, "n1": GONE}
    assert refused(snapshot, volume_binding, pod(uses("logs"), uses("data"))) == {"n0": GONE, "n1": GONE}


def test_names_in_a_volumes_affinity_are_passed_over() -> None:
    by_name = NodeSelector((NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, ("n0",)),)),))
    snapshot = cluster(*NODES, bound("data", "v"), disk("v", node_affinity=by_name))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {}


def test_an_empty_term_reaches_nothing() -> None:
    empty = NodeSelector((NodeSelectorTerm(),))
    snapshot = cluster(*NODES, bound("data", "v"), disk("v", node_affinity=empty))
    assert set(refused(snapshot, volume_binding, pod(uses("data")))) == {"n0", "n1"}


IN_TREE = {"source": "awsElasticBlockStore", "driver": "ebs.csi.aws.com", "handle": "vol-1"}
MIGRATED = frozenset(("kubernetes.io/aws-ebs",))
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


@pytest.mark.parametrize(
    "volume",
    [
        disk("v", node_affinity=where(facts.ZONE, "a"), **IN_TREE),
        disk("v", node_affinity=where(facts.ZONE_BETA, "a"), **IN_TREE),
        disk("v", labels={facts.ZONE: "a"}, **IN_TREE),
        disk("v", labels={facts.ZONE_BETA: "a__c"}, **IN_TREE),
    ],
)
def test_where_a_driver_took_over_zones_are_told_by_its_own_label(volume: facts.PersistentVolume) -> None:
    nodes = node("moved-a", **{EBS_ZONE: "a"}), node("moved-b", zone="a", **{EBS_ZONE: "b", facts.ZONE_BETA: "a"})
    csi_nodes = [facts.CSINode(found.name, migrated_plugins=MIGRATED) for found in nodes]
    snapshot = cluster(*nodes, *csi_nodes, bound("data", "v"), volume)
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"moved-b": UNREACHABLE}


def test_where_no_driver_took_over_an_in_tree_volume_is_taken_as_it_is() -> None:
    snapshot = cluster(*NODES, facts.CSINode("n0"), bound("data", "v"), disk("v", labels={facts.ZONE: "a"}, **IN_TREE))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {}


def test_a_volume_that_its_driver_would_not_know_is_an_error_where_the_driver_took_over() -> None:
    unknown = disk("v", **{**IN_TREE, "handle": ""})
    snapshot = cluster(*NODES, facts.CSINode("n0", migrated_plugins=MIGRATED), bound("data", "v"), unknown)
    waits = pod(uses("data"))
    assert set(refused(snapshot, volume_binding, waits)) == {"n0"}
    assert (
        volume_binding.explain(snapshot, snapshot.shape_of(waits), 0, settings.DEFAULT_FILTER_CONFIG).code
        is StatusCode.ERROR
    )


# Claims that wait for volumes that exist


def test_a_claim_finds_a_local_volume_where_it_is() -> None:
    snapshot = cluster(*NODES, LOCAL, waiting("data", "local"), local("v", "n1"))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n0": UNBINDABLE}


@pytest.mark.parametrize(
    ("change", "claim_change", "found"),
    [
        ({}, {}, True),
        ({"capacity_bytes": GIB - 1}, {}, False),
        ({"phase": "Released"}, {}, False),
        ({"terminating": True}, {}, False),
        ({"volume_mode": "Block"}, {}, False),
        ({"volume_mode": "Block"}, {"volume_mode": "Block"}, True),
        ({"access_modes": ("ReadOnlyMany",)}, {}, False),
        ({"access_modes": ("ReadOnlyMany", "ReadWriteOnce")}, {}, True),
        ({"storage_class": "other"}, {}, False),
        ({"attributes_class": "gold"}, {}, False),
        ({"attributes_class": "gold"}, {"attributes_class": "gold"}, True),
        ({}, {"attributes_class": "gold"}, False),
        ({}, {"selector": LabelSelector((Requirement("speed", Operator.EXISTS),))}, False),
        ({"labels": {"speed": "high"}}, {"selector": LabelSelector((Requirement("speed", Operator.EXISTS),))}, True),
        ({"claim_namespace": "default", "claim_name": "other"}, {}, False),
        ({"claim_namespace": "default", "claim_name": "data"}, {}, True),
        ({"claim_namespace": "default", "claim_name": "data", "phase": "Released"}, {}, True),
        ({"claim_namespace": "default", "claim_name": "data", "access_modes": ()}, {}, True),
        ({"claim_namespace": "default", "claim_name": "data", "claim_uid": "uid-data"}, {}, True),
        ({"claim_namespace": "default", "claim_name": "data", "claim_uid": "older"}, {}, False),
        ({"claim_namespace": "default", "claim_name": "data", "capacity_bytes": 1}, {}, False),
    ],
)
def test_a_claim_takes_only_a_volume_that_is_what_it_asks_for(
    change: dict[str, Any], claim_change: dict[str, Any], found: bool
) -> None:
    claim = waiting("data", "local", **claim_change)
    snapshot = cluster(node("n0"), LOCAL, claim, local("v", "n0", **change))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == ({} if found else {"n0": UNBINDABLE})


def test_a_volume_that_names_the_claim_keeps_it_from_all_others() -> None:
    named = local("v", "n1", claim_namespace="default", claim_name="data")
    snapshot = cluster(*NODES, LOCAL, waiting("data", "local"), named, local("free", "n0"))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n0": UNBINDABLE}


def test_two_claims_need_two_volumes_and_the_smaller_claim_chooses_first() -> None:
    claims = waiting("big", "local", request_bytes=3 * GIB), waiting("small", "local")
    volumes = local("v0", "n0", 5 * GIB), local("v1", "n1", 2 * GIB), local("w1", "n1", 5 * GIB)
    snapshot = cluster(*NODES, LOCAL, *claims, *volumes)
    assert refused(snapshot, volume_binding, pod(uses("big"), uses("small"))) == {"n0": UNBINDABLE}


def test_the_smallest_volume_that_will_do_is_taken() -> None:
    claims = waiting("small", "local"), waiting("big", "local", request_bytes=3 * GIB)
    snapshot = cluster(node("n0"), LOCAL, *claims, local("a", "n0", 4 * GIB), local("b", "n0", 2 * GIB))
    assert refused(snapshot, volume_binding, pod(uses("small"), uses("big"))) == {}


def test_a_claim_that_the_pod_lists_twice_needs_two_volumes() -> None:
    volumes = local("v0", "n0"), local("v1", "n1"), local("w1", "n1")
    snapshot = cluster(*NODES, LOCAL, waiting("data", "local"), *volumes)
    assert refused(snapshot, volume_binding, pod(uses("data"), uses("data"))) == {"n0": UNBINDABLE}


def test_listed_twice_a_claim_takes_the_volume_that_names_it_and_then_another() -> None:
    named = local("v", "n0", claim_namespace="default", claim_name="data")
    snapshot = cluster(*NODES, LOCAL, waiting("data", "local"), named, local("w0", "n0"), local("w1", "n1"))
    assert refused(snapshot, volume_binding, pod(uses("data"), uses("data"))) == {"n1": UNBINDABLE}
    snapshot.storage.remove(local("w0", "n0"))
    assert set(refused(snapshot, volume_binding, pod(uses("data"), uses("data")))) == {"n0", "n1"}


def test_a_volume_on_the_network_serves_every_node_that_reaches_it() -> None:
    wide = local("v", "", node_affinity=where(facts.ZONE, "a", "b"))
    nodes = (*NODES, node("n2", zone="c"))
    snapshot = cluster(*nodes, LOCAL, waiting("data", "local"), waiting("more", "local"), wide, local("w", "n1"))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n2": UNBINDABLE}
    assert set(refused(snapshot, volume_binding, pod(uses("data"), uses("more")))) == {"n0", "n2"}


def test_nodes_appended_in_a_fork_reach_what_their_labels_reach() -> None:
    wide = local("v", "", node_affinity=where(facts.ZONE, "b"))
    snapshot = cluster(*NODES, LOCAL, waiting("data", "local"), wide, local("w", "n0"), local("later", "new-1"))
    waits = pod(uses("data"))
    assert refused(snapshot, volume_binding, waits) == {}
    snapshot.fork()
    snapshot.append(NODES[0], ["new-0", "new-1"])
    assert refused(snapshot, volume_binding, waits) == {"new-0": UNBINDABLE}
    snapshot.append(NODES[1], ["new-2"])
    assert refused(snapshot, volume_binding, waits) == {"new-0": UNBINDABLE}
    snapshot.revert()
    assert refused(snapshot, volume_binding, waits) == {}


# Volumes to be provisioned


def test_a_class_that_provisions_serves_where_no_volume_exists() -> None:
    existing = local("v", "n0", storage_class="disks")
    assert refused(cluster(*NODES, DISKS, waiting("data"), existing), volume_binding, pod(uses("data"))) == {}


def test_a_class_provisions_only_for_its_topologies() -> None:
    zonal = replace(DISKS, allowed_topologies=((), ((facts.ZONE, ("b", "c")),)))
    assert refused(cluster(*NODES, zonal, waiting("data")), volume_binding, pod(uses("data"))) == {"n0": UNBINDABLE}


def test_a_claim_whose_volume_is_being_provisioned_for_a_node_goes_there() -> None:
    claim = waiting("data", annotations={SELECTED: "n1"})
    assert refused(cluster(*NODES, DISKS, claim), volume_binding, pod(uses("data"))) == {"n0": UNBINDABLE}


CAPACITY = facts.CSIDriver("disks.example.com", storage_capacity=True)


def capacity(name: str, zone: str | None, size: int | None, largest: int | None = None) -> facts.CSIStorageCapacity:
    topology = None if zone is None else LabelSelector((Requirement(facts.ZONE, Operator.IN, (zone,)),))
    return facts.CSIStorageCapacity("default", name, "disks", topology, size, largest)


@pytest.mark.parametrize(
    ("capacities", "short"),
    [
        ((), {"n0", "n1"}),
        ((capacity("c", "a", GIB),), {"n1"}),
        ((capacity("c", "a", GIB - 1),), {"n0", "n1"}),
        ((capacity("c", "a", GIB - 1), capacity("d", "a", GIB)), {"n1"}),
        ((capacity("c", "a", GIB, largest=GIB - 1),), {"n0", "n1"}),
        ((capacity("c", "a", 0, largest=GIB),), {"n1"}),
        ((capacity("c", "a", None),), {"n0", "n1"}),
        ((capacity("c", None, GIB),), {"n0", "n1"}),
        ((replace(capacity("c", None, GIB), node_topology=LabelSelector()),), set()),
        ((replace(capacity("c", "a", GIB), storage_class="other"),), {"n0", "n1"}),
    ],
)
def test_a_driver_that_publishes_capacity_needs_the_space(
    capacities: tuple[facts.CSIStorageCapacity, ...], short: set[str]
) -> None:
    snapshot = cluster(*NODES, DISKS, CAPACITY, waiting("data"), *capacities)
    assert refused(snapshot, volume_binding, pod(uses("data"))) == dict.fromkeys(short, NO_SPACE)


def test_a_driver_that_publishes_nothing_is_not_asked_for_space() -> None:
    quiet = facts.CSIDriver("disks.example.com", storage_capacity=False)
    assert refused(cluster(*NODES, DISKS, quiet, waiting("data")), volume_binding, pod(uses("data"))) == {}


def test_the_first_claim_that_cannot_be_provisioned_speaks() -> None:
    claims = waiting("local", "local"), waiting("data", request_bytes=2 * GIB)
    snapshot = cluster(*NODES, DISKS, LOCAL, CAPACITY, *claims)
    assert refused(snapshot, volume_binding, pod(uses("data"), uses("local"))) == {"n0": UNBINDABLE, "n1": UNBINDABLE}


def test_what_is_bound_and_what_waits_are_both_named() -> None:
    volumes = disk("v", node_affinity=where(facts.ZONE, "b")), local("w", "n1")
    snapshot = cluster(*NODES, LOCAL, bound("data", "v"), waiting("logs", "local"), *volumes)
    assert refused(snapshot, volume_binding, pod(uses("data"), uses("logs"))) == {"n0": f"{UNBINDABLE}; {UNREACHABLE}"}


def test_a_claim_that_gets_bound_is_judged_by_its_volume_from_then_on() -> None:
    snapshot = cluster(*NODES, LOCAL, waiting("data", "local"), local("v", "n0"), local("w", "n1"))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {}
    snapshot.storage.put(local("w", "n1", phase="Bound", claim_namespace="default", claim_name="data"))
    snapshot.storage.put(bound("data", "w", storage_class="local"))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n0": UNREACHABLE}


def test_a_volume_that_its_driver_would_not_know_is_taken_as_it_is_elsewhere() -> None:
    unknown = replace(disk("v", **{**IN_TREE, "handle": ""}), node_affinity=where(facts.HOSTNAME, "n2"))
    nodes = (*NODES, node("n2"))
    snapshot = cluster(*nodes, facts.CSINode("n0", migrated_plugins=MIGRATED), bound("data", "v"), unknown)
    found = refused(snapshot, volume_binding, pod(uses("data")))
    assert {*found} == {"n0", "n1"}
    assert found["n1"] == UNREACHABLE


def test_everything_that_a_volumes_affinity_names_must_hold() -> None:
    wanted = ((facts.HOSTNAME, ("n0", "n1")), ("disk", ("ssd",)))
    term = NodeSelectorTerm(tuple(Requirement(key, Operator.IN, values) for key, values in wanted))
    nodes = node("n0", disk="hdd"), node("n1", disk="ssd"), node("n2", disk="ssd")
    snapshot = cluster(*nodes, LOCAL, waiting("data", "local"), local("v", "n0", node_affinity=NodeSelector((term,))))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n0": UNBINDABLE, "n2": UNBINDABLE}


def test_a_class_without_a_provisioner_provisions_nothing() -> None:
    snapshot = cluster(node("n0"), replace(DISKS, provisioner=""), waiting("data"))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n0": UNBINDABLE}


def test_every_node_that_a_class_does_not_provision_for_is_told_why() -> None:
    zones = replace(DISKS, allowed_topologies=(((facts.ZONE, ("a",)),), ((facts.ZONE, ("c",)),)))
    snapshot = cluster(*NODES, node("n2", zone="c"), node("n3", zone="d"), zones, waiting("data"))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n1": UNBINDABLE, "n3": UNBINDABLE}
    nothing = replace(DISKS, provisioner="kubernetes.io/no-provisioner")
    snapshot = cluster(*NODES, nothing, waiting("data"))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n0": UNBINDABLE, "n1": UNBINDABLE}


def test_the_first_bound_volume_at_fault_speaks_though_a_later_one_is_of_an_in_tree_plugin() -> None:
    volumes = disk("v", node_affinity=where(facts.ZONE, "b")), disk("w", **{**IN_TREE, "handle": ""})
    snapshot = cluster(*NODES, bound("data", "v"), bound("more", "w"), *volumes, bound("logs", "gone"))
    assert refused(snapshot, volume_binding, pod(uses("data"), uses("more"), uses("logs"))) == {
        "n0": UNREACHABLE,
        "n1": GONE,
    }


@pytest.mark.parametrize(
    ("affinity", "unbindable"),
    [
        (None, set()),
        (Requirement("disk", Operator.EXISTS), {"n0"}),
        (Requirement(facts.ZONE, Operator.NOT_IN, ("b",)), {"n1"}),
    ],
)
def test_a_claim_finds_a_volume_whatever_its_affinity_is_made_of(
    affinity: Requirement | None, unbindable: set[str]
) -> None:
    selector = None if affinity is None else NodeSelector((NodeSelectorTerm((affinity,)),))
    nodes = node("n0", zone="a"), node("n1", zone="b", disk="ssd")
    snapshot = cluster(*nodes, LOCAL, waiting("data", "local"), local("v", "", node_affinity=selector))
    waits = pod(uses("data"))
    assert refused(snapshot, volume_binding, waits) == dict.fromkeys(unbindable, UNBINDABLE)
    snapshot.fork()
    snapshot.append(nodes[0], ["like-n0"])
    snapshot.append(nodes[1], ["like-n1"])
    alike = {f"like-{name}" for name in unbindable}
    assert refused(snapshot, volume_binding, waits) == dict.fromkeys(unbindable | alike, UNBINDABLE)
    snapshot.revert()


def test_where_there_is_no_node_no_volume_is_found_and_nothing_breaks() -> None:
    snapshot = cluster(LOCAL, waiting("data", "local"), local("v", "n0"))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {}


def test_where_no_storage_is_reached_not_even_a_byte_has_space() -> None:
    tiny = waiting("data", request_bytes=1)
    snapshot = cluster(*NODES, DISKS, CAPACITY, tiny, capacity("c", "b", 1))
    assert refused(snapshot, volume_binding, pod(uses("data"))) == {"n0": NO_SPACE}


def test_space_is_looked_for_from_nodes_that_come_one_after_the_other() -> None:
    snapshot = cluster(*NODES, DISKS, CAPACITY, waiting("data"), capacity("c", "a", GIB))
    waits = pod(uses("data"))
    snapshot.fork()
    for number in range(4):
        snapshot.append(NODES[0], [f"new-{number}"])
        assert refused(snapshot, volume_binding, waits) == {"n1": NO_SPACE}


def test_volumes_that_some_of_the_same_nodes_reach_are_told_apart_on_each() -> None:
    nodes = node("n0", zone="a"), node("n1", zone="a", disk="ssd"), node("n2", zone="b", disk="ssd"), node("n3")
    volumes = local("v", "", node_affinity=where(facts.ZONE, "a")), local("w", "", node_affinity=where("disk", "ssd"))
    snapshot = cluster(*nodes, LOCAL, waiting("data", "local"), waiting("more", "local"), *volumes)
    assert set(refused(snapshot, volume_binding, pod(uses("data")))) == {"n3"}
    assert set(refused(snapshot, volume_binding, pod(uses("data"), uses("more")))) == {"n0", "n2", "n3"}


def test_a_claim_that_is_missing_hides_none_behind_it() -> None:
    snapshot = cluster(*NODES, bound("data", "v"))
    pod_claims = volume_binding.sort_claims(snapshot.storage, snapshot.shape_of(pod(uses("missing"), uses("data"))))
    assert [claim.name for claim in pod_claims.bound] == ["data"]
