from typing import Any

import pytest

from windlass import errors, selectors
from windlass.autoscaler.readers import storage_objects
from windlass.engine.model import facts
from windlass.kube import scheme
from windlass.kube.models import core
from windlass.selectors import LabelSelector, Operator, Requirement

Json = dict[str, Any]
BETA_CLASS = {"volume.beta.kubernetes.io/storage-class": "beta"}


def read_volume(spec: Json, status: Json | None = None, **metadata: Any) -> facts.PersistentVolume:
    json = {"metadata": {"name": "v", **metadata}, "spec": spec, "status": status}
    return storage_objects.read_volume(scheme.decode_as(core.PersistentVolume, json))


def read_claim(spec: Json, **metadata: Any) -> facts.PersistentVolumeClaim:
    json = {"metadata": {"namespace": "ns", "name": "c", **metadata}, "spec": spec}
    return storage_objects.read_claim(scheme.decode_as(core.PersistentVolumeClaim, json))


def test_a_volume() -> None:
    zones = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    persistent_volume = read_volume(
        {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "volumeMode": "Block",
            "claimRef": {"namespace": "ns", "name": "c", "uid": "cu"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [zones]}},
            "csi": {"driver": "d", "volumeHandle": "h"},
        },
        {"phase": "Bound"},
        uid="u",
        labels={"a": "b"},
        deletionTimestamp="1970-01-01T00:00:05Z",
    )

    assert persistent_volume == facts.PersistentVolume(
        name="v",
        uid="u",
        labels={"a": "b"},
        capacity_bytes=2**30,
        access_modes=("ReadWriteOnce",),
        storage_class="fast",
        volume_mode="Block",
        node_affinity=selectors.NodeSelector(
            (selectors.NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),)),),
        ),
        phase="Bound",
        claim_namespace="ns",
        claim_name="c",
        claim_uid="cu",
        terminating=True,
        source="csi",
        driver="d",
        handle="h",
    )


@pytest.mark.parametrize(
    ("spec", "source", "driver", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}, "awsElasticBlockStore", "ebs.csi.aws.com", "vol-1"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            "gcePersistentDisk",
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/z/disks/d",
        ),
        ({"azureDisk": {"diskName": "d", "diskURI": "/d"}}, "azureDisk", "disk.csi.azure.com", "/d"),
        ({"cinder": {"volumeID": "c"}}, "cinder", "cinder.csi.openstack.org", "c"),
        ({"portworxVolume": {"volumeID": "p"}}, "portworxVolume", "pxd.portworx.com", "p"),
        ({"azureFile": {"shareName": "s"}}, "azureFile", "", ""),
        ({"vsphereVolume": {"volumePath": "p"}}, "vsphereVolume", "", ""),
        ({"local": {"path": "/"}}, "local", "", ""),
        ({"hostPath": {"path": "/"}}, "hostPath", "", ""),
        ({"nfs": {"server": "s", "path": "/"}}, "nfs", "", ""),
        ({"flexVolume": {"driver": "f"}}, "", "", ""),
    ],
)
def test_sources_and_the_drivers_that_took_them_over(spec: Json, source: str, driver: str, handle: str) -> None:
    persistent_volume = read_volume(spec, labels={"topology.kubernetes.io/zone": "z"})

    assert (persistent_volume.source, persistent_volume.driver, persistent_volume.handle) == (source, driver, handle)


def test_a_claim() -> None:
    owners = [{"kind": "Pod", "name": "p", "uid": "pu", "controller": True}, {"kind": "X", "name": "x", "uid": "xu"}]
    persistent_volume_claim = read_claim(
        {
            "storageClassName": "fast",
            "volumeName": "v",
            "resources": {"requests": {"storage": "1.5Gi"}},
            "accessModes": ["ReadWriteOncePod"],
            "selector": {"matchLabels": {"a": "b"}},
        },
        uid="u",
        ownerReferences=owners,
    )

    assert persistent_volume_claim == facts.PersistentVolumeClaim(
        namespace="ns",
        name="c",
        uid="u",
        owner_uids=("pu",),
        storage_class="fast",
        volume_name="v",
        request_bytes=1536 * 2**20,
        access_modes=("ReadWriteOncePod",),
        selector=LabelSelector((Requirement("a", Operator.IN, ("b",)),)),
    )


