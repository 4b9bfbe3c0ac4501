"""What can go wrong between us and an API server.

    WindlassError
    └── KubeError                    a call did not do what was asked
        ├── ConnectionLost           no answer, or half of one: whether the server acted is not known
        │   ├── ConnectFailed        it cannot have acted: refused, name not found, certificate not trusted
        │   └── CallTimedOut         the answer was not in within the call's time
        ├── InvalidAnswer            an answer that is not what the API promises: no JSON, no object
        ├── CredentialsFailed        the credentials could not be had: a plugin failed, a token file is gone
        ├── NotCurrent               what was seen may be over by now: watches are cut off
        ├── Withheld                 not sent: whoever asked for it does not lead any more
        └── ApiError                 the server said no; carries its Status object
            ├── BadRequest           400
            ├── Unauthorized         401   the credentials are not (or no longer) good
            ├── Forbidden            403   not allowed, or an admission policy refused
            ├── NotFound             404
            ├── MethodNotAllowed     405
            ├── Conflict             409   the object changed meanwhile, or another manager owns the field
            │   └── AlreadyExists
            ├── Gone                 410   that resourceVersion, or page, is forgotten: list again
            ├── UnsupportedMediaType 415   a patch of a kind that this resource does not take
            ├── Invalid              422   validation or an admission policy refused
            ├── TooManyRequests      429   overloaded; or, for an eviction, a disruption budget's answer
            └── ServerError          5xx
                ├── ServiceUnavailable  503
                └── ServerTimeout    504   or a Status that says Timeout or ServerTimeout

A refusal by admission may be Forbidden or Invalid: policies choose. What is worth a second try is decided in `retry`.

The text of an error is the same each time the same fails: it becomes the message of events and conditions, where
another text is another event or another write of the status.
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
"""What changes from one answer to the next in a server's messages: resourceVersions, and ports that it calls from."""


class KubeError(errors.WindlassError):
    """A call to an API server did not do what was asked."""

    retry_after_s: float = 0.0
    """What the server asked to wait before the next try, if it said so."""


@dataclass(eq=False)
class ConnectionLost(KubeError):
    """No answer, or only part of one. The server may or may not have acted."""

    call: str
    why: str

    def __str__(self) -> str:
        return f"{self.call}: {self.why}"


class ConnectFailed(ConnectionLost):
    """No connection: the server cannot have acted."""


class CallTimedOut(ConnectionLost):
    """The answer was not in within the call's time."""


@dataclass(eq=False)
class InvalidResponse(KubeError):
    """The server's answer is not what the API promises."""

    call: str
    why: str

    def __str__(self) -> str:
        return f"{self.call}: unusable answer: {self.why}"


@dataclass(eq=False)
class CredentialsFailed(KubeError):
    """No credentials to be had from where the configuration says they come from."""

    source: str
    why: str

    def __str__(self) -> str:
        return f"credentials from {self.source}: {self.why}"


class WatchStale(KubeError):
    """What was seen may be over by now: its watches are cut off."""


class WriteFenced(KubeError):
    """Not sent: whoever asked for it does not lead any more."""


@dataclass(eq=False)
class ApiError(KubeError):
    """The server refused. `status` is its own account of why."""

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
    """The server could not make sense of the request."""


class Unauthorized(ApiError):
    """The credentials are not, or no longer, good."""


class Forbidden(ApiError):
    """Not allowed to this user, or refused by admission."""


class NotFound(ApiError):
    """No such object, or no such resource."""


class MethodNotAllowed(ApiError):
    """The resource has no such verb."""


class Conflict(ApiError):
    """The object changed since it was read, a precondition failed, or another manager owns a field."""


class AlreadyExists(Conflict):
    """There is an object of that name."""


class Gone(ApiError):
    """The resourceVersion or the page asked for is forgotten."""


class UnsupportedMediaType(ApiError):
    """The resource takes no body of that type."""


class Invalid(ApiError):
    """Validation, or an admission policy, refused; `status.causes` name the fields."""


class TooManyRequests(ApiError):
    """Overloaded, or a disruption budget's answer to an eviction."""

    @property
    def is_disruption_budget(self) -> bool:
        """A budget said no: the server is well, and asking again at once cannot help."""
        return self.status.has_cause("DisruptionBudget")


class ServerError(ApiError):
    """Something failed on the server's side."""


class ServiceUnavailable(ServerError):
    """The server, or one it depends on, is not there at the moment."""


class ServerTimeout(ServerError):
    """The server gave up waiting; it may have acted."""

    @property
    def is_resource_version_too_large(self) -> bool:
        """The server is behind the resourceVersion asked for: it was restored to an earlier state, or lags."""
        return self.status.has_cause("ResourceVersionTooLarge") or "Too large resource version" in self.message


_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "Timeout": ServerTimeout,
    "ServerTimeout": ServerTimeout,
}
"""Where the reason says more than the code."""

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
    """The error that an answer of 400 or above stands for. A body that is no Status becomes its message."""
    try:
        said = _STATUS.decode(body)
    except msgspec.MsgspecError:
        said = meta.Status(message=body[:_LONGEST_QUOTE].decode(errors="replace").strip())
    return from_status(call, said, code, _parse_retry_after(headers.get("retry-after")))


def from_status(call: str, said: meta.Status, code: int = 0, retry_after_s: float = 0.0) -> ApiError:
    """The error that a Status stands for, wherever it was met: as an answer, or in the middle of a watch."""
    code = code or said.code or 500
    kind = _BY_REASON.get(said.reason or "") or _BY_CODE.get(code) or (ServerError if code >= 500 else ApiError)
    asked_s = float((said.details.retry_after_seconds if said.details else None) or 0)
    return kind(call, code, said, retry_after_s=max(retry_after_s, asked_s))


def _parse_retry_after(header: str | None) -> float:
    """Retry-After in seconds; the form with a date is not used by Kubernetes and counts as none."""
    return float(header) if header and header.isascii() and header.isdigit() else 0.0
