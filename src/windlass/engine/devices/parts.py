"""Parts: what each request of a claim needs here, before any device is looked for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from windlass import releases
from windlass.engine.devices import constraints
from windlass.engine.devices.model import ALL, EXACT_COUNT, ClaimSpec, Classes, Request, Wanted
from windlass.engine.devices.outcome import Failed, GiveUp
from windlass.engine.devices.pools import Candidate

MOST_RESULTS = 32
"""Devices that one claim can have."""


@dataclass(slots=True)
class Part:
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


FindAll: TypeAlias = Callable[[Part], tuple[Candidate, ...]]
"""The devices that a request for all of them takes."""


def prepare(
    number: int, claim: ClaimSpec, classes: Classes, find_all: FindAll, release: releases.Release
) -> list[list[Part]]:
    """For each request of a claim, its alternatives."""
    prepared, least = [], 0
    for request in claim.requests:
        wanted = request.first_available or ((request.exactly,) if request.exactly is not None else ())
        parts = [_validate(number, request, one, classes, find_all) for one in wanted]
        added = min((part.number for part in parts), default=0)
        if release.limits_devices_by_request and added > MOST_RESULTS - least:
            exceeds = f"exceeds the claim limit of {MOST_RESULTS}, with {least} already accounted for"
            raise GiveUp(Failed(f", request {request.name}: adding {added} devices {exceeds}", number))
        least += added
        prepared.append(parts)
    if least > MOST_RESULTS:
        text = f": number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
        raise GiveUp(Failed(text, number))
    for position, constraint in enumerate(claim.constraints):
        if not constraints.is_known(constraint):
            text = f", constraint #{position}: empty constraint (unsupported constraint type?)"
            raise GiveUp(Failed(text, number))
    return prepared


def _validate(claim: int, request: Request, wanted: Wanted, classes: Classes, find_all: FindAll) -> Part:
    def complain(text: str) -> GiveUp:
        return GiveUp(Failed(f", request {wanted.name}: {text}", claim))

    for position, selector in enumerate(wanted.selectors):
        if not selector:
            text = f", request {wanted.name}, selector #{position}: CEL expression empty (unsupported selector type?)"
            raise GiveUp(Failed(text, claim))
    if not wanted.device_class:
        raise complain("missing device class name (unsupported request type?)")
    known = classes.get(wanted.device_class)
    if known is None:
        missing = f'deviceclass.resource.k8s.io "{wanted.device_class}" not found'
        raise complain(f"could not retrieve device class {wanted.device_class}: {missing}")
    part = Part(request, wanted, claim, bool(request.first_available), known.selectors)
    if wanted.mode == EXACT_COUNT:
        part.number = wanted.count
    elif wanted.mode == ALL:
        part.every = find_all(part)
        part.number = len(part.every)
    else:
        raise complain(f"unsupported count mode {wanted.mode}")
    return part
