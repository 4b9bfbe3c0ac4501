"""VolumeBinding: bound volumes must be reachable from the node, and unbound claims must find a volume or storage there.

A claim whose class waits for a consumer may be bound to a volume that exists, or have one provisioned. Any other claim
must be bound before its pod is scheduled.

Nodes from which the same volumes can be reached are one place: each node with local volumes, a few with network
volumes. Claims are matched per place, smallest claim first, each to the smallest volume left that suits it. Nothing is
remembered between pods: two pods that are placed in one fork may count on the same volume.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from windlass.engine.model import arrays, facts
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode
from windlass.engine.predicates import persistent_volumes
from windlass.selectors import NodeSelector, Operator, Requirement

if TYPE_CHECKING:
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot import node_table
    from windlass.engine.snapshot.cluster_snapshot import Snapshot
    from windlass.engine.snapshot.volume_usage import StorageTable


@dataclass(frozen=True, slots=True)
class VolumeRequirements:
    """What a claim asks of a volume besides its size, its place and its labels."""

    mode: str
    access_modes: frozenset[str]
    attributes_class: str

    def suits(self, claim: facts.PersistentVolumeClaim) -> bool:
        return self.holds(claim) and self.access_modes.issuperset(claim.access_modes)

    def holds(self, claim: facts.PersistentVolumeClaim) -> bool:
        """A volume that names the claim must hold it, whatever its access modes."""
        return self.mode == claim.volume_mode and self.attributes_class == claim.attributes_class


class AvailableVolumes:
    """The volumes of one class that are there to be bound. Arrays are (n_offers,), smallest volume first."""

    def __init__(self, storage: "StorageTable", storage_class: str) -> None:
        self._storage = storage
        self._class = storage_class
        self._prebound: dict[tuple[str, str], list[int]] = {}
        self.volumes = [volume for volume in storage.volumes_of(storage_class) if self._is_offered(volume)]
        self._sizes = np.array([volume.capacity_bytes for volume in self.volumes], arrays.RESOURCE_DTYPE)
        self._is_free = np.array([not volume.claim_name for volume in self.volumes], bool)
        self._kinds: arrays.Index[VolumeRequirements] = arrays.Index()
        self._kind_ids = np.array(
            [self._kinds.intern(_requirements_of(volume)) for volume in self.volumes], arrays.ID_DTYPE
        )
        self._selectors: arrays.Index[NodeSelector | None] = arrays.Index()
        self._by_selector: list[list[int]] = []
        self._places: arrays.Index[tuple[int, ...]] = arrays.Index()
        self._pairs: tuple[arrays.Rows, arrays.Rows] = np.zeros(0, np.intp), np.zeros(0, np.intp)
        self._paired = 0
        for number, volume in enumerate(self.volumes):
            self._list(number, volume)
        self._index = persistent_volumes.AffinityIndex(
            persistent_volumes.list_alternatives(selector) for selector in self._selectors
        )

    def _is_offered(self, volume: facts.PersistentVolume) -> bool:
        if volume.terminating:
            return False
        if not volume.claim_name:
            return volume.phase == "Available"
        claim = self._storage.claims.get((volume.claim_namespace, volume.claim_name))
        return claim is not None and not persistent_volumes.is_bound(claim) and volume.claim_uid in ("", claim.uid)

    def _list(self, number: int, volume: facts.PersistentVolume) -> None:
        selector = self._selectors.intern(volume.node_affinity)
        if selector == len(self._by_selector):
            self._by_selector.append([])
        self._by_selector[selector].append(number)
        if volume.claim_name:
            self._prebound.setdefault((volume.claim_namespace, volume.claim_name), []).append(number)

    def places(self, table: "node_table.NodeTable") -> arrays.Ids:
        """Int32 (n_nodes): the place of each node."""
        return self._storage.column(table, ("places", self._class), lambda rows: self._find_places(table, rows))

    def _find_places(self, table: "node_table.NodeTable", rows: slice) -> arrays.Ids:
        """A place is known by the selectors that are true of it: each selector splits the places found so far."""
        codes = np.zeros(rows.stop - rows.start, np.intp)
        known: list[tuple[int, ...]] = [()]
        for number, where in self._index.find(table, rows).items():
            split, parts = np.unique(codes[where], return_inverse=True)
            codes[where] = len(known) + parts
            known += [(*known[code], number) for code in split.tolist()]
        used, parts = np.unique(codes, return_inverse=True)
        ids = [self._places.intern(known[code]) for code in used.tolist()]
        return np.array(ids, arrays.ID_DTYPE)[parts]

    def _pair(self) -> tuple[arrays.Rows, arrays.Rows]:
        """(places, offers): every offer with every place from which it can be reached, smallest volume first."""
        if self._paired != len(self._places):
            self._paired = len(self._places)
            pairs = sorted(
                (offer, place)
                for place, selectors in enumerate(self._places)
                for selector in selectors
                for offer in self._by_selector[selector]
            )
            both = np.array(pairs, np.intp).reshape(-1, 2)
            self._pairs = both[:, 1], both[:, 0]
        return self._pairs

    def match(self, claims: Sequence[facts.PersistentVolumeClaim]) -> list[arrays.Mask]:
        """For each claim, in this order, bool (n_places): a volume is there for it."""
        taken = np.zeros(len(self._pair()[0]), bool)
        return [self._match_one(claim, taken) for claim in claims]

    def _match_one(self, claim: facts.PersistentVolumeClaim, taken: arrays.Mask) -> arrays.Mask:
        """Bool (n_places): found. Marks in `taken` (n_pairs) what was found where."""
        places, offers = self._pair()
        found, searching = np.zeros(len(self._places), bool), np.ones(len(self._places), bool)
        for offer in self._prebound.get((claim.namespace, claim.name), ()):
            if self._kinds[self._kind_ids[offer]].holds(claim) and self._sizes[offer] >= claim.request_bytes:
                # A volume that names the claim is the only one that will do, unless the claim has it already.
                gone = np.zeros(len(self._places), bool)
                gone[places[(offers == offer) & taken]] = True
                takes = (offers == offer) & (searching & ~gone)[places]
                found[places[takes]] = True
                taken |= takes
                searching &= gone
        candidates = np.flatnonzero(self._suitable(claim)[offers] & ~taken & searching[places])
        where, first = np.unique(places[candidates], return_index=True)
        found[where] = True
        taken[candidates[first]] = True
        return found

    def _suitable(self, claim: facts.PersistentVolumeClaim) -> arrays.Mask:
        """Bool (n_offers): the volume is anybody's and is what the claim asks for."""
        kinds = np.fromiter((kind.suits(claim) for kind in self._kinds), bool, len(self._kinds))
        suitable: arrays.Mask = kinds[self._kind_ids] & self._is_free & (self._sizes >= claim.request_bytes)
        if claim.selector is not None:
            for offer in np.flatnonzero(suitable).tolist():
                suitable[offer] = claim.selector.matches(self.volumes[offer].labels)
        return suitable


