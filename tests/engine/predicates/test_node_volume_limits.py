from dataclasses import replace

from tests.engine.predicates.volume_builders import (
    DISKS,
    bound,
    cluster,
    disk,
    ephemeral,
    node,
    pod,
    refused,
    uses,
    waiting,
)
from windlass import scheduler_releases
from windlass.engine.model import facts, settings
from windlass.engine.model.scheduling_reasons import StatusCode
from windlass.engine.predicates import node_volume_limits
from windlass.engine.snapshot.volume_usage import StorageFact

DRIVER = "disks.example.com"
TOO_MANY = "node(s) exceed max volume count"
ONE_EACH = (facts.CSINode("n0", ((DRIVER, 1),)), facts.CSINode("n1", ((DRIVER, 1),)))
NODES = (node("n0"), node("n1"))


def claims(*names: str) -> list[StorageFact]:
    """Claims, each bound to a volume of its own."""
    return [fact for name in names for fact in (bound(name, f"v-{name}"), disk(f"v-{name}"))]


def holder(*volumes: facts.Volume, on: str = "n0", name: str = "holder") -> facts.Pod:
    return pod(*volumes, name=name, on=on)


def test_a_driver_attaches_no_more_than_its_limit() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"), holder(uses("a")))
    assert refused(snapshot, node_volume_limits, pod(uses("b"))) == {"n0": TOO_MANY}


def test_a_volume_that_a_pod_there_uses_already_adds_nothing() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a"), holder(uses("a")))
    assert refused(snapshot, node_volume_limits, pod(uses("a"))) == {}


def test_a_volume_counts_once_however_many_pods_and_claims_lead_to_it() -> None:
    again = bound("again", "v-a")
    limits = facts.CSINode("n0", ((DRIVER, 2),))
    snapshot = cluster(
        node("n0"), limits, *claims("a", "b"), again, holder(uses("a")), holder(uses("again"), name="other")
    )  # fmt: skip
    assert refused(snapshot, node_volume_limits, pod(uses("b"))) == {}


def test_claims_of_one_pod_add_up() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"))
    assert set(refused(snapshot, node_volume_limits, pod(uses("a"), uses("b")))) == {"n0", "n1"}
    assert refused(snapshot, node_volume_limits, pod(uses("a"), uses("a"))) == {}


def test_only_drivers_with_a_limit_on_the_node_are_counted() -> None:
    csi_nodes = facts.CSINode("n0", ((DRIVER, None),)), facts.CSINode("n1", (("other", 0),))
    snapshot = cluster(*NODES, node("n2"), *csi_nodes, *claims("a"))
    assert refused(snapshot, node_volume_limits, pod(uses("a"))) == {}


def test_a_limit_of_nothing_refuses_every_volume_of_the_driver() -> None:
    snapshot = cluster(node("n0"), facts.CSINode("n0", ((DRIVER, 0),)), *claims("a"))
    assert set(refused(snapshot, node_volume_limits, pod(uses("a")))) == {"n0"}


def test_a_claim_that_waits_counts_for_its_provisioner() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, DISKS, waiting("a"), waiting("b"), holder(uses("a")))
    assert refused(snapshot, node_volume_limits, pod(uses("b"))) == {"n0": TOO_MANY}


def test_an_in_tree_provisioner_counts_for_the_driver_that_took_over() -> None:
    csi_nodes = [facts.CSINode(name, (("ebs.csi.aws.com", 0),)) for name in ("n0", "n1")]
    in_tree = replace(DISKS, provisioner="kubernetes.io/aws-ebs")
    assert set(refused(cluster(*NODES, *csi_nodes, in_tree, waiting("a")), node_volume_limits, pod(uses("a")))) == {
        "n0",
        "n1",
    }
    uncounted = replace(DISKS, provisioner="kubernetes.io/vsphere-volume")
    assert refused(cluster(*NODES, *csi_nodes, uncounted, waiting("a")), node_volume_limits, pod(uses("a"))) == {}


def test_an_inline_disk_counts_for_the_driver_that_took_over() -> None:
    def inline(number: int) -> facts.Volume:
        source, driver = "awsElasticBlockStore", "ebs.csi.aws.com"
        return facts.Volume("x", source, identity=(f"vol-{number}",), driver=driver, handle=f"vol-{number}")

    snapshot = cluster(*NODES, facts.CSINode("n0", (("ebs.csi.aws.com", 1),)), holder(inline(1)))
    assert refused(snapshot, node_volume_limits, pod(inline(2))) == {"n0": TOO_MANY}
    assert refused(snapshot, node_volume_limits, pod(inline(1))) == {}


