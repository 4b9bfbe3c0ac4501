"""Validation of a value against a CRD's schema, with the real server's complaints.

Schemas of CRDs are OpenAPI v3 in structural form: no references, one type for each value. The real server's validator
has its own words and order, which no JSON schema library has; hence this one.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from windlass import regexp
from windlass.apiserver import status
from windlass.apiserver.schema import formats
from windlass.apiserver.schema.shapes import INT_OR_STRING, Schema

Errors = list[status.FieldError]

NOWHERE = "<nil>"
"""What the real server calls the place of a complaint about combined schemas."""


def validate(value: Any, schema: Schema, at: str = "") -> Errors:
    """Complaints about a value. `at` is its path; empty for a whole object."""
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


def _body(at: str) -> str:
    return f"{at} in body"


def _expected_types(schema: Schema) -> tuple[str, ...]:
    if schema.get(INT_OR_STRING):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _check_null(schema: Schema, at: str) -> Errors:
    expected = _expected_types(schema)
    if not expected or schema.get("nullable"):
        return []
    return [status.wrong_type(at, "null", f'{_body(at)} must be of type {",".join(expected)}: "null"')]


def _check_type(value: Any, schema: Schema, at: str) -> Errors:
    expected = _expected_types(schema)
    if not expected:
        return []
    found = _type_of(value)
    if found in expected:
        return []
    if found == "number" and "integer" in expected and float(value).is_integer():
        return []
    if found == "integer" and "number" in expected:
        return []
    if schema.get("format") and found in ("string", "array") and not {"number", "integer"} & set(expected):
        return []
    return [status.wrong_type(at, found, f'{_body(at)} must be of type {",".join(expected)}: "{found}"')]


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


def _check_string(value: str, schema: Schema, at: str) -> Errors:
    length = len(value)
    if (most := schema.get("maxLength")) is not None and length > most:
        return [status.too_long(at, int(most))]
    if (least := schema.get("minLength")) is not None and length < least:
        return [status.wrong(at, value, f"{_body(at)} should be at least {least} chars long")]
    if (pattern := schema.get("pattern")) and (wanted := _check_pattern(value, pattern)):
        return [status.wrong(at, value, f"{_body(at)} should match '{wanted}'")]
    kind = schema.get("format", "")
    if kind in formats.CHECKS and not formats.CHECKS[kind](value):
        return [status.wrong(at, value, f'{_body(at)} must be of type {kind}: "{value}"')]
    return []


def _check_pattern(value: str, pattern: str) -> str:
    """The pattern that the value does not match, with what is wrong with it; empty if it matches."""
    try:
        return "" if regexp.compile(pattern).matches(value) else pattern
    except regexp.InvalidExpression as error:
        return f"{pattern}, but pattern is invalid: {error}"


_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def _check_number(value: float, schema: Schema, at: str) -> Errors:
    errors: Errors = []
    if schema.get("type") == "integer" and schema.get("format") in _RANGES:
        least, most = _RANGES[schema["format"]]
        if not least <= value <= most:
            said = f"Checked value must be of type integer with format {schema['format']} in {at}"
            errors.append(status.wrong(at, "", said))
    multiple = schema.get("multipleOf")
    if multiple and math.fmod(value, multiple):
        errors.append(status.wrong(at, value, f"{_body(at)} should be a multiple of {_number(multiple)}"))
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if minimum is not None:
        is_exclusive = schema.get("exclusiveMinimum")
        if value < minimum or (is_exclusive and value == minimum):
            said = "greater than" if is_exclusive else "greater than or equal to"
            errors.append(status.wrong(at, value, f"{_body(at)} should be {said} {_number(minimum)}"))
    if maximum is not None:
        is_exclusive = schema.get("exclusiveMaximum")
        if value > maximum or (is_exclusive and value == maximum):
            said = "less than" if is_exclusive else "less than or equal to"
            errors.append(status.wrong(at, value, f"{_body(at)} should be {said} {_number(maximum)}"))
    return errors


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _check_list(value: list[Any], schema: Schema, at: str) -> Errors:
    errors: Errors = []
    if (items := schema.get("items")) is not None:
        for i, item in enumerate(value):
            errors += validate(item, items, f"{at}[{i}]")
    if (least := schema.get("minItems")) is not None and len(value) < least:
        errors.append(status.wrong(at, len(value), f"{_body(at)} should have at least {least} items"))
    if (most := schema.get("maxItems")) is not None and len(value) > most:
        errors.append(status.too_many(at, len(value), int(most)))
    if schema.get("uniqueItems") and any(item in value[:i] for i, item in enumerate(value)):
        errors.append(status.wrong(at, "", f"{_body(at)} shouldn't contain duplicates"))
    return errors


def _check_enum(value: Any, schema: Schema, at: str) -> Errors:
    allowed: Sequence[Any] = schema.get("enum") or ()
    if not allowed or any(value == item and type(value) is type(item) for item in allowed):
        return []
    shown = [item if isinstance(item, str) else status.show(item) for item in allowed]
    return [status.unsupported(at, value, shown)]


def _check_object(value: dict[str, Any], schema: Schema, at: str) -> Errors:
    errors: Errors = []
    if (least := schema.get("minProperties")) is not None and len(value) < least:
        errors.append(status.wrong(at, len(value), f"{_body(at)} should have at least {least} properties"))
    if (most := schema.get("maxProperties")) is not None and len(value) > most:
        errors.append(status.too_many(at, len(value), int(most)))
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        path = f"{at}.{name}" if at else name
        if name in properties:
            errors += validate(item, properties[name], path)
        elif isinstance(additional, Mapping):
            errors += validate(item, additional, path)
    for name in schema.get("required") or ():
        if name not in value:
            errors.append(status.required(f"{at}.{name}" if at else name))
    return errors


def _fewest(found: list[Errors]) -> Errors:
    return min(found, key=len)


def _check_combinations(value: Any, schema: Schema, at: str) -> Errors:
    errors: Errors = []
    quoted = status.show(at)
    if anyof := schema.get("anyOf"):
        found = [validate(value, part, at) for part in anyof]
        if all(found):
            said = f"{quoted} must validate at least one schema (anyOf)"
            errors += [status.wrong(NOWHERE, "", said), *_fewest(found)]
    if oneof := schema.get("oneOf"):
        found = [validate(value, part, at) for part in oneof]
        good = sum(not complaints for complaints in found)
        if good != 1:
            aside = f"Found {good} valid alternatives" if good else "Found none valid"
            errors.append(status.wrong(NOWHERE, "", f"{quoted} must validate one and only one schema (oneOf). {aside}"))
            errors += [] if good else _fewest(found)
    if allof := schema.get("allOf"):
        found = [validate(value, part, at) for part in allof]
        errors += [complaint for complaints in found for complaint in complaints]
        if any(found):
            aside = ". None validated" if all(found) else ""
            errors.append(status.wrong(NOWHERE, "", f"{quoted} must validate all the schemas (allOf){aside}"))
    if (negated := schema.get("not")) is not None and not validate(value, negated, at):
        errors.append(status.wrong(NOWHERE, "", f"{quoted} must not validate the schema (not)"))
    return errors
