"""A small asynchronous client: calls with JSON, and watches."""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import aiohttp

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_CALL = aiohttp.ClientTimeout(total=30)
_WATCH_S = 300


class ApiError(Exception):
    """The server answered with an error."""

    def __init__(self, call: str, code: int, body: str) -> None:
        super().__init__(f"{call}: {code}: {body[:500]}")
        self.code = code


class Api:
    """A user of an API server, as a kubeconfig with a token describes them. A context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.server: str = cluster["server"]
        self._headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        self._tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._tls)
        self._session = aiohttp.ClientSession(self.server, connector=connector, headers=self._headers)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._session.close()

    async def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Object:
        headers = {"Content-Type": content_type}
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, path, data=data, headers=headers, timeout=_CALL) as response:
            text = await response.text()
        if response.status >= 400:
            raise ApiError(f"{method} {path}", response.status, text)
        found: Object = json.loads(text)
        return found

    async def watch(self, path: str, since: str) -> AsyncIterator[Object]:
        """The events of a collection after a resourceVersion, until the server ends it."""
        query = {"watch": "1", "resourceVersion": since, "timeoutSeconds": str(_WATCH_S)}
        silence = aiohttp.ClientTimeout(total=None, sock_read=_WATCH_S + 30)
        async with self._session.get(path, params=query, timeout=silence) as response:
            if response.status >= 400:
                raise ApiError(f"WATCH {path}", response.status, await response.text())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
