"""Expander query: address, set-up and use of the external expander.

`decide_with_expander` repeats until no question is left or time is up. `client` is imported only where it is needed:
grpcio is an optional dependency.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from windlass import clock, product
from windlass.autoscaler.options import process_options
from windlass.engine.expanders import chain
from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.loop import Decision
from windlass.engine.model.scale_up_status import BestOptionsResponse
from windlass.engine.observation import Observation
from windlass.errors import InvalidInput

PLAINTEXT_SCHEME = "http://"

ACCEPTED_ADDRESSES = "HOST:PORT, dns:///HOST:PORT or unix:PATH; http://HOST:PORT to do without TLS"

_TLS_SCHEMES = ("https://", "dns:///", "passthrough:///", "dns:", "passthrough:")

_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/?#@\[\]]+):([0-9]{1,5})/?")


@dataclass(frozen=True, slots=True)
class ExpanderAddress:
    """Address of the expander: host and port, or socket path; and whether TLS is used."""

    host: str
    port: int = 0
    path: str = ""
    is_encrypted: bool = True

    @property
    def authority(self) -> str:
        """The :authority of requests."""
        if self.path:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def target(self) -> str:
        """The address as gRPC spells it."""
        return f"unix:{self.path}" if self.path else f"dns:///{self.authority}"


def parse_address(text: str) -> ExpanderAddress:
    """Parse an address. InvalidInput if it is not one."""
    rest, is_encrypted = text.removeprefix(PLAINTEXT_SCHEME), not text.startswith(PLAINTEXT_SCHEME)
    if is_encrypted and text.startswith("unix:") and (path := re.sub("^unix:(//)?", "", text)):
        return ExpanderAddress("localhost", path=path)
    if is_encrypted:
        rest = next((text.removeprefix(item) for item in _TLS_SCHEMES if text.startswith(item)), text)
    match = _HOST_PORT.fullmatch(rest)
    if match is None or not 0 < int(match[2]) < 65536:
        raise InvalidInput(f"--grpc-expander-url: found {text!r}, expected {ACCEPTED_ADDRESSES}")
    return ExpanderAddress(match[1].strip("[]"), int(match[2]), is_encrypted=is_encrypted)


class ExpanderPort(Protocol):
    """Port of an external expander."""

    def best_options(self, question: BestOptionsRequest) -> BestOptionsResponse:
        """Return its choice, or the failure. Waits up to the deadline."""


@dataclass(frozen=True, slots=True)
class UnconfiguredExpander:
    """Expander without an address, as in a simulation: the next expander in the chain decides."""

    def best_options(self, question: BestOptionsRequest) -> BestOptionsResponse:
        return BestOptionsResponse(question.about, failure="no --grpc-expander-url says where the server is")


def open_expander(
    expanders: Sequence[str], expander_options: process_options.ExpanderOptions, is_needed: bool = True
) -> ExpanderPort | None:
    """Return the client of --grpc-expander-url; None if --expander does not include grpc. InvalidInput for an invalid
    address or certificate.
    """
    if chain.GRPC not in expanders:
        return None
    if not expander_options.grpc_expander_url and not is_needed:
        return UnconfiguredExpander()
    if not expander_options.grpc_expander_url:
        raise InvalidInput(
            f"--grpc-expander-url: found nothing, expected {ACCEPTED_ADDRESSES}, because --expander names grpc"
        )
    at = parse_address(expander_options.grpc_expander_url)
    if at.path and not expander_options.grpc_expander_cert:
        at = replace(at, is_encrypted=False)  # a local socket needs no TLS
    _check_certificate(at, expander_options.grpc_expander_cert)
    try:
        from windlass.autoscaler.grpc_expander import client
    except ModuleNotFoundError as error:
        raise InvalidInput(product.explain_missing_extra("--expander: grpc", "grpc")) from error
    return client.GrpcExpanderClient(at, expander_options.grpc_expander_cert)


def _check_certificate(at: ExpanderAddress, certificate: str) -> None:
    if at.is_encrypted and not certificate:
        raise InvalidInput(
            "--grpc-expander-cert: found nothing, expected the file of the server's certificate, "
            f"or {PLAINTEXT_SCHEME} before --grpc-expander-url to do without TLS"
        )
    if certificate and not at.is_encrypted:
        raise InvalidInput(
            f"--grpc-expander-cert: found {certificate!r}, expected nothing beside {PLAINTEXT_SCHEME} "
            "in --grpc-expander-url, which does without TLS"
        )


async def decide_with_expander(
    observation: Observation,
    decide: Callable[[Observation], Awaitable[Decision]],
    ask: Callable[[BestOptionsRequest], Awaitable[BestOptionsResponse]] | None,
    time: clock.Clock,
    within_s: float,
) -> tuple[Observation, Decision]:
    """Decide with the expander's answers; return the decision and the observation with the answers.

    Without `ask`, decide without answers. A scale-up in several rounds asks several times; after `within_s` no further
    call is made, so that a slow server does not block the loop for minutes.
    """
    began_s = time.monotonic_s()
    decision = await decide(observation)
    while ask is not None and decision.question is not None:
        if time.monotonic_s() - began_s < within_s:
            opinion = await ask(decision.question)
        else:
            opinion = BestOptionsResponse(
                decision.question.about, failure=f"questions took {within_s:g} s; no time for more"
            )
        observation = replace(observation, opinions=(*observation.opinions, opinion))
        decision = await decide(observation)
    return observation, decision
