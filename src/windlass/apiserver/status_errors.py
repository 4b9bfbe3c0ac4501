"""Status errors: code, reason, message and details of refused requests, and field errors, as in kube-apiserver."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from windlass.apiserver.value_types import Json

OBJECT_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(Exception):
    """A refused request. The server returns its Status as the response."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details
        self.next_page = ""
        """A continue token for an inconsistent continuation of the list."""

    @property
    def retry_after_s(self) -> int:
        return int((self.details or {}).get("retryAfterSeconds", 0))

    def body(self) -> Json:
        body: Json = {"kind": "Status", "apiVersion": "v1"}
        body["metadata"] = {"continue": self.next_page} if self.next_page else {}
        body |= {"status": "Failure", "message": self.message}
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


class NamedResource(Protocol):
    """The names of a resource in messages."""

    @property
    def group(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def kind(self) -> str: ...


def qualified_name(resource: NamedResource) -> str:
    """`machinesets.cluster.x-k8s.io`; core resources by their plural alone."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: NamedResource, name: str, **more: Any) -> Json:
    details = {"name": name, "group": resource.group, "kind": resource.plural, **more}
    return {key: value for key, value in details.items() if value}


def success_status(**details: Any) -> Json:
    """The Status of a successful request that returns no object."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return body | {"details": details} if details else body


def not_found(resource: NamedResource, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{qualified_name(resource)} "{name}" not found', _details(resource, name))


def no_such_path(message: str = "the server could not find the requested resource") -> StatusError:
    return StatusError(404, "NotFound", message, {})


def already_exists(resource: NamedResource, name: str, *, is_being_deleted: bool) -> StatusError:
    message = f'{qualified_name(resource)} "{name}" already exists'
    message = f"object is being deleted: {message}" if is_being_deleted else message
    return StatusError(409, "AlreadyExists", message, _details(resource, name))


def no_unique_name(resource: NamedResource, name: str) -> StatusError:
    message = f'{qualified_name(resource)} "{name}" already exists, the server was not able to generate a unique name'
    details = _details(resource, name, retryAfterSeconds=1)
    return StatusError(409, "AlreadyExists", f"{message} for the object", details)


def conflict(resource: NamedResource, name: str, reason: str = OBJECT_MODIFIED, called: str = "") -> StatusError:
    """`called` is the resource's name in the message, if not its plural."""
    message = f'Operation cannot be fulfilled on {called or qualified_name(resource)} "{name}": {reason}'
    details = _details(resource, name)
    if called:
        details["kind"] = called.split(".")[0]
    return StatusError(409, "Conflict", message, details)


def apply_conflict(message: str, causes: Sequence[Json]) -> StatusError:
    return StatusError(409, "Conflict", message, {"causes": list(causes)})


def forbidden(resource: NamedResource, name: str, reason: str) -> StatusError:
    what = f'{qualified_name(resource)} "{name}"' if name else qualified_name(resource)
    return StatusError(403, "Forbidden", f"{what} is forbidden: {reason}", _details(resource, name))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def expired(message: str, next_page: str = "") -> StatusError:
    refused = StatusError(410, "Expired", message)
    refused.next_page = next_page
    return refused


def too_large_resource_version(asked: int, current: int) -> StatusError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def too_many_requests(message: str, retry_after_s: int, cause: Json) -> StatusError:
    details: Json = {"causes": [cause]}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return StatusError(429, "TooManyRequests", message, details)


def internal(message: str) -> StatusError:
    """An internal error of the server."""
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)


def unclassified(message: str) -> StatusError:
    """An error without a reason in the real server."""
    return StatusError(500, "", message)


def method_not_allowed(resource: NamedResource, verb: str) -> StatusError:
    message = f'{verb} is not supported on resources of kind "{qualified_name(resource)}"'
    return StatusError(405, "MethodNotAllowed", message, _details(resource, ""))


def unsupported_media_type(accepted: Iterable[str], aside: str = "") -> StatusError:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return StatusError(415, "UnsupportedMediaType", message + ", ".join(accepted) + aside)


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    message = "only the following media types are accepted: " + ", ".join(accepted)
    return StatusError(406, "NotAcceptable", message)


def too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unprocessable() -> StatusError:
    """A patch that cannot be applied to the current object."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


# ── Field errors ─────────────────────────────────────────────────────────────────────────────────────────────────

_FIELD_ERROR_PREFIXES = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
}
_WITHOUT_VALUE = ("FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong")
OMITTED_VALUE: Any = object()


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in one field."""

    type: str
    field: str
    value: Any = ""
    detail: str = ""

    def body(self) -> str:
        message = _FIELD_ERROR_PREFIXES[self.type]
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED_VALUE:
            message = f"{message}: {format_value(self.value)}"
        return f"{message}: {self.detail}" if self.detail else message

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"


def format_value(value: Any) -> str:
    """A value as Go's messages print it."""
    return msgspec.json.encode(value).decode()


def field_required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, "", detail)


def field_invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, value, detail)


def field_type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", field, value, detail)


def field_duplicate(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", field, value)


def field_forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, "", detail)


def field_not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    listed = ", ".join(format_value(item) for item in supported)
    return FieldError("FieldValueNotSupported", field, value, f"supported values: {listed}" if listed else "")


def field_too_long(field: str, most: int) -> FieldError:
    unit = "byte" if most == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, "", f"may not be more than {most} {unit}")


def field_too_many(field: str, found: int, most: int) -> FieldError:
    unit = "item" if most == 1 else "items"
    return FieldError("FieldValueTooMany", field, found, f"must have at most {most} {unit}")


def invalid_object(
    resource: NamedResource, name: str, errors: Sequence[FieldError], group: str | None = None
) -> StatusError:
    """422: invalid fields."""
    return invalid_kind(resource.kind, resource.group if group is None else group, name, errors)


def invalid_kind(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    messages = list(dict.fromkeys(str(error) for error in errors))
    causes_text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    causes = [{"reason": error.type, "message": error.body(), "field": error.field} for error in errors]
    details: Json = {"name": name, "group": group, "kind": kind, "causes": causes}
    message = f'{f"{kind}.{group}" if group else kind} "{name}" is invalid: {causes_text}'
    return StatusError(422, "Invalid", message, {key: value for key, value in details.items() if value})
