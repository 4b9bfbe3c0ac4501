import pytest

from windlass.autoscaler.readers import storage_objects

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("source", "disk", "labels", "handle"),
    [
        ("awsElasticBlockStore", "vol-1", {}, "vol-1"),
        ("awsElasticBlockStore", "aws://eu-west-1a/vol-1", {}, "vol-1"),
        ("awsElasticBlockStore", "aws:///vol-1", {}, "vol-1"),
        ("awsElasticBlockStore", "aws://eu-west-1a/disk-1", {}, ""),
        ("gcePersistentDisk", "d", {}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ("gcePersistentDisk", "d", {ZONE: "us-east1-b"}, "projects/UNSPECIFIED/zones/us-east1-b/disks/d"),
        (
            "gcePersistentDisk",
            "d",
            {ZONE: "x", BETA_ZONE: "us-east1-c"},
            "projects/UNSPECIFIED/zones/us-east1-c/disks/d",
        ),
        ("gcePersistentDisk", "d", {ZONE: "us-east1-b__us-east1-c"}, "projects/UNSPECIFIED/regions/us-east1/disks/d"),
        ("gcePersistentDisk", "d", {ZONE: "us-east1-b__us-west1-c"}, ""),
        ("gcePersistentDisk", "d", {ZONE: "us-east1-b__here"}, ""),
        ("azureDisk", "/subscriptions/1/disks/d", {}, "/subscriptions/1/disks/d"),
        ("cinder", "c", {}, "c"),
        ("portworxVolume", "p", {}, "p"),
        ("nfs", "n", {}, ""),
    ],
)
def test_handles_by_which_csi_drivers_know_in_tree_disks(
    source: str, disk: str, labels: dict[str, str], handle: str
) -> None:
    assert storage_objects.find_volume_handle(source, disk, labels) == handle