def test_an_attached_volume_that_no_pod_uses_counts_and_counts_again_for_its_pod() -> None:
    attached = facts.VolumeAttachment("va", DRIVER, "n0", "v-a")
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"), attached)
    assert refused(snapshot, node_volume_limits, pod(uses("b"))) == {"n0": TOO_MANY}
    assert refused(snapshot, node_volume_limits, pod(uses("a"))) == {"n0": TOO_MANY}


def test_an_attached_volume_that_a_pod_uses_counts_once() -> None:
    attached = facts.VolumeAttachment("va", DRIVER, "n0", "v-a")
    limits = facts.CSINode("n0", ((DRIVER, 2),))
    snapshot = cluster(node("n0"), limits, *claims("a", "b"), attached, holder(uses("a")))
    assert refused(snapshot, node_volume_limits, pod(uses("b"))) == {}


def test_attachments_of_unknown_volumes_do_not_count() -> None:
    attached = facts.VolumeAttachment("va", DRIVER, "n0", "gone"), facts.VolumeAttachment("vb", "", "n0", "v-a")
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"), *attached)
    assert refused(snapshot, node_volume_limits, pod(uses("b"))) == {}


def test_a_pod_there_that_uses_a_claim_of_another_pod_makes_the_node_unusable() -> None:
    made = bound("holder-scratch", "v-a", owner_uids=("uid-somebody",))
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"), made, holder(ephemeral("scratch", "holder")))
    text = (
        'running "NodeVolumeLimits" filter plugin: PVC default/holder-scratch was not created for pod default/holder '
        "(pod is not owner)"
    )
    waits = pod(uses("b"))
    assert refused(snapshot, node_volume_limits, waits) == {"n0": text}
    assert (
        node_volume_limits.explain(snapshot, snapshot.shape_of(waits), 0, settings.DEFAULT_FILTER_CONFIG).code
        is StatusCode.ERROR
    )


def test_a_missing_claim_is_named() -> None:
    snapshot = cluster(node("n0"))
    text = 'looking up PVC default/a: persistentvolumeclaim "a" not found'
    assert refused(snapshot, node_volume_limits, pod(uses("a"))) == {"n0": text}


def test_a_holder_that_is_lifted_frees_its_place_until_that_is_undone() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"), holder(uses("a")))
    waits = pod(uses("b"))
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0"}
    snapshot.fork()
    row = snapshot.pods.rows["uid-holder"]
    snapshot.unbind(row)
    assert refused(snapshot, node_volume_limits, waits) == {}
    snapshot.bind(row, 1)
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n1"}
    snapshot.revert()
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0"}


def test_a_committed_placement_stays_counted() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"))
    snapshot.fork()
    snapshot.place(snapshot.shape_of(pod(uses("a"))), 1)
    snapshot.commit()
    assert set(refused(snapshot, node_volume_limits, pod(uses("b")))) == {"n1"}


def test_storage_that_changes_is_counted_anew() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"), holder(uses("a")))
    waits = pod(uses("b"))
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0"}
    snapshot.storage.put(facts.CSINode("n0", ((DRIVER, 2),)))
    assert refused(snapshot, node_volume_limits, waits) == {}
    snapshot.storage.put(facts.VolumeAttachment("va", DRIVER, "n0", "v-b"))
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0"}


def test_a_row_taken_over_by_another_node_starts_from_nothing() -> None:
    attached = facts.VolumeAttachment("va", DRIVER, "n0", "v-a")
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"), attached)
    waits = pod(uses("b"))
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0"}
    snapshot.remove_node("n0")
    snapshot.add_node(node("n2"))
    assert refused(snapshot, node_volume_limits, waits) == {}


UNKNOWN = facts.Volume("x", "awsElasticBlockStore", identity=("vol-1",), driver="ebs.csi.aws.com")


