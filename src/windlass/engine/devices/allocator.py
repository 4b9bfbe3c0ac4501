"""The allocator: devices for all claims of a pod on one node, or why there are none.

Mirrors kube-scheduler's: one claim after the other, one request after the other, one device after the other, each the
first that will do; where that leads nowhere, the next. The first complete solution is taken. A request for all devices
takes every one that it selects, or nothing.

It is an exhaustive search; kube-scheduler gives up after some time, this after so many steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine.devices import constraints, counting, selecting, sharing
from windlass.engine.devices.in_use import InUse
from windlass.engine.devices.model import (
    ALL,
    EXACT_COUNT,
    Amounts,
    ClaimSpec,
    Classes,
    DeviceId,
    Reach,
    Request,
    Result,
    Wanted,
)
from windlass.engine.devices.pools import Candidate, Pool, Sight

MOST_RESULTS = 32
"""Devices that one claim can have."""
MOST_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Failed:
    """Something is wrong with a claim, a class or a pool. `claim` is the number of the claim that the text is about."""

    text: str
    claim: int | None = None
    is_of_node: bool = False
    """Only this node is affected."""

    def tell(self, names: Sequence[object]) -> str:
        return self.text if self.claim is None else f"claim {names[self.claim]}{self.text}"


@dataclass(frozen=True, slots=True)
class Found:
    """The devices of each claim, and from where they can be used."""

    results: tuple[tuple[Result, ...], ...]
    reaches: tuple[tuple[Reach, ...], ...]
    binds_to_node: tuple[bool, ...]


Outcome: TypeAlias = Found | Failed | None
"""None: there are not enough devices."""


class _GiveUp(Exception):
    """Carries what is wrong."""

    def __init__(self, failed: Failed) -> None:
        self.failed = failed


class _TooMany(Exception):
    """More devices than a claim can have: no other choice for the same request would change that."""


def allocate(sight: Sight, in_use: InUse, classes: Classes, claims: Sequence[ClaimSpec]) -> Outcome:
    """Devices for all of these claims, of those that the node sees."""
    try:
        search = _Search(sight, in_use, classes, claims)
        found = search.run()
    except _GiveUp as error:
        return error.failed
    if found is None and sight.invalid is not None:
        return Failed("invalid resource pools were encountered", is_of_node=True)
    return found


@dataclass(slots=True)
class _Part:
    """A request, or one alternative of it, and how many devices it needs here."""

    request: Request
    wanted: Wanted
    claim: int
    is_alternative: bool
    class_selectors: tuple[str, ...]
    number: int = 0
    every: tuple[Candidate, ...] = ()
    """For all devices: which these are."""

    @property
    def part(self) -> str:
        return self.wanted.name if self.is_alternative else ""


_Chosen = tuple[Candidate, Result]


class _Search:
    def __init__(self, sight: Sight, in_use: InUse, classes: Classes, claims: Sequence[ClaimSpec]) -> None:
        self._sight, self._in_use, self._classes, self._claims = sight, in_use, classes, claims
        self._usable = [one for one in sight.candidates if not one.pool.is_incomplete and not one.pool.is_invalid]
        self._selected: dict[tuple[int, DeviceId], bool] = {}
        self._taking: dict[DeviceId, set[int]] = {}
        self._sharing: dict[DeviceId, list[dict[str, int]]] = {}
        self._counters: dict[Pool, counting.Counters] = {}
        self._chosen: list[list[_Chosen]] = [[] for _ in claims]
        self._steps = 0
        self._parts = [self._prepare(number, claim) for number, claim in enumerate(claims)]
        self._keepers = [[constraints.keep(one) for one in claim.constraints] for claim in claims]

    def run(self) -> Found | None:
        try:
            if not self._claim(0):
                return None
        except _TooMany:
            return None
        return Found(
            tuple(tuple(result for _, result in chosen) for chosen in self._chosen),
            tuple(tuple(candidate.reach for candidate, _ in chosen) for chosen in self._chosen),
            tuple(any(candidate.device.binds_to_node for candidate, _ in chosen) for chosen in self._chosen),
        )

    # What is asked for

    def _prepare(self, number: int, claim: ClaimSpec) -> list[list[_Part]]:
        """For each request of a claim, its alternatives."""
        prepared, least = [], 0
        for request in claim.requests:
            wanted = request.first_available or ((request.exactly,) if request.exactly is not None else ())
            parts = [self._validate(number, request, one) for one in wanted]
            least += min((part.number for part in parts), default=0)
            prepared.append(parts)
        if least > MOST_RESULTS:
            text = f": number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
            raise _GiveUp(Failed(text, number))
        for position, constraint in enumerate(claim.constraints):
            if not constraints.is_known(constraint):
                text = f", constraint #{position}: empty constraint (unsupported constraint type?)"
                raise _GiveUp(Failed(text, number))
        return prepared

    def _validate(self, claim: int, request: Request, wanted: Wanted) -> _Part:
        def complain(text: str) -> _GiveUp:
            return _GiveUp(Failed(f", request {wanted.name}: {text}", claim))

        for position, selector in enumerate(wanted.selectors):
            if not selector:
                text = (
                    f", request {wanted.name}, selector #{position}: CEL expression empty (unsupported selector type?)"
                )
                raise _GiveUp(Failed(text, claim))
        if not wanted.device_class:
            raise complain("missing device class name (unsupported request type?)")
        known = self._classes.get(wanted.device_class)
        if known is None:
            missing = f'deviceclass.resource.k8s.io "{wanted.device_class}" not found'
            raise complain(f"could not retrieve device class {wanted.device_class}: {missing}")
        part = _Part(request, wanted, claim, bool(request.first_available), known.selectors)
        if wanted.mode == EXACT_COUNT:
            part.number = wanted.count
        elif wanted.mode == ALL:
            for pool in self._sight.pools:
                if pool.is_incomplete or pool.is_invalid:
                    state = "being updated" if pool.is_incomplete else "invalid"
                    raise complain(f"asks for all devices, but resource pool {pool.id} is currently {state}")
                part.every += tuple(one for one in self._usable if one.pool is pool and self._offers(part, one))
            part.number = len(part.every)
        else:
            raise complain(f"unsupported count mode {wanted.mode}")
        return part

    # The search

    def _claim(self, claim: int) -> bool:
        if claim >= len(self._claims):
            return True
        return self._request(claim, 0)

    def _request(self, claim: int, number: int) -> bool:
        self._step()
        requests = self._parts[claim]
        if number >= len(requests):
            try:
                return self._claim(claim + 1)
            except _TooMany:
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
            except _TooMany:
                continue
            are_all_too_many = False
        if are_all_too_many:
            raise _TooMany
        return False

    def _devices(self, part: _Part, claim: int, number: int, taken: int, start: int) -> bool:
        """Find the devices of a request that are still missing, of candidates from `start` on."""
        self._step()
        if part.wanted.mode == ALL and not part.every:
            return False
        if taken >= part.number:
            return self._request(claim, number + 1)
        if len(self._chosen[claim]) + part.number - taken > MOST_RESULTS:
            raise _TooMany
        if part.wanted.mode == ALL:
            return self._try(part, part.every[taken], claim, number, taken, 0, must=True)
        for position in range(start, len(self._usable)):
            candidate = self._usable[position]
            if (
                not self._is_busy(part, candidate)
                and self._offers(part, candidate)
                and self._try(part, candidate, claim, number, taken, position + 1)
            ):
                return True
        return False

    def _try(
        self, part: _Part, candidate: Candidate, claim: int, number: int, taken: int, start: int, must: bool = False
    ) -> bool:
        if not self._take(part, candidate, must):
            return False
        try:
            done = self._devices(part, claim, number, taken + 1, start)
        except _TooMany:
            self._give_back(part, candidate)
            raise
        if not done:
            self._give_back(part, candidate)
        return done

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _GiveUp(Failed("timed out trying to allocate devices"))

    # One device

    def _offers(self, part: _Part, candidate: Candidate) -> bool:
        """Does the request select the device, and has it enough capacity left?"""
        key = id(part), candidate.id
        known = self._selected.get(key)
        if known is None:
            known = self._selected[key] = self._is_selected(part, candidate)
        return known and self._has_capacity(part, candidate)

    def _is_selected(self, part: _Part, candidate: Candidate) -> bool:
        traits, driver = candidate.device.traits, candidate.id.driver
        for selectors, about_class in ((part.class_selectors, True), (part.wanted.selectors, False)):
            for position, expression in enumerate(selectors):
                try:
                    if not selecting.matches(expression, driver, traits):
                        return False
                except selecting.SelectorFailed as error:
                    text = f": selector #{position}: {error}"
                    if about_class:
                        raise _GiveUp(Failed(f"class {part.wanted.device_class}{text}")) from None
                    raise _GiveUp(Failed(text, part.claim)) from None
        return candidate.is_reached

    def _has_capacity(self, part: _Part, candidate: Candidate) -> bool:
        if not candidate.device.traits.capacity and not part.wanted.capacity:
            return True
        taking: dict[str, int] = {}
        for share in self._sharing.get(candidate.id, ()):
            for name, amount in share.items():
                taking[name] = taking.get(name, 0) + amount
        taken = self._in_use.consumed(candidate.id) or {}
        return sharing.fits(part.wanted.capacity, candidate.device.traits, taken, taking)

    def _is_busy(self, part: _Part, candidate: Candidate) -> bool:
        takers = self._taking.get(candidate.id, ())
        if part.wanted.admin_access:
            return part.claim in takers
        return candidate.id in self._in_use.devices or bool(takers)

    def _take(self, part: _Part, candidate: Candidate, must: bool) -> bool:
        device = candidate.device
        is_shared = device.traits.is_shared
        if self._is_busy(part, candidate) and not (is_shared and part.wanted.admin_access):
            return False
        draws = bool(device.consumes) and not (is_shared and self._is_shared_already(candidate.id))
        if draws and not self._counters_of(candidate.pool).take(device):
            return False
        if not _is_tolerated(part.wanted, candidate) or not self._keep(part, candidate, must):
            if draws:
                self._counters_of(candidate.pool).give_back(device)
            return False
        if not self._has_capacity(part, candidate):
            self._unkeep(part, len(self._keepers[part.claim]))
            if draws:
                self._counters_of(candidate.pool).give_back(device)
            return False
        self._record(part, candidate)
        return True

    def _record(self, part: _Part, candidate: Candidate) -> None:
        consumed: Amounts = ()
        if candidate.device.traits.is_shared:
            consumed = sharing.consume(part.wanted.capacity, candidate.device.traits)
            self._sharing.setdefault(candidate.id, []).append(dict(consumed))
        else:
            self._taking.setdefault(candidate.id, set()).add(part.claim)
        result = Result(candidate.id, part.wanted.admin_access, candidate.device.traits.is_shared, consumed)
        self._chosen[part.claim].append((candidate, result))

    def _give_back(self, part: _Part, candidate: Candidate) -> None:
        self._chosen[part.claim].pop()
        device = candidate.device
        if device.traits.is_shared:
            self._sharing[candidate.id].pop()
            if not self._sharing[candidate.id]:
                del self._sharing[candidate.id]
        else:
            self._taking[candidate.id].discard(part.claim)
        self._unkeep(part, len(self._keepers[part.claim]))
        if device.consumes and not (device.traits.is_shared and self._is_shared_already(candidate.id)):
            self._counters_of(candidate.pool).give_back(device)

    def _is_shared_already(self, id: DeviceId) -> bool:
        return id in self._sharing or self._in_use.consumed(id) is not None

    def _counters_of(self, pool: Pool) -> counting.Counters:
        if pool not in self._counters:
            self._counters[pool] = counting.Counters(pool, self._in_use)
        return self._counters[pool]

    def _keep(self, part: _Part, candidate: Candidate, must: bool) -> bool:
        """Do all constraints of the claim allow the device?"""
        for position, keeper in enumerate(self._keepers[part.claim]):
            if not keeper.add(part.request.name, part.part, candidate.id, candidate.device):
                self._unkeep(part, position)
                if must:
                    why = "because a claim constraint would not be satisfied"
                    text = f", request {part.wanted.name}: cannot add device {candidate.id} {why}"
                    raise _GiveUp(Failed(text, part.claim))
                return False
        return True

    def _unkeep(self, part: _Part, count: int) -> None:
        for keeper in reversed(self._keepers[part.claim][:count]):
            keeper.remove(part.request.name, part.part)


def _is_tolerated(wanted: Wanted, candidate: Candidate) -> bool:
    return all(
        any(toleration.tolerates(taint) for toleration in wanted.tolerations)
        for taint in candidate.device.taints
        if taint.effect in ("NoSchedule", "NoExecute")
    )
