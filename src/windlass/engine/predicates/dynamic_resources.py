"""DynamicResources: a pod's claims must be there, usable from the node, or allocatable from devices that the node sees.

A pod without claims that requests no resource for which a device class stands is not looked at.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.dra import inventory, resource_claims
from windlass.engine.dra.resource_claims import UNLIMITED_PODS, ClaimRejection, ClaimState, PodClaims
from windlass.engine.model import arrays, facts
from windlass.engine.model.dynamic_resources import AllocatedClaims, AllocationFailure
from windlass.engine.model.scheduling_reasons import Reason, Refusal, StatusCode

if TYPE_CHECKING:
    from windlass.engine.dra.device_table import DeviceTable, NodeDeviceKey
    from windlass.engine.model.settings import FilterConfig
    from windlass.engine.snapshot.cluster_snapshot import Snapshot

NAME = "DynamicResources"
NOT_ENOUGH = Reason("cannot allocate all claims")
NOT_HERE = Reason("resourceclaim not available on the node")
STALE = Reason("cannot schedule extended resource claim")


def pre_filter(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> Refusal | None:
    """A claim that is missing, going, another pod's, or of a class that there is not refuses all nodes."""
    claims = _resolve_claims(snapshot, shape)
    if not isinstance(claims, ClaimRejection):
        return None
    if claims.is_error:
        return Refusal(NAME, StatusCode.ERROR, (Reason(f'running PreFilter plugin "{NAME}": {claims.text}'),))
    return Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason(claims.text),))


def mask(snapshot: "Snapshot", shape: facts.PodShape, config: "FilterConfig") -> arrays.Mask | None:
    """Bool (n_nodes): True where all claims can be had; None if the pod has none."""
    claims = _resolve_claims(snapshot, shape)
    if isinstance(claims, ClaimRejection) or claims.is_empty:
        return None
    if claims.is_stale:
        return np.zeros(snapshot.nodes.count, bool)
    allowed = usable(snapshot, claims, config)
    answered = _check_nodes(snapshot, claims, _is_found, 1)
    return allowed if answered is None else allowed & (answered > 0)


def count_room(snapshot: "Snapshot", shape: facts.PodShape) -> arrays.Amounts | None:
    """Int64 (n_nodes): for how many pods of the shape each node has devices; None if they do not limit it."""
    claims = _resolve_claims(snapshot, shape)
    if isinstance(claims, ClaimRejection) or claims.is_empty:
        return None
    return _check_nodes(snapshot, claims, _count_fitting_pods, UNLIMITED_PODS)


def is_countable(snapshot: "Snapshot", shape: facts.PodShape) -> bool:
    """Do pods of the shape mind each other by the devices of their own node only?"""
    claims = _resolve_claims(snapshot, shape)
    if isinstance(claims, ClaimRejection) or claims.is_empty:
        return True
    if not claims.is_private:
        return False
    if not snapshot.devices.inventory.shared_slices:
        return True
    taken = _check_nodes(snapshot, claims, _takes_shared, 0)
    return taken is None or not taken.any()


def explain(snapshot: "Snapshot", shape: facts.PodShape, row: int, config: "FilterConfig") -> Refusal:
    claims = _resolve_claims(snapshot, shape)
    assert isinstance(claims, PodClaims), "refused before any node"
    if claims.is_stale:
        return Refusal(NAME, StatusCode.UNRESOLVABLE, (STALE,))
    keys, specs = resource_claims.claim_specs_on_node(snapshot.devices, snapshot.nodes, claims, row)
    if specs:
        outcome = snapshot.devices.explain(row, snapshot.devices.intern_claims(specs))
        if outcome is None:
            return Refusal(NAME, StatusCode.UNRESOLVABLE, (NOT_ENOUGH,))
        if isinstance(outcome, AllocationFailure):
            text = outcome.describe([f"{shape.namespace}/{key.name}" for key in keys])
            if outcome.is_of_node:
                return Refusal(NAME, StatusCode.UNRESOLVABLE, (Reason(text),))
            return Refusal(NAME, StatusCode.ERROR, (Reason(f'running "{NAME}" filter plugin: {text}'),))
    return Refusal(NAME, StatusCode.UNRESOLVABLE, (NOT_HERE,))


