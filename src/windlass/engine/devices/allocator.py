"""The allocator: devices for all claims of a pod on one node, or why there are none.

Mirrors kube-scheduler's: one claim after the other, one request after the other, one device after the other, each the
first that will do; where that leads nowhere, the next. The first complete solution is taken. A request for all devices
takes every one that it selects, or nothing.

It is an exhaustive search; kube-scheduler gives up after some time, this after so many steps.
"""

from collections.abc import Hashable, Sequence

from windlass import releases
from windlass.engine.devices import constraints, counting, parts, selecting, sharing
from windlass.engine.devices.in_use import InUse
from windlass.engine.devices.model import (
    ALL,
    Amounts,
    ClaimSpec,
    Classes,
    DeviceId,
    Result,
    Wanted,
)
from windlass.engine.devices.outcome import Failed, Found, GiveUp, Outcome, SelectorError, TooMany
from windlass.engine.devices.parts import Part
from windlass.engine.devices.pools import Candidate, Pool, Sight

MOST_STEPS = 100_000
_MISSING_KEY = "no such key:"
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


def allocate(
    sight: Sight,
    in_use: InUse,
    classes: Classes,
    claims: Sequence[ClaimSpec],
    release: releases.Release = releases.DEFAULT,
) -> Outcome:
    """Devices for all of these claims, of those that the node sees."""
    try:
        search = _Search(sight, in_use, classes, claims, release)
        found = search.run()
    except GiveUp as error:
        return error.failed
    if found is None and sight.invalid is not None:
        return Failed("invalid resource pools were encountered", is_of_node=True)
    return found


_Chosen = tuple[Candidate, Result]


