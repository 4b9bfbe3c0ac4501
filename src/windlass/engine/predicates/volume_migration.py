"""In-tree volume plugins that CSI drivers took over, and what that does to a volume's topology."""

from dataclasses import dataclass, replace

from windlass.engine import facts
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement


@dataclass(frozen=True, slots=True)
class Plugin:
    """An in-tree plugin. `zone_key` is the label by which its CSI driver tells zones apart, empty if it tells none."""

    source: str
    name: str
    driver: str
    zone_key: str = ""


PLUGINS = (
    Plugin("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    Plugin("gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    Plugin("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    Plugin("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    Plugin("portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
)
"""Those that the scheduler takes for migrated."""

BY_SOURCE = {plugin.source: plugin for plugin in PLUGINS}

_DRIVERS = {plugin.name: plugin.driver for plugin in PLUGINS}
_DRIVERS |= {"kubernetes.io/azure-file": "", "kubernetes.io/vsphere-volume": ""}
"""Migrated too, but the scheduler counts no volume of theirs."""


def driver_of(provisioner: str) -> str:
    """The CSI driver under which a provisioner's volumes are counted; empty if they are not."""
    return _DRIVERS.get(provisioner, provisioner)


def translate(volume: facts.PersistentVolume, zone_key: str) -> NodeSelector | None:
    """The volume's node affinity, as it reads where its CSI driver took over: zones by the driver's own label.

    A volume that has zone labels only is bound by them. Beta region keys become their successors.
    """
    keys = {requirement.key for requirement in _requirements(volume.node_affinity)}
    is_beta = next((key == facts.ZONE_BETA for key in (facts.ZONE, facts.ZONE_BETA) if key in keys), None)
    if is_beta is None:
        is_beta = facts.ZONE not in volume.labels and facts.ZONE_BETA in volume.labels
    zone, region = (facts.ZONE_BETA, facts.REGION_BETA) if is_beta else (facts.ZONE, facts.REGION)
    selector = volume.node_affinity
    if _has_values(selector, zone):
        selector = _rename(selector, zone, zone_key)
    else:
        zones = {part.strip() for part in volume.labels.get(zone, "").split("__")} - {""}
        if zones:
            selector = _require(selector, Requirement(zone_key, Operator.IN, tuple(sorted(zones))))
    if is_beta and _has_values(selector, region):
        selector = _rename(selector, region, facts.REGION)
    return selector


def _requirements(selector: NodeSelector | None) -> list[Requirement]:
    return [requirement for term in (selector.terms if selector else ()) for requirement in term.expressions]


def _has_values(selector: NodeSelector | None, key: str) -> bool:
    return any(requirement.key == key and requirement.values for requirement in _requirements(selector))


def _rename(selector: NodeSelector | None, old: str, new: str) -> NodeSelector | None:
    if selector is None:
        return None
    return NodeSelector(
        tuple(
            replace(term, expressions=tuple(replace(r, key=new) if r.key == old else r for r in term.expressions))
            for term in selector.terms
        )
    )


def _require(selector: NodeSelector | None, requirement: Requirement) -> NodeSelector:
    terms = selector.terms if selector and selector.terms else (NodeSelectorTerm(),)
    return NodeSelector(tuple(replace(term, expressions=(*term.expressions, requirement)) for term in terms))
