"""ResourceClaims of pods: which are allocated, which must be, and which have selectors that cannot be evaluated.

Claims are validated as kube-scheduler's DynamicResources plugin does it, with the same messages. Allocation sees
claim specs, not claims: the claims and classes of a failing selector are looked up when errors are listed.

Device reservations: allocate claims of placed pods, release them, and group pods with equivalent claims.

Pods that exist reserve claims by name. Copies of a shape (template pods, batches) reserve devices for claims like
those of the shape; only a claim shared with other pods is allocated by name, once for all. Two pods with claims of
their own are equivalent if the claims have the same spec and are not allocated yet.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from windlass.engine.dra.inventory import DeviceInventory
from windlass.engine.model import arrays, facts
from windlass.engine.model.dynamic_resources import (
    AllocatedClaims,
    AllocationFailure,
    ClaimKey,
    ClaimSpec,
    DeviceAllocation,
    DeviceRequest,
    ExactDeviceRequest,
    NodeReach,
    SelectorError,
)
from windlass.engine.model.facts import PodShape
from windlass.selectors import NodeSelector

if TYPE_CHECKING:
    from windlass.engine.dra.device_table import CachedAllocation, DeviceTable
    from windlass.engine.snapshot.cluster_snapshot import Snapshot
    from windlass.engine.snapshot.node_table import NodeTable

NO_NODE = -1


@dataclass(frozen=True, slots=True)
class ClaimState:
    """The state of a claim in the snapshot, forks included."""

    is_allocated: bool = False
    row: int = NO_NODE
    """The node whose own devices it has, if it has any."""
    local: tuple[DeviceAllocation, ...] = ()
    """Devices of that node, by the names of its device_set."""
    shared: tuple[DeviceAllocation, ...] = ()
    selector: NodeSelector | None = None
    """Allocated by the scheduler: from where it can be used."""
    reaches: tuple[NodeReach, ...] = ()
    """Allocated in this what-if: from where it can be used, all of these together."""
    has_failed: bool = False
    waiting_since_s: float | None = None
    """Allocated by the scheduler, and not every device is ready."""
    reserved: frozenset[str] = frozenset()
    """Uids of the pods that use it."""
    bound_to: int = NO_NODE
    """That node, where it is bound to one."""
    selector_fault: str = ""
    """Allocated by the scheduler, which cannot parse from where it can be used."""


ClaimStateLookup: TypeAlias = Callable[[ClaimKey], ClaimState]


@dataclass(frozen=True, slots=True)
class PodClaims:
    """All claims of a pod."""

    allocated: tuple[ClaimState, ...] = ()
    missing: tuple[tuple[ClaimKey, ClaimSpec], ...] = ()
    """Those that must be allocated."""
    extended: tuple[facts.ExtendedRequest, ...] = ()
    """Requests of resources that a device class stands for."""
    is_stale: bool = False
    """A claim for these was made before and never used: it must go first."""
    is_private: bool = True
    """No other pod uses what must be allocated, so that any number of pods can ask alike."""

    @property
    def is_empty(self) -> bool:
        return not (self.allocated or self.missing or self.extended or self.is_stale)

    @property
    def has_claims(self) -> bool:
        return bool(self.allocated or self.missing)


@dataclass(frozen=True, slots=True)
class ClaimRejection:
    """The pod can be placed nowhere, as its claims are."""

    text: str
    is_error: bool = False


NO_CLAIMS = PodClaims()


def read_pod_claims(
    inventory: DeviceInventory,
    namespace: str,
    spec: facts.PodSpec,
    state_of: ClaimStateLookup,
    users: Callable[[ClaimKey], Collection[str]],
) -> PodClaims | ClaimRejection:
    """The claims of a pod, or the reason why it cannot be scheduled yet."""
    keys: list[ClaimKey] = []
    for pod_claim in spec.claims:
        if not pod_claim.is_known:
            name = f'pod "{namespace}/{pod_claim.pod_name}", spec.resourceClaim "{pod_claim.name}"'
            return ClaimRejection(f"{name}: none of the supported fields are set")
        if pod_claim.claim is None:
            return ClaimRejection(f'pod "{namespace}/{pod_claim.pod_name}": ResourceClaim not created yet')
        if not pod_claim.claim:
            continue
        key = ClaimKey(namespace, pod_claim.claim)
        refused = _check_claim(inventory, key, pod_claim)
        if refused is not None:
            return refused
        keys.append(key)
    states = [(key, state_of(key)) for key in keys]
    for key, state in states:
        if state.selector_fault:
            return ClaimRejection(state.selector_fault, is_error=True)
        refused = None if state.is_allocated else _check_classes(inventory, inventory.claims[key].spec)
        if refused is not None:
            return refused
    missing = [(key, inventory.claims[key].spec) for key, state in states if not state.is_allocated]
    extended = tuple(
        extended_request
        for extended_request in spec.extended
        if inventory.device_class_of(extended_request.resource) is not None
    )
    return PodClaims(
        tuple(state for _, state in states if state.is_allocated),
        tuple(missing),
        extended,
        bool(extended and spec.extended_claim and inventory.is_leftover(ClaimKey(namespace, spec.extended_claim))),
        all(inventory.claims[key].owner_uid or len(users(key)) < 2 for key, _ in missing),
    )


def _check_claim(inventory: DeviceInventory, key: ClaimKey, pod_claim: facts.PodClaim) -> ClaimRejection | None:
    claim = inventory.claims.get(key)
    if claim is None:
        return ClaimRejection(f'could not find ResourceClaim "{key}"')
    if claim.is_terminating:
        return ClaimRejection(f'resourceclaim "{claim.name}" is being deleted')
    if pod_claim.is_made_for_pod and claim.owner_uid != pod_claim.pod_uid:
        pod = f"{key.namespace}/{pod_claim.pod_name}"
        return ClaimRejection(f"ResourceClaim {key} was not created for Pod {pod} (Pod is not owner)")
    return None


def _check_classes(inventory: DeviceInventory, spec: ClaimSpec) -> ClaimRejection | None:
    for request in spec.requests:
        if request.exactly is None and not request.first_available:
            return ClaimRejection(f"request {request.name}: unsupported request type", is_error=True)
        for name, desired in _named(request):
            if not desired.device_class:
                return ClaimRejection(f"request {name}: unsupported request type", is_error=True)
            if desired.device_class not in inventory.classes:
                return ClaimRejection(f"request {name}: device class {desired.device_class} does not exist")
    return None


def _named(request: DeviceRequest) -> list[tuple[str, ExactDeviceRequest]]:
    if request.exactly is not None:
        return [(request.name, request.exactly)]
    return [
        (f"{request.name}/{exact_device_request.name}", exact_device_request)
        for exact_device_request in request.first_available
    ]


def make_extended_resource_claim(
    inventory: DeviceInventory, extended_requests: Sequence[facts.ExtendedRequest]
) -> ClaimSpec:
    """The claim that the scheduler would make for extended resources."""
    return ClaimSpec(
        tuple(
            DeviceRequest(
                extended_request.name,
                ExactDeviceRequest(
                    extended_request.name,
                    inventory.device_class_of(extended_request.resource) or "",
                    count=extended_request.count,
                ),
            )
            for extended_request in sorted(extended_requests, key=lambda request: request.name)
        )
    )


class SelectorErrorLog:
    """Those met since slices or classes last changed."""

    def __init__(self, inventory: DeviceInventory) -> None:
        self._inventory = inventory
        self._of_classes: dict[tuple[str, int], SelectorError] = {}
        self._of_claims: dict[ClaimSpec, SelectorError] = {}
        self._listed: tuple[tuple[int, int, int], tuple[SelectorError, ...]] = ((-1, 0, 0), ())

    def clear(self) -> None:
        """Slices or classes have changed: each selector is evaluated anew."""
        self._of_classes.clear()
        self._of_claims.clear()

    def record(self, failed: AllocationFailure, claims: Sequence[ClaimSpec]) -> None:
        """Looking for devices for these claims failed. The first error of a selector stands for all of its errors."""
        if failed.selector is None:
            return
        if failed.claim is None:
            self._of_classes.setdefault((str(failed.selector.owner), failed.selector.position), failed.selector)
        else:
            self._of_claims.setdefault(claims[failed.claim], failed.selector)

    def list(self) -> tuple[SelectorError, ...]:
        """Of classes, then of claims that exist and have no devices yet, each by name."""
        state = self._inventory.version, len(self._of_classes), len(self._of_claims)
        if self._listed[0] != state:
            existing = self._inventory.classes
            classes = [error for (name, _), error in sorted(self._of_classes.items()) if name in existing]
            self._listed = state, (*classes, *self._name_claims())
        return self._listed[1]

    def _name_claims(self) -> Sequence[SelectorError]:
        if not self._of_claims:
            return ()
        named: list[tuple[ClaimKey, SelectorError]] = []
        for key, claim in self._inventory.claims.items():
            error = None if claim.allocation is not None else self._of_claims.get(claim.spec)
            if error is not None:
                named.append((key, error))
        return [replace(error, owner=key) for key, error in sorted(named, key=lambda pair: pair[0])]


EXTENDED_RESOURCES_CLAIM = ClaimKey("", "<extended-resources>")
"""Stands for the claim that the scheduler makes for extended resources."""

UNLIMITED_PODS = 1 << 40
"""Pods that a node has devices for, where they use none up."""


def claim_specs_on_node(
    table: "DeviceTable", nodes: "NodeTable", ask: PodClaims, row: int
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
        make_extended_resource_claim(table.inventory, backed),
    )


def is_backed_by_devices(nodes: "NodeTable", resource: str) -> arrays.Mask:
    """Bool (n_nodes): the node has none of the resource by itself, so that devices must stand for it."""
    column = nodes.resources.find(resource)
    return np.ones(nodes.count, bool) if column == arrays.ABSENT else nodes.allocatable[column] == 0


def reserve_for_copies(
    table: "DeviceTable", nodes: "NodeTable", namespace: str, spec: facts.PodSpec, rows: list[int], counts: list[int]
) -> None:
    """Allocate for assumed pods on each of these nodes. Nothing is allocated where devices are missing."""
    ask = table.pod_claims_of_copy(namespace, spec)
    if isinstance(ask, ClaimRejection) or not (ask.missing or ask.extended):
        return
    if ask.is_private:
        _reserve_private_claims(table, nodes, ask, rows, counts)
        return
    for row in rows:
        _allocate_on_node(table, nodes, ask, row, "")  # the claim is allocated once, however many use it


def _reserve_private_claims(
    table: "DeviceTable", nodes: "NodeTable", ask: PodClaims, rows: list[int], counts: list[int]
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
    table: "DeviceTable", nodes: "NodeTable", uid: str, namespace: str, spec: facts.PodSpec, row: int
) -> None:
    """A pod that exists is placed on a node: its claims are allocated there, and it uses those that were before."""
    ask = table.pod_claims(namespace, spec)
    if isinstance(ask, ClaimRejection):
        return
    if ask.missing or ask.extended:
        _allocate_on_node(table, nodes, ask, row, uid)
    for pod_claim in spec.claims:
        key = ClaimKey(namespace, pod_claim.claim or "")
        if pod_claim.claim and key in table.inventory.claims:
            state = table.state(key)
            if state.is_allocated and uid not in state.reserved:
                table.set_state(key, _with_reserved(state, state.reserved | {uid}))


def _allocate_on_node(table: "DeviceTable", nodes: "NodeTable", ask: PodClaims, row: int, uid: str) -> None:
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


def _allocated_state(table: "DeviceTable", answer: "CachedAllocation", number: int, row: int, uid: str) -> ClaimState:
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


def release_claims(table: "DeviceTable", uid: str, namespace: str, spec: facts.PodSpec) -> None:
    """Release a pod's claims when it is unbound: those of its own, and those that no other pod uses."""
    for pod_claim in spec.claims:
        key = ClaimKey(namespace, pod_claim.claim or "")
        claim = table.inventory.claims.get(key)
        if not pod_claim.claim or claim is None:
            continue
        state = table.state(key)
        remaining = state.reserved - {uid}
        if state.is_allocated and (not remaining or (claim.owner_uid and claim.owner_uid == uid)):
            table.deallocate(state)
            table.set_state(key, ClaimState(reserved=remaining))
        elif remaining != state.reserved:
            table.set_state(key, _with_reserved(state, remaining))


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
    key_by_row: dict[int, Hashable] = {}
    for row in rows:
        shape = snapshot.shape_of_row(row)
        if shape.spec.claims:
            key = _equivalence_key(snapshot.devices, shape)
            if key is not None:
                kind = snapshot.pods.template_key(row)
                key_by_row[row] = (key, kind.owner, kind.annotations, kind.scheduler)
    return key_by_row


def _equivalence_key(table: "DeviceTable", shape: PodShape) -> Hashable | None:
    """None for a pod that is like no other: it has a claim already, shares one, or must wait."""
    ask = table.pod_claims(shape.namespace, shape.spec)
    if isinstance(ask, ClaimRejection) or ask.allocated or not ask.is_private:
        return None
    return shape.profile_id, shape.spec.without_claims(), tuple(spec for _, spec in ask.missing)
