"""One gRPC call over HTTP/2: bytes in, bytes out. Whoever has a socket moves them (`server`).

A connection serves one call. It is opened for it and closed after it, so that a server which went and came back is
never met through what was left of it.
"""

import struct
import urllib.parse
from collections.abc import Iterable

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

from windlass import selectors
from windlass.errors import WindlassError

MOST_BYTES = 128 * 2**20
"""Of an answer; the peer's limit. It may repeat everything that it was sent."""
_WINDOW = 2**22
_HEADER = struct.Struct(">BI")
"""Before each message: is it compressed, and how long is it?"""

CODES = (
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
    "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
    "Internal", "Unavailable", "DataLoss", "Unauthenticated",
)  # fmt: skip
"""gRPC's, by number."""


PROTOCOL_ERRORS = (H2Error, HPACKError, HyperframeError, UnicodeError)
"""What may come of bytes that are no HTTP/2."""


class NoAnswer(WindlassError):
    """The call failed: how, in gRPC's words, and what was said."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(f"{code}: {said}")
        self.code, self.said = code, said


class Call:
    """A unary call. Send what `begin` and `receive` return, until it `is_over`; then there is an answer, or none."""

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
        self._said: dict[str, str] = {}
        """Headers and trailers."""
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
        """NoAnswer if there will be none."""
        for event in self._connection.receive_data(data):
            self._take(event)
        if not self.is_over:
            self._send_more()
        return self._connection.data_to_send()

    def answer(self) -> bytes:
        """The message. NoAnswer if there is none, or not exactly one."""
        status = self._said.get(":status", "")
        if "grpc-status" not in self._said:
            raise NoAnswer("Unknown", f"found HTTP status {status} and no gRPC status, expected both")
        code = self._said["grpc-status"]
        if code != "0":
            number = selectors.parse_int64(code)
            named = CODES[number] if number is not None and 0 <= number < len(CODES) else "Unknown"
            raise NoAnswer(named, urllib.parse.unquote(self._said.get("grpc-message", "")))
        if len(self._received) < _HEADER.size:
            raise NoAnswer("Internal", "found no message, expected one")
        is_compressed, size = _HEADER.unpack_from(self._received)
        if is_compressed:
            raise NoAnswer("Unimplemented", "found a compressed message, expected a plain one")
        if size != len(self._received) - _HEADER.size:
            found = len(self._received) - _HEADER.size
            raise NoAnswer("Internal", f"found {found} bytes, expected one message of {size}")
        return bytes(self._received[_HEADER.size :])

    def _send_more(self) -> None:
        """As much of the message as the server wants now."""
        connection = self._connection
        while self._left:
            size = min(len(self._left), connection.local_flow_control_window(self._stream))
            if size <= 0:
                return
            size = min(size, connection.max_outbound_frame_size)
            connection.send_data(self._stream, bytes(self._left[:size]), end_stream=size == len(self._left))
            self._left = self._left[size:]

    def _take(self, event: Event) -> None:
        match event:
            case ResponseReceived() | TrailersReceived():
                self._note(event.headers)
            case DataReceived():
                self._received += event.data
                if len(self._received) > MOST_BYTES:
                    raise NoAnswer("ResourceExhausted", f"found more than {MOST_BYTES} bytes, expected no more")
                if event.flow_controlled_length:
                    self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                self.is_over = True
            case StreamReset():
                self._end_early(f"the server gave the call up with HTTP/2 error {event.error_code!r}")
            case ConnectionTerminated():
                self._end_early(f"the server closed the connection with HTTP/2 error {event.error_code!r}")

    def _note(self, headers: Iterable[tuple[str | bytes, str | bytes]]) -> None:
        for name, value in headers:
            self._said[str(name)] = str(value)

    def _end_early(self, said: str) -> None:
        """An answer may have come whole before that: servers may end what they need not read."""
        if "grpc-status" not in self._said:
            raise NoAnswer("Unavailable", said)
        self.is_over = True
