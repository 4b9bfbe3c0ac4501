"""What a pod asks for, as far as claims go: which it has, which must be allocated, and what is wrong with them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine import facts
from windlass.engine.devices.model import ClaimKey, ClaimSpec, Reach, Request, Result, Wanted
from windlass.engine.devices.stock import Stock
from windlass.selectors import NodeSelector

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class State:
    """How far a claim is, in this what-if."""

    is_allocated: bool = False
    row: int = NOWHERE
    """The node whose own devices it has, if it has any."""
    local: tuple[Result, ...] = ()
    """Devices of that node, by the names of its kit."""
    shared: tuple[Result, ...] = ()
    selector: NodeSelector | None = None
    """Allocated by the scheduler: from where it can be used."""
    reaches: tuple[Reach, ...] = ()
    """Allocated in this what-if: from where it can be used, all of these together."""
    has_failed: bool = False
    waiting_since_s: float | None = None
    """Allocated by the scheduler, and not every device is ready."""
    reserved: frozenset[str] = frozenset()
    """Uids of the pods that use it."""
    bound_to: int = NOWHERE
    """That node, where it is bound to one."""


StateOf: TypeAlias = Callable[[ClaimKey], State]


@dataclass(frozen=True, slots=True)
class Ask:
    """All claims of a pod."""

    allocated: tuple[State, ...] = ()
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
class Refused:
    """The pod can be placed nowhere, as its claims are."""

    text: str
    is_error: bool = False


NOTHING = Ask()


def ask(
    stock: Stock, namespace: str, spec: facts.PodSpec, state_of: StateOf, users: Callable[[ClaimKey], Collection[str]]
) -> Ask | Refused:
    """What a pod asks for, or why it must wait."""
    keys: list[ClaimKey] = []
    for one in spec.claims:
        if not one.is_known:
            name = f'pod "{namespace}/{one.pod_name}", spec.resourceClaim "{one.name}"'
            return Refused(f"{name}: none of the supported fields are set")
        if one.claim is None:
            return Refused(f'pod "{namespace}/{one.pod_name}": ResourceClaim not created yet')
        if not one.claim:
            continue
        key = ClaimKey(namespace, one.claim)
        refused = _check_claim(stock, key, one)
        if refused is not None:
            return refused
        keys.append(key)
    states = [(key, state_of(key)) for key in keys]
    missing = [(key, stock.claims[key].spec) for key, state in states if not state.is_allocated]
    for _, wanted in missing:
        refused = _check_classes(stock, wanted)
        if refused is not None:
            return refused
    extended = tuple(one for one in spec.extended if stock.class_of(one.resource) is not None)
    return Ask(
        tuple(state for _, state in states if state.is_allocated),
        tuple(missing),
        extended,
        bool(extended and spec.extended_claim and stock.is_leftover(ClaimKey(namespace, spec.extended_claim))),
        all(stock.claims[key].owner_uid or len(users(key)) < 2 for key, _ in missing),
    )


def _check_claim(stock: Stock, key: ClaimKey, wanted: facts.PodClaim) -> Refused | None:
    claim = stock.claims.get(key)
    if claim is None:
        return Refused(f'could not find ResourceClaim "{key}"')
    if claim.is_terminating:
        return Refused(f'resourceclaim "{claim.name}" is being deleted')
    if wanted.is_made_for_pod and claim.owner_uid != wanted.pod_uid:
        pod = f"{key.namespace}/{wanted.pod_name}"
        return Refused(f"ResourceClaim {key} was not created for Pod {pod} (Pod is not owner)")
    return None


def _check_classes(stock: Stock, spec: ClaimSpec) -> Refused | None:
    for request in spec.requests:
        if request.exactly is None and not request.first_available:
            return Refused(f"request {request.name}: unsupported request type", is_error=True)
        for name, wanted in _named(request):
            if not wanted.device_class:
                return Refused(f"request {name}: unsupported request type", is_error=True)
            if wanted.device_class not in stock.classes:
                return Refused(f"request {name}: device class {wanted.device_class} does not exist")
    return None


def _named(request: Request) -> list[tuple[str, Wanted]]:
    if request.exactly is not None:
        return [(request.name, request.exactly)]
    return [(f"{request.name}/{one.name}", one) for one in request.first_available]


def claim_for(stock: Stock, wanted: Sequence[facts.ExtendedRequest]) -> ClaimSpec:
    """The claim that the scheduler would make for extended resources."""
    return ClaimSpec(
        tuple(
            Request(one.name, Wanted(one.name, stock.class_of(one.resource) or "", count=one.count))
            for one in sorted(wanted, key=lambda one: one.name)
        )
    )
