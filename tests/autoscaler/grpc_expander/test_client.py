"""The call, against a server of grpcio: sockets of this machine, compressed, large and refused answers."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import trustme

from tests.autoscaler.grpc_expander import expander_requests
from windlass.autoscaler.grpc_expander import client, expander_pb2, expander_query
from windlass.autoscaler.grpc_expander.client import MAX_ADDED_BYTES, GrpcExpanderClient

Answer = Callable[[bytes, grpc.ServicerContext], bytes]


@dataclass
class Handler(grpc.GenericRpcHandler):
    """Answers BestOptions with whatever bytes it is given."""

    answer: Answer

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        if handler_call_details.method != client.METHOD:
            return None
        return grpc.unary_unary_rpc_method_handler(self.answer)


@contextlib.contextmanager
def serving(answer: Answer, at: str, credentials: grpc.ServerCredentials | None = None) -> Iterator[int]:
    """A server; yields its port."""
    with futures.ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool, handlers=[Handler(answer)])
        port = server.add_secure_port(at, credentials) if credentials else server.add_insecure_port(at)
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()


def encode(groups: Sequence[str], debug: str = "") -> bytes:
    options = [expander_pb2.Option(nodeGroupId=group, debug=debug) for group in groups]
    return expander_pb2.BestOptionsResponse(options=options).SerializeToString()


def choose(*groups: str, debug: str = "") -> Answer:
    return lambda request, context: encode(groups, debug)


def ask(port: int, within_s: float = 60.0) -> str | tuple[str, ...]:
    """The groups, or the failure."""
    at = expander_query.parse_address(f"http://127.0.0.1:{port}")
    opinion = GrpcExpanderClient(at, within_s=within_s).best_options(expander_requests.ask())
    return opinion.failure or opinion.groups


def test_a_socket_on_this_machine_is_called_without_tls(tmp_path: Path) -> None:
    with serving(choose("b"), f"unix:{tmp_path}/x"):
        at = expander_query.ExpanderAddress("localhost", path=f"{tmp_path}/x", is_encrypted=False)
        assert GrpcExpanderClient(at, within_s=60.0).best_options(expander_requests.ask()).groups == ("b",)


def test_a_socket_on_this_machine_is_called_with_tls_if_there_is_a_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    pairs = [(issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes())]
    with serving(choose("b"), f"unix:{tmp_path}/x", grpc.ssl_server_credentials(pairs)):
        at = expander_query.parse_address(f"unix:{tmp_path}/x")
        grpc_client = GrpcExpanderClient(at, str(tmp_path / "ca.pem"), within_s=60.0)
        assert grpc_client.best_options(expander_requests.ask()).groups == ("b",)


def test_a_certificate_that_is_gone_or_spoilt_since_fails_the_call(tmp_path: Path) -> None:
    certificate = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(certificate))
    grpc_client = GrpcExpanderClient(expander_query.parse_address("localhost:1"), str(certificate), within_s=60.0)
    certificate.write_text("no certificate\n")
    assert grpc_client.best_options(expander_requests.ask()).failure.startswith("Unavailable: ")
    certificate.unlink()
    failure = grpc_client.best_options(expander_requests.ask()).failure
    assert failure.startswith("--grpc-expander-cert: ")
    assert str(certificate) in failure


def test_a_proxy_is_asked_unless_the_server_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(choose("b"), "127.0.0.1:0") as port:
        for name in ("grpc_proxy", "https_proxy", "http_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv("no_proxy", "other")
        assert "127.0.0.1:1: Failed to connect" in str(ask(port))
        monkeypatch.setenv("no_proxy", "127.0.0.0/8")
        assert ask(port) == ("b",)


def test_a_compressed_answer_is_an_answer() -> None:
    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_compression(grpc.Compression.Gzip)
        return choose("b", debug="x" * 10_000)(request, context)

    with serving(answer, "127.0.0.1:0") as port:
        assert ask(port) == ("b",)


@pytest.mark.parametrize(("more", "is_accepted"), [(0, True), (1, False)])
def test_an_answer_that_is_much_larger_than_its_question_is_none(more: int, is_accepted: bool) -> None:
    most = len(client.encode_request(expander_requests.ask())) + MAX_ADDED_BYTES
    around = len(encode(["b"], debug="x" * most)) - most
    with serving(choose("b", debug="x" * (most - around + more)), "127.0.0.1:0") as port:
        answered = ask(port)
    assert answered == ("b",) if is_accepted else str(answered).startswith("ResourceExhausted: ")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "Unauthenticated: go away"),
        (grpc.StatusCode.FAILED_PRECONDITION, "FailedPrecondition: go away"),
        (grpc.StatusCode.CANCELLED, "Cancelled: go away"),
    ],
)
def test_a_refusal_is_told_in_the_servers_words(code: grpc.StatusCode, said: str) -> None:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(code, "go away")

    with serving(refuse, "127.0.0.1:0") as port:
        assert ask(port) == said


def test_a_server_that_cancels_at_the_deadline_gave_no_answer_in_time() -> None:
    def wait(request: bytes, context: grpc.ServicerContext) -> bytes:
        while (context.time_remaining() or 0.0) > 0.02:
            time.sleep(0.005)
        context.abort(grpc.StatusCode.CANCELLED, "too late")

    with serving(wait, "127.0.0.1:0") as port:
        assert ask(port, 0.5) == "DeadlineExceeded: no answer within 0.5 s"


def test_a_server_of_something_else_is_none() -> None:
    class Other(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
            return None

    with futures.ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool, handlers=[Other()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        assert str(ask(port)).startswith("Unimplemented: ")
        server.stop(None).wait()
