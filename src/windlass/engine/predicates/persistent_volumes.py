"""PersistentVolumes and claims: binding state, in-tree to CSI migration, and from which nodes a volume can be reached.

There may be as many node affinities as local volumes, each true of one node: none is kept as a mask over all nodes. One
is evaluated in a few microseconds (`match_volume_affinity`), thousands at once by label values (`AffinityIndex`).
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

if TYPE_CHECKING:
    from windlass.engine.snapshot import node_table
    from windlass.engine.snapshot.volume_usage import StorageTable

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"

SELECTED_NODE = "volume.kubernetes.io/selected-node"

READ_WRITE_ONCE_POD = "ReadWriteOncePod"


def list_claimed(
    storage: "StorageTable", shape: facts.PodShape
) -> Iterator[tuple[facts.Volume, facts.PersistentVolumeClaim | None]]:
    """The shape's volumes that use a claim, in their order, each with its claim; None where there is none."""
    for volume in shape.spec.volumes:
        if volume.claim:
            yield volume, storage.claims.get((shape.namespace, volume.claim))


def is_named(volume: facts.Volume) -> bool:
    """Does the pod name the claim? Otherwise it was made for the pod (ephemeral)."""
    return volume.source == "persistentVolumeClaim"


def is_bound(claim: facts.PersistentVolumeClaim) -> bool:
    """Bound for good: a claim that merely names a volume still waits for the controller."""
    return bool(claim.volume_name) and BIND_COMPLETED in claim.annotations


def waits_for_consumer(storage: "StorageTable", claim: facts.PersistentVolumeClaim) -> bool:
    storage_class = storage.classes.get(claim.storage_class or "")
    return storage_class is not None and storage_class.waits_for_consumer


def make_missing_reason(kind: str, name: str) -> Reason:
    """The message of a missing object; `kind` in lower case, as in the scheduler's lister errors."""
    return Reason('{} "{}" not found', (kind, name))


def make_missing_claim_reason(volume: facts.Volume) -> Reason:
    return make_missing_reason("persistentvolumeclaim", volume.claim)


def is_not_created_for_pod(claim: facts.PersistentVolumeClaim, pod_uid: str) -> bool:
    """The claim of an ephemeral volume must be controlled by the volume's pod."""
    return pod_uid not in claim.owner_uids


def make_not_created_for_pod_reason(claim: facts.PersistentVolumeClaim, volume: str) -> Reason:
    """Why an ephemeral volume of this name cannot use the claim: it is called after the pod, but not the pod's own."""
    pod = claim.name.removesuffix(f"-{volume}")
    return Reason("PVC {0}/{1} was not created for pod {0}/{2} (pod is not owner)", (claim.namespace, claim.name, pod))


@dataclass(frozen=True, slots=True)
class InTreePlugin:
    """An in-tree plugin. `zone_key` is the zone label of its CSI driver; empty without one."""

    source: str
    name: str
    driver: str
    zone_key: str = ""


