"""Device reservations: allocate claims of placed pods, release them, and group pods with equivalent claims.

Pods that exist reserve claims by name. Copies of a shape (template pods, batches) reserve devices for claims like
those of the shape; only a claim shared with other pods is allocated by name, once for all. Two pods with claims of
their own are equivalent if the claims have the same spec and are not allocated yet.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.dra import resource_claims
from windlass.engine.dra.device_table import CachedAllocation, DeviceTable
from windlass.engine.dra.resource_claims import NO_NODE, ClaimState, PodClaims
from windlass.engine.model import arrays, facts
from windlass.engine.model.dynamic_resources import AllocatedClaims, ClaimKey, ClaimSpec
from windlass.engine.model.facts import PodShape
from windlass.engine.snapshot.node_table import NodeTable

if TYPE_CHECKING:
    from windlass.engine.snapshot.snapshot import Snapshot

EXTENDED_RESOURCES_CLAIM = ClaimKey("", "<extended-resources>")
"""Stands for the claim that the scheduler makes for extended resources."""


def claim_specs_on_node(
    table: DeviceTable, nodes: NodeTable, ask: PodClaims, row: int
) -> tuple[tuple[ClaimKey, ...], tuple[ClaimSpec, ...]]:
    """The claims that must be allocated on a node: those that are missing, and one for extended resources."""
    keys = tuple(key for key, _ in ask.missing)
    specs = tuple(spec for _, spec in ask.missing)
    if not ask.extended:
        return keys, specs
    backed = [
        extended_request
        for extended_request in ask.extended
        if is_backed_by_devices(nodes, extended_request.resource)[row]
    ]
    if not backed and not ask.has_claims:
        return keys, specs
    return (*keys, EXTENDED_RESOURCES_CLAIM), (
        *specs,
        resource_claims.make_extended_resource_claim(table.inventory, backed),
    )


def is_backed_by_devices(nodes: NodeTable, resource: str) -> arrays.Mask:
    """Bool (n_nodes): the node has none of the resource by itself, so that devices must stand for it."""
    column = nodes.resources.find(resource)
    return np.ones(nodes.count, bool) if column == arrays.ABSENT else nodes.allocatable[column] == 0


def reserve_for_copies(
    table: DeviceTable, nodes: NodeTable, namespace: str, spec: facts.PodSpec, rows: list[int], counts: list[int]
) -> None:
    """Allocate for assumed pods on each of these nodes. Nothing is allocated where devices are missing."""
    ask = table.pod_claims_of_copy(namespace, spec)
    if isinstance(ask, resource_claims.ClaimRejection) or not (ask.missing or ask.extended):
        return
    if ask.is_private:
        _reserve_private_claims(table, nodes, ask, rows, counts)
        return
    for row in rows:
        _allocate_on_node(table, nodes, ask, row, "")  # the claim is allocated once, however many use it


def _reserve_private_claims(
    table: DeviceTable, nodes: NodeTable, ask: PodClaims, rows: list[int], counts: list[int]
) -> None:
    known: dict[tuple[object, ...], int | None] = {}
    for row, count in zip(rows, counts, strict=True):
        place = table.device_key_of(row)
        _, specs = claim_specs_on_node(table, nodes, ask, row)
        question = table.intern_claims(specs) if specs else None
        if question is None:
            continue
        for _ in range(count):
            key = (*place, question)
            used = known.get(key)
            if used is None:
                answer = table.allocate(place, question)
                if not isinstance(answer.outcome, AllocatedClaims):
                    break
                used = answer.used
                if answer.shared_used == table.shared_used:
                    known[key] = used
                table.set_shared_used(answer.shared_used)
            place = (place[0], used, place[2])
        table.set_used(row, place[1])


def reserve_for_pod(
    table: DeviceTable, nodes: NodeTable, uid: str, namespace: str, spec: facts.PodSpec, row: int
) -> None:
    """A pod that exists is placed on a node: its claims are allocated there, and it uses those that were before."""
    ask = table.pod_claims(namespace, spec)
    if isinstance(ask, resource_claims.ClaimRejection):
        return
    if ask.missing or ask.extended:
        _allocate_on_node(table, nodes, ask, row, uid)
    for pod_claim in spec.claims:
        key = ClaimKey(namespace, pod_claim.claim or "")
        if pod_claim.claim and key in table.inventory.claims:
            state = table.state(key)
            if state.is_allocated and uid not in state.reserved:
                table.set_state(key, _with_reserved(state, state.reserved | {uid}))


def _allocate_on_node(table: DeviceTable, nodes: NodeTable, ask: PodClaims, row: int, uid: str) -> None:
    keys, specs = claim_specs_on_node(table, nodes, ask, row)
    if not specs:
        return
    answer = table.allocate(table.device_key_of(row), table.intern_claims(specs))
    if not isinstance(answer.outcome, AllocatedClaims):
        return
    table.set_used(row, answer.used)
    table.set_shared_used(answer.shared_used)
    for number, key in enumerate(keys):
        if key != EXTENDED_RESOURCES_CLAIM:
            table.set_state(key, _allocated_state(table, answer, number, row, uid))


def _allocated_state(table: DeviceTable, answer: CachedAllocation, number: int, row: int, uid: str) -> ClaimState:
    assert isinstance(answer.outcome, AllocatedClaims)
    results = answer.outcome.results[number]
    local = tuple(result for result in results if table.is_own(row, result))
    others = tuple(result for result in results if not table.is_own(row, result))
    return ClaimState(
        is_allocated=True,
        row=row if local else NO_NODE,
        local=local,
        shared=others,
        reaches=answer.outcome.reaches[number],
        bound_to=row if local or answer.outcome.binds_to_node[number] else NO_NODE,
        reserved=frozenset({uid} - {""}),
    )


def release_claims(table: DeviceTable, uid: str, namespace: str, spec: facts.PodSpec) -> None:
    """Release a pod's claims when it is unbound: those of its own, and those that no other pod uses."""
    for pod_claim in spec.claims:
        key = ClaimKey(namespace, pod_claim.claim or "")
        claim = table.inventory.claims.get(key)
        if not pod_claim.claim or claim is None:
            continue
        state = table.state(key)
        left = state.reserved - {uid}
        if state.is_allocated and (not left or (claim.owner_uid and claim.owner_uid == uid)):
            table.deallocate(state)
            table.set_state(key, ClaimState(reserved=left))
        elif left != state.reserved:
            table.set_state(key, _with_reserved(state, left))


