"""gRPC client: one unary call at a time, with a deadline."""

import logging
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc
from google.protobuf.message import DecodeError

from windlass import klog
from windlass.autoscaler.grpc_expander import expander_query, messages
from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.model.scale_up_status import BestOptionsResponse
from windlass.errors import InvalidInput

CALL_TIMEOUT_S = 5.0
"""Deadline of a call, as in Cluster Autoscaler."""

MAX_MESSAGE_BYTES = 128 * 2**20
"""Maximum size of a response in bytes, as in Cluster Autoscaler."""

MAX_ADDED_BYTES = 2**20
"""Maximum size of a response beyond that of its request, which it may repeat. Decoded, it can take forty times its
size.
"""

_MAX_GROUPS_LOGGED = 10

_NEARLY = 0.9

_Code = grpc.StatusCode

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GrpcExpanderClient:
    """gRPC client of an external expander: address and trusted certificate."""

    at: expander_query.ExpanderAddress
    certificate: str = ""
    """Path to the server's certificate, or to that of its CA. Read for each call, because it may be renewed."""
    within_s: float = CALL_TIMEOUT_S
    """Deadline of one call, from connecting to the last byte."""

    def __post_init__(self) -> None:
        """InvalidInput if the certificate cannot be used."""
        if not self.at.is_encrypted:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(self.certificate)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"--grpc-expander-cert: found {self.certificate!r}, expected a file of PEM certificates: {error}"
            ) from error

    def best_options(self, question: BestOptionsRequest) -> BestOptionsResponse:
        """Call BestOptions. Return the response, or the failure. Takes `within_s` at most, plus encoding and
        decoding.
        """
        name, began_s = self.at.authority, time.monotonic()
        _log.log(klog.verbosity_level(2), "calling gRPC expander: address=%s options=%d", name, len(question.options))
        try:
            content = self._call(messages.encode_request(question))
            opinion = BestOptionsResponse(question.about, messages.decode_response(content))
        except grpc.RpcError as error:
            return self._fail(question, self._describe(cast(grpc.Call, error), time.monotonic() - began_s))
        except DecodeError as error:
            return self._fail(question, f"expected a BestOptionsResponse: {error}")
        except OSError as error:
            return self._fail(question, f"--grpc-expander-cert: {error}")
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

    def _call(self, message: bytes) -> bytes:
        options = (
            ("grpc.max_receive_message_length", min(len(message) + MAX_ADDED_BYTES, MAX_MESSAGE_BYTES)),
            ("grpc.use_local_subchannel_pool", 1),  # a failed connection does not delay the next call
            ("grpc.default_authority", self.at.authority),
            ("grpc.primary_user_agent", "windlass"),
        )
        with self._open_channel(options) as channel:
            best_options: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(messages.METHOD)
            return best_options(message, timeout=self.within_s)

    def _open_channel(self, options: Sequence[tuple[str, int | str]]) -> grpc.Channel:
        """Open a channel for one call: like Go, trust only certificates in the file, a CA's or the server's own."""
        if not self.at.is_encrypted:
            return grpc.insecure_channel(self.at.target, options)
        credentials = grpc.ssl_channel_credentials(Path(self.certificate).read_bytes())
        return grpc.secure_channel(self.at.target, credentials, options)

    def _fail(self, question: BestOptionsRequest, failure: str) -> BestOptionsResponse:
        _log.warning("gRPC expander call failed: address=%s error=%s", self.at.authority, failure)
        return BestOptionsResponse(question.about, failure=failure)

    def _describe(self, error: grpc.Call, took_s: float) -> str:
        """`Unavailable: no such host`: the status code as Go spells it, and the message."""
        code = error.code()
        # A server that notices the deadline first resets the stream, and gRPC calls that cancelled.
        if code is _Code.CANCELLED and took_s > _NEARLY * self.within_s:
            code = _Code.DEADLINE_EXCEEDED
        if code is _Code.DEADLINE_EXCEEDED:
            return f"DeadlineExceeded: no answer within {self.within_s:g} s"
        return f"{code.name.title().replace('_', '')}: {error.details()}"
