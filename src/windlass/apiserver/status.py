"""Refusals: Status objects with code, reason, message and details, in the real server's words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from windlass.apiserver.types.model import Json

MODIFIED_MEANWHILE = "the object has been modified; please apply your changes to the latest version and try again"


class Refused(Exception):
    """The request is answered with this Status. Never leaves the server but as an answer."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details
        self.next_page = ""
        """A continue token that goes on from here, inconsistently."""

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


class Named(Protocol):
    """A resource, as far as messages name it."""

    @property
    def group(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def kind(self) -> str: ...


def qualified(resource: Named) -> str:
    """`machinesets.cluster.x-k8s.io`; core resources by their plural alone."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: Named, name: str, **more: Any) -> Json:
    details = {"name": name, "group": resource.group, "kind": resource.plural, **more}
    return {key: value for key, value in details.items() if value}


def success(**details: Any) -> Json:
    """What a request that returns no object is answered with."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return body | {"details": details} if details else body


def not_found(resource: Named, name: str) -> Refused:
    return Refused(404, "NotFound", f'{qualified(resource)} "{name}" not found', _details(resource, name))


def no_such_path(message: str = "the server could not find the requested resource") -> Refused:
    return Refused(404, "NotFound", message, {})


def already_exists(resource: Named, name: str, *, is_being_deleted: bool) -> Refused:
    message = f'{qualified(resource)} "{name}" already exists'
    message = f"object is being deleted: {message}" if is_being_deleted else message
    return Refused(409, "AlreadyExists", message, _details(resource, name))


def no_unique_name(resource: Named, name: str) -> Refused:
    message = f'{qualified(resource)} "{name}" already exists, the server was not able to generate a unique name'
    details = _details(resource, name, retryAfterSeconds=1)
    return Refused(409, "AlreadyExists", f"{message} for the object", details)


def conflict(resource: Named, name: str, why: str = MODIFIED_MEANWHILE, called: str = "") -> Refused:
    """`called` is what the message calls the resource, where that is not its plural."""
    message = f'Operation cannot be fulfilled on {called or qualified(resource)} "{name}": {why}'
    details = _details(resource, name)
    if called:
        details["kind"] = called.split(".")[0]
    return Refused(409, "Conflict", message, details)


def apply_conflict(message: str, causes: Sequence[Json]) -> Refused:
    return Refused(409, "Conflict", message, {"causes": list(causes)})


def forbidden(resource: Named, name: str, why: str) -> Refused:
    what = f'{qualified(resource)} "{name}"' if name else qualified(resource)
    return Refused(403, "Forbidden", f"{what} is forbidden: {why}", _details(resource, name))


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def expired(message: str, next_page: str = "") -> Refused:
    refused = Refused(410, "Expired", message)
    refused.next_page = next_page
    return refused


def too_large_resource_version(asked: int, current: int) -> Refused:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return Refused(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def too_many_requests(message: str, retry_after_s: int, cause: Json) -> Refused:
    details: Json = {"causes": [cause]}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return Refused(429, "TooManyRequests", message, details)


def internal(message: str) -> Refused:
    """An error that the real server reports as its own."""
    details = {"causes": [{"message": message}]}
    return Refused(500, "InternalError", f"Internal error occurred: {message}", details)


def unclassified(message: str) -> Refused:
    """An error that the real server passes on without a reason."""
    return Refused(500, "", message)


def method_not_allowed(resource: Named, verb: str) -> Refused:
    message = f'{verb} is not supported on resources of kind "{qualified(resource)}"'
    return Refused(405, "MethodNotAllowed", message, _details(resource, ""))


def unsupported_media_type(accepted: Iterable[str], aside: str = "") -> Refused:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return Refused(415, "UnsupportedMediaType", message + ", ".join(accepted) + aside)


def not_acceptable(accepted: Iterable[str]) -> Refused:
    message = "only the following media types are accepted: " + ", ".join(accepted)
    return Refused(406, "NotAcceptable", message)


def too_large(message: str) -> Refused:
    return Refused(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unprocessable() -> Refused:
    """A patch that cannot be carried out on the object as it is."""
    return Refused(422, "Invalid", "the server rejected our request due to an error in our request", {})


# ── Field errors ─────────────────────────────────────────────────────────────────────────────────────────────────

_SAID = {
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
OMITTED: Any = object()


@dataclass(frozen=True, slots=True)
class FieldError:
    """One complaint about one field."""

    type: str
    field: str
    value: Any = ""
    detail: str = ""

    def body(self) -> str:
        said = _SAID[self.type]
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            said = f"{said}: {show(self.value)}"
        return f"{said}: {self.detail}" if self.detail else said

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"


def show(value: Any) -> str:
    """A value as Go's messages print it."""
    return msgspec.json.encode(value).decode()


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, "", detail)


def wrong(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, value, detail)


def wrong_type(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", field, value, detail)


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", field, value)


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, "", detail)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    listed = ", ".join(show(item) for item in supported)
    return FieldError("FieldValueNotSupported", field, value, f"supported values: {listed}" if listed else "")


def too_long(field: str, most: int) -> FieldError:
    unit = "byte" if most == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, "", f"may not be more than {most} {unit}")


def too_many(field: str, found: int, most: int) -> FieldError:
    unit = "item" if most == 1 else "items"
    return FieldError("FieldValueTooMany", field, found, f"must have at most {most} {unit}")


def invalid(resource: Named, name: str, errors: Sequence[FieldError], group: str | None = None) -> Refused:
    """422: the object has fields that cannot stand."""
    return invalid_kind(resource.kind, resource.group if group is None else group, name, errors)


def invalid_kind(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> Refused:
    said = list(dict.fromkeys(str(error) for error in errors))
    complaint = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    causes = [{"reason": error.type, "message": error.body(), "field": error.field} for error in errors]
    details: Json = {"name": name, "group": group, "kind": kind, "causes": causes}
    message = f'{f"{kind}.{group}" if group else kind} "{name}" is invalid: {complaint}'
    return Refused(422, "Invalid", message, {key: value for key, value in details.items() if value})
