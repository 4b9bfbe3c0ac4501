"""VolumeBinding: a node must reach the volumes that are bound, and there must be some for the claims that wait.

A claim whose class waits for a consumer may be bound to a volume that exists, or have one provisioned; the node decides
which volumes and which storage can be reached. Any other claim must be bound before its pod is looked at.
"""

import enum
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from windlass.engine import dtypes, facts, shapes
from windlass.engine.predicates import volume_claims, volume_matching, volume_provisioning, volume_reach
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.storage import Storage
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "VolumeBinding"
UNBOUND = Reason("pod has unbound immediate PersistentVolumeClaims")


class Fault(enum.IntFlag):
    """What is wrong with a node."""

    UNREACHABLE = 1
    UNBINDABLE = 2
    NO_SPACE = 4
    GONE = 8
    UNTRANSLATABLE = 16
    UNPARSABLE = 32


REASONS = {
    Fault.UNREACHABLE: Reason("node(s) didn't match PersistentVolume's node affinity"),
    Fault.UNBINDABLE: Reason("node(s) didn't find available persistent volumes to bind"),
    Fault.NO_SPACE: Reason("node(s) did not have enough free storage"),
    Fault.GONE: Reason("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
}
UNTRANSLATABLE = Refusal(NAME, Code.ERROR, (Reason('running "VolumeBinding" filter plugin: could not translate pv'),))
"""Of an in-tree volume whose CSI driver took over, but would not know it by its id; with the reason, if it is known."""

Faults = npt.NDArray[np.uint8]


@dataclass(slots=True)
class Claims:
    """A pod's claims by how far they are; one that the pod lists twice is there twice."""

    bound: list[facts.PersistentVolumeClaim] = field(default_factory=list)
    selected: list[facts.PersistentVolumeClaim] = field(default_factory=list)
    """A volume is being provisioned for a node that was chosen before."""
    waiting: list[facts.PersistentVolumeClaim] = field(default_factory=list)
    immediate: list[facts.PersistentVolumeClaim] = field(default_factory=list)
    """Should have been bound by now."""


def refuse(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Refusal | None:
    """A claim that is missing, lost, going, another pod's or not bound in time refuses all nodes."""
    for volume, claim in volume_claims.claimed(snapshot.storage, shape):
        reason = _unusable(volume, claim)
        if reason is not None:
            return Refusal(NAME, Code.UNRESOLVABLE, (reason,))
    if sort_claims(snapshot.storage, shape).immediate:
        return Refusal(NAME, Code.UNRESOLVABLE, (UNBOUND,))
    return None


def _unusable(volume: facts.Volume, claim: facts.PersistentVolumeClaim | None) -> Reason | None:
    is_named = volume_claims.is_named(volume)
    if claim is None:
        waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}"'
        return volume_claims.missing_claim(volume) if is_named else Reason(waiting, (volume.claim,))
    if claim.phase == "Lost":
        lost = 'persistentvolumeclaim "{}" bound to non-existent persistentvolume "{}"'
        return Reason(lost, (claim.name, claim.volume_name))
    if claim.terminating:
        return Reason('persistentvolumeclaim "{}" is being deleted', (claim.name,))
    if not is_named and volume_claims.is_anothers(claim, volume.pod_uid):
        return volume_claims.anothers(claim, volume.name)
    return None


def sort_claims(storage: Storage, shape: shapes.Shape) -> Claims:
    """The shape's claims; those that do not exist are left out."""
    claims = Claims()
    for _, claim in volume_claims.claimed(storage, shape):
        if claim is None:
            continue
        if volume_claims.is_bound(claim):
            claims.bound.append(claim)
        elif claim.volume_name or not volume_claims.waits_for_consumer(storage, claim):
            claims.immediate.append(claim)
        elif volume_claims.SELECTED_NODE in claim.annotations:
            claims.selected.append(claim)
        else:
            claims.waiting.append(claim)
    return claims


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where every claim has its volume or can have one; None if the pod has no claim."""
    if not any(volume.claim for volume in shape.spec.volumes):
        return None
    return np.equal(find_faults(snapshot, shape, slice(0, snapshot.nodes.count)), 0)


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    faults = Fault(int(find_faults(snapshot, shape, slice(row, row + 1))[0]))
    if Fault.UNTRANSLATABLE in faults:
        return _explain_untranslatable(snapshot, shape, row)
    if Fault.UNPARSABLE in faults:
        return _explain_unparsable(sort_claims(snapshot.storage, shape))
    return Refusal(NAME, Code.UNRESOLVABLE, tuple(reason for fault, reason in REASONS.items() if fault in faults))


def _explain_untranslatable(snapshot: Snapshot, shape: shapes.Shape, row: int) -> Refusal:
    for claim in sort_claims(snapshot.storage, shape).bound:
        volume = snapshot.storage.volumes.get(claim.volume_name)
        if volume is not None and volume.untranslatable:
            _, unknown = volume_reach.reached(snapshot.nodes, snapshot.storage, volume, slice(row, row + 1))
            if unknown is not None and unknown[0]:
                return Refusal(NAME, Code.ERROR, (Reason(f"{UNTRANSLATABLE.texts[0]}: {volume.untranslatable}"),))
    return UNTRANSLATABLE


def _explain_unparsable(claims: Claims) -> Refusal:
    claim = next(claim for claim in volume_matching.in_order(claims.waiting) if claim.selector_fault)
    text = 'running "{}" filter plugin: error creating internal label selector for claim: {}/{}: {}'
    return Refusal(NAME, Code.ERROR, (Reason(text, (NAME, claim.namespace, claim.name, claim.selector_fault)),))


def find_faults(snapshot: Snapshot, shape: shapes.Shape, rows: slice) -> Faults:
    """Uint8 (n_rows): the `Fault`s of each node."""
    claims = sort_claims(snapshot.storage, shape)
    faults = np.zeros(rows.stop - rows.start, np.uint8)
    _check_bound(snapshot, claims, rows, faults)
    if claims.selected or claims.waiting:
        _check_unbound(snapshot, claims, rows, faults)
    return faults


def _check_bound(snapshot: Snapshot, claims: Claims, rows: slice, faults: Faults) -> None:
    """The first bound claim that is at fault on a node speaks for all."""
    passing = np.ones(len(faults), bool)
    for claim in claims.bound:
        volume = snapshot.storage.volumes.get(claim.volume_name)
        if volume is None:
            _mark(faults, passing, Fault.GONE)
            return
        reached, unknown = volume_reach.reached(snapshot.nodes, snapshot.storage, volume, rows)
        if unknown is not None:
            _mark(faults, passing & unknown, Fault.UNTRANSLATABLE)
            passing &= ~unknown
        _mark(faults, passing & ~reached, Fault.UNREACHABLE)
        passing &= reached


def _check_unbound(snapshot: Snapshot, claims: Claims, rows: slice, faults: Faults) -> None:
    """A claim goes to a volume that exists, or else one must be provisioned: the first for which that fails speaks."""
    nodes, storage = snapshot.nodes, snapshot.storage
    passing = np.ones(len(faults), bool)
    for claim in claims.selected:
        passing &= nodes.name_mask((claim.annotations[volume_claims.SELECTED_NODE],))[rows]
    _mark(faults, ~passing, Fault.UNBINDABLE)
    if any(claim.selector_fault for claim in claims.waiting):
        _mark(faults, passing, Fault.UNPARSABLE)
        return
    needed = [(claim, np.ones(len(faults), bool)) for claim in claims.selected]
    needed += [(claim, ~found) for claim, found in volume_matching.find(nodes, storage, claims.waiting, rows)]
    for claim, provisions in needed:
        storage_class = storage.classes[claim.storage_class or ""]
        allowed = volume_provisioning.allowed(nodes, storage_class, rows)
        space = volume_provisioning.has_space(nodes, storage, storage_class, claim.request_bytes, rows)
        checked = passing & provisions
        _mark(faults, checked & ~allowed, Fault.UNBINDABLE)
        _mark(faults, checked & allowed & ~space, Fault.NO_SPACE)
        passing &= ~provisions | (allowed & space)


def _mark(faults: Faults, where: dtypes.Mask, fault: Fault) -> None:
    faults[where] |= np.uint8(fault)
