"""Following a live autoscaler, or a simulation that is served: each status as it comes, and what is wrong meanwhile."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import aiohttp
import msgspec

from windlass.autoscaler.published import changes, routes
from windlass.autoscaler.published.model import Change, Status
from windlass.tui import events

_CONNECT_S = 5.0
_SILENCE_S = 3 * routes.BEAT_S
"""Without a word for so long, and the connection is taken for dead."""
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Heard:
    """The last status, if any came, the time there, and why nothing newer comes; empty while all is well."""

    status: Status | None = None
    now_s: float = 0.0
    trouble: str = ""


class _Beat(msgspec.Struct):
    now_s: float = 0.0
    trouble: str = ""


Hear = Callable[[Heard], None]


async def follow(
    server: str, hear: Hear, headers: Mapping[str, str] = MappingProxyType({}), tls: ssl.SSLContext | None = None
) -> None:
    """Until cancelled. A connection that is lost is made again, and goes on where it was.

    `headers`: what lets the reader in. `tls`: whom it trusts, if not whom the system does.
    """
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    heard, last_id = Heard(), ""
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            trouble = "the connection ended"
            try:
                asked = {**headers, "Last-Event-ID": last_id} if last_id else headers
                url = f"{server}{routes.STREAM_PATH}"
                async with session.get(url, headers=asked, ssl=True if tls is None else tls) as answer:
                    if answer.status != 200:
                        trouble = f"{answer.status}: {(await answer.text()).strip()}"
                    reader = events.Reader()
                    async for chunk in answer.content.iter_any():
                        for event in reader.read(chunk):
                            heard, last_id = apply(heard, event), event.id or last_id
                            hear(heard)
            except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
                trouble = str(error) or type(error).__name__
                last_id = "" if isinstance(error, msgspec.DecodeError) else last_id
            heard = replace(heard, trouble=trouble)
            hear(heard)
            await asyncio.sleep(_AGAIN_S)


def apply(heard: Heard, event: events.Event) -> Heard:
    """What is known after an event. Kinds that nobody here knows change nothing."""
    match event.kind:
        case "status":
            status = msgspec.json.decode(event.data, type=Status)
            return Heard(status, status.cluster.at_s)
        case "change" if heard.status is not None:
            status = changes.apply(heard.status, msgspec.json.decode(event.data, type=Change))
            return Heard(status, status.cluster.at_s)
        case "beat":
            beat = msgspec.json.decode(event.data, type=_Beat)
            return replace(heard, now_s=beat.now_s, trouble=beat.trouble)
    return heard
