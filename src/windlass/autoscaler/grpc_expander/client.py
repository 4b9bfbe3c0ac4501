"""gRPC client: one unary call over HTTP/2 at a time, with a deadline.

`UnaryCall` is the protocol without I/O, bytes in and bytes out; `GrpcExpanderClient` owns the connection.
"""

import asyncio
import logging
import ssl
import struct
import threading
import urllib.parse
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings
from hpack.exceptions import HPACKError
from hyperframe.exceptions import HyperframeError

from windlass import klog, selectors
from windlass.autoscaler.grpc_expander import expander_query, messages, protobuf
from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.model.scale_up_status import BestOptionsResponse
from windlass.errors import InvalidInput, WindlassError

MAX_MESSAGE_BYTES = 128 * 2**20
"""Maximum size of a response in bytes, as in Cluster Autoscaler. It may repeat the whole request."""

_WINDOW = 2**22

_HEADER = struct.Struct(">BI")
"""gRPC message header: compression flag and length."""

STATUS_CODES = (
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
    "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
    "Internal", "Unavailable", "DataLoss", "Unauthenticated",
)  # fmt: skip
"""gRPC status codes by number."""

PROTOCOL_ERRORS = (H2Error, HPACKError, HyperframeError, UnicodeError)
"""Exceptions that h2 raises for invalid HTTP/2."""


