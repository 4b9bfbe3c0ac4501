"""Selector errors: which claims and device classes have a selector that cannot be evaluated.

Allocation looks at what claims ask for, not at which claims ask for it: their names are looked up when someone asks.
"""

from collections.abc import Sequence
from dataclasses import replace

from windlass.engine.devices.model import ClaimKey, ClaimSpec
from windlass.engine.devices.outcome import Failed, SelectorError
from windlass.engine.devices.stock import Stock


class SelectorErrors:
    """Those met since slices or classes last changed."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self._of_classes: dict[tuple[str, int], SelectorError] = {}
        self._of_claims: dict[ClaimSpec, SelectorError] = {}
        self._listed: tuple[tuple[int, int, int], tuple[SelectorError, ...]] = ((-1, 0, 0), ())

    def clear(self) -> None:
        """Slices or classes have changed: each selector is evaluated anew."""
        self._of_classes.clear()
        self._of_claims.clear()

    def note(self, failed: Failed, claims: Sequence[ClaimSpec]) -> None:
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
