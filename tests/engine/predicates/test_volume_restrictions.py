import pytest

from tests.engine.predicates.volume_builders import bound, cluster, disk, ephemeral, node, pod, refuse, refused, uses
from windlass.engine.model import facts
from windlass.engine.model.scheduling_reasons import StatusCode
from windlass.engine.predicates import volume_restrictions

IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
NO_DISK = "node(s) had no available disk"
EXCLUSIVE = bound("data", "v", access_modes=("ReadWriteOncePod",))


def inline(source: str, *identity: str, read_only: bool = False) -> facts.Volume:
    return facts.Volume("inline", source, read_only=read_only, identity=identity)


GCE, AWS, ISCSI, RBD = "gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"


@pytest.mark.parametrize(
    ("held", "wanted", "conflicts"),
    [
        (inline(GCE, "a"), inline(GCE, "a"), True),
        (inline(GCE, "a"), inline(GCE, "b"), False),
        (inline(GCE, "a", read_only=True), inline(GCE, "a", read_only=True), False),
        (inline(GCE, "a", read_only=True), inline(GCE, "a"), True),
        (inline(GCE, "a"), inline(GCE, "a", read_only=True), True),
        (inline(AWS, "a", read_only=True), inline(AWS, "a", read_only=True), True),
        (inline(AWS, "a"), inline(GCE, "a"), False),
        (inline(ISCSI, "iqn"), inline(ISCSI, "iqn"), True),
        (inline(ISCSI, "iqn", read_only=True), inline(ISCSI, "iqn", read_only=True), False),
        (inline(RBD, "pool", "image", "m1", "m2"), inline(RBD, "pool", "image", "m2", "m3"), True),
        (inline(RBD, "pool", "image", "m1"), inline(RBD, "pool", "image", "m2"), False),
        (inline(RBD, "pool", "image", "m1"), inline(RBD, "other", "image", "m1"), False),
        (inline(RBD, "pool", "image", "m1", read_only=True), inline(RBD, "pool", "image", "m1", read_only=True), False),
        (inline("azureDisk", "a"), inline("azureDisk", "a"), False),
    ],
)
def test_inline_disks_conflict_by_what_names_them(held: facts.Volume, wanted: facts.Volume, conflicts: bool) -> None:
    snapshot = cluster(node("n0"), node("n1"), pod(held, name="holder", on="n1"))
    assert refused(snapshot, volume_restrictions, pod(wanted)) == ({"n1": NO_DISK} if conflicts else {})


def test_an_exclusive_claim_in_use_anywhere_refuses_every_node() -> None:
    snapshot = cluster(node("n0"), node("n1"), EXCLUSIVE, disk("v"), pod(uses("data"), name="holder", on="n1"))
    assert refused(snapshot, volume_restrictions, pod(uses("data"))) == {"n0": IN_USE, "n1": IN_USE}


def test_a_disk_in_use_is_named_before_a_claim_in_use() -> None:
    holder = pod(uses("data"), inline(GCE, "a"), name="holder", on="n1")
    snapshot = cluster(node("n0"), node("n1"), EXCLUSIVE, disk("v"), holder)
    assert refused(snapshot, volume_restrictions, pod(uses("data"), inline(GCE, "a"))) == {"n0": IN_USE, "n1": NO_DISK}


def test_a_claim_that_many_may_use_refuses_nobody() -> None:
    snapshot = cluster(node("n0"), bound("data", "v"), disk("v"), pod(uses("data"), name="holder", on="n0"))
    assert refused(snapshot, volume_restrictions, pod(uses("data"))) == {}


def test_a_claim_held_by_an_ephemeral_volume_is_not_in_use_by_name() -> None:
    made = bound("holder-scratch", "v", access_modes=("ReadWriteOncePod",), owner_uids=("uid-holder",))
    snapshot = cluster(node("n0"), made, disk("v"), pod(ephemeral("scratch", "holder"), name="holder", on="n0"))
    assert refused(snapshot, volume_restrictions, pod(uses("holder-scratch"))) == {}


def test_a_claim_of_the_same_name_in_another_namespace_is_another_claim() -> None:
    holder = facts.Pod("other", "holder", spec=facts.PodSpec(volumes=(uses("data"),)), node_name="n0")
    snapshot = cluster(node("n0"), EXCLUSIVE, disk("v"), holder)
    assert refused(snapshot, volume_restrictions, pod(uses("data"))) == {}


def test_a_claim_that_is_missing_refuses_before_any_node() -> None:
    refusal = refuse(cluster(node("n0")), volume_restrictions, pod(uses("data")))
    assert refusal is not None
    assert (refusal.code, refusal.texts) == (StatusCode.UNRESOLVABLE, ['persistentvolumeclaim "data" not found'])


def test_an_ephemeral_claim_that_is_missing_is_for_another_filter() -> None:
    assert refuse(cluster(node("n0")), volume_restrictions, pod(ephemeral("scratch"))) is None


def test_a_holder_that_is_lifted_frees_its_claim_until_that_is_undone() -> None:
    snapshot = cluster(node("n0"), EXCLUSIVE, disk("v"), pod(uses("data"), name="holder", on="n0"))
    holder = snapshot.pods.rows["uid-holder"]
    snapshot.fork()
    snapshot.unbind(holder)
    assert refused(snapshot, volume_restrictions, pod(uses("data"))) == {}
    snapshot.revert()
    assert refused(snapshot, volume_restrictions, pod(uses("data"))) == {"n0": IN_USE}


def test_a_pod_placed_in_a_fork_holds_its_disk_until_that_is_undone() -> None:
    snapshot = cluster(node("n0"), node("n1"))
    wanted = pod(inline(GCE, "a"))
    snapshot.fork()
    snapshot.place(snapshot.shape_of(wanted), 1)
    assert refused(snapshot, volume_restrictions, wanted) == {"n1": NO_DISK}
    snapshot.revert()
    assert refused(snapshot, volume_restrictions, wanted) == {}


def test_what_pods_on_a_retired_node_hold_is_free() -> None:
    snapshot = cluster(node("n0"), node("n1"), EXCLUSIVE, disk("v"), pod(uses("data"), name="holder", on="n1"))
    snapshot.fork()
    snapshot.mark_gone(1)
    assert refused(snapshot, volume_restrictions, pod(uses("data"))) == {}
    snapshot.revert()
    assert set(refused(snapshot, volume_restrictions, pod(uses("data")))) == {"n0", "n1"}
