"""Errors of API calls.

    WindlassError
    └── KubeError                    a call failed
        ├── ConnectionLost           no complete response: the server may or may not have acted
        │   ├── ConnectFailed        no connection: the server did not act
        │   └── CallTimedOut         no response within the timeout of the call
        ├── InvalidResponse          a response that violates the API: no JSON, no object
        ├── CredentialsFailed        no credentials: an exec plugin failed, a token file is missing
        ├── WatchStale               a store may be outdated: its watches are disconnected
        ├── WriteFenced              not sent: this process is not the leader any more
        └── ApiError                 an error response; carries its Status
            ├── BadRequest           400
            ├── Unauthorized         401   the credentials are not, or no longer, valid
            ├── Forbidden            403   denied by RBAC or admission
            ├── NotFound             404
            ├── MethodNotAllowed     405
            ├── Conflict             409   outdated resourceVersion, or another manager owns a field
            │   └── AlreadyExists
            ├── Gone                 410   the resourceVersion or continue token expired: list again
            ├── UnsupportedMediaType 415   a patch type that the resource does not support
            ├── Invalid              422   rejected by validation or admission
            ├── TooManyRequests      429   overload; or, for an eviction, a PodDisruptionBudget
            └── ServerError          5xx
                ├── ServiceUnavailable  503
                └── ServerTimeout    504   or a Status with reason Timeout or ServerTimeout

Admission policies choose between Forbidden and Invalid. `flow_control` decides which errors are retried. The text of an
error is the same for each repetition: it becomes the message of events and conditions, where a changed text is a new
event or status write.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from windlass import errors
from windlass.kube.models import meta

_STATUS = msgspec.json.Decoder(meta.Status)
_LONGEST_QUOTE = 500
_CHANGING = re.compile(r"(?<=resource version): \d+(?: \(\d+\)|, current: \d+)?|(?<=tcp )\S+:\d+->")
"""Varying parts of server messages: resourceVersions, and client ports."""


class KubeError(errors.WindlassError):
    """A call to an API server failed."""

    retry_after_s: float = 0.0
    """Retry-After in seconds; None if absent."""


@dataclass(eq=False)
class ConnectionLost(KubeError):
    """No response, or an incomplete one. The server may or may not have acted."""

    call: str
    why: str

    def __str__(self) -> str:
        return f"{self.call}: {self.why}"


class ConnectFailed(ConnectionLost):
    """No connection: the server did not act."""


class CallTimedOut(ConnectionLost):
    """No response within the call's timeout."""


@dataclass(eq=False)
class InvalidResponse(KubeError):
    """The response violates the API."""

    call: str
    why: str

    def __str__(self) -> str:
        return f"{self.call}: unusable answer: {self.why}"


@dataclass(eq=False)
class CredentialsFailed(KubeError):
    """The configured source of credentials failed."""

    source: str
    why: str

    def __str__(self) -> str:
        return f"credentials from {self.source}: {self.why}"


class WatchStale(KubeError):
    """A store may be outdated: its watches are disconnected."""


class WriteFenced(KubeError):
    """Not sent: this process is not the leader any more."""


@dataclass(eq=False)
class ApiError(KubeError):
    """An error response; `status` is its Status object."""

    call: str
    code: int
    status: meta.Status
    retry_after_s: float = field(default=0.0, kw_only=True)

    @property
    def reason(self) -> str:
        return self.status.reason or ""

    @property
    def message(self) -> str:
        return self.status.message or ""

    def __str__(self) -> str:
        message = _CHANGING.sub("", self.message)
        return f"{self.call}: {self.code} {self.reason or 'without a reason'}: {message}"


class BadRequest(ApiError):
    """The request is malformed."""


class Unauthorized(ApiError):
    """The credentials are not, or no longer, valid."""


class Forbidden(ApiError):
    """Denied by RBAC or admission."""


class NotFound(ApiError):
    """The object or resource does not exist."""


class MethodNotAllowed(ApiError):
    """The resource does not support the verb."""


class Conflict(ApiError):
    """The resourceVersion is outdated, a precondition failed, or another manager owns a field."""


class AlreadyExists(Conflict):
    """An object of that name exists."""


class Gone(ApiError):
    """The resourceVersion or continue token expired."""


class UnsupportedMediaType(ApiError):
    """The resource does not support the content type."""


class Invalid(ApiError):
    """Rejected by validation or admission; `status.causes` names the fields."""


class TooManyRequests(ApiError):
    """The server is overloaded, or a PodDisruptionBudget forbids an eviction."""

    @property
    def is_disruption_budget(self) -> bool:
        """True if a PodDisruptionBudget forbids the eviction: an immediate retry is useless."""
        return self.status.has_cause("DisruptionBudget")


class ServerError(ApiError):
    """An error of the server."""


class ServiceUnavailable(ServerError):
    """The server, or a dependency of it, is unavailable."""


class ServerTimeout(ServerError):
    """The server timed out; it may have acted."""

    @property
    def is_resource_version_too_large(self) -> bool:
        """True if the server is behind the requested resourceVersion: restored from a backup, or lagging."""
        return self.status.has_cause("ResourceVersionTooLarge") or "Too large resource version" in self.message


_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "Timeout": ServerTimeout,
    "ServerTimeout": ServerTimeout,
}
"""Errors that the reason identifies better than the code."""

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    503: ServiceUnavailable,
    504: ServerTimeout,
}


def from_response(call: str, code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error of a response with status 400 or above. A body that is no Status becomes the message."""
    try:
        status = _STATUS.decode(body)
    except msgspec.MsgspecError:
        status = meta.Status(message=body[:_LONGEST_QUOTE].decode(errors="replace").strip())
    return from_status(call, status, code, _parse_retry_after(headers.get("retry-after")))


def from_status(call: str, status: meta.Status, code: int = 0, retry_after_s: float = 0.0) -> ApiError:
    """The error of a Status, from a response or within a watch."""
    code = code or status.code or 500
    kind = _BY_REASON.get(status.reason or "") or _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
    asked_s = float((status.details.retry_after_seconds if status.details else None) or 0)
    return kind(call, code, status, retry_after_s=max(retry_after_s, asked_s))


def _parse_retry_after(header: str | None) -> float:
    """Retry-After in seconds; the date form, which Kubernetes does not use, counts as absent."""
    return float(header) if header and header.isascii() and header.isdigit() else 0.0
