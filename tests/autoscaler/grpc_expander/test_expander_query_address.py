"""Which server the flags name, and what is said about those that name none."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.autoscaler.grpc_expander import expander_requests
from windlass.autoscaler.grpc_expander import expander_query
from windlass.autoscaler.grpc_expander.client import GrpcExpanderClient
from windlass.autoscaler.grpc_expander.expander_query import ExpanderAddress
from windlass.autoscaler.options import process_options
from windlass.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "expander_address"),
    [
        (
            "expander.kube-system.svc.cluster.local:7000",
            ExpanderAddress("expander.kube-system.svc.cluster.local", 7000),
        ),
        ("dns:///expander:7000", ExpanderAddress("expander", 7000)),
        ("dns:expander:7000", ExpanderAddress("expander", 7000)),
        ("passthrough:///10.0.0.1:7000", ExpanderAddress("10.0.0.1", 7000)),
        ("https://expander:443", ExpanderAddress("expander", 443)),
        ("http://expander:80/", ExpanderAddress("expander", 80, is_encrypted=False)),
        ("[::1]:7000", ExpanderAddress("::1", 7000)),
        ("unix:/run/expander.sock", ExpanderAddress("localhost", path="/run/expander.sock")),
        ("unix:///run/expander.sock", ExpanderAddress("localhost", path="/run/expander.sock")),
    ],
)
def test_addresses_are_read_as_grpc_spells_them(text: str, expander_address: ExpanderAddress) -> None:
    assert expander_query.parse_address(text) == expander_address


@pytest.mark.parametrize(
    ("text", "name"), [("a:1", "a:1"), ("[::1]:2", "[::1]:2"), ("unix:/x", "localhost"), ("dns:///a:3", "a:3")]
)
def test_a_server_is_called_by_its_name(text: str, name: str) -> None:
    assert expander_query.parse_address(text).authority == name


NOT = ["", "expander", "expander:", ":7000", "expander:0", "expander:70000", "a b:1", "a:1/x", "unix:", "xds:///a:1"]


@pytest.mark.parametrize("text", NOT)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--grpc-expander-url: found .* expected HOST:PORT"):
        expander_query.parse_address(text)


def test_nobody_is_asked_where_the_chain_does_not_name_it() -> None:
    assert expander_query.open_expander(["least-waste"], process_options.ExpanderOptions("nonsense", "missing")) is None


def test_a_server_without_tls_is_asked_for_by_name() -> None:
    expander_port = expander_query.open_expander(["grpc"], process_options.ExpanderOptions("http://localhost:1"))
    assert expander_port == GrpcExpanderClient(ExpanderAddress("localhost", 1, is_encrypted=False))


def test_a_socket_on_this_machine_needs_no_certificate() -> None:
    expander_port = expander_query.open_expander(["priority", "grpc"], process_options.ExpanderOptions("unix:/run/x"))
    assert expander_port == GrpcExpanderClient(ExpanderAddress("localhost", path="/run/x", is_encrypted=False))


@pytest.mark.parametrize(
    ("expander_options", "said"),
    [
        (process_options.ExpanderOptions(), "--grpc-expander-url: found nothing, expected HOST:PORT"),
        (process_options.ExpanderOptions("localhost:1"), "--grpc-expander-cert: found nothing, expected the file of"),
        (
            process_options.ExpanderOptions("localhost:1", "missing.pem"),
            "--grpc-expander-cert: found 'missing.pem', expected a file",
        ),
        (
            process_options.ExpanderOptions("http://localhost:1", "x"),
            "--grpc-expander-cert: found 'x', expected nothing beside http",
        ),
    ],
)
def test_flags_that_reach_nobody_are_refused(expander_options: process_options.ExpanderOptions, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        expander_query.open_expander(["grpc"], expander_options)


def test_where_no_server_need_be_named_the_next_expander_decides() -> None:
    nobody = expander_query.open_expander(["grpc"], process_options.ExpanderOptions(), is_needed=False)
    assert nobody is not None
    assert nobody.best_options(expander_requests.ask()).failure == "no --grpc-expander-url says where the server is"


def test_a_missing_package_is_named_and_everything_else_works_without_it() -> None:
    """In a process of its own that knows no grpcio."""
    tried = """
import sys
sys.modules["grpc"] = None
from windlass import errors
from windlass.autoscaler.options import process_options
from windlass.autoscaler.grpc_expander import expander_query
try:
    expander_query.open_expander(["grpc"], process_options.ExpanderOptions("http://localhost:1"))
except errors.InvalidInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", tried], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "--expander: grpc needs the extra `grpc`: install it with pip install 'windlass-autoscaler[grpc]'\n"
    )


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("a:1", "dns:///a:1"),
        ("[::1]:2", "dns:///[::1]:2"),
        ("unix:/x", "unix:/x"),
        ("passthrough:///a:3", "dns:///a:3"),
    ],
)
def test_a_server_is_found_as_grpc_spells_its_address(text: str, target: str) -> None:
    assert expander_query.parse_address(text).target == target


def test_the_protocol_is_shipped() -> None:
    assert (Path(expander_query.__file__).parent / "expander.proto").is_file()


def test_a_certificate_that_the_flag_names_and_that_there_is_not_is_refused() -> None:
    given = process_options.ExpanderOptions(grpc_expander_url="localhost:1", grpc_expander_cert="/none/ca.pem")
    with pytest.raises(InvalidInput, match=r"/none/ca\.pem"):
        expander_query.open_expander(["grpc"], given)
