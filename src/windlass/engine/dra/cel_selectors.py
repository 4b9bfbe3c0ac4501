"""CEL device selectors: which devices an expression selects, cached per expression and device traits."""

import functools
from collections.abc import Mapping
from typing import Any

from windlass.cel import checker, compiler, values
from windlass.engine.model.dynamic_resources import AttributeValue, DeviceTraits, VersionValue
from windlass.quantity import Quantity

_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_DEVICE = checker.RecordType(
    "kubernetes.DRADevice",
    {
        "driver": checker.STRING,
        "attributes": "map(string, map(string, any))",
        "capacity": "map(string, map(string, kubernetes.Quantity))",
        "allowMultipleAllocations": checker.BOOL,
    },
)


_RUNTIME = "CEL runtime error: "
_MAX_LENGTH = 10 * 1024
"""What the API server accepts. How much an evaluation may cost is CEL's own limit, which is that of such selectors."""


class SelectorEvaluationError(Exception):
    """A selector that cannot be compiled, or that fails on a device."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.is_of_device = error.startswith(_RUNTIME)
        """Does it fail on this device only?"""


class _Domains(dict[str, dict[str, Any]]):
    """Values by domain, then by name. A domain that a device has nothing of is empty, not missing."""

    def __missing__(self, domain: str) -> dict[str, Any]:
        return {}


@functools.lru_cache(maxsize=4096)
def compile_selector(expression: str) -> compiler.Program | str:
    """The selector, or why it can select nothing."""
    if len(expression) > _MAX_LENGTH:
        return f"compilation failed: expression has {len(expression)} characters, more than {_MAX_LENGTH}"
    try:
        program = compiler.compile(expression, ("device",), {"device": _DEVICE})
    except values.CompileError as error:
        return f"compilation failed: {error}"
    if program.type in (checker.UNKNOWN, checker.ANY, checker.BOOL):
        return program
    return f"must evaluate to bool or the unknown type, not {program.type.replace('any', 'google.protobuf.Any')}"


def matches_selector(expression: str, driver: str, traits: DeviceTraits) -> bool:
    """Whether the expression selects the device. SelectorEvaluationError if it cannot be evaluated."""
    found = _evaluate(expression, driver, traits)
    if isinstance(found, str):
        raise SelectorEvaluationError(found)
    return found


@functools.lru_cache(maxsize=262_144)
def _evaluate(expression: str, driver: str, traits: DeviceTraits) -> bool | str:
    program = compile_selector(expression)
    if isinstance(program, str):
        return f"CEL compile error: {program}"
    try:
        found = program.evaluate({"device": _describe(driver, traits)})
    except values.EvaluationError as error:
        return f"{_RUNTIME}{error}"
    if not isinstance(found, bool):
        kind = values.type_name(found)
        return f"{_RUNTIME}CEL result of type {kind} could not be converted to bool: {_bool_conversion_error(kind)}"
    return found


def _bool_conversion_error(kind: str) -> str:
    """The message for a non-bool result, as in Kubernetes."""
    match kind:
        case "string":
            return "unsupported native conversion from string to 'bool'"
        case "int":
            return "unsupported type conversion from 'int' to bool"
        case "kubernetes.Quantity":
            return "type conversion error from 'Quantity' to 'bool'"
        case "kubernetes.Semver":
            return "type conversion error from 'Semver' to 'bool'"
        case _:
            return f"type conversion error from {kind} to 'bool'"


def _describe(driver: str, traits: DeviceTraits) -> Mapping[str, Any]:
    """The device as expressions see it."""
    attributes, capacity = _Domains(), _Domains()
    for name, value in traits.attributes:
        domain, own = _split(name, driver)
        attributes.setdefault(domain, {})[own] = _read_attribute(name, value)
    for name, amount in traits.capacity:
        domain, own = _split(name, driver)
        capacity.setdefault(domain, {})[own] = Quantity(amount.amount, "binary")
    described = (driver, attributes, capacity, traits.is_shared)
    return dict(zip(_FIELDS, described, strict=True))


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def _read_attribute(name: str, value: AttributeValue) -> values.Value:
    if value is None:
        raise values.EvaluationError(f"attribute {name}: unsupported attribute value")
    if isinstance(value, VersionValue):
        try:
            return values.parse_version(value.text)
        except ValueError as error:
            raise values.EvaluationError(f"attribute {name}: parse semantic version: {error}") from None
    return value