def test_of_what_a_pod_wants_only_the_volumes_that_are_there_already_add_nothing() -> None:
    two = facts.CSINode("n0", ((DRIVER, 2),))
    used, other = holder(uses("a")), holder(uses("b"), name="other")
    snapshot = cluster(node("n0"), two, *claims("a", "b", "c"), used, other)
    assert refused(snapshot, node_volume_limits, pod(uses("a"), uses("c"))) == {"n0": TOO_MANY}
    assert refused(snapshot, node_volume_limits, pod(uses("a"), uses("b"))) == {}


def test_a_disk_that_nobody_can_tell_stops_only_where_volumes_are_counted() -> None:
    csi_nodes = facts.CSINode("n0", ((DRIVER, None),)), facts.CSINode("n1", ((DRIVER, 9),))
    pods = holder(UNKNOWN), holder(UNKNOWN, on="n1", name="other"), holder(UNKNOWN, on="n2", name="third")
    snapshot = cluster(*NODES, node("n2"), *csi_nodes, *claims("a"), *pods)
    found = refused(snapshot, node_volume_limits, pod(uses("a")))
    assert [*found] == ["n1"]
    assert found["n1"].startswith('running "NodeVolumeLimits" filter plugin: converting volume from inline to csi')


def test_a_pod_whose_own_disk_nobody_can_tell_runs_only_where_nobody_asks() -> None:
    snapshot = cluster(*NODES, facts.CSINode("n0", ()))
    found = refused(snapshot, node_volume_limits, pod(UNKNOWN))
    assert [*found] == ["n0"]
    shape = snapshot.shape_of(pod(UNKNOWN))
    assert node_volume_limits.explain(snapshot, shape, 0, settings.DEFAULT_FILTER_CONFIG).code is StatusCode.ERROR
    assert node_volume_limits.explain(snapshot, shape, 0, settings.DEFAULT_FILTER_CONFIG).rule == "NodeVolumeLimits"


def test_a_disk_counts_once_whether_pods_name_it_or_claim_it() -> None:
    csi_node = facts.CSINode("n0", ((DRIVER, 1),))
    inline = facts.Volume("x", "awsElasticBlockStore", identity=("v-a",), driver=DRIVER, handle="handle-v-a")
    snapshot = cluster(node("n0"), csi_node, *claims("a"), holder(inline))
    assert refused(snapshot, node_volume_limits, pod(uses("a"))) == {}
    attached = facts.VolumeAttachment("va", DRIVER, "n0", "v-a")
    assert (
        refused(
            cluster(node("n0"), csi_node, *claims("a"), attached, holder(inline)), node_volume_limits, pod(uses("a"))
        )
        == {}
    )


def test_a_disk_that_nobody_can_tell_is_named_with_its_plugin() -> None:
    found = refused(cluster(*NODES, facts.CSINode("n0", ())), node_volume_limits, pod(UNKNOWN))
    text = "converting volume from inline to csi: awsElasticBlockStore ('vol-1',)"
    assert found == {"n0": f'running "NodeVolumeLimits" filter plugin: {text}'}


def test_what_no_driver_would_attach_counts_for_nobody() -> None:
    nameless = disk("v-a", handle="")
    snapshot = cluster(
        *NODES, bound("a", "v-a"), nameless, bound("b", "v-b"), disk("v-b", driver=""), waiting("c", "gone")
    )
    assert node_volume_limits.find_wanted(snapshot, snapshot.shape_of(pod(uses("a"), uses("b"), uses("c")))) == set()


def test_pods_are_counted_still_when_storage_changed_elsewhere() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a", "b"), holder(uses("a")))
    waits = pod(uses("b"))
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0"}
    snapshot.storage.put(waiting("unheard-of"))
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0"}


def test_volumes_are_counted_on_as_many_nodes_as_are_imagined() -> None:
    late = [facts.CSINode(name, ((DRIVER, 1),)) for name in ("late", "later")]
    holders = holder(uses("a")), holder(uses("a"), on="n1", name="other")
    snapshot = cluster(*NODES, *ONE_EACH, *late, *claims("a", "b"), *holders)
    waits = pod(uses("b"))
    snapshot.fork()
    snapshot.append(
        node("t"), [f"new-{number}" for number in range(snapshot.nodes.row_capacity() - snapshot.nodes.count)]
    )
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0", "n1"}
    snapshot.append(node("t"), ["late", "later"])
    snapshot.place(snapshot.shape_of(pod(uses("a"))), snapshot.nodes.count - 1)
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0", "n1", "later"}
    snapshot.revert()
    assert set(refused(snapshot, node_volume_limits, waits)) == {"n0", "n1"}