def _resolve_claims(snapshot: "Snapshot", shape: facts.PodShape) -> PodClaims | ClaimRejection:
    if not (shape.spec.claims or shape.spec.extended):
        return resource_claims.NO_CLAIMS
    if not snapshot.forks:
        snapshot.devices.sync()
    return snapshot.devices.pod_claims(shape.namespace, shape.spec)


def usable(snapshot: "Snapshot", pod_claims: PodClaims, config: "FilterConfig") -> arrays.Mask:
    """Bool (n_nodes): from where the claims that are allocated can be used."""
    allowed = np.ones(snapshot.nodes.count, bool)
    for state in pod_claims.allocated:
        allowed &= _usable(snapshot, state, config)
    return allowed


def _usable(snapshot: "Snapshot", state: ClaimState, config: "FilterConfig") -> arrays.Mask:
    nodes, since_s = snapshot.nodes, state.waiting_since_s
    is_late = since_s is not None and since_s + config.binding_timeout_s < snapshot.now_s
    allowed = np.full(nodes.count, not (state.has_failed or is_late))
    if state.bound_to != resource_claims.NO_NODE:
        allowed &= np.arange(nodes.count) == state.bound_to
    if state.selector is not None:
        allowed &= nodes.selector_mask(state.selector)
    for reach in state.reaches:
        if not reach.node_name:
            allowed &= inventory.reach_mask(nodes, reach)
    return allowed


def _check_nodes(
    snapshot: "Snapshot", pod_claims: PodClaims, ask: "Callable[[DeviceTable, NodeDeviceKey, int], int]", otherwise: int
) -> arrays.Amounts | None:
    """Int64 (n_nodes): what is answered for each node, asked once for nodes that are alike; None: nothing to allocate.

    `otherwise` is for nodes that have by themselves what devices would stand for.
    """
    if not (pod_claims.missing or pod_claims.extended):
        return None
    table, nodes = snapshot.devices, snapshot.nodes
    kinds = table.node_classes()
    if not pod_claims.extended:
        question = table.intern_claims([spec for _, spec in pod_claims.missing])
        answers = [ask(table, place, question) for place in kinds.places]
        return np.array(answers, arrays.RESOURCE_DTYPE)[kinds.of_nodes]
    backed = np.stack(
        [
            kinds.of_nodes,
            *(
                resource_claims.is_backed_by_devices(nodes, extended_request.resource)
                for extended_request in pod_claims.extended
            ),
        ]
    )
    distinct, first, inverse = np.unique(backed, axis=1, return_index=True, return_inverse=True)
    answers = []
    for kind, row in zip(distinct[0].tolist(), first.tolist(), strict=True):
        _, specs = resource_claims.claim_specs_on_node(table, nodes, pod_claims, row)
        answers.append(ask(table, kinds.places[kind], table.intern_claims(specs)) if specs else otherwise)
    return np.array(answers, arrays.RESOURCE_DTYPE)[inverse.reshape(-1)]


def _count_fitting_pods(table: "DeviceTable", place: "NodeDeviceKey", question: int) -> int:
    return table.count_fitting_pods(place, question)


def _is_found(table: "DeviceTable", place: "NodeDeviceKey", question: int) -> int:
    return isinstance(table.allocate(place, question).outcome, AllocatedClaims)


def _takes_shared(table: "DeviceTable", place: "NodeDeviceKey", question: int) -> int:
    answer = table.allocate(place, question)
    return isinstance(answer.outcome, AllocatedClaims) and answer.shared_used != table.shared_used
