"""What comes of looking for devices: some, none, or what is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass.engine.devices.model import ClaimKey, Reach, Result


@dataclass(frozen=True, slots=True)
class SelectorError:
    """A selector of a claim, or of a device class, that cannot be compiled or fails on a device."""

    owner: ClaimKey | str
    """The claim, or the name of the class; empty while it is not known which claims say so."""
    request: str
    """Of the claim: the name of the request, or `request/alternative`."""
    position: int
    expression: str
    error: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Something is wrong with a claim, a class or a pool. `claim` is the number of the claim that the text is about."""

    text: str
    claim: int | None = None
    is_of_node: bool = False
    """Only this node is affected."""
    selector: SelectorError | None = None
    """The selector that cannot be evaluated, if that is what is wrong."""

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


class GiveUp(Exception):
    """Carries what is wrong."""

    def __init__(self, failed: Failed) -> None:
        self.failed = failed


class TooMany(Exception):
    """More devices than a claim can have: no other choice for the same request would change that."""