IN_TREE_PLUGINS = (
    InTreePlugin("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    InTreePlugin("gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    InTreePlugin(
        "cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
    ),
    InTreePlugin("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    InTreePlugin("portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
)
"""Those that the scheduler takes for migrated."""

IN_TREE_PLUGINS_BY_SOURCE = {plugin.source: plugin for plugin in IN_TREE_PLUGINS}


def find_csi_driver(provisioner: str) -> str:
    """The CSI driver under which a provisioner's volumes are counted; empty if they are not."""
    return _DRIVERS.get(provisioner, provisioner)


def translate_affinity(volume: facts.PersistentVolume, zone_key: str) -> NodeSelector | None:
    """The volume's node affinity, as it reads where its CSI driver took over: zones by the driver's own label.

    A volume that has zone labels only is bound by them. Beta region keys become their successors.
    """
    keys = {requirement.key for requirement in _list_requirements(volume.node_affinity)}
    is_beta = next((key == facts.ZONE_BETA for key in (facts.ZONE, facts.ZONE_BETA) if key in keys), None)
    if is_beta is None:
        is_beta = facts.ZONE not in volume.labels and facts.ZONE_BETA in volume.labels
    zone, region = (facts.ZONE_BETA, facts.REGION_BETA) if is_beta else (facts.ZONE, facts.REGION)
    selector = volume.node_affinity
    if _has_values(selector, zone):
        selector = _rename_key(selector, zone, zone_key)
    else:
        zones = {part.strip() for part in volume.labels.get(zone, "").split("__")} - {""}
        if zones:
            selector = _add_requirement(selector, Requirement(zone_key, Operator.IN, tuple(sorted(zones))))
    if is_beta and _has_values(selector, region):
        selector = _rename_key(selector, region, facts.REGION)
    return selector


def _list_requirements(selector: NodeSelector | None) -> list[Requirement]:
    return [requirement for term in (selector.terms if selector else ()) for requirement in term.expressions]


def _has_values(selector: NodeSelector | None, key: str) -> bool:
    return any(requirement.key == key and requirement.values for requirement in _list_requirements(selector))


def _rename_key(selector: NodeSelector | None, old: str, new: str) -> NodeSelector | None:
    if selector is None:
        return None
    return NodeSelector(
        tuple(
            replace(term, expressions=tuple(replace(r, key=new) if r.key == old else r for r in term.expressions))
            for term in selector.terms
        )
    )


def _add_requirement(selector: NodeSelector | None, requirement: Requirement) -> NodeSelector:
    terms = selector.terms if selector and selector.terms else (NodeSelectorTerm(),)
    return NodeSelector(tuple(replace(term, expressions=(*term.expressions, requirement)) for term in terms))


Requirements: TypeAlias = tuple[Requirement, ...]
"""All of them must hold."""


def find_reachable(
    table: "node_table.NodeTable", storage: "StorageTable", volume: facts.PersistentVolume, rows: slice
) -> tuple[arrays.Mask, arrays.Mask | None]:
    """Bool (n_rows) twice: the volume is reachable; that cannot be evaluated (None: it can on all rows).

    A volume of an in-tree plugin is evaluated as its CSI driver's where the node has migrated the plugin.
    """
    plain = match_volume_affinity(table, volume.node_affinity, rows)
    plugin = IN_TREE_PLUGINS_BY_SOURCE.get(volume.source)
    if plugin is None:
        return plain, None
    migrated = _migrated(table, storage, plugin.name)[rows]
    if not volume.handle:
        return plain, migrated
    if not plugin.zone_key or not migrated.any():
        return plain, None
    translated = match_volume_affinity(table, translate_affinity(volume, plugin.zone_key), rows)
    return np.where(migrated, translated, plain), None


def _migrated(table: "node_table.NodeTable", storage: "StorageTable", plugin: str) -> arrays.Mask:
    """Bool (n_nodes): the node's CSINode lists the plugin as migrated."""

    def compute(rows: slice) -> arrays.Mask:
        csi_nodes = (storage.find_csi_node(table, row) for row in range(rows.start, rows.stop))
        return np.fromiter((node is not None and plugin in node.migrated_plugins for node in csi_nodes), bool)

    return storage.column(table, ("migrated", plugin), compute)


def match_volume_affinity(table: "node_table.NodeTable", selector: NodeSelector | None, rows: slice) -> arrays.Mask:
    """Bool (n_rows): the nodes' labels match a volume's node affinity; no affinity matches all.

    The scheduler evaluates the affinity with the node's labels, without its name: terms on names are ignored.
    """
    if selector is None:
        return np.ones(rows.stop - rows.start, bool)
    mask = np.zeros(rows.stop - rows.start, bool)
    for requirements in list_alternatives(selector):
        matching = np.ones(len(mask), bool)
        for requirement in requirements:
            matching &= table.accepts(requirement, rows)
        mask |= matching
    return mask


def list_alternatives(selector: NodeSelector | None) -> list[Requirements]:
    """What a volume's node affinity asks for, any of which will do; no affinity asks for nothing."""
    if selector is None:
        return [()]
    return [term.expressions for term in selector.terms if not term.is_empty]


class AffinityIndex:
    """An index of selectors by the label values they name: only selectors with a node's values are evaluated for it."""

    def __init__(self, selectors: Iterable[Iterable[Requirements]]) -> None:
        self._by_value: dict[str, dict[str, list[tuple[int, Requirements]]]] = {}
        self._others: list[tuple[int, Requirements]] = []
        for number, selector in enumerate(selectors):
            for requirements in selector:
                self._list(number, requirements)

    def _list(self, number: int, requirements: Requirements) -> None:
        named = next((requirement for requirement in requirements if requirement.operator is Operator.IN), None)
        if named is None:
            self._others.append((number, requirements))
            return
        rest = tuple(requirement for requirement in requirements if requirement is not named)
        by_value = self._by_value.setdefault(named.key, {})
        for value in named.values:
            by_value.setdefault(value, []).append((number, rest))

    def find(self, table: "node_table.NodeTable", rows: slice) -> dict[int, arrays.Rows]:
        """By selector, in their order, the positions among these rows of the nodes that it selects, if any."""
        rows_by_volume: dict[int, list[arrays.Rows]] = {}
        for key, by_value in self._by_value.items():
            column = table.label_column(key)
            for number, where in _group_by_id(column.ids[rows]):
                for selector, rest in by_value.get(column.values[number], ()):
                    rows_by_volume.setdefault(selector, []).append(_narrow(table, rows, where, rest))
        for selector, requirements in self._others:
            everywhere = np.arange(rows.stop - rows.start)
            rows_by_volume.setdefault(selector, []).append(_narrow(table, rows, everywhere, requirements))
        return {selector: _union(rows_by_volume[selector]) for selector in sorted(rows_by_volume)}


def _group_by_id(ids: arrays.Ids) -> Iterator[tuple[int, arrays.Rows]]:
    """Every id that is not absent, and where it is."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=arrays.ABSENT)).tolist()
    for start, end in itertools.pairwise([*starts, len(ids)]):
        yield int(ordered[start]), order[start:end]


def _narrow(table: "node_table.NodeTable", rows: slice, where: arrays.Rows, requirements: Requirements) -> arrays.Rows:
    for requirement in requirements:
        where = where[table.accepts(requirement, rows)[where]]
    return where


def _union(found: list[arrays.Rows]) -> arrays.Rows:
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


_DRIVERS = {plugin.name: plugin.driver for plugin in IN_TREE_PLUGINS}

_DRIVERS |= {"kubernetes.io/azure-file": "", "kubernetes.io/vsphere-volume": ""}
"""Migrated too, but the scheduler counts no volume of theirs."""
