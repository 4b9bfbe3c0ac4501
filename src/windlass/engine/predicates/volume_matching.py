"""Volumes that exist and wait for a claim: which claims of a pod find one, from where.

Nodes from which the same volumes can be reached are one place: with local volumes each node is a place of its own, with
network volumes all nodes are a few. Claims are matched per place, smallest claim first, each to the smallest volume
that will do and that no claim before it has taken. Nothing is remembered from one pod to the next: two pods that are
placed in one what-if may count on the same volume.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windlass.engine import dtypes, facts, interning, nodes
from windlass.engine.predicates import volume_claims, volume_reach
from windlass.engine.storage import Storage
from windlass.selectors import NodeSelector


@dataclass(frozen=True, slots=True)
class Kind:
    """What a claim asks of a volume besides its size, its place and its labels."""

    mode: str
    access_modes: frozenset[str]
    attributes_class: str

    def suits(self, claim: facts.PersistentVolumeClaim) -> bool:
        return self.holds(claim) and self.access_modes.issuperset(claim.access_modes)

    def holds(self, claim: facts.PersistentVolumeClaim) -> bool:
        """A volume that names the claim must hold it, whatever its access modes."""
        return self.mode == claim.volume_mode and self.attributes_class == claim.attributes_class


class Offers:
    """The volumes of one class that are there to be bound. Arrays are (n_offers,), smallest volume first."""

    def __init__(self, storage: Storage, storage_class: str) -> None:
        self._storage = storage
        self._class = storage_class
        self._prebound: dict[tuple[str, str], list[int]] = {}
        self.volumes = [volume for volume in storage.volumes_of(storage_class) if self._is_offered(volume)]
        self._sizes = np.array([volume.capacity_bytes for volume in self.volumes], dtypes.RESOURCE)
        self._is_free = np.array([not volume.claim_name for volume in self.volumes], bool)
        self._kinds: interning.Index[Kind] = interning.Index()
        self._kind_ids = np.array([self._kinds.intern(_kind(volume)) for volume in self.volumes], dtypes.ID)
        self._selectors: interning.Index[NodeSelector | None] = interning.Index()
        self._by_selector: list[list[int]] = []
        self._places: interning.Index[tuple[int, ...]] = interning.Index()
        self._pairs: tuple[dtypes.Rows, dtypes.Rows] = np.zeros(0, np.intp), np.zeros(0, np.intp)
        self._paired = 0
        for number, volume in enumerate(self.volumes):
            self._list(number, volume)
        self._index = volume_reach.Index(volume_reach.alternatives(selector) for selector in self._selectors)

    def _is_offered(self, volume: facts.PersistentVolume) -> bool:
        if volume.terminating:
            return False
        if not volume.claim_name:
            return volume.phase == "Available"
        claim = self._storage.claims.get((volume.claim_namespace, volume.claim_name))
        return claim is not None and not volume_claims.is_bound(claim) and volume.claim_uid in ("", claim.uid)

    def _list(self, number: int, volume: facts.PersistentVolume) -> None:
        selector = self._selectors.intern(volume.node_affinity)
        if selector == len(self._by_selector):
            self._by_selector.append([])
        self._by_selector[selector].append(number)
        if volume.claim_name:
            self._prebound.setdefault((volume.claim_namespace, volume.claim_name), []).append(number)

    def places(self, table: nodes.NodeTable) -> dtypes.Ids:
        """Int32 (n_nodes): the place of each node."""
        return self._storage.column(table, ("places", self._class), lambda rows: self._find_places(table, rows))

    def _find_places(self, table: nodes.NodeTable, rows: slice) -> dtypes.Ids:
        """A place is known by the selectors that are true of it: each selector splits the places found so far."""
        codes = np.zeros(rows.stop - rows.start, np.intp)
        known: list[tuple[int, ...]] = [()]
        for number, where in self._index.find(table, rows).items():
            split, parts = np.unique(codes[where], return_inverse=True)
            codes[where] = len(known) + parts
            known += [(*known[code], number) for code in split.tolist()]
        used, parts = np.unique(codes, return_inverse=True)
        ids = [self._places.intern(known[code]) for code in used.tolist()]
        return np.array(ids, dtypes.ID)[parts]

    def _pair(self) -> tuple[dtypes.Rows, dtypes.Rows]:
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

    def match(self, claims: Sequence[facts.PersistentVolumeClaim]) -> list[dtypes.Mask]:
        """For each claim, in this order, bool (n_places): a volume is there for it."""
        taken = np.zeros(len(self._pair()[0]), bool)
        return [self._match_one(claim, taken) for claim in claims]

    def _match_one(self, claim: facts.PersistentVolumeClaim, taken: dtypes.Mask) -> dtypes.Mask:
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

    def _suitable(self, claim: facts.PersistentVolumeClaim) -> dtypes.Mask:
        """Bool (n_offers): the volume is anybody's and is what the claim asks for."""
        kinds = np.fromiter((kind.suits(claim) for kind in self._kinds), bool, len(self._kinds))
        suitable: dtypes.Mask = kinds[self._kind_ids] & self._is_free & (self._sizes >= claim.request_bytes)
        if claim.selector is not None:
            for offer in np.flatnonzero(suitable).tolist():
                suitable[offer] = claim.selector.matches(self.volumes[offer].labels)
        return suitable


def _kind(volume: facts.PersistentVolume) -> Kind:
    return Kind(volume.volume_mode, frozenset(volume.access_modes), volume.attributes_class)


def in_order(claims: Sequence[facts.PersistentVolumeClaim]) -> list[facts.PersistentVolumeClaim]:
    """Claims in the order in which volumes are looked for: smallest first."""
    return sorted(claims, key=lambda claim: claim.request_bytes)


def find(
    table: nodes.NodeTable, storage: Storage, claims: Sequence[facts.PersistentVolumeClaim], rows: slice
) -> list[tuple[facts.PersistentVolumeClaim, dtypes.Mask]]:
    """The claims, smallest first, each with bool (n_rows): a volume that exists is there for it."""
    ordered = in_order(claims)
    found: list[dtypes.Mask] = [np.zeros(0, bool)] * len(ordered)
    for name in {claim.storage_class or "" for claim in ordered}:
        where = [i for i, claim in enumerate(ordered) if (claim.storage_class or "") == name]
        masks = _find_in_class(table, storage, name, [ordered[i] for i in where], rows)
        for i, mask in zip(where, masks, strict=True):
            found[i] = mask
    return list(zip(ordered, found, strict=True))


def _find_in_class(
    table: nodes.NodeTable, storage: Storage, name: str, claims: list[facts.PersistentVolumeClaim], rows: slice
) -> list[dtypes.Mask]:
    offers = storage.kept(("offers", name), lambda: Offers(storage, name))
    if not offers.volumes:
        return [np.zeros(rows.stop - rows.start, bool)] * len(claims)
    places = offers.places(table)[rows]
    return [mask[places] for mask in offers.match(claims)]
