"""Carriers that stand between a controller and the server, and hinder, or only listen."""

from collections.abc import Awaitable, Callable

from windlass.kube import errors, transport

WRITES = ("POST", "PUT", "PATCH", "DELETE")


class Refusing:
    """Refuses one method of one path while it is on."""

    def __init__(self, carrier: transport.Transport, path: str, *, method: str = "PATCH", is_on: bool = True) -> None:
        self._carrier, self._path, self._method, self.is_on = carrier, path, method, is_on

    async def send(self, request: transport.Request) -> transport.Response:
        if self.is_on and request.method == self._method and request.path.endswith(self._path):
            body = b'{"message": "denied by a policy", "reason": "Forbidden", "code": 403}'
            raise errors.from_response(request.call, 403, {}, body)
        return await self._carrier.send(request)


class Losing:
    """Does so many writes, and loses the next: that one alone, or all from then on."""

    def __init__(self, carrier: transport.Transport, after: int, *, for_good: bool = False) -> None:
        self._carrier, self._left, self._for_good = carrier, after, for_good

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method in WRITES:
            self._left -= 1
            if self._left == -1 or (self._for_good and self._left < 0):
                raise errors.ConnectionLost(request.call, "lost on the way")
        return await self._carrier.send(request)


class Interrupted:
    """Somebody else does something just before the first write to a path."""

    def __init__(self, carrier: transport.Transport, path: str, act: Callable[[], Awaitable[object]]) -> None:
        self._carrier, self._path, self._act, self._is_done = carrier, path, act, False

    async def send(self, request: transport.Request) -> transport.Response:
        if request.method == "PATCH" and self._path in request.path and not self._is_done:
            self._is_done = True
            await self._act()
        return await self._carrier.send(request)


class Asked:
    """Keeps the path of every call."""

    def __init__(self, carrier: transport.Transport) -> None:
        self._carrier = carrier
        self.paths: list[str] = []

    async def send(self, request: transport.Request) -> transport.Response:
        self.paths.append(request.path)
        return await self._carrier.send(request)
