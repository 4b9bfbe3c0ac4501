import pytest

from tests.engine.predicates.volume_builders import (
    DISKS,
    bound,
    cluster,
    disk,
    ephemeral,
    node,
    pod,
    refuse,
    refused,
    uses,
    waiting,
)
from windlass.engine.model import facts
from windlass.engine.predicates import volume_zone
from windlass.engine.snapshot.volume_usage import StorageFact

OTHER_ZONE = "node(s) had no available volume zone"
NODES = (
    node("a", zone="a", region="r"),
    node("b", zone="b", region="r"),
    node("beta-a", **{facts.ZONE_BETA: "a"}),
    node("region-only", region="r"),
    node("nowhere"),
)


@pytest.mark.parametrize(
    ("labels", "passing"),
    [
        ({}, {"a", "b", "beta-a", "region-only", "nowhere"}),
        ({facts.ZONE: "a"}, {"a", "nowhere"}),
        ({facts.ZONE: "a__b"}, {"a", "b", "nowhere"}),
        ({facts.ZONE: "a__"}, {"a", "b", "beta-a", "region-only", "nowhere"}),
        ({facts.ZONE_BETA: "a"}, {"a", "beta-a", "nowhere"}),
        ({facts.REGION: "r"}, {"a", "b", "region-only", "nowhere"}),
        ({facts.REGION_BETA: "r", facts.ZONE: "b"}, {"b", "nowhere"}),
    ],
)
def test_a_volumes_zone_labels_bind_its_pod(labels: dict[str, str], passing: set[str]) -> None:
    snapshot = cluster(*NODES, bound("data", "v"), disk("v", labels=labels))
    expected = {found.name: OTHER_ZONE for found in NODES if found.name not in passing}
    assert refused(snapshot, volume_zone, pod(uses("data"))) == expected


def test_every_volume_must_be_in_the_zone() -> None:
    volumes = disk("v", labels={facts.ZONE: "a"}), disk("w", labels={facts.ZONE: "b"})
    snapshot = cluster(*NODES[:2], bound("data", "v"), bound("logs", "w"), *volumes)
    assert set(refused(snapshot, volume_zone, pod(uses("data"), uses("logs")))) == {"a", "b"}


def test_a_nodes_own_beta_label_goes_before_its_successor() -> None:
    moved = node("n", zone="a", **{facts.ZONE_BETA: "b"})
    snapshot = cluster(moved, bound("data", "v"), disk("v", labels={facts.ZONE_BETA: "a"}))
    assert set(refused(snapshot, volume_zone, pod(uses("data")))) == {"n"}


def test_the_claim_of_an_ephemeral_volume_is_not_looked_at() -> None:
    made = bound("p-scratch", "v", owner_uids=("uid-p",))
    snapshot = cluster(*NODES, made, disk("v", labels={facts.ZONE: "a"}))
    assert refused(snapshot, volume_zone, pod(ephemeral("scratch"))) == {}
    assert refuse(cluster(*NODES), volume_zone, pod(ephemeral("scratch"))) is None


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ((), 'persistentvolumeclaim "data" not found'),
        ((bound("data", "v"),), 'persistentvolume "v" not found'),
        ((waiting("data", None),), "PersistentVolumeClaim had no pv name and storageClass name"),
        ((waiting("data", "nope"),), 'storageclass.storage.k8s.io "nope" not found'),
        ((waiting("data"), facts.StorageClass("disks", "d")), "PersistentVolume had no name"),
        ((waiting("data"), DISKS), None),
        ((bound("data", "v"), disk("v")), None),
    ],
)
def test_a_claim_without_a_place_refuses_all_nodes(stored: tuple[StorageFact, ...], text: str | None) -> None:
    refusal = refuse(cluster(*NODES, *stored), volume_zone, pod(uses("data")))
    assert (refusal and refusal.texts) == (text and [text])


def test_nodes_appended_in_a_fork_are_judged_by_their_template() -> None:
    snapshot = cluster(NODES[0], bound("data", "v"), disk("v", labels={facts.ZONE: "a"}))
    assert refused(snapshot, volume_zone, pod(uses("data"))) == {}
    snapshot.fork()
    snapshot.append(NODES[1], ["new-b"])
    assert set(refused(snapshot, volume_zone, pod(uses("data")))) == {"new-b"}
    snapshot.revert()
    snapshot.fork()
    snapshot.append(NODES[0], ["new-a"])
    assert refused(snapshot, volume_zone, pod(uses("data"))) == {}
