"""Device allocator: devices for all claims of a pod on one node, or the reason why there are none.

Mirrors kube-scheduler's structured allocator: depth-first over claims, requests and devices, first fit, with
backtracking; the first complete solution is taken. A request for all devices takes every device it selects, or fails.
The search is exhaustive; kube-scheduler stops after a time limit, this after a number of steps.

Device classes and counts of requests are resolved before any device is tried; devices of a pool share its counters.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass import scheduler_releases
from windlass.engine.dra import allocation_state, cel_selectors
from windlass.engine.dra.allocation_state import AllocatedState
from windlass.engine.dra.inventory import CandidateDevice, DevicePool, VisibleDevices
from windlass.engine.model import dynamic_resources
from windlass.engine.model.dynamic_resources import (
    ALLOCATION_MODE_ALL,
    ALLOCATION_MODE_EXACT_COUNT,
    AllocatedClaims,
    AllocationFailure,
    AllocationOutcome,
    ClaimSpec,
    Device,
    DeviceAllocation,
    DeviceClasses,
    DeviceId,
    DeviceRequest,
    ExactDeviceRequest,
    NanoAmounts,
    SelectorError,
)


class AllocationError(Exception):
    """An allocation error, with its failure."""

    def __init__(self, failed: dynamic_resources.AllocationFailure) -> None:
        self.failed = failed


class AllocationResultTooLarge(Exception):
    """A claim would exceed its maximum number of devices. No other choice for the same request helps."""


CounterKey = tuple[str, str]
"""Counter set and counter."""


class SharedCounters:
    """Shared counters of one pool during the search."""

    def __init__(self, pool: DevicePool, in_use: AllocatedState) -> None:
        self._left: dict[CounterKey, int] = {
            (name, key): amount for name, amounts in pool.counters for key, amount in amounts
        }
        for id, device in pool.drawing:
            if in_use.is_allocated(id):
                self._draw(device, 1)
        self._drawn: dict[CounterKey, int] = dict.fromkeys(self._left, 0)

    def _draw(self, device: Device, sign: int) -> None:
        for name, amounts in device.consumes:
            for key, amount in amounts:
                if (name, key) in self._left:
                    self._left[name, key] -= sign * amount

    def consume(self, device: Device) -> bool:
        """Consume the device's counters. False, with nothing consumed, if a counter of the pool would be exceeded."""
        self._add(device, 1)
        if all(left >= self._drawn[key] for key, left in self._left.items()):
            return True
        self._add(device, -1)
        return False

    def release(self, device: Device) -> None:
        self._add(device, -1)

    def _add(self, device: Device, sign: int) -> None:
        for name, amounts in device.consumes:
            for key, amount in amounts:
                self._drawn[name, key] = self._drawn.get((name, key), 0) + sign * amount


MAX_DEVICES_PER_CLAIM = 32
"""Maximum number of devices of one claim."""


@dataclass(slots=True)
class DeviceRequestData:
    """A request, or one of its alternatives, with the number of devices that it needs on this node."""

    request: DeviceRequest
    wanted: ExactDeviceRequest
    claim: int
    is_alternative: bool
    class_selectors: tuple[str, ...]
    number: int = 0
    every: tuple[CandidateDevice, ...] = ()
    """The devices, for allocation mode All."""

    @property
    def part(self) -> str:
        return self.wanted.name if self.is_alternative else ""


FindAllDevices: TypeAlias = Callable[[DeviceRequestData], tuple[CandidateDevice, ...]]
"""Devices of a request with allocation mode All."""


def prepare_requests(
    number: int,
    claim: ClaimSpec,
    classes: DeviceClasses,
    find_all: FindAllDevices,
    release: scheduler_releases.SchedulerRelease,
) -> list[list[DeviceRequestData]]:
    """Alternatives of each request of a claim."""
    prepared, least = [], 0
    for request in claim.requests:
        desired = request.first_available or ((request.exactly,) if request.exactly is not None else ())
        parts = [_prepare_request(number, request, exact, classes, find_all) for exact in desired]
        added = min((part.number for part in parts), default=0)
        if release.limits_devices_by_request and added > MAX_DEVICES_PER_CLAIM - least:
            exceeds = f"exceeds the claim limit of {MAX_DEVICES_PER_CLAIM}, with {least} already accounted for"
            raise AllocationError(
                AllocationFailure(f", request {request.name}: adding {added} devices {exceeds}", number)
            )
        least += added
        prepared.append(parts)
    if least > MAX_DEVICES_PER_CLAIM:
        text = f": number of requested devices {least} exceeds the claim limit of {MAX_DEVICES_PER_CLAIM}"
        raise AllocationError(AllocationFailure(text, number))
    for position, constraint in enumerate(claim.constraints):
        if not allocation_state.is_supported_constraint(constraint):
            text = f", constraint #{position}: empty constraint (unsupported constraint type?)"
            raise AllocationError(AllocationFailure(text, number))
    return prepared


