"""Capacity: how amounts are counted, and which a node can have.

A kubelet writes its own Node, and the API server admits any quantity. An amount that no machine has would count against
the limits of the whole cluster (--cores-total, --memory-total), and no node group could grow: it is no capacity.
"""

from collections.abc import Mapping

from windlass.kube import fields, quantity

CPU = "cpu"
MAX_AMOUNT = 2**55
"""Amounts are counted up to this (32 PiB, or as many millicores), so that a node full of them still fits an int64."""

_MAX_NANO_OF_CPU = MAX_AMOUNT * quantity.MILLI
_BOUNDED = (CPU, "memory", "ephemeral-storage")


def count(name: str, amount: quantity.Quantity) -> int:
    """An amount as the engine counts it: cpu in millicores, everything else in whole units."""
    return min(_count_unbounded(name, amount), MAX_AMOUNT)


def check(name: str, amount: quantity.Quantity, found: object, at: str) -> None:
    """InvalidField if no node has that much of the resource. Extended resources may be anything that fits an int64."""
    most = MAX_AMOUNT if name in _BOUNDED else quantity.INT64_MAX - 1
    if _count_unbounded(name, amount) > most:
        unit = "m" if name == CPU else ""
        raise fields.InvalidField(at, found, f"a quantity of at most {most}{unit}")


def read(amounts: Mapping[str, object] | None, at: str) -> dict[str, int]:
    """Capacity by resource name, in nano-units. InvalidField if no node has it."""
    read = fields.read_amounts(amounts, at)
    for name, nano in read.items():
        if nano > _MAX_NANO_OF_CPU:  # the least that any check refuses
            check(name, quantity.Quantity(nano), (amounts or {})[name], f"{at}[{name}]")
    return read


def salvage(amounts: Mapping[str, object] | None) -> dict[str, int]:
    """The same without the amounts that cannot be read."""
    kept: dict[str, int] = {}
    for name, value in (amounts or {}).items():
        try:
            kept |= read({name: value}, "")
        except fields.InvalidField:
            continue
    return kept


def _count_unbounded(name: str, amount: quantity.Quantity) -> int:
    return amount.milli_value() if name == CPU else amount.value()
