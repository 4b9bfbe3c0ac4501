"""Fields: what was found at a path within an object, and what would have been accepted.

Readers below raise `InvalidField` with the path they are at; whoever knows the object makes an `errors.InvalidObject`
of it. An `InvalidField` never leaves the reading of one object.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass import errors
from windlass.kube import quantity

_LARGEST_MILLI = quantity.INT64_MAX * quantity.MILLI
"""In nano-units, the most that an int64 holds in milli-units, as kube-scheduler counts cpu."""
_COMPLAINT = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.\.\.|[^.\[\]]+")
_MISMATCH = re.compile(r"Expected (?P<accepted>.*), got (?P<found>.*)")


class InvalidField(ValueError):
    """Something at `field` cannot be read."""

    def __init__(self, field: str, found: object, accepted: str) -> None:
        super().__init__(f"{field}: found {found!r}, expected {accepted}")
        self.field, self.found, self.accepted = field, found, accepted

    def of(self, kind: str, name: str) -> errors.InvalidObject:
        return errors.InvalidObject(kind, name, self.field, self.found, self.accepted)


def translate(error: msgspec.MsgspecError, text: bytes | str | msgspec.Raw, within: str = "") -> InvalidField:
    """The same complaint about the same path, with what the text holds there."""
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
    """What is at a path; of a map whose key is not told (`labels[...]`), all of it."""
    for step in _STEP.findall(path):
        if step == "...":
            break
        tree = tree[int(step)] if isinstance(tree, list) else tree[step]
    return tree


def choose(value: str | None, accepted: tuple[str, ...], at: str) -> str:
    """The value, if it is one of those accepted."""
    if value not in accepted:
        raise InvalidField(at, value, one_of(accepted))
    return value


def read_quantity(value: object, at: str) -> quantity.Quantity:
    """A quantity of any sign; one beyond what an int64 holds is as large as that."""
    try:
        return quantity.saturate(quantity.read(value))
    except ValueError:
        raise InvalidField(at, value, quantity.ACCEPTED) from None


def read_amounts(
    amounts: Mapping[str, object] | None, at: str, complaints: list[InvalidField] | None = None
) -> dict[str, int]:
    """Amounts by resource name, in nano-units; none may be negative. `complaints` gets those that an int64 cannot hold,
    and that kube-scheduler therefore counts as less.
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


def one_of(accepted: tuple[str, ...]) -> str:
    """`a`, or `a, b or c`."""
    return accepted[0] if len(accepted) == 1 else f"{', '.join(accepted[:-1])} or {accepted[-1]}"
