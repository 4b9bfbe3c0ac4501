"""Field errors and readers of quantities, resource amounts and node capacity.

Readers raise `InvalidField` with the path; the caller, which knows the object, makes an `errors.InvalidObject` of it.
A kubelet writes its own Node with any quantity: amounts that no machine has are refused as capacity, because they would
count against the limits of the whole cluster.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass import errors, quantity

_LARGEST_MILLI = quantity.INT64_MAX * quantity.MILLI
"""Maximum in nano-units of what an int64 holds in milli-units, as kube-scheduler counts CPU."""

_COMPLAINT = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)

_STEP = re.compile(r"\.\.\.|[^.\[\]]+")

_MISMATCH = re.compile(r"Expected (?P<accepted>.*), got (?P<found>.*)")


class InvalidField(ValueError):
    """An invalid field, by path."""

    def __init__(self, field: str, found: object, accepted: str) -> None:
        super().__init__(f"{field}: found {found!r}, expected {accepted}")
        self.field, self.found, self.accepted = field, found, accepted

    def of(self, kind: str, name: str) -> errors.InvalidObject:
        return errors.InvalidObject(kind, name, self.field, self.found, self.accepted)


def translate_decode_error(
    error: msgspec.MsgspecError, text: bytes | str | msgspec.Raw, within: str = ""
) -> InvalidField:
    """The decode error with the value that is found at its path."""
    if not isinstance(error, msgspec.ValidationError):
        return InvalidField(within or "the object", str(error), "valid JSON")
    complaint = _COMPLAINT.fullmatch(str(error))
    path, what = (complaint["path"] or "", complaint["what"]) if complaint else ("", str(error))
    field = ".".join(part for part in (within, path) if part) or "the object"
    mismatch = _MISMATCH.fullmatch(what)
    accepted = mismatch["accepted"].replace("`", "") if mismatch else "a time such as 2006-01-02T15:04:05Z"
    try:
        found = _look_up(msgspec.json.decode(text), path)
    except (ValueError, LookupError, TypeError, RecursionError):
        found = what
    return InvalidField(field, found, accepted)


def _look_up(tree: Any, path: str) -> Any:
    """The value at a path; for a map without a key (`labels[...]`), the whole map."""
    for step in _STEP.findall(path):
        if step == "...":
            break
        tree = tree[int(step)] if isinstance(tree, list) else tree[step]
    return tree


def read_enum(value: str | None, accepted: tuple[str, ...], at: str) -> str:
    """The value, if it is an accepted one; else InvalidField."""
    if value not in accepted:
        raise InvalidField(at, value, format_alternatives(accepted))
    return value


def read_quantity(value: object, at: str) -> quantity.Quantity:
    """A quantity of any sign, clamped to an int64."""
    try:
        return quantity.saturate_int64(quantity.read_quantity(value))
    except ValueError:
        raise InvalidField(at, value, quantity.ACCEPTED_QUANTITY) from None


def read_amounts(
    amounts: Mapping[str, object] | None, at: str, complaints: list[InvalidField] | None = None
) -> dict[str, int]:
    """Amounts by resource in nano-units, none negative.

    `complaints` gets amounts that exceed an int64, which kube-scheduler clamps.
    """
    read: dict[str, int] = {}
    for name, value in (amounts or {}).items():
        nano = read_quantity(value, f"{at}[{name}]").nano
        if nano < 0:
            raise InvalidField(f"{at}[{name}]", value, "a quantity of zero or more")
        if nano >= _LARGEST_MILLI and complaints is not None:
            complaints += _find_saturated(name, nano, value, f"{at}[{name}]")
        read[name] = nano
    return read


def _find_saturated(name: str, nano: int, value: object, at: str) -> Iterator[InvalidField]:
    if name == "cpu" or nano >= quantity.INT64_MAX * quantity.NANO:
        unit = "m" if name == "cpu" else ""
        yield InvalidField(at, value, f"less than {quantity.INT64_MAX}{unit}, as which it counts")


def format_alternatives(accepted: tuple[str, ...]) -> str:
    """`a`, or `a, b or c`."""
    return accepted[0] if len(accepted) == 1 else f"{', '.join(accepted[:-1])} or {accepted[-1]}"


CPU = "cpu"

MAX_AMOUNT = 2**55
"""Maximum counted amount: 32 PiB, or as many millicores, so that sums over a node fit an int64."""

_MAX_NANO_OF_CPU = MAX_AMOUNT * quantity.MILLI

_BOUNDED = (CPU, "memory", "ephemeral-storage")


def to_engine_amount(name: str, amount: quantity.Quantity) -> int:
    """An amount in engine units: millicores for CPU, whole units for all else."""
    return min(_count_unbounded(name, amount), MAX_AMOUNT)


def check_capacity(name: str, amount: quantity.Quantity, found: object, at: str) -> None:
    """InvalidField if no node can have the amount. Extended resources may have any int64."""
    most = MAX_AMOUNT if name in _BOUNDED else quantity.INT64_MAX - 1
    if _count_unbounded(name, amount) > most:
        unit = "m" if name == CPU else ""
        raise InvalidField(at, found, f"a quantity of at most {most}{unit}")


def read_capacity(amounts: Mapping[str, object] | None, at: str) -> dict[str, int]:
    """Capacity by resource in nano-units. InvalidField if an amount is implausible."""
    read = read_amounts(amounts, at)
    for name, nano in read.items():
        if nano > _MAX_NANO_OF_CPU:  # the lowest limit of all checks
            check_capacity(name, quantity.Quantity(nano), (amounts or {})[name], f"{at}[{name}]")
    return read


def read_valid_capacity(amounts: Mapping[str, object] | None) -> dict[str, int]:
    """Capacity without invalid amounts."""
    kept: dict[str, int] = {}
    for name, value in (amounts or {}).items():
        try:
            kept |= read_capacity({name: value}, "")
        except InvalidField:
            continue
    return kept


def _count_unbounded(name: str, amount: quantity.Quantity) -> int:
    return amount.milli_value() if name == CPU else amount.value()