def _requirements_of(volume: facts.PersistentVolume) -> VolumeRequirements:
    return VolumeRequirements(volume.volume_mode, frozenset(volume.access_modes), volume.attributes_class)


def sort_smallest_first(claims: Sequence[facts.PersistentVolumeClaim]) -> list[facts.PersistentVolumeClaim]:
    """Claims in the order in which volumes are looked for: smallest first."""
    return sorted(claims, key=lambda claim: claim.request_bytes)


def match_claims(
    table: "node_table.NodeTable", storage: "StorageTable", claims: Sequence[facts.PersistentVolumeClaim], rows: slice
) -> list[tuple[facts.PersistentVolumeClaim, arrays.Mask]]:
    """The claims, smallest first, each with bool (n_rows): a volume that exists is there for it."""
    ordered = sort_smallest_first(claims)
    claim_masks: list[arrays.Mask] = [np.zeros(0, bool)] * len(ordered)
    for name in {claim.storage_class or "" for claim in ordered}:
        where = [i for i, claim in enumerate(ordered) if (claim.storage_class or "") == name]
        masks = _find_in_class(table, storage, name, [ordered[i] for i in where], rows)
        for i, mask in zip(where, masks, strict=True):
            claim_masks[i] = mask
    return list(zip(ordered, claim_masks, strict=True))


