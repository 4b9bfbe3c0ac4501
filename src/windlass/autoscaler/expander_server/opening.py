"""Opening: the server that the flags name, or what is wrong with them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from windlass.autoscaler import wiring
from windlass.autoscaler.expander_server import address
from windlass.engine.expanders import chain
from windlass.engine.expanders.outside import Opinion, Question
from windlass.errors import InvalidInput


class Server(Protocol):
    """Someone who can be asked."""

    def ask(self, question: Question) -> Opinion:
        """What it says, or why it says nothing. Waits for it, but never long."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """Stands where no server is named and none need be, as in a simulation: the next expander decides."""

    def ask(self, question: Question) -> Opinion:
        return Opinion(question.about, failure="no --grpc-expander-url says where the server is")


def open_server(expanders: Sequence[str], chosen: wiring.Expander, is_needed: bool = True) -> Server | None:
    """None where --expander does not name grpc. InvalidInput for flags that name no server, or not how to reach it."""
    if chain.OUTSIDE not in expanders:
        return None
    if not chosen.grpc_expander_url and not is_needed:
        return Nobody()
    if not chosen.grpc_expander_url:
        raise InvalidInput(
            f"--grpc-expander-url: found nothing, expected {address.ACCEPTED}, because --expander names grpc"
        )
    at = address.parse(chosen.grpc_expander_url)
    if at.path and not chosen.grpc_expander_cert:
        at = replace(at, is_encrypted=False)  # what is said there does not leave the machine
    _check_certificate(at, chosen.grpc_expander_cert)
    try:
        from windlass.autoscaler.expander_server import server
    except ModuleNotFoundError as error:
        lacking = (error.name or "").partition(".")[0]
        raise InvalidInput(
            f"--expander: grpc needs {lacking}, which is not installed; pip install 'windlass[grpc]' does that"
        ) from error
    return server.ExpanderServer(at, chosen.grpc_expander_cert)


def _check_certificate(at: address.Address, certificate: str) -> None:
    if at.is_encrypted and not certificate:
        raise InvalidInput(
            "--grpc-expander-cert: found nothing, expected the file of the server's certificate, "
            f"or {address.PLAIN} before --grpc-expander-url to do without TLS"
        )
    if certificate and not at.is_encrypted:
        raise InvalidInput(
            f"--grpc-expander-cert: found {certificate!r}, expected nothing beside {address.PLAIN} "
            "in --grpc-expander-url, which does without TLS"
        )