def _prepare_request(
    claim: int,
    request: DeviceRequest,
    exact: ExactDeviceRequest,
    classes: DeviceClasses,
    find_all: FindAllDevices,
) -> DeviceRequestData:
    def make_error(text: str) -> AllocationError:
        return AllocationError(AllocationFailure(f", request {exact.name}: {text}", claim))

    for position, selector in enumerate(exact.selectors):
        if not selector:
            text = f", request {exact.name}, selector #{position}: CEL expression empty (unsupported selector type?)"
            raise AllocationError(AllocationFailure(text, claim))
    if not exact.device_class:
        raise make_error("missing device class name (unsupported request type?)")
    known = classes.get(exact.device_class)
    if known is None:
        missing = f'deviceclass.resource.k8s.io "{exact.device_class}" not found'
        raise make_error(f"could not retrieve device class {exact.device_class}: {missing}")
    part = DeviceRequestData(request, exact, claim, bool(request.first_available), known.selectors)
    if exact.mode == ALLOCATION_MODE_EXACT_COUNT:
        part.number = exact.count
    elif exact.mode == ALLOCATION_MODE_ALL:
        part.every = find_all(part)
        part.number = len(part.every)
    else:
        raise make_error(f"unsupported count mode {exact.mode}")
    return part


MAX_STEPS = 100_000

_MISSING_KEY = "no such key:"

_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


def allocate(
    sight: VisibleDevices,
    in_use: AllocatedState,
    classes: DeviceClasses,
    claims: Sequence[ClaimSpec],
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
) -> AllocationOutcome:
    """Allocate devices visible to the node for all claims; None if they do not suffice."""
    if sight.fault:
        return AllocationFailure(sight.fault)
    try:
        search = _Search(sight, in_use, classes, claims, release)
        allocated_claims = search.run()
    except AllocationError as error:
        return error.failed
    if allocated_claims is None and sight.invalid is not None:
        return AllocationFailure("invalid resource pools were encountered", is_of_node=True)
    return allocated_claims


_Chosen = tuple[CandidateDevice, DeviceAllocation]