class _Search:
    def __init__(
        self, sight: Sight, in_use: InUse, classes: Classes, claims: Sequence[ClaimSpec], release: releases.Release
    ) -> None:
        self._sight, self._in_use, self._classes, self._claims = sight, in_use, classes, claims
        self._release = release
        self._usable = [one for one in sight.candidates if not one.pool.is_incomplete and not one.pool.is_invalid]
        self._selected: dict[tuple[int, DeviceId], bool] = {}
        self._taking: dict[DeviceId, set[int]] = {}
        self._sharing: dict[DeviceId, list[dict[str, int]]] = {}
        self._counters: dict[Hashable, counting.Counters] = {}
        self._chosen: list[list[_Chosen]] = [[] for _ in claims]
        self._steps = 0
        self._parts = [
            parts.prepare(number, claim, classes, self._find_all, release) for number, claim in enumerate(claims)
        ]
        self._keepers = [[constraints.keep(one, release) for one in claim.constraints] for claim in claims]

    def run(self) -> Found | None:
        try:
            if not self._claim(0):
                return None
        except TooMany:
            return None
        return Found(
            tuple(tuple(result for _, result in chosen) for chosen in self._chosen),
            tuple(tuple(candidate.reach for candidate, _ in chosen) for chosen in self._chosen),
            tuple(any(candidate.device.binds_to_node for candidate, _ in chosen) for chosen in self._chosen),
        )

    def _find_all(self, part: Part) -> tuple[Candidate, ...]:
        found: list[Candidate] = []
        for pool in self._sight.pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                why = f"asks for all devices, but resource pool {pool.id} is currently {state}"
                raise GiveUp(Failed(f", request {part.wanted.name}: {why}", part.claim))
            found += [one for one in self._usable if one.pool is pool and self._is_one_of_all(part, one)]
        return tuple(found)

    def _is_one_of_all(self, part: Part, candidate: Candidate) -> bool:
        if not self._release.counts_full_devices_in_all:
            return self._offers(part, candidate)
        if not self._is_selected(part, candidate):
            return False
        try:
            return sharing.fits(part.wanted.capacity, candidate.device.traits, self._release)
        except sharing.Unrepresentable as error:
            raise GiveUp(_fail_on_capacity(part, candidate.id.device, error)) from None

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
            except TooMany:
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
            except TooMany:
                continue
            are_all_too_many = False
        if are_all_too_many:
            raise TooMany
        return False

    def _devices(self, part: Part, claim: int, number: int, taken: int, start: int) -> bool:
        """Find the devices of a request that are still missing, of candidates from `start` on."""
        self._step()
        if part.wanted.mode == ALL and not part.every:
            return False
        if taken >= part.number:
            return self._request(claim, number + 1)
        if len(self._chosen[claim]) + part.number - taken > parts.MOST_RESULTS:
            raise TooMany
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
        self, part: Part, candidate: Candidate, claim: int, number: int, taken: int, start: int, must: bool = False
    ) -> bool:
        if not self._take(part, candidate, must):
            return False
        try:
            done = self._devices(part, claim, number, taken + 1, start)
        except TooMany:
            self._give_back(part, candidate)
            raise
        if not done:
            self._give_back(part, candidate)
        return done

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise GiveUp(Failed("timed out trying to allocate devices"))

    # One device

    def _offers(self, part: Part, candidate: Candidate) -> bool:
        """Does the request select the device, and has it enough capacity left?"""
        key = id(part), candidate.id
        known = self._selected.get(key)
        if known is None:
            known = self._selected[key] = self._is_selected(part, candidate)
        return known and self._has_capacity(part, candidate)

    def _is_selected(self, part: Part, candidate: Candidate) -> bool:
        traits, driver = candidate.device.traits, candidate.id.driver
        for selectors, about_class in ((part.class_selectors, True), (part.wanted.selectors, False)):
            for position, expression in enumerate(selectors):
                try:
                    if not selecting.matches(expression, driver, traits):
                        return False
                except selecting.SelectorFailed as error:
                    on = candidate.id if self._release.names_devices_in_selector_errors else None
                    raise GiveUp(_fail_selecting(part, position, expression, error, on, about_class)) from None
        return candidate.is_reached

    def _has_capacity(self, part: Part, candidate: Candidate) -> bool:
        if not candidate.device.traits.capacity and not part.wanted.capacity:
            return True
        taking: dict[str, int] = {}
        for share in self._sharing.get(candidate.id, ()):
            for name, amount in share.items():
                taking[name] = taking.get(name, 0) + amount
        taken = self._in_use.consumed(candidate.id) or {}
        try:
            return sharing.fits(part.wanted.capacity, candidate.device.traits, self._release, taken, taking)
        except sharing.Unrepresentable as error:
            raise GiveUp(_fail_on_capacity(part, candidate.id, error)) from None

    def _is_busy(self, part: Part, candidate: Candidate) -> bool:
        takers = self._taking.get(candidate.id, ())
        if part.wanted.admin_access:
            return part.claim in takers
        return candidate.id in self._in_use.devices or bool(takers)

    def _take(self, part: Part, candidate: Candidate, must: bool) -> bool:
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

    def _record(self, part: Part, candidate: Candidate) -> None:
        consumed: Amounts = ()
        if candidate.device.traits.is_shared:
            consumed = sharing.consume(part.wanted.capacity, candidate.device.traits, self._release)
            self._sharing.setdefault(candidate.id, []).append(dict(consumed))
        else:
            self._taking.setdefault(candidate.id, set()).add(part.claim)
        result = Result(candidate.id, part.wanted.admin_access, candidate.device.traits.is_shared, consumed)
        self._chosen[part.claim].append((candidate, result))

    def _give_back(self, part: Part, candidate: Candidate) -> None:
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
        if id in self._sharing:
            return True
        return (
            self._in_use.is_shared(id) if self._release.charges_shares_once else self._in_use.consumed(id) is not None
        )

    def _counters_of(self, pool: Pool) -> counting.Counters:
        key = pool.id if self._release.keys_counters_by_driver else pool.id.pool
        if key not in self._counters:
            self._counters[key] = counting.Counters(pool, self._in_use)
        return self._counters[key]

    def _keep(self, part: Part, candidate: Candidate, must: bool) -> bool:
        """Do all constraints of the claim allow the device?"""
        for position, keeper in enumerate(self._keepers[part.claim]):
            if not keeper.add(part.request.name, part.part, candidate.id, candidate.device):
                self._unkeep(part, position)
                if must:
                    why = "because a claim constraint would not be satisfied"
                    text = f", request {part.wanted.name}: cannot add device {candidate.id} {why}"
                    raise GiveUp(Failed(text, part.claim))
                return False
        return True

    def _unkeep(self, part: Part, count: int) -> None:
        for keeper in reversed(self._keepers[part.claim][:count]):
            keeper.remove(part.request.name, part.part)


def _fail_selecting(
    part: Part,
    position: int,
    expression: str,
    error: selecting.SelectorFailed,
    on: DeviceId | None,
    about_class: bool,
) -> Failed:
    """`on` is the device on which the selector failed, where that is to be told."""
    if on is None or not error.is_of_device:
        text = f": selector #{position}: {error}"
    else:
        text = f": selector #{position} on device {on}: {error}{_HINT if _MISSING_KEY in str(error) else ''}"
    if about_class:
        owner = part.wanted.device_class
        return Failed(f"class {owner}{text}", selector=SelectorError(owner, "", position, expression, str(error)))
    request = f"{part.request.name}/{part.part}" if part.is_alternative else part.request.name
    return Failed(text, part.claim, selector=SelectorError("", request, position, expression, str(error)))


def _fail_on_capacity(part: Part, device: object, error: sharing.Unrepresentable) -> Failed:
    return Failed(f", request {part.wanted.name}: checking capacity for device {device}: {error}", part.claim)


def _is_tolerated(wanted: Wanted, candidate: Candidate) -> bool:
    return all(
        any(toleration.tolerates(taint) for toleration in wanted.tolerations)
        for taint in candidate.device.taints
        if taint.effect in ("NoSchedule", "NoExecute")
    )
