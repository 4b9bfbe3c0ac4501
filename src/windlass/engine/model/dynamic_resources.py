"""Dynamic resource allocation as values: ResourceSlices, DeviceClasses, ResourceClaims and allocation results.

Only what allocation depends on. Amounts are exact: nano-units, as quantities are parsed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from windlass.selectors import NodeSelector


class CachedHash:
    """A frozen dataclass that is compared by value, with `eq=False` and a field `_hash` that is computed once.

    Equal ones are mostly the same object, and others mostly differ in their hash: whole values are compared seldom.
    """

    __slots__ = ()

    _hash: int

    def _key(self) -> tuple[object, ...]:
        """All that makes a difference."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self._key()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and self._hash == other._hash and self._key() == other._key()


NanoAmounts: TypeAlias = tuple[tuple[str, int], ...]
"""Nano-units by name, sorted by name."""


class PoolId(NamedTuple):
    """Pools are named within their driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """Devices are named within their pool."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


# ── Published devices ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class VersionValue:
    """A semantic version as a driver spells it."""

    text: str


AttributeValue: TypeAlias = bool | int | str | VersionValue | None
"""None where a driver publishes a kind of value that is not known here."""


@dataclass(frozen=True, slots=True)
class CapacityRequestPolicy:
    """What a share of a device's capacity may be, in nano-units."""

    default: int | None = None
    values: tuple[int, ...] = ()
    """Ascending; empty where any value, or a range, is accepted."""
    has_range: bool = False
    minimum: int | None = None
    maximum: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """How much of something a device has, and how it may be shared out."""

    amount: int
    policy: CapacityRequestPolicy | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTraits(CachedHash):
    """All that selectors can see of a device but its driver."""

    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    """By name, sorted; a name without a domain is the driver's own."""
    capacity: tuple[tuple[str, DeviceCapacity], ...] = ()
    is_shared: bool = False
    """It may be allocated many times over, as far as its capacity goes."""
    _hash: int = field(init=False, repr=False, default=0)

    def _key(self) -> tuple[object, ...]:
        typed = tuple((name, type(value), value) for name, value in self.attributes)
        return typed, self.capacity, self.is_shared


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A device repels requests that do not tolerate it. `effect` is NoSchedule, NoExecute or None, which does not."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeReach:
    """From which nodes something can be used: from one, from all, or from those that a selector picks."""

    node_name: str = ""
    all_nodes: bool = False
    node_selector: NodeSelector | None = None
    selector_fault: str = ""
    """kube-scheduler's error, if it cannot parse the selector: no node is asked whether it can use this."""


NO_NODES = NodeReach()


@dataclass(frozen=True, slots=True)
class Device:
    """What a driver offers."""

    name: str
    traits: DeviceTraits = field(default_factory=DeviceTraits)
    consumes: tuple[tuple[str, NanoAmounts], ...] = ()
    """What it draws from the pool's counters: (counter set, amounts)."""
    taints: tuple[DeviceTaint, ...] = ()
    reach: NodeReach = NO_NODES
    """Where the slice leaves it to each device."""
    has_binding_conditions: bool = False
    binds_to_node: bool = False


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """A part of a pool of devices."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    slice_count: int = 1
    """How many slices the pool has in this generation."""
    reach: NodeReach = NO_NODES
    is_per_device: bool = False
    """Every device has its own node selector (perDeviceNodeSelection)."""
    devices: tuple[Device, ...] = ()
    counters: tuple[tuple[str, NanoAmounts], ...] = ()
    """Counters that the pool's devices share: (counter set, amounts)."""

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.driver, self.pool)


ResourceSlices: TypeAlias = tuple[ResourceSlice, ...]


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """Devices that an administrator recommends under one name: those that all selectors pick."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource_name: str = ""
    """Pods that request this resource get devices of the class."""
    created_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """A taint that an administrator puts on devices, whatever their driver publishes."""

    name: str
    taint: DeviceTaint
    selects: bool = False
    """Does it have a selector? Without one it selects no device."""
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    """Names that a device must have, but for those that are None."""

    def matches(self, pool: PoolId) -> bool:
        """May devices of this pool be selected?"""
        return self.selects and self.driver in (None, pool.driver) and self.pool in (None, pool.pool)


# ── Claims ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """A toleration of device taints."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: DeviceTaint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


