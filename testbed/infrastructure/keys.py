"""Keys of objects to be looked after: each as soon as it is due, none twice at the same time."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

from testbed.infrastructure import api
from testbed.infrastructure.world import Key

_AT_ONCE = 16
_AGAIN_S = 0.2
_ORDINARY = (404, 409)
"""Someone else was faster."""


class Keys:
    """Hands keys to a handler. One that fails is tried again."""

    def __init__(self, handle: Callable[[Key], Awaitable[None]]) -> None:
        self._handle = handle
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._again: set[Key] = set()
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def add(self, key: Key, after_s: float = 0.0) -> None:
        if after_s > 0.0:
            asyncio.get_running_loop().call_later(after_s, self.add, key)
        elif key in self._tasks:
            self._again.add(key)
        else:
            self._tasks[key] = asyncio.create_task(self._work(key))

    async def _work(self, key: Key) -> None:
        async with self._limit:
            await self._try(key)
        while key in self._again:
            self._again.discard(key)
            async with self._limit:
                await self._try(key)
        del self._tasks[key]

    async def _try(self, key: Key) -> None:
        try:
            await self._handle(key)
        except (api.ApiError, aiohttp.ClientError, TimeoutError) as error:
            if not (isinstance(error, api.ApiError) and error.code in _ORDINARY):
                print(f"{key}: {error}", flush=True)
            self.add(key, _AGAIN_S)