def test_no_class_an_empty_class_and_the_older_annotation() -> None:
    assert read_claim({}).storage_class is None
    assert read_claim({"storageClassName": ""}).storage_class == ""
    assert read_claim({"storageClassName": "fast"}, annotations=BETA_CLASS).storage_class == "beta"
    assert read_volume({"storageClassName": "fast"}, annotations=BETA_CLASS).storage_class == "beta"


def test_classes_and_csi_objects() -> None:
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]
    storage_class = {"metadata": {"name": "s"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}
    drivers = [{"name": "d", "nodeID": "n", "allocatable": {"count": 3}}, {"name": "e", "nodeID": "n"}]
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
    csi_node = {"metadata": {"name": "n", "annotations": migrated}, "spec": {"drivers": drivers}}
    attachment = {
        "metadata": {"name": "a"},
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    }

    assert storage_objects.read_storage_class(
        scheme.decode_as(core.StorageClass, {**storage_class, "allowedTopologies": topologies})
    ) == facts.StorageClass("s", "p", True, ((("zone", ("a", "b")),),))
    assert storage_objects.read_csi_node(scheme.decode_as(core.CSINode, csi_node)) == facts.CSINode(
        "n", (("d", 3), ("e", None)), frozenset({"kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"})
    )
    assert storage_objects.read_attachment(
        scheme.decode_as(core.VolumeAttachment, attachment)
    ) == facts.VolumeAttachment("a", "d", "n", "v")
    driver = {"metadata": {"name": "d"}, "spec": {"storageCapacity": True}}
    assert storage_objects.read_csi_driver(scheme.decode_as(core.CSIDriver, driver)) == facts.CSIDriver("d", True)


def test_capacity_that_is_not_told_is_not_zero() -> None:
    def read(**fields: Any) -> facts.CSIStorageCapacity:
        json = {"metadata": {"namespace": "ns", "name": "c"}, "storageClassName": "s", **fields}
        return storage_objects.read_storage_capacity(scheme.decode_as(core.CSIStorageCapacity, json))

    assert read() == facts.CSIStorageCapacity("ns", "c", "s")
    assert read(capacity="0", maximumVolumeSize="1Ki", nodeTopology={}) == facts.CSIStorageCapacity(
        "ns", "c", "s", selectors.EVERYTHING, 0, 1024
    )


def test_storage_that_cannot_be_used_says_why() -> None:
    with pytest.raises(errors.InvalidObject, match=r"PersistentVolume v: spec\.capacity\[storage\]: found '1x'"):
        read_volume({"capacity": {"storage": "1x"}})
    with pytest.raises(errors.InvalidObject, match=r"spec\.resources\.requests\[storage\]: found '-1'"):
        read_claim({"resources": {"requests": {"storage": "-1"}}})


def test_a_selector_of_a_claim_that_cannot_be_parsed_is_kept_in_the_words_of_kube_scheduler() -> None:
    claim = read_claim({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})
    fault = "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    assert (claim.selector, claim.selector_fault) == (None, fault)


def test_a_topology_that_cannot_be_parsed_is_that_of_no_node() -> None:
    bad = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "not valid"]}]}]
    made = {"metadata": {"name": "s"}, "provisioner": "p", "allowedTopologies": bad}
    assert storage_objects.read_storage_class(scheme.decode_as(core.StorageClass, made)).allowed_topologies == ((),)
    offered = {"metadata": {"name": "c"}, "nodeTopology": {"matchLabels": {"zone": "not valid"}}}
    assert (
        storage_objects.read_storage_capacity(scheme.decode_as(core.CSIStorageCapacity, offered)).node_topology is None
    )
