"""Transport port: sends one request and returns the response with a byte stream.

Implementations: `http_transport` for real servers, and the embedded API server in process. Tests inject faults at this
level, below the client. Retries, rate limits, deadlines and decoding belong to the client.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from windlass.kube import errors

_IN_ERRORS = frozenset({"dryRun", "fieldSelector", "labelSelector", "watch"})
"""Query parameters that are part of error messages."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its private key in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as a value, built without I/O."""

    method: str
    path: str
    """Absolute path with percent-encoded segments: `/api/v1/nodes/worker-1`."""
    query: tuple[tuple[str, str], ...] = ()
    """Query parameters in order, not encoded."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Lower-case header names."""
    body: bytes = b""
    timeout_s: float = 30.0
    """Timeout of the response; of a stream, of its beginning and between chunks."""
    certificate: Certificate | None = None
    """Client certificate, for servers that authenticate by certificate."""
    may_send: Callable[[], bool] | None = field(default=None, compare=False, repr=False)
    """Checked last, after credentials and connection are ready: False cancels the request with `errors.WriteFenced`.
    None: no check."""

    def check_may_send(self) -> None:
        """Raise WriteFenced if `may_send` returns False. Called again after each wait."""
        if self.may_send is not None and not self.may_send():
            raise errors.WriteFenced(f"{self.call}: not sent: this process does not lead any more")

    @property
    def call(self) -> str:
        """The request in error messages, stable across repetitions.

        Errors become messages of events and conditions, where a changed text is a new event or status write. So
        parameters that change between requests (resourceVersion, continue, timeoutSeconds) are left out.
        """
        return self._describe([(name, value) for name, value in self.query if name in _IN_ERRORS])

    @property
    def line(self) -> str:
        """The request with all its parameters, for logs."""
        return self._describe(self.query)

    def _describe(self, query: Sequence[tuple[str, str]]) -> str:
        text = "&".join(f"{name}={value}" for name, value in query)
        return f"{self.method} {self.path}{'?' if text else ''}{text}"


class Stream(Protocol):
    """A response body in chunks of any size, such as an async generator.

    Iteration raises `errors.ConnectionLost` if the connection breaks before the end.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None:
        """Release the connection. A second call does nothing."""


@dataclass(frozen=True, slots=True)
class Response:
    """Status and headers of a response; the receiver closes the stream."""

    status: int
    headers: Mapping[str, str]
    """Lower-case header names."""
    stream: Stream


class Transport(Protocol):
    """Sends requests to one API server."""

    async def send(self, request: Request) -> Response:
        """Return as soon as the headers are received, with any status.

        Raises `errors.ConnectionLost`, or its subclass `errors.ConnectFailed` if the server cannot have received the
        request.
        """
