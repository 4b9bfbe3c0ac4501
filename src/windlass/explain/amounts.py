"""Amounts as Kubernetes spells them: exactly for programs, shortly for people."""

from windlass.engine import facts
from windlass.kube import quantity

_BYTES = (facts.MEMORY, facts.EPHEMERAL_STORAGE)
_FIRST = (facts.CPU, facts.MEMORY)
_SHORT = 7
"""Characters that are easily read."""


def spell(resource: str, amount: int) -> str:
    """An amount in the resource's unit (millicores, bytes, pieces) as an exact quantity: `2500m`, `8Gi`, `3`."""
    if resource == facts.CPU:
        return str(quantity.Quantity(amount * quantity.MILLI))
    return str(quantity.Quantity(amount * quantity.NANO, "binary" if _is_bytes(resource) else "decimal"))


def shorten(resource: str, amount: int, *, up: bool = False) -> str:
    """The amount in at most a few digits, rounded down unless `up`: what is free is never overstated."""
    exact = spell(resource, amount)
    if len(exact) <= _SHORT or not _is_bytes(resource) or amount < 0:
        return exact
    unit = 1 << 10 * ((amount.bit_length() - 7) // 10)  # two to five digits are left
    return spell(resource, -(-amount // unit) * unit if up else amount // unit * unit)


def spell_all(resources: facts.Resources) -> dict[str, str]:
    """Exact quantities by resource; CPU and memory come first."""
    ordered = sorted(resources, key=lambda pair: (_FIRST.index(pair[0]) if pair[0] in _FIRST else len(_FIRST), pair[0]))
    return {resource: spell(resource, amount) for resource, amount in ordered}


def _is_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")
