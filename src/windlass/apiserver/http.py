"""HTTP: the embedded server on a socket, so that kubectl and any other client can talk to it. Plain, on loopback."""

import logging
from types import TracebackType

from aiohttp import web

from windlass import clock
from windlass.apiserver import inprocess, rendering, server, status
from windlass.apiserver.call import Answer
from windlass.kube import transport

_LARGEST_REQUEST_BYTES = 8 * 1024 * 1024
_log = logging.getLogger(__name__)


class HttpServer:
    """Serves until closed: `async with HttpServer(server, clock) as served: … served.url`."""

    def __init__(self, served: server.Server, clock_: clock.Clock, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = served
        self._clock = clock_
        self._host, self._port = host, port
        application = web.Application(client_max_size=_LARGEST_REQUEST_BYTES)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    @property
    def url(self) -> str:
        """Where it listens; known once it does."""
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()

    async def close(self) -> None:
        await self._runner.cleanup()

    async def __aenter__(self) -> "HttpServer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        answer = await self._answer(request)
        if answer.watch is not None:
            return await self._stream(request, answer)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    async def _answer(self, request: web.Request) -> Answer:
        """The server's answer, or a Status: a client never sees a page of HTML or a cut connection."""
        try:
            return self._server.handle(await _read(request))
        except web.HTTPRequestEntityTooLarge:
            refused = status.too_large(f"limit is {_LARGEST_REQUEST_BYTES}")
        except Exception as error:
            _log.exception("request failed method=%s path=%s", request.method, request.path)
            refused = status.internal(f"{type(error).__name__}: {error}")
        return rendering.answer_json(refused.code, refused.body())

    async def _stream(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        assert answer.watch is not None
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        stream = inprocess.follow(self._server, answer.watch, self._clock)
        try:
            async for chunk in stream:
                await response.write(chunk)
        except ConnectionError:
            pass  # the client has gone; so does its watch
        finally:
            await stream.aclose()
        return response


async def _read(request: web.Request) -> transport.Request:
    headers = {name.lower(): value for name, value in request.headers.items()}
    query = tuple((name, value) for name, value in request.query.items())
    return transport.Request(request.method, request.raw_path.partition("?")[0], query, headers, await request.read())