class _Search:
    def __init__(
        self,
        sight: VisibleDevices,
        in_use: AllocatedState,
        classes: DeviceClasses,
        claims: Sequence[ClaimSpec],
        release: scheduler_releases.SchedulerRelease,
    ) -> None:
        self._sight, self._in_use, self._classes, self._claims = sight, in_use, classes, claims
        self._release = release
        self._usable = [
            candidate_device
            for candidate_device in sight.candidates
            if not candidate_device.pool.is_incomplete and not candidate_device.pool.is_invalid
        ]
        self._selected: dict[tuple[int, DeviceId], bool] = {}
        self._taken_by: dict[DeviceId, set[int]] = {}
        self._sharing: dict[DeviceId, list[dict[str, int]]] = {}
        self._counters: dict[Hashable, SharedCounters] = {}
        self._chosen: list[list[_Chosen]] = [[] for _ in claims]
        self._steps = 0
        self._parts = [
            prepare_requests(number, claim, classes, self._find_all, release) for number, claim in enumerate(claims)
        ]
        self._constraints_by_claim = [
            [
                allocation_state.make_constraint_checker(device_constraint, release)
                for device_constraint in claim.constraints
            ]
            for claim in claims
        ]

    def run(self) -> AllocatedClaims | None:
        try:
            if not self._claim(0):
                return None
        except AllocationResultTooLarge:
            return None
        return AllocatedClaims(
            tuple(tuple(result for _, result in chosen) for chosen in self._chosen),
            tuple(tuple(candidate.reach for candidate, _ in chosen) for chosen in self._chosen),
            tuple(any(candidate.device.binds_to_node for candidate, _ in chosen) for chosen in self._chosen),
        )

    def _find_all(self, part: DeviceRequestData) -> tuple[CandidateDevice, ...]:
        candidate_devices: list[CandidateDevice] = []
        for pool in self._sight.pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                reason = f"asks for all devices, but resource pool {pool.id} is currently {state}"
                raise AllocationError(AllocationFailure(f", request {part.wanted.name}: {reason}", part.claim))
            candidate_devices += [
                candidate_device
                for candidate_device in self._usable
                if candidate_device.pool is pool and self._is_one_of_all(part, candidate_device)
            ]
        return tuple(candidate_devices)

    def _is_one_of_all(self, part: DeviceRequestData, candidate: CandidateDevice) -> bool:
        if not self._release.counts_full_devices_in_all:
            return self._matches_request(part, candidate)
        if not self._is_selected(part, candidate):
            return False
        try:
            return allocation_state.fits_capacity(part.wanted.capacity, candidate.device.traits, self._release)
        except allocation_state.UnrepresentableCapacity as error:
            raise AllocationError(_fail_on_capacity(part, candidate.id.device, error)) from None

    # The search

    def _claim(self, claim: int) -> bool:
        if claim >= len(self._claims):
            return True
        return self._request(claim, 0)

    def _request(self, claim: int, number: int) -> bool:
        self._count_step()
        requests = self._parts[claim]
        if number >= len(requests):
            try:
                return self._claim(claim + 1)
            except AllocationResultTooLarge:
                return False  # an earlier claim may yet choose alternatives that leave room for smaller ones here
        if not requests[number]:
            return self._request(claim, number + 1)
        if not requests[number][0].is_alternative:
            return self._devices(requests[number][0], claim, number, 0, 0)
        are_all_too_many = True
        for part in requests[number]:
            try:
                if self._devices(part, claim, number, 0, 0):
                    return True
            except AllocationResultTooLarge:
                continue
            are_all_too_many = False
        if are_all_too_many:
            raise AllocationResultTooLarge
        return False

    def _devices(self, part: DeviceRequestData, claim: int, number: int, taken: int, start: int) -> bool:
        """Search the missing devices of a request among the candidates from `start`."""
        self._count_step()
        if part.wanted.mode == ALLOCATION_MODE_ALL and not part.every:
            return False
        if taken >= part.number:
            return self._request(claim, number + 1)
        if len(self._chosen[claim]) + part.number - taken > MAX_DEVICES_PER_CLAIM:
            raise AllocationResultTooLarge
        if part.wanted.mode == ALLOCATION_MODE_ALL:
            return self._try_device(part, part.every[taken], claim, number, taken, 0, must=True)
        for position in range(start, len(self._usable)):
            candidate = self._usable[position]
            if (
                not self._is_busy(part, candidate)
                and self._matches_request(part, candidate)
                and self._try_device(part, candidate, claim, number, taken, position + 1)
            ):
                return True
        return False

    def _try_device(
        self,
        part: DeviceRequestData,
        candidate: CandidateDevice,
        claim: int,
        number: int,
        taken: int,
        start: int,
        must: bool = False,
    ) -> bool:
        if not self._allocate_device(part, candidate, must):
            return False
        try:
            done = self._devices(part, claim, number, taken + 1, start)
        except AllocationResultTooLarge:
            self._release_device(part, candidate)
            raise
        if not done:
            self._release_device(part, candidate)
        return done

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise AllocationError(AllocationFailure("timed out trying to allocate devices"))

    # One device

    def _matches_request(self, part: DeviceRequestData, candidate: CandidateDevice) -> bool:
        """True if the request selects the device and its remaining capacity suffices."""
        key = id(part), candidate.id
        known = self._selected.get(key)
        if known is None:
            known = self._selected[key] = self._is_selected(part, candidate)
        return known and self._has_capacity(part, candidate)

    def _is_selected(self, part: DeviceRequestData, candidate: CandidateDevice) -> bool:
        traits, driver = candidate.device.traits, candidate.id.driver
        for selectors, about_class in ((part.class_selectors, True), (part.wanted.selectors, False)):
            for position, expression in enumerate(selectors):
                try:
                    if not cel_selectors.matches_selector(expression, driver, traits):
                        return False
                except cel_selectors.SelectorEvaluationError as error:
                    on = candidate.id if self._release.names_devices_in_selector_errors else None
                    raise AllocationError(_fail_selecting(part, position, expression, error, on, about_class)) from None
        return candidate.is_reached

    def _has_capacity(self, part: DeviceRequestData, candidate: CandidateDevice) -> bool:
        if not candidate.device.traits.capacity and not part.wanted.capacity:
            return True
        taking: dict[str, int] = {}
        for share in self._sharing.get(candidate.id, ()):
            for name, amount in share.items():
                taking[name] = taking.get(name, 0) + amount
        taken = self._in_use.consumed(candidate.id) or {}
        try:
            return allocation_state.fits_capacity(
                part.wanted.capacity, candidate.device.traits, self._release, taken, taking
            )
        except allocation_state.UnrepresentableCapacity as error:
            raise AllocationError(_fail_on_capacity(part, candidate.id, error)) from None

    def _is_busy(self, part: DeviceRequestData, candidate: CandidateDevice) -> bool:
        claims = self._taken_by.get(candidate.id, ())
        if part.wanted.admin_access:
            return part.claim in claims
        return candidate.id in self._in_use.devices or bool(claims)

    def _allocate_device(self, part: DeviceRequestData, candidate: CandidateDevice, must: bool) -> bool:
        device = candidate.device
        is_shared = device.traits.is_shared
        if self._is_busy(part, candidate) and not (is_shared and part.wanted.admin_access):
            return False
        draws = bool(device.consumes) and not (is_shared and self._is_shared_already(candidate.id))
        if draws and not self._counters_of(candidate.pool).consume(device):
            return False
        if not _is_tolerated(part.wanted, candidate) or not self._add_to_constraints(part, candidate, must):
            if draws:
                self._counters_of(candidate.pool).release(device)
            return False
        if not self._has_capacity(part, candidate):
            self._remove_from_constraints(part, len(self._constraints_by_claim[part.claim]))
            if draws:
                self._counters_of(candidate.pool).release(device)
            return False
        self._record(part, candidate)
        return True

    def _record(self, part: DeviceRequestData, candidate: CandidateDevice) -> None:
        consumed: NanoAmounts = ()
        if candidate.device.traits.is_shared:
            consumed = allocation_state.consume_capacity(part.wanted.capacity, candidate.device.traits, self._release)
            self._sharing.setdefault(candidate.id, []).append(dict(consumed))
        else:
            self._taken_by.setdefault(candidate.id, set()).add(part.claim)
        result = DeviceAllocation(candidate.id, part.wanted.admin_access, candidate.device.traits.is_shared, consumed)
        self._chosen[part.claim].append((candidate, result))

    def _release_device(self, part: DeviceRequestData, candidate: CandidateDevice) -> None:
        self._chosen[part.claim].pop()
        device = candidate.device
        if device.traits.is_shared:
            self._sharing[candidate.id].pop()
            if not self._sharing[candidate.id]:
                del self._sharing[candidate.id]
        else:
            self._taken_by[candidate.id].discard(part.claim)
        self._remove_from_constraints(part, len(self._constraints_by_claim[part.claim]))
        if device.consumes and not (device.traits.is_shared and self._is_shared_already(candidate.id)):
            self._counters_of(candidate.pool).release(device)

    def _is_shared_already(self, id: DeviceId) -> bool:
        if id in self._sharing:
            return True
        return (
            self._in_use.is_shared(id) if self._release.charges_shares_once else self._in_use.consumed(id) is not None
        )

    def _counters_of(self, pool: DevicePool) -> SharedCounters:
        key = pool.id if self._release.keys_counters_by_driver else pool.id.pool
        if key not in self._counters:
            self._counters[key] = SharedCounters(pool, self._in_use)
        return self._counters[key]

    def _add_to_constraints(self, part: DeviceRequestData, candidate: CandidateDevice, must: bool) -> bool:
        """True if all constraints of the claim allow the device."""
        for position, constraint in enumerate(self._constraints_by_claim[part.claim]):
            if not constraint.add(part.request.name, part.part, candidate.id, candidate.device):
                self._remove_from_constraints(part, position)
                if must:
                    reason = "because a claim constraint would not be satisfied"
                    text = f", request {part.wanted.name}: cannot add device {candidate.id} {reason}"
                    raise AllocationError(AllocationFailure(text, part.claim))
                return False
        return True

    def _remove_from_constraints(self, part: DeviceRequestData, count: int) -> None:
        for constraint in reversed(self._constraints_by_claim[part.claim][:count]):
            constraint.remove(part.request.name, part.part)