class CallFailed(WindlassError):
    """A failed call: its gRPC status code and message."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(f"{code}: {said}")
        self.code, self.said = code, said


class UnaryCall:
    """Protocol of one unary call. Send what `begin` and `receive` return until `is_over`; then `answer` has the
    response.
    """

    def __init__(self, authority: str, is_encrypted: bool, method: str, message: bytes, within_s: float) -> None:
        self.is_over = False
        self._connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._left = memoryview(_HEADER.pack(0, len(message)) + message)
        self._headers = [
            (":method", "POST"),
            (":scheme", "https" if is_encrypted else "http"),
            (":path", method),
            (":authority", authority),
            ("te", "trailers"),
            ("grpc-timeout", f"{max(1, round(within_s * 1000))}m"),
            ("content-type", "application/grpc"),
            ("user-agent", "windlass"),
        ]
        self._stream = 0
        self._response_headers: dict[str, str] = {}
        """Received headers and trailers."""
        self._received = bytearray()

    def begin(self) -> bytes:
        connection = self._connection
        wanted = {SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW, SettingCodes.ENABLE_PUSH: 0}
        connection.local_settings = Settings(client=True, initial_values=wanted)
        connection.initiate_connection()
        connection.increment_flow_control_window(_WINDOW)
        self._stream = connection.get_next_available_stream_id()
        connection.send_headers(self._stream, self._headers)
        self._send_more()
        return connection.data_to_send()

    def receive(self, data: bytes) -> bytes:
        """Feed received bytes; return bytes to send. CallFailed if the call failed."""
        for event in self._connection.receive_data(data):
            self._handle_event(event)
        if not self.is_over:
            self._send_more()
        return self._connection.data_to_send()

    def answer(self) -> bytes:
        """The response message. CallFailed if there is none, or not exactly one."""
        status = self._response_headers.get(":status", "")
        if "grpc-status" not in self._response_headers:
            raise CallFailed("Unknown", f"found HTTP status {status} and no gRPC status, expected both")
        code = self._response_headers["grpc-status"]
        if code != "0":
            number = selectors.parse_int64(code)
            named = STATUS_CODES[number] if number is not None and 0 <= number < len(STATUS_CODES) else "Unknown"
            raise CallFailed(named, urllib.parse.unquote(self._response_headers.get("grpc-message", "")))
        if len(self._received) < _HEADER.size:
            raise CallFailed("Internal", "found no message, expected one")
        is_compressed, size = _HEADER.unpack_from(self._received)
        if is_compressed:
            raise CallFailed("Unimplemented", "found a compressed message, expected a plain one")
        if size != len(self._received) - _HEADER.size:
            found = len(self._received) - _HEADER.size
            raise CallFailed("Internal", f"found {found} bytes, expected one message of {size}")
        return bytes(self._received[_HEADER.size :])

    def _send_more(self) -> None:
        """Return as much of the request as flow control allows."""
        connection = self._connection
        while self._left:
            size = min(len(self._left), connection.local_flow_control_window(self._stream))
            if size <= 0:
                return
            size = min(size, connection.max_outbound_frame_size)
            connection.send_data(self._stream, bytes(self._left[:size]), end_stream=size == len(self._left))
            self._left = self._left[size:]

    def _handle_event(self, event: Event) -> None:
        match event:
            case ResponseReceived() | TrailersReceived():
                self._record_headers(event.headers)
            case DataReceived():
                self._received += event.data
                if len(self._received) > MAX_MESSAGE_BYTES:
                    raise CallFailed(
                        "ResourceExhausted", f"found more than {MAX_MESSAGE_BYTES} bytes, expected no more"
                    )
                if event.flow_controlled_length:
                    self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                self.is_over = True
            case StreamReset():
                self._end_early(f"the server gave the call up with HTTP/2 error {event.error_code!r}")
            case ConnectionTerminated():
                self._end_early(f"the server closed the connection with HTTP/2 error {event.error_code!r}")

    def _record_headers(self, headers: Iterable[tuple[str | bytes, str | bytes]]) -> None:
        for name, value in headers:
            self._response_headers[str(name)] = str(value)

    def _end_early(self, said: str) -> None:
        """Handle a stream reset. The response may be complete: servers may reset the rest of a request."""
        if "grpc-status" not in self._response_headers:
            raise CallFailed("Unavailable", said)
        self.is_over = True


CALL_TIMEOUT_S = 5.0
"""Deadline of a call, as in Cluster Autoscaler."""

_READ_BYTES = 2**18

_MAX_GROUPS_LOGGED = 10

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GrpcExpanderClient:
    """gRPC client of an external expander: address and trusted certificate."""

    at: expander_query.ExpanderAddress
    certificate: str = ""
    """Path to the server's certificate, or to that of its CA. Read for each call, because it may be renewed."""
    within_s: float = CALL_TIMEOUT_S
    """Deadline of one call, from dialling to the last byte."""

    def __post_init__(self) -> None:
        """InvalidInput if the certificate cannot be used."""
        if not self.at.is_encrypted:
            return
        try:
            self._make_tls_context()
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"--grpc-expander-cert: found {self.certificate!r}, expected a file of PEM certificates: {error}"
            ) from error

    def best_options(self, question: BestOptionsRequest) -> BestOptionsResponse:
        """Call BestOptions. Return the response, or the failure. Takes `within_s` at most, plus encoding and
        decoding.
        """
        name = self.at.authority
        _log.log(klog.verbosity_level(2), "calling gRPC expander: address=%s options=%d", name, len(question.options))
        try:
            content = _run_in_new_loop(self._call(messages.encode_request(question)))
            opinion = BestOptionsResponse(question.about, messages.decode_response(content))
        except (CallFailed, protobuf.NotProtobuf) as error:
            _log.warning("gRPC expander call failed: address=%s error=%s", name, error)
            return BestOptionsResponse(question.about, failure=str(error))
        except Exception as error:  # any error: scale-up continues without the expander
            _log.exception("gRPC expander call failed unexpectedly: address=%s", name)
            return BestOptionsResponse(question.about, failure=f"{type(error).__name__}: {error}")
        _log.log(
            klog.verbosity_level(2),
            "gRPC expander answered: address=%s groups=%s",
            name,
            ",".join(opinion.groups[:_MAX_GROUPS_LOGGED]),
        )
        return opinion

    async def _call(self, message: bytes) -> bytes:
        try:
            async with asyncio.timeout(self.within_s):
                return await self._exchange(message)
        except TimeoutError:
            raise CallFailed("DeadlineExceeded", f"no answer within {self.within_s:g} s") from None
        except OSError as error:
            raise CallFailed("Unavailable", f"{self.at.authority} cannot be reached: {error}") from error
        except PROTOCOL_ERRORS as error:
            raise CallFailed("Unavailable", f"{self.at.authority} does not speak HTTP/2: {error}") from error

    async def _exchange(self, message: bytes) -> bytes:
        call = UnaryCall(self.at.authority, self.at.is_encrypted, messages.METHOD, message, self.within_s)
        reader, writer = await self._connect()
        try:
            writer.write(call.begin())
            while not call.is_over:
                await writer.drain()
                data = await reader.read(_READ_BYTES)
                if not data:
                    raise CallFailed("Unavailable", f"{self.at.authority} closed the connection without an answer")
                writer.write(call.receive(data))
            return call.answer()
        finally:
            writer.transport.abort()  # a hanging server must not delay the close either

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        trust = self._make_tls_context() if self.at.is_encrypted else None
        name = self.at.host if trust is not None else None
        if self.at.path:
            return await asyncio.open_unix_connection(self.at.path, ssl=trust, server_hostname=name)
        return await asyncio.open_connection(self.at.host, self.at.port, ssl=trust, server_hostname=name)

    def _make_tls_context(self) -> ssl.SSLContext:
        """Return the TLS context: like Go, trust only certificates in the file, a CA's or the server's own."""
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        found.load_verify_locations(self.certificate)
        found.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        found.set_alpn_protocols(["h2"])
        return found


async def _drain_closed_connections() -> None:
    """Run the event loop until abandoned connections are closed, TLS transports included."""
    for _ in range(3):
        await asyncio.sleep(0)


def _run_in_new_loop(work: Coroutine[Any, Any, bytes]) -> bytes:
    """Run a coroutine in an event loop of its own and return its result.

    Not `asyncio.run`, which would wait for a pending name resolution at the end.
    """
    given: list[bytes] = []
    failed: list[Exception] = []

    def go() -> None:
        loop = asyncio.new_event_loop()
        try:
            given.append(loop.run_until_complete(work))
        except Exception as error:
            failed.append(error)
        finally:
            loop.run_until_complete(_drain_closed_connections())
            loop.close()

    thread = threading.Thread(target=go, name="expander-server", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return given[0]
