"""A gateway that can be shut: whoever is behind it cannot be reached for a while."""

import asyncio

import aiohttp
from aiohttp import web

from tests.e2e.gateway import Gateway


class Breakable(Gateway):
    """Passes calls on unless it is shut."""

    def __init__(self, server: str, ca: str) -> None:
        super().__init__(server, ca)
        self._is_shut = False
        self._passing: set[asyncio.Task[web.StreamResponse]] = set()

    def __enter__(self) -> "Breakable":
        super().__enter__()
        return self

    def shut(self) -> None:
        """Break off all that goes on, and let nothing through until `reopen`."""

        def abort() -> None:
            self._is_shut = True
            for item in self._passing:
                item.cancel()

        self._loop.call_soon_threadsafe(abort)

    def reopen(self) -> None:
        self._is_shut = False

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        passing = asyncio.ensure_future(super()._pass_on(request))
        self._passing.add(passing)
        try:
            if self._is_shut:
                passing.cancel()
            return await passing
        except (aiohttp.ClientError, asyncio.CancelledError) as error:  # the server is gone, or cannot be reached
            if request.transport is not None:
                request.transport.abort()
            raise web.HTTPServiceUnavailable from error
        finally:
            self._passing.discard(passing)