def _fail_selecting(
    part: DeviceRequestData,
    position: int,
    expression: str,
    error: cel_selectors.SelectorEvaluationError,
    on: DeviceId | None,
    about_class: bool,
) -> AllocationFailure:
    """`on` is the device on which the selector failed, if messages of this release name it."""
    if on is None or not error.is_of_device:
        text = f": selector #{position}: {error}"
    else:
        text = f": selector #{position} on device {on}: {error}{_HINT if _MISSING_KEY in str(error) else ''}"
    if about_class:
        owner = part.wanted.device_class
        return AllocationFailure(
            f"class {owner}{text}", selector=SelectorError(owner, "", position, expression, str(error))
        )
    request = f"{part.request.name}/{part.part}" if part.is_alternative else part.request.name
    return AllocationFailure(text, part.claim, selector=SelectorError("", request, position, expression, str(error)))


def _fail_on_capacity(
    part: DeviceRequestData, device: object, error: allocation_state.UnrepresentableCapacity
) -> AllocationFailure:
    return AllocationFailure(
        f", request {part.wanted.name}: checking capacity for device {device}: {error}", part.claim
    )


def _is_tolerated(exact: ExactDeviceRequest, candidate: CandidateDevice) -> bool:
    return all(
        any(toleration.tolerates(taint) for toleration in exact.tolerations)
        for taint in candidate.device.taints
        if taint.effect in ("NoSchedule", "NoExecute")
    )
