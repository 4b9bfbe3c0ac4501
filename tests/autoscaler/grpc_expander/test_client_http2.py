"""One call, without a socket: whatever comes in, it ends with an answer or says why there is none."""

import struct
from collections.abc import Sequence

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from hypothesis import given
from hypothesis import strategies as st

from windlass.autoscaler.grpc_expander import client

OK = ((":status", "200"), ("content-type", "application/grpc"))
Headers = Sequence[tuple[str, str]]


def dial(message: bytes = b"question") -> client.UnaryCall:
    return client.UnaryCall("host:1", False, "/service/Method", message, 5.0)


class Server:
    """The other end."""

    def __init__(self) -> None:
        self.connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.connection.initiate_connection()
        self.headers: dict[str, str] = {}
        self.received = b""
        self.is_asked = False
        self.stream = 0

    def receive(self, data: bytes) -> bytes:
        for event in self.connection.receive_data(data):
            match event:
                case RequestReceived():
                    self.headers = {str(name): str(value) for name, value in event.headers}
                    self.stream = event.stream_id
                case DataReceived():
                    self.received += event.data
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case StreamEnded():
                    self.is_asked = True
        return self.connection.data_to_send()

    def answer(self, headers: Headers, content: bytes, trailers: Headers | None) -> bytes:
        self.connection.send_headers(self.stream, headers, end_stream=not content and trailers is None)
        if content:
            self.connection.send_data(self.stream, content, end_stream=trailers is None)
        if trailers is not None:
            self.connection.send_headers(self.stream, trailers, end_stream=True)
        return self.connection.data_to_send()


def meet(call: client.UnaryCall) -> Server:
    """The question is put."""
    server, sent = Server(), call.begin()
    while not server.is_asked:
        sent = call.receive(server.receive(sent))
    return server


def frame(content: bytes, size: int | None = None, is_compressed: int = 0) -> bytes:
    return struct.pack(">BI", is_compressed, len(content) if size is None else size) + content


def test_a_call_is_put_as_grpc_wants_it() -> None:
    server = meet(dial(b"x" * 200_000))
    assert server.received == frame(b"x" * 200_000)
    assert server.headers == {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/service/Method",
        ":authority": "host:1",
        "te": "trailers",
        "grpc-timeout": "5000m",
        "content-type": "application/grpc",
        "user-agent": "windlass",
    }


def test_an_answer_is_what_was_sent() -> None:
    call = dial()
    call.receive(meet(call).answer(OK, frame(b"answer"), [("grpc-status", "0")]))
    assert call.is_over
    assert call.answer() == b"answer"


@pytest.mark.parametrize(
    ("headers", "content", "trailers", "said"),
    [
        ((*OK, ("grpc-status", "12"), ("grpc-message", "no%20such")), b"", None, "Unimplemented: no such"),
        (OK, b"", [("grpc-status", "14")], "Unavailable: "),
        (OK, b"", [("grpc-status", "99")], "Unknown: "),
        (OK, b"", [("grpc-status", "²")], "Unknown: "),
        ([(":status", "502")], b"", None, "Unknown: found HTTP status 502 and no gRPC status, expected both"),
        (OK, frame(b"answer"), None, "Unknown: found HTTP status 200 and no gRPC status, expected both"),
        (OK, b"", [("grpc-status", "0")], "Internal: found no message, expected one"),
        (OK, b"\0\0", [("grpc-status", "0")], "Internal: found no message, expected one"),
        (OK, frame(b"answer", 7), [("grpc-status", "0")], "Internal: found 6 bytes, expected one message of 7"),
        (OK, frame(b"1") + frame(b"2"), [("grpc-status", "0")], "Internal: found 7 bytes, expected one message of 1"),
        (OK, frame(b"x", None, 1), [("grpc-status", "0")], "Unimplemented: found a compressed message"),
    ],
)
def test_what_is_no_answer_says_why(headers: Headers, content: bytes, trailers: Headers | None, said: str) -> None:
    call = dial()
    call.receive(meet(call).answer(headers, content, trailers))
    assert call.is_over
    with pytest.raises(client.CallFailed, match=said):
        call.answer()


def test_a_call_that_is_given_up_by_the_server_is_over() -> None:
    call = dial()
    server = meet(call)
    server.connection.reset_stream(server.stream, 7)
    with pytest.raises(client.CallFailed, match="Unavailable: the server gave the call up"):
        call.receive(server.connection.data_to_send())


def test_an_answer_that_came_before_the_connection_was_closed_counts() -> None:
    call = dial()
    server = meet(call)
    answer = server.answer(OK, frame(b"answer"), [("grpc-status", "0")])
    server.connection.close_connection()
    call.receive(answer + server.connection.data_to_send())
    assert call.answer() == b"answer"


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_arbitrary_bytes_end_a_call_or_change_nothing(pieces: list[bytes]) -> None:
    call = dial()
    call.begin()
    _play(call, pieces)


@given(st.data())
def test_an_answer_that_is_damaged_anywhere_ends_a_call_or_changes_nothing(data: st.DataObject) -> None:
    call = dial()
    whole = bytearray(meet(call).answer(OK, frame(b"answer"), [("grpc-status", "0")]))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    _play(call, [bytes(whole[:cut]), bytes(whole[cut:])])


def _play(call: client.UnaryCall, pieces: Sequence[bytes]) -> None:
    try:
        for piece in pieces:
            call.receive(piece)
        if call.is_over:
            call.answer()
    except (client.CallFailed, *client.PROTOCOL_ERRORS):
        pass