def test_a_node_that_was_imagined_is_forgotten_with_all_that_was_wrong_on_it() -> None:
    snapshot = cluster(*NODES, facts.CSINode("new", ((DRIVER, 1),)), *claims("a"))
    snapshot.fork()
    snapshot.append(node("t"), ["new"])
    snapshot.place(snapshot.shape_of(pod(UNKNOWN)), 2)
    assert set(refused(snapshot, node_volume_limits, pod(uses("a")))) == {"new"}
    snapshot.revert()
    assert refused(snapshot, node_volume_limits, pod(uses("a"))) == {}


def test_what_is_attached_to_nodes_that_come_one_after_the_other_is_counted_on_each() -> None:
    late = [facts.CSINode(name, ((DRIVER, 1),)) for name in ("late", "later")]
    attached = [facts.VolumeAttachment(f"va-{name}", DRIVER, name, "v-a") for name in ("late", "later")]
    snapshot = cluster(*NODES, *claims("a", "b"), *late, *attached)
    snapshot.fork()
    for name, so_far in (("late", {"late"}), ("later", {"late", "later"})):
        snapshot.append(node("t"), [name])
        assert set(refused(snapshot, node_volume_limits, pod(uses("b")))) == so_far


def test_a_node_is_usable_again_when_the_disk_that_nobody_could_tell_left() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a"), holder(UNKNOWN))
    assert set(refused(snapshot, node_volume_limits, pod(uses("a")))) == {"n0"}
    snapshot.fork()
    snapshot.unbind(snapshot.pods.rows["uid-holder"])
    assert refused(snapshot, node_volume_limits, pod(uses("a"))) == {}
    snapshot.revert()
    assert set(refused(snapshot, node_volume_limits, pod(uses("a")))) == {"n0"}


def test_volumes_are_counted_where_any_driver_has_a_limit() -> None:
    mixed = facts.CSINode("n0", ((DRIVER, None), ("other", 9)))
    assert set(refused(cluster(*NODES, mixed, *claims("a"), holder(UNKNOWN)), node_volume_limits, pod(uses("a")))) == {
        "n0"
    }


def test_of_nodes_that_are_imagined_in_turn_each_has_what_is_attached_to_itself() -> None:
    limits = [facts.CSINode(name, ((DRIVER, 1),)) for name in ("full", "empty")]
    snapshot = cluster(*NODES, *claims("a", "b"), *limits, facts.VolumeAttachment("va", DRIVER, "full", "v-a"))
    for name, found in (("full", {"full"}), ("empty", set[str]()), ("full", {"full"})):
        snapshot.fork()
        snapshot.append(node("t"), [name])
        assert set(refused(snapshot, node_volume_limits, pod(uses("b")))) == found
        snapshot.revert()


def test_nothing_is_counted_where_no_volume_is_on_however_many_nodes() -> None:
    snapshot = cluster(*NODES, *ONE_EACH, *claims("a"))
    snapshot.fork()
    snapshot.append(
        node("t"), [f"new-{number}" for number in range(snapshot.nodes.row_capacity() - snapshot.nodes.count)]
    )
    assert refused(snapshot, node_volume_limits, pod(uses("a"))) == {}


def test_since_1_37_a_driver_can_insist_on_being_installed() -> None:
    insists = facts.CSIDriver(DRIVER, prevents_scheduling_if_missing=True)
    other = (facts.CSINode("n0", ((DRIVER, None),)), facts.CSINode("n1", (("other.example.com", None),)))
    third = node("n2")
    for release, expected in (
        (scheduler_releases.OLDEST_RELEASE, {}),
        (
            scheduler_releases.NEWEST_RELEASE,
            dict.fromkeys(("n1", "n2"), f"{DRIVER} CSI driver is not installed on the node"),
        ),
        (scheduler_releases.with_feature_gates(scheduler_releases.NEWEST_RELEASE, {"VolumeLimitScaling": False}), {}),
    ):
        snapshot = cluster(*NODES, third, *other, *claims("a"), insists, release=release)
        assert refused(snapshot, node_volume_limits, pod(uses("a"))) == expected
