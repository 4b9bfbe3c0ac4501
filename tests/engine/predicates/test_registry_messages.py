"""What filters are called and what they say: kube-scheduler's words, which people search for."""

import pytest

from windlass.engine.model.scheduling_reasons import Refusal, StatusCode
from windlass.engine.predicates import (
    dynamic_resources,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_unschedulable,
    node_volume_limits,
    persistent_volumes,
    pod_topology_spread,
    registry,
    taint_toleration,
    volume_binding,
    volume_restrictions,
    volume_zone,
)

NAMES = [
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
    "DynamicResources", "NodeDeclaredFeatures",
]  # fmt: skip
FOR_GOOD, FOR_NOW = StatusCode.UNRESOLVABLE, StatusCode.UNSCHEDULABLE

WORDS = [
    (node_unschedulable.REFUSAL, "NodeUnschedulable", FOR_GOOD, "node(s) were unschedulable"),
    (node_name.REFUSAL, "NodeName", FOR_GOOD, "node(s) didn't match the requested node name"),
    (taint_toleration.REFUSAL, "TaintToleration", FOR_GOOD, "node(s) had untolerated taint(s)"),
    (node_affinity.CONFLICT, "NodeAffinity", FOR_GOOD, "pod affinity terms conflict"),
    (registry.PreFilterResult(frozenset("a"), ("NodeAffinity",)).outside, "NodeAffinity", FOR_GOOD,
     "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    (node_affinity.MISMATCH, "NodeAffinity", FOR_GOOD, "node(s) didn't match Pod's node affinity/selector"),
    (node_affinity.ENFORCED, "NodeAffinity", FOR_GOOD, "node(s) didn't match scheduler-enforced node affinity"),
    (node_ports.REFUSAL, "NodePorts", FOR_NOW, "node(s) didn't have free ports for the requested pod ports"),
    (volume_restrictions.DISK_IN_USE, "VolumeRestrictions", FOR_NOW, "node(s) had no available disk"),
    (volume_restrictions.CLAIM_IN_USE, "VolumeRestrictions", FOR_NOW,
     "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another "
     "pod"),
    (node_volume_limits.TOO_MANY, "NodeVolumeLimits", FOR_NOW, "node(s) exceed max volume count"),
    (volume_binding.UNTRANSLATABLE, "VolumeBinding", StatusCode.ERROR,
     'running "VolumeBinding" filter plugin: could not translate pv'),
    (volume_zone.OTHER_ZONE, "VolumeZone", FOR_GOOD, "node(s) had no available volume zone"),
    (pod_topology_spread.NO_LABEL, "PodTopologySpread", FOR_GOOD,
     "node(s) didn't match pod topology spread constraints (missing required label)"),
    (
        pod_topology_spread.TOO_SKEWED,
        "PodTopologySpread",
        FOR_NOW,
        "node(s) didn't match pod topology spread constraints",
    ),
    (inter_pod_affinity.AFFINITY, "InterPodAffinity", FOR_GOOD, "node(s) didn't match pod affinity rules"),
    (inter_pod_affinity.ANTI_AFFINITY, "InterPodAffinity", FOR_NOW, "node(s) didn't match pod anti-affinity rules"),
    (
        inter_pod_affinity.SYMMETRY,
        "InterPodAffinity",
        FOR_NOW,
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ),
    (node_declared_features.REFUSAL, "NodeDeclaredFeatures", FOR_GOOD, "node(s) didn't match Pod's required features"),
]  # fmt: skip


def test_filters_are_called_and_ordered_as_in_the_scheduler() -> None:
    assert [rule.NAME for rule in registry.FILTERS] == NAMES
    assert [rule.NAME for rule in registry.PRE_FILTERS] == [
        "NodeAffinity", "VolumeRestrictions", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
        "DynamicResources",
    ]  # fmt: skip


def test_every_filter_is_asked_once_of_facts_or_of_what_is_there() -> None:
    static = [rule.NAME for rule in registry.STATIC_FILTERS]
    assert static == ["NodeUnschedulable", "NodeName", "NodeAffinity", "NodeDeclaredFeatures"]
    others = [rule.NAME for rule in registry.DYNAMIC_FILTERS]
    assert others == [name for name in NAMES if name not in static and name != "TaintToleration"]


@pytest.mark.parametrize(("refusal", "rule", "code", "text"), WORDS)
def test_refusals_are_in_the_schedulers_words(refusal: Refusal, rule: str, code: StatusCode, text: str) -> None:
    assert (refusal.rule, refusal.code, refusal.texts) == (rule, code, [text])


def test_reasons_that_are_put_together_are_in_the_schedulers_words() -> None:
    assert {fault.name: str(reason) for fault, reason in volume_binding.REASONS.items()} == {
        "UNREACHABLE": "node(s) didn't match PersistentVolume's node affinity",
        "UNBINDABLE": "node(s) didn't find available persistent volumes to bind",
        "NO_SPACE": "node(s) did not have enough free storage",
        "GONE": "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    }
    assert str(volume_binding.UNBOUND) == "pod has unbound immediate PersistentVolumeClaims"
    assert str(volume_zone.UNBOUND) == "PersistentVolume had no name"
    assert str(volume_zone.NO_CLASS) == "PersistentVolumeClaim had no pv name and storageClass name"
    assert str(persistent_volumes.make_missing_reason("persistentvolume", "v")) == 'persistentvolume "v" not found'
    assert [str(dynamic_resources.NOT_ENOUGH), str(dynamic_resources.NOT_HERE), str(dynamic_resources.STALE)] == [
        "cannot allocate all claims",
        "resourceclaim not available on the node",
        "cannot schedule extended resource claim",
    ]


def test_faults_of_a_node_can_be_told_apart_however_many_there_are() -> None:
    assert [fault.value for fault in volume_binding.BindingFault] == [1, 2, 4, 8, 16, 32]


def test_marks_that_others_set_are_spelled_as_they_do() -> None:
    assert (node_unschedulable.TAINT.key, node_unschedulable.TAINT.value) == ("node.kubernetes.io/unschedulable", "")
    assert node_unschedulable.TAINT.effect == "NoSchedule"
    assert persistent_volumes.BIND_COMPLETED == "pv.kubernetes.io/bind-completed"
    assert persistent_volumes.SELECTED_NODE == "volume.kubernetes.io/selected-node"
    assert persistent_volumes.READ_WRITE_ONCE_POD == "ReadWriteOncePod"
    assert volume_binding.NO_PROVISIONER == "kubernetes.io/no-provisioner"
    assert node_ports.ANY_ADDRESS == "0.0.0.0"


@pytest.mark.parametrize(
    ("source", "name", "driver", "zone_key"),
    [
        ("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
        ("gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
        ("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
        ("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com", ""),
        ("portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com", ""),
    ],
)
def test_each_plugin_was_taken_over_by_its_driver(source: str, name: str, driver: str, zone_key: str) -> None:
    assert persistent_volumes.IN_TREE_PLUGINS_BY_SOURCE[source] == persistent_volumes.InTreePlugin(
        source, name, driver, zone_key
    )
    assert persistent_volumes.find_csi_driver(name) == driver
    assert len(persistent_volumes.IN_TREE_PLUGINS) == len(persistent_volumes.IN_TREE_PLUGINS_BY_SOURCE) == 5


def test_volumes_of_some_plugins_are_not_counted_and_all_other_provisioners_are_drivers() -> None:
    uncounted = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
    assert [persistent_volumes.find_csi_driver(name) for name in (*uncounted, "csi.example.com")] == [
        "",
        "",
        "csi.example.com",
    ]