def _with_reserved(state: ClaimState, reserved: frozenset[str]) -> ClaimState:
    return replace(state, reserved=reserved)


def representative_shapes(snapshot: "Snapshot", shape_ids: Iterable[int]) -> list[int]:
    """For every shape, the id of the first equivalent one."""
    first: dict[Hashable, int] = {}
    return [_first_equivalent(snapshot, number, first) for number in shape_ids]


def _first_equivalent(snapshot: "Snapshot", number: int, first: dict[Hashable, int]) -> int:
    shape = snapshot.shapes[number]
    if not shape.spec.claims:
        return number
    key = _equivalence_key(snapshot.devices, shape)
    return number if key is None else first.setdefault(key, number)


def claim_equivalence_keys(snapshot: "Snapshot", rows: Sequence[int]) -> dict[int, Hashable]:
    """By row, for pods with claims that can be alike: equal if they are, and of one owner."""
    found: dict[int, Hashable] = {}
    for row in rows:
        shape = snapshot.shape_of_row(row)
        if shape.spec.claims:
            key = _equivalence_key(snapshot.devices, shape)
            if key is not None:
                kind = snapshot.pods.template_key(row)
                found[row] = (key, kind.owner, kind.annotations, kind.scheduler)
    return found


def _equivalence_key(table: DeviceTable, shape: PodShape) -> Hashable | None:
    """None for a pod that is like no other: it has a claim already, shares one, or must wait."""
    ask = table.pod_claims(shape.namespace, shape.spec)
    if isinstance(ask, resource_claims.ClaimRejection) or ask.allocated or not ask.is_private:
        return None
    return shape.profile_id, shape.spec.without_claims(), tuple(spec for _, spec in ask.missing)