def _find_in_class(
    table: "node_table.NodeTable",
    storage: "StorageTable",
    name: str,
    claims: list[facts.PersistentVolumeClaim],
    rows: slice,
) -> list[arrays.Mask]:
    offers = storage.cached(("offers", name), lambda: AvailableVolumes(storage, name))
    if not offers.volumes:
        return [np.zeros(rows.stop - rows.start, bool)] * len(claims)
    places = offers.places(table)[rows]
    return [mask[places] for mask in offers.match(claims)]


NO_PROVISIONER = "kubernetes.io/no-provisioner"

_NO_CAPACITY = -1
"""No storage at all can be reached from the node."""


def find_allowed_topology(table: "node_table.NodeTable", storage_class: facts.StorageClass, rows: slice) -> arrays.Mask:
    """Bool (n_rows): the class provisions volumes for this node's topology."""
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return np.zeros(rows.stop - rows.start, bool)
    if not storage_class.allowed_topologies:
        return np.ones(rows.stop - rows.start, bool)
    mask = np.zeros(rows.stop - rows.start, bool)
    for term in storage_class.allowed_topologies:
        if term:
            matching = np.ones(len(mask), bool)
            for key, values in term:
                matching &= table.requirement_mask(Requirement(key, Operator.IN, values))[rows]
            mask |= matching
    return mask


def has_storage_capacity(
    table: "node_table.NodeTable",
    storage: "StorageTable",
    storage_class: facts.StorageClass,
    size_bytes: int,
    rows: slice,
) -> arrays.Mask:
    """Bool (n_rows): storage that the node can reach takes a volume of this size.

    Only asked of drivers that publish their capacity. Volumes that other pods of a what-if would have provisioned take
    no space: the scheduler, too, learns of them only when the driver publishes anew.
    """
    driver = storage.drivers.get(storage_class.provisioner)
    if not size_bytes or driver is None or not driver.storage_capacity:
        return np.ones(rows.stop - rows.start, bool)
    return _largest_bytes(table, storage, storage_class.name)[rows] >= size_bytes


def _largest_bytes(table: "node_table.NodeTable", storage: "StorageTable", storage_class: str) -> arrays.Amounts:
    """Int64 (n_nodes): the largest volume of the class that could be provisioned for the node."""
    limits_bytes, index = storage.cached(("limits", storage_class), lambda: _find_limits(storage, storage_class))

    def compute(rows: slice) -> arrays.Amounts:
        largest = np.full(rows.stop - rows.start, _NO_CAPACITY, arrays.RESOURCE_DTYPE)
        volumes = index.find(table, rows)
        if volumes:
            reached_bytes = np.repeat(
                [limits_bytes[number] for number in volumes], [len(at) for at in volumes.values()]
            )
            np.maximum.at(largest, np.concatenate(list(volumes.values())), reached_bytes)
        return largest

    return storage.column(table, ("largest volume", storage_class), compute)


def _find_limits(storage: "StorageTable", storage_class: str) -> tuple[list[int], persistent_volumes.AffinityIndex]:
    """The largest volumes that drivers could provision, and from where each can be reached."""
    limits_bytes: list[int] = []
    topologies: list[list[persistent_volumes.Requirements]] = []
    for capacity in storage.capacities_of(storage_class):
        limit = capacity.capacity_bytes if capacity.maximum_volume_bytes is None else capacity.maximum_volume_bytes
        if limit is not None and capacity.node_topology is not None:
            limits_bytes.append(limit)
            topologies.append([capacity.node_topology.requirements])
    return limits_bytes, persistent_volumes.AffinityIndex(topologies)


NAME = "VolumeBinding"

UNBOUND = Reason("pod has unbound immediate PersistentVolumeClaims")