ALLOCATION_MODE_ALL, ALLOCATION_MODE_EXACT_COUNT = "All", "ExactCount"


@dataclass(frozen=True, slots=True)
class ExactDeviceRequest:
    """So many devices of a class."""

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    mode: str = ALLOCATION_MODE_EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    """adminAccess: the device may be in use by others, and the allocation does not reserve it."""
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: NanoAmounts | None = None


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim: exactly this, or the first of these that can be had."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[ExactDeviceRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """What devices of these requests must have in common (`match`), or must each have differently (`distinct`)."""

    requests: frozenset[str] = frozenset()
    """Empty: of all requests. A part of a request with alternatives is named `request/alternative`."""
    match: str = ""
    distinct: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimSpec(CachedHash):
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    _hash: int = field(init=False, repr=False, default=0)

    def _key(self) -> tuple[object, ...]:
        return self.requests, self.constraints


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """One device that a claim got."""

    device: DeviceId
    admin_access: bool = False
    is_share: bool = False
    consumed: NanoAmounts = ()
    """Of a device that is shared: how much of its capacity."""


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """What a claim got."""

    results: tuple[DeviceAllocation, ...] = ()
    node_selector: NodeSelector | None = None
    """From where the devices can be used; None: from everywhere."""
    has_failed: bool = False
    """A binding failure condition of a device is true."""
    waiting_since_s: float | None = None
    """When it was allocated, if it still waits for a device to be made ready."""
    selector_fault: str = ""
    """kube-scheduler's error, if it cannot parse the selector."""


class ClaimKey(NamedTuple):
    """Claims are named within their namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """What a pod, or several, ask for in devices, and what they got."""

    namespace: str
    name: str
    uid: str = ""
    owner_uid: str = ""
    """Of the pod for which it was made, if it was made for one."""
    owner_name: str = ""
    is_terminating: bool = False
    is_for_extended_resources: bool = False
    """Made by the scheduler for a pod that requests resources which a device class stands for."""
    spec: ClaimSpec = field(default_factory=ClaimSpec)
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[str, ...] = ()
    """Uids of the pods that may use it."""

    @property
    def key(self) -> ClaimKey:
        return ClaimKey(self.namespace, self.name)


DeviceFact: TypeAlias = ResourceSlice | DeviceClass | ResourceClaim | DeviceTaintRule

DeviceClasses: TypeAlias = Mapping[str, DeviceClass]


@dataclass(frozen=True, slots=True)
class SelectorError:
    """A selector of a claim, or of a device class, that cannot be compiled or fails on a device."""

    owner: ClaimKey | str
    """The claim, or the name of the class; empty until the claims with this selector are known."""
    request: str
    """Of the claim: the name of the request, or `request/alternative`."""
    position: int
    expression: str
    error: str


@dataclass(frozen=True, slots=True)
class AllocationFailure:
    """Something is wrong with a claim, a class or a pool. `claim` is the number of the claim that the text is about."""

    text: str
    claim: int | None = None
    is_of_node: bool = False
    """Only this node is affected."""
    selector: SelectorError | None = None
    """The selector that cannot be evaluated, if that is what is wrong."""

    def describe(self, names: Sequence[object]) -> str:
        return self.text if self.claim is None else f"claim {names[self.claim]}{self.text}"


@dataclass(frozen=True, slots=True)
class AllocatedClaims:
    """The devices of each claim, and from where they can be used."""

    results: tuple[tuple[DeviceAllocation, ...], ...]
    reaches: tuple[tuple[NodeReach, ...], ...]
    binds_to_node: tuple[bool, ...]


AllocationOutcome: TypeAlias = AllocatedClaims | AllocationFailure | None
"""None: there are not enough devices."""
