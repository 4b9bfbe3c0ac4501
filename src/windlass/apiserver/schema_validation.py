"""Validation of a value against a CRD's schema, with kube-apiserver's messages.

Schemas are OpenAPI v3 in structural form: no references, one type for each value. kube-apiserver's validator has its
own messages and order, which no JSON schema library reproduces.
"""

import base64
import binascii
import datetime
import ipaddress
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib import parse

from windlass.apiserver import status_errors
from windlass.apiserver.structural_schema import INT_OR_STRING, Schema
from windlass.regexp import matcher, syntax

_DURATION = re.compile(r"((\d+)\s*([A-Za-zµ]+))")

_GO_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*")

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)

_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")

_HOSTNAME = re.compile(
    r"([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*"
)

_MAC = re.compile(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}")


def _is_date(text: str) -> bool:
    return _can_read(datetime.date.fromisoformat, text)


def _is_date_time(text: str) -> bool:
    return bool(_DATE_TIME.fullmatch(text)) and _can_read(datetime.datetime.fromisoformat, text)


def _is_duration(text: str) -> bool:
    return bool(_GO_DURATION.fullmatch(text)) or bool(_DURATION.fullmatch(text)) or text == "0"


def _is_uri(text: str) -> bool:
    parsed = parse.urlsplit(text)
    return bool(parsed.scheme) or text.startswith("/")


def _is_base64(text: str) -> bool:
    return _can_read(lambda value: base64.b64decode(value, validate=True), text)


def _can_read(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except (ValueError, binascii.Error):
        return False
    return True


FORMAT_CHECKS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "uri": _is_uri,
    "byte": _is_base64,
    "uuid": lambda text: bool(_UUID.fullmatch(text)),
    "hostname": lambda text: bool(_HOSTNAME.fullmatch(text)) and len(text) <= 255,
    "ipv4": lambda text: _can_read(ipaddress.IPv4Address, text),
    "ipv6": lambda text: _can_read(ipaddress.IPv6Address, text),
    "cidr": lambda text: "/" in text and _can_read(lambda value: ipaddress.ip_network(value, strict=False), text),
    "mac": lambda text: bool(_MAC.fullmatch(text)),
    "email": lambda text: text.count("@") == 1 and all(text.split("@")),
}

FieldErrors = list[status_errors.FieldError]

NO_PATH = "<nil>"
"""The path in the real server's errors about combined schemas."""


def validate_schema(value: Any, schema: Schema, at: str = "") -> FieldErrors:
    """Errors in a value. `at` is its path; empty for a whole object."""
    if value is None:
        return _check_null(schema, at) + _check_enum(value, schema, at)
    errors = _check_type(value, schema, at)
    errors += _check_combinations(value, schema, at)
    match value:
        case str():
            errors += _check_string(value, schema, at)
        case bool():
            pass
        case int() | float():
            errors += _check_number(value, schema, at)
        case list():
            errors += _check_list(value, schema, at)
    errors += _check_enum(value, schema, at)
    if isinstance(value, dict):
        errors += _check_object(value, schema, at)
    return errors


def _path_in_body(at: str) -> str:
    return f"{at} in body"


def _expected_types(schema: Schema) -> tuple[str, ...]:
    if schema.get(INT_OR_STRING):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _check_null(schema: Schema, at: str) -> FieldErrors:
    expected = _expected_types(schema)
    if not expected or schema.get("nullable"):
        return []
    return [
        status_errors.field_type_invalid(
            at, "null", f'{_path_in_body(at)} must be of type {",".join(expected)}: "null"'
        )
    ]


def _check_type(value: Any, schema: Schema, at: str) -> FieldErrors:
    expected = _expected_types(schema)
    if not expected:
        return []
    actual = _type_of(value)
    if actual in expected:
        return []
    if actual == "number" and "integer" in expected and float(value).is_integer():
        return []
    if actual == "integer" and "number" in expected:
        return []
    if schema.get("format") and actual in ("string", "array") and not {"number", "integer"} & set(expected):
        return []
    return [
        status_errors.field_type_invalid(
            at, actual, f'{_path_in_body(at)} must be of type {",".join(expected)}: "{actual}"'
        )
    ]


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _check_string(value: str, schema: Schema, at: str) -> FieldErrors:
    length = len(value)
    if (most := schema.get("maxLength")) is not None and length > most:
        return [status_errors.field_too_long(at, int(most))]
    if (least := schema.get("minLength")) is not None and length < least:
        return [status_errors.field_invalid(at, value, f"{_path_in_body(at)} should be at least {least} chars long")]
    if (pattern := schema.get("pattern")) and (desired := _check_pattern(value, pattern)):
        return [status_errors.field_invalid(at, value, f"{_path_in_body(at)} should match '{desired}'")]
    kind = schema.get("format", "")
    if kind in FORMAT_CHECKS and not FORMAT_CHECKS[kind](value):
        return [status_errors.field_invalid(at, value, f'{_path_in_body(at)} must be of type {kind}: "{value}"')]
    return []