class BindingFault(enum.IntFlag):
    """What is wrong with a node."""

    UNREACHABLE = 1
    UNBINDABLE = 2
    NO_SPACE = 4
    GONE = 8
    UNTRANSLATABLE = 16
    UNPARSABLE = 32


REASONS = {
    BindingFault.UNREACHABLE: Reason("node(s) didn't match PersistentVolume's node affinity"),
    BindingFault.UNBINDABLE: Reason("node(s) didn't find available persistent volumes to bind"),
    BindingFault.NO_SPACE: Reason("node(s) did not have enough free storage"),
    BindingFault.GONE: Reason("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
}

UNTRANSLATABLE = Refusal(
    NAME, StatusCode.ERROR, (Reason('running "VolumeBinding" filter plugin: could not translate pv'),)
)
"""Of an in-tree volume whose CSI driver took over, but would not know it by its id; with the reason, if it is known."""

BindingFaults = npt.NDArray[np.uint8]


@dataclass(slots=True)
class PodClaims:
    """A pod's claims by how far they are; one that the pod lists twice is there twice."""

    bound: list[facts.PersistentVolumeClaim] = field(default_factory=list)
    selected: list[facts.PersistentVolumeClaim] = field(default_factory=list)
    """A volume is being provisioned for a node that was chosen before."""
    waiting: list[facts.PersistentVolumeClaim] = field(default_factory=list)
    immediate: list[facts.PersistentVolumeClaim] = field(default_factory=list)
    """Should have been bound by now."""


def pre_filter(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Refusal | None:
    """A claim that is missing, lost, going, another pod's or not bound in time refuses all nodes."""
    for volume, claim in persistent_volumes.list_claimed(snapshot.storage, shape):
        reason = _unusable(volume, claim)
        if reason is not None:
            return Refusal(NAME, StatusCode.UNRESOLVABLE, (reason,))
    if sort_claims(snapshot.storage, shape).immediate:
        return Refusal(NAME, StatusCode.UNRESOLVABLE, (UNBOUND,))
    return None


def _unusable(volume: facts.Volume, claim: facts.PersistentVolumeClaim | None) -> Reason | None:
    is_named = persistent_volumes.is_named(volume)
    if claim is None:
        waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}"'
        return persistent_volumes.make_missing_claim_reason(volume) if is_named else Reason(waiting, (volume.claim,))
    if claim.phase == "Lost":
        lost = 'persistentvolumeclaim "{}" bound to non-existent persistentvolume "{}"'
        return Reason(lost, (claim.name, claim.volume_name))
    if claim.terminating:
        return Reason('persistentvolumeclaim "{}" is being deleted', (claim.name,))
    if not is_named and persistent_volumes.is_not_created_for_pod(claim, volume.pod_uid):
        return persistent_volumes.make_not_created_for_pod_reason(claim, volume.name)
    return None


def sort_claims(storage: "StorageTable", shape: facts.PodShape) -> PodClaims:
    """The shape's claims; those that do not exist are left out."""
    claims = PodClaims()
    for _, claim in persistent_volumes.list_claimed(storage, shape):
        if claim is None:
            continue
        if persistent_volumes.is_bound(claim):
            claims.bound.append(claim)
        elif claim.volume_name or not persistent_volumes.waits_for_consumer(storage, claim):
            claims.immediate.append(claim)
        elif persistent_volumes.SELECTED_NODE in claim.annotations:
            claims.selected.append(claim)
        else:
            claims.waiting.append(claim)
    return claims


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where every claim has its volume or can have one; None if the pod has no claim."""
    if not any(volume.claim for volume in shape.spec.volumes):
        return None
    return np.equal(find_faults(snapshot, shape, slice(0, snapshot.nodes.count)), 0)


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    faults = BindingFault(int(find_faults(snapshot, shape, slice(row, row + 1))[0]))
    if BindingFault.UNTRANSLATABLE in faults:
        return _explain_untranslatable(snapshot, shape, row)
    if BindingFault.UNPARSABLE in faults:
        return _explain_unparsable(sort_claims(snapshot.storage, shape))
    return Refusal(NAME, StatusCode.UNRESOLVABLE, tuple(reason for fault, reason in REASONS.items() if fault in faults))


def _explain_untranslatable(snapshot: "Snapshot", shape: facts.PodShape, row: int) -> Refusal:
    for claim in sort_claims(snapshot.storage, shape).bound:
        volume = snapshot.storage.volumes.get(claim.volume_name)
        if volume is not None and volume.untranslatable:
            _, unknown = persistent_volumes.find_reachable(
                snapshot.nodes, snapshot.storage, volume, slice(row, row + 1)
            )
            if unknown is not None and unknown[0]:
                return Refusal(NAME, StatusCode.ERROR, (Reason(f"{UNTRANSLATABLE.texts[0]}: {volume.untranslatable}"),))
    return UNTRANSLATABLE


def _explain_unparsable(claims: PodClaims) -> Refusal:
    claim = next(claim for claim in sort_smallest_first(claims.waiting) if claim.selector_fault)
    text = 'running "{}" filter plugin: error creating internal label selector for claim: {}/{}: {}'
    return Refusal(NAME, StatusCode.ERROR, (Reason(text, (NAME, claim.namespace, claim.name, claim.selector_fault)),))


def find_faults(snapshot: "Snapshot", shape: facts.PodShape, rows: slice) -> BindingFaults:
    """Uint8 (n_rows): the `Fault`s of each node."""
    claims = sort_claims(snapshot.storage, shape)
    faults = np.zeros(rows.stop - rows.start, np.uint8)
    _check_bound(snapshot, claims, rows, faults)
    if claims.selected or claims.waiting:
        _check_unbound(snapshot, claims, rows, faults)
    return faults


def _check_bound(snapshot: "Snapshot", claims: PodClaims, rows: slice, faults: BindingFaults) -> None:
    """The refusal by the first bound claim whose volume does not match the node."""
    passing = np.ones(len(faults), bool)
    for claim in claims.bound:
        volume = snapshot.storage.volumes.get(claim.volume_name)
        if volume is None:
            _add_fault(faults, passing, BindingFault.GONE)
            return
        reached, unknown = persistent_volumes.find_reachable(snapshot.nodes, snapshot.storage, volume, rows)
        if unknown is not None:
            _add_fault(faults, passing & unknown, BindingFault.UNTRANSLATABLE)
            passing &= ~unknown
        _add_fault(faults, passing & ~reached, BindingFault.UNREACHABLE)
        passing &= reached


def _check_unbound(snapshot: "Snapshot", claims: PodClaims, rows: slice, faults: BindingFaults) -> None:
    """The refusal by the first unbound claim that neither finds an existing volume nor can be provisioned."""
    nodes, storage = snapshot.nodes, snapshot.storage
    passing = np.ones(len(faults), bool)
    for claim in claims.selected:
        passing &= nodes.name_mask((claim.annotations[persistent_volumes.SELECTED_NODE],))[rows]
    _add_fault(faults, ~passing, BindingFault.UNBINDABLE)
    if any(claim.selector_fault for claim in claims.waiting):
        _add_fault(faults, passing, BindingFault.UNPARSABLE)
        return
    needed = [(claim, np.ones(len(faults), bool)) for claim in claims.selected]
    needed += [(claim, ~bound) for claim, bound in match_claims(nodes, storage, claims.waiting, rows)]
    for claim, provisions in needed:
        storage_class = storage.classes[claim.storage_class or ""]
        allowed = find_allowed_topology(nodes, storage_class, rows)
        space = has_storage_capacity(nodes, storage, storage_class, claim.request_bytes, rows)
        checked = passing & provisions
        _add_fault(faults, checked & ~allowed, BindingFault.UNBINDABLE)
        _add_fault(faults, checked & allowed & ~space, BindingFault.NO_SPACE)
        passing &= ~provisions | (allowed & space)


def _add_fault(faults: BindingFaults, where: arrays.Mask, fault: BindingFault) -> None:
    faults[where] |= np.uint8(fault)
