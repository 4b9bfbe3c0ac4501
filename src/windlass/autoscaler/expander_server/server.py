"""The server: asked one question at a time, and given up after a few seconds, whatever it does.

`ask` waits, in a thread and an event loop of its own. So it does no harm where deciding is done in a thread, nor where
it is done inline and the clock is a simulation's: the server's time is real.
"""

import asyncio
import logging
import ssl
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from windlass import verbosity
from windlass.autoscaler.expander_server import address, http2, messages, wire
from windlass.engine.expanders.outside import Opinion, Question
from windlass.errors import InvalidInput

WITHIN_S = 5.0
"""The peer's deadline."""
_READ_BYTES = 2**18
_SHOWN = 10
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExpanderServer:
    """Where the server is, and whom to believe that it is the one."""

    at: address.Address
    certificate: str = ""
    """Path of a file with the server's certificate, or that of who signed it. Read for each call: it may be renewed."""
    within_s: float = WITHIN_S
    """For one call, from dialling to the last byte."""

    def __post_init__(self) -> None:
        """InvalidInput if it could never be asked."""
        if not self.at.is_encrypted:
            return
        try:
            self._trust()
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"--grpc-expander-cert: found {self.certificate!r}, expected a file of PEM certificates: {error}"
            ) from error

    def ask(self, question: Question) -> Opinion:
        """What it says; why it says nothing, if so. Takes `within_s` at most, and a moment for writing and reading."""
        name = self.at.authority
        _log.log(verbosity.level(2), "asking the expander %s about %d options", name, len(question.options))
        try:
            content = _run(self._call(messages.write_question(question)))
            opinion = Opinion(question.about, messages.read_answer(content))
        except (http2.NoAnswer, wire.NotProtobuf) as error:
            _log.warning("the expander %s gave no answer: %s", name, error)
            return Opinion(question.about, failure=str(error))
        except Exception as error:  # whatever it is, nodes must go on coming
            _log.exception("the expander %s could not be asked", name)
            return Opinion(question.about, failure=f"{type(error).__name__}: {error}")
        _log.log(verbosity.level(2), "the expander %s answered: %s", name, ", ".join(opinion.groups[:_SHOWN]))
        return opinion

    async def _call(self, message: bytes) -> bytes:
        try:
            async with asyncio.timeout(self.within_s):
                return await self._exchange(message)
        except TimeoutError:
            raise http2.NoAnswer("DeadlineExceeded", f"no answer within {self.within_s:g} s") from None
        except OSError as error:
            raise http2.NoAnswer("Unavailable", f"{self.at.authority} cannot be reached: {error}") from error
        except http2.PROTOCOL_ERRORS as error:
            raise http2.NoAnswer("Unavailable", f"{self.at.authority} speaks no HTTP/2: {error}") from error

    async def _exchange(self, message: bytes) -> bytes:
        call = http2.Call(self.at.authority, self.at.is_encrypted, messages.METHOD, message, self.within_s)
        reader, writer = await self._connect()
        try:
            writer.write(call.begin())
            while not call.is_over:
                await writer.drain()
                data = await reader.read(_READ_BYTES)
                if not data:
                    raise http2.NoAnswer("Unavailable", f"{self.at.authority} hung up without an answer")
                writer.write(call.receive(data))
            return call.answer()
        finally:
            writer.transport.abort()  # who hangs may not take the end either

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        trust = self._trust() if self.at.is_encrypted else None
        name = self.at.host if trust is not None else None
        if self.at.path:
            return await asyncio.open_unix_connection(self.at.path, ssl=trust, server_hostname=name)
        return await asyncio.open_connection(self.at.host, self.at.port, ssl=trust, server_hostname=name)

    def _trust(self) -> ssl.SSLContext:
        """As Go does: what is in the file is believed, be it an authority's or the server's own, and nothing else."""
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        found.load_verify_locations(self.certificate)
        found.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        found.set_alpn_protocols(["h2"])
        return found


async def _let_go() -> None:
    """Let connections that were given up be closed: the socket, and what is under an encrypted one."""
    for _ in range(3):
        await asyncio.sleep(0)


def _run(work: Coroutine[Any, Any, bytes]) -> bytes:
    """What a coroutine gives, in a thread and a loop of its own.

    Not `asyncio.run`, which would wait at the end for a name that is still being looked up.
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
            loop.run_until_complete(_let_go())
            loop.close()

    thread = threading.Thread(target=go, name="expander-server", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return given[0]