def _check_pattern(value: str, pattern: str) -> str:
    """The pattern that the value does not match, or the error in the pattern; empty if it matches."""
    try:
        return "" if matcher.compile(pattern).matches(value) else pattern
    except syntax.InvalidExpression as error:
        return f"{pattern}, but pattern is invalid: {error}"


_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def _check_number(value: float, schema: Schema, at: str) -> FieldErrors:
    errors: FieldErrors = []
    if schema.get("type") == "integer" and schema.get("format") in _RANGES:
        least, most = _RANGES[schema["format"]]
        if not least <= value <= most:
            message = f"Checked value must be of type integer with format {schema['format']} in {at}"
            errors.append(status_errors.field_invalid(at, "", message))
    multiple = schema.get("multipleOf")
    if multiple and math.fmod(value, multiple):
        errors.append(
            status_errors.field_invalid(at, value, f"{_path_in_body(at)} should be a multiple of {_number(multiple)}")
        )
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if minimum is not None:
        is_exclusive = schema.get("exclusiveMinimum")
        if value < minimum or (is_exclusive and value == minimum):
            message = "greater than" if is_exclusive else "greater than or equal to"
            errors.append(
                status_errors.field_invalid(at, value, f"{_path_in_body(at)} should be {message} {_number(minimum)}")
            )
    if maximum is not None:
        is_exclusive = schema.get("exclusiveMaximum")
        if value > maximum or (is_exclusive and value == maximum):
            message = "less than" if is_exclusive else "less than or equal to"
            errors.append(
                status_errors.field_invalid(at, value, f"{_path_in_body(at)} should be {message} {_number(maximum)}")
            )
    return errors


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _check_list(value: list[Any], schema: Schema, at: str) -> FieldErrors:
    errors: FieldErrors = []
    if (items := schema.get("items")) is not None:
        for i, item in enumerate(value):
            errors += validate_schema(item, items, f"{at}[{i}]")
    if (least := schema.get("minItems")) is not None and len(value) < least:
        errors.append(
            status_errors.field_invalid(at, len(value), f"{_path_in_body(at)} should have at least {least} items")
        )
    if (most := schema.get("maxItems")) is not None and len(value) > most:
        errors.append(status_errors.field_too_many(at, len(value), int(most)))
    if schema.get("uniqueItems") and any(item in value[:i] for i, item in enumerate(value)):
        errors.append(status_errors.field_invalid(at, "", f"{_path_in_body(at)} shouldn't contain duplicates"))
    return errors


def _check_enum(value: Any, schema: Schema, at: str) -> FieldErrors:
    allowed: Sequence[Any] = schema.get("enum") or ()
    if not allowed or any(value == item and type(value) is type(item) for item in allowed):
        return []
    shown = [item if isinstance(item, str) else status_errors.format_value(item) for item in allowed]
    return [status_errors.field_not_supported(at, value, shown)]


def _check_object(value: dict[str, Any], schema: Schema, at: str) -> FieldErrors:
    errors: FieldErrors = []
    if (least := schema.get("minProperties")) is not None and len(value) < least:
        errors.append(
            status_errors.field_invalid(at, len(value), f"{_path_in_body(at)} should have at least {least} properties")
        )
    if (most := schema.get("maxProperties")) is not None and len(value) > most:
        errors.append(status_errors.field_too_many(at, len(value), int(most)))
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        path = f"{at}.{name}" if at else name
        if name in properties:
            errors += validate_schema(item, properties[name], path)
        elif isinstance(additional, Mapping):
            errors += validate_schema(item, additional, path)
    for name in schema.get("required") or ():
        if name not in value:
            errors.append(status_errors.field_required(f"{at}.{name}" if at else name))
    return errors


def _shortest(found: list[FieldErrors]) -> FieldErrors:
    return min(found, key=len)


def _check_combinations(value: Any, schema: Schema, at: str) -> FieldErrors:
    errors: FieldErrors = []
    quoted = status_errors.format_value(at)
    if anyof := schema.get("anyOf"):
        results = [validate_schema(value, part, at) for part in anyof]
        if all(results):
            message = f"{quoted} must validate at least one schema (anyOf)"
            errors += [status_errors.field_invalid(NO_PATH, "", message), *_shortest(results)]
    if oneof := schema.get("oneOf"):
        results = [validate_schema(value, part, at) for part in oneof]
        good = sum(not complaints for complaints in results)
        if good != 1:
            aside = f"Found {good} valid alternatives" if good else "Found none valid"
            errors.append(
                status_errors.field_invalid(
                    NO_PATH, "", f"{quoted} must validate one and only one schema (oneOf). {aside}"
                )
            )
            errors += [] if good else _shortest(results)
    if allof := schema.get("allOf"):
        results = [validate_schema(value, part, at) for part in allof]
        errors += [complaint for complaints in results for complaint in complaints]
        if any(results):
            aside = ". None validated" if all(results) else ""
            errors.append(
                status_errors.field_invalid(NO_PATH, "", f"{quoted} must validate all the schemas (allOf){aside}")
            )
    if (negated := schema.get("not")) is not None and not validate_schema(value, negated, at):
        errors.append(status_errors.field_invalid(NO_PATH, "", f"{quoted} must not validate the schema (not)"))
    return errors
