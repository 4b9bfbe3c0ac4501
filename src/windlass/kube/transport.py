"""The port to an API server: a request value goes out, an answer with a stream of bytes comes back.

One method. `http.Http` speaks to real servers, the embedded API server answers in process, and tests inject their
faults here, below the client. A transport keeps no promise beyond one exchange: retries, rates, time limits and the
meaning of answers belong to whoever sends.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from windlass.kube import errors

_IN_ERRORS = frozenset({"dryRun", "fieldSelector", "labelSelector", "watch"})
"""Parameters that errors name."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its private key, PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as a value: building it needs no I/O."""

    method: str
    path: str
    """From the root, each segment percent-encoded: `/api/v1/nodes/worker-1`."""
    query: tuple[tuple[str, str], ...] = ()
    """Parameters in order, not yet encoded."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: bytes = b""
    timeout_s: float = 30.0
    """The answer must be in within this time; of a stream, its beginning, and then more of it."""
    certificate: Certificate | None = None
    """Who asks, where the server knows its clients by certificate."""
    may_send: Callable[[], bool] | None = field(default=None, compare=False, repr=False)
    """Asked at the last moment, after credentials were had and a connection was made: may it still be sent? None: it
    may. `errors.Withheld` if not."""

    def check_may_send(self) -> None:
        """Whoever waited for something asks again before it sends."""
        if self.may_send is not None and not self.may_send():
            raise errors.WriteFenced(f"{self.call}: not sent: this process does not lead any more")

    @property
    def call(self) -> str:
        """The request as errors describe it: the same text each time the same is asked for.

        Errors become messages of events and conditions, where another text is another event or another write of the
        status. So it holds the parameters that say what is asked for, and not those that change from one request to
        the next: resourceVersion, continue, timeoutSeconds.
        """
        return self._describe([(name, value) for name, value in self.query if name in _IN_ERRORS])

    @property
    def line(self) -> str:
        """The request with all of its parameters, for logs."""
        return self._describe(self.query)

    def _describe(self, query: Sequence[tuple[str, str]]) -> str:
        text = "&".join(f"{name}={value}" for name, value in query)
        return f"{self.method} {self.path}{'?' if text else ''}{text}"


class Stream(Protocol):
    """The body of an answer as it arrives, in chunks of any size. An async generator is one.

    Iterating raises `errors.ConnectionLost` if the connection breaks before the end.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None:
        """Let go of the connection, read to its end or not. Closing twice does nothing."""


@dataclass(frozen=True, slots=True)
class Response:
    """The beginning of an answer, and the rest as a stream, which the receiver closes."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    stream: Stream


class Transport(Protocol):
    """Carries requests to one API server."""

    async def send(self, request: Request) -> Response:
        """Return as soon as the answer's headers are there, whatever the status.

        Raises `errors.ConnectionLost`, or its child `errors.ConnectFailed` if the server cannot have seen the request.
        """
