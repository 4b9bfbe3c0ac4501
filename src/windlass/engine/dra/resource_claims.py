"""ResourceClaims of pods: which are allocated, which must be, and which have selectors that cannot be evaluated.

Claims are validated as kube-scheduler's DynamicResources plugin does it, with the same messages. Allocation sees
claim specs, not claims: the claims and classes of a failing selector are looked up when errors are listed.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from windlass.engine.dra.inventory import DeviceInventory
from windlass.engine.model import facts
from windlass.engine.model.dynamic_resources import (
    AllocationFailure,
    ClaimKey,
    ClaimSpec,
    DeviceAllocation,
    DeviceRequest,
    ExactDeviceRequest,
    NodeReach,
    SelectorError,
)
from windlass.selectors import NodeSelector

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


def _check_claim(inventory: DeviceInventory, key: ClaimKey, wanted: facts.PodClaim) -> ClaimRejection | None:
    claim = inventory.claims.get(key)
    if claim is None:
        return ClaimRejection(f'could not find ResourceClaim "{key}"')
    if claim.is_terminating:
        return ClaimRejection(f'resourceclaim "{claim.name}" is being deleted')
    if wanted.is_made_for_pod and claim.owner_uid != wanted.pod_uid:
        pod = f"{key.namespace}/{wanted.pod_name}"
        return ClaimRejection(f"ResourceClaim {key} was not created for Pod {pod} (Pod is not owner)")
    return None


def _check_classes(inventory: DeviceInventory, spec: ClaimSpec) -> ClaimRejection | None:
    for request in spec.requests:
        if request.exactly is None and not request.first_available:
            return ClaimRejection(f"request {request.name}: unsupported request type", is_error=True)
        for name, wanted in _named(request):
            if not wanted.device_class:
                return ClaimRejection(f"request {name}: unsupported request type", is_error=True)
            if wanted.device_class not in inventory.classes:
                return ClaimRejection(f"request {name}: device class {wanted.device_class} does not exist")
    return None


def _named(request: DeviceRequest) -> list[tuple[str, ExactDeviceRequest]]:
    if request.exactly is not None:
        return [(request.name, request.exactly)]
    return [
        (f"{request.name}/{exact_device_request.name}", exact_device_request)
        for exact_device_request in request.first_available
    ]


def make_extended_resource_claim(inventory: DeviceInventory, wanted: Sequence[facts.ExtendedRequest]) -> ClaimSpec:
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
            for extended_request in sorted(wanted, key=lambda one: one.name)
        )
    )


class SelectorErrorLog:
    """Those met since slices or classes last changed."""

    def __init__(self, inventory: DeviceInventory) -> None:
        self._stock = inventory
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
        state = self._stock.version, len(self._of_classes), len(self._of_claims)
        if self._listed[0] != state:
            classes = [error for (name, _), error in sorted(self._of_classes.items()) if name in self._stock.classes]
            self._listed = state, (*classes, *self._name_claims())
        return self._listed[1]

    def _name_claims(self) -> Sequence[SelectorError]:
        if not self._of_claims:
            return ()
        found: list[tuple[ClaimKey, SelectorError]] = []
        for key, claim in self._stock.claims.items():
            error = None if claim.allocation is not None else self._of_claims.get(claim.spec)
            if error is not None:
                found.append((key, error))
        return [replace(error, owner=key) for key, error in sorted(found, key=lambda one: one[0])]
