"""Who we are to an API server, and keeping it true: tokens expire and certificates are replaced under our feet.

`Authenticated` is a transport around another: it adds the credentials of the moment, and when the server does not take
them (401) asks once for others and sends again.
"""

import base64
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from windlass import clock
from windlass.kube import errors, transport

_FILES_S = 60.0
"""How long what was read from a file is used: the kubelet replaces tokens long before they expire."""
_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Credential:
    """What proves who we are: headers, a client certificate, or both; or nothing, for servers that do not ask."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: transport.Certificate | None = None


ANONYMOUS = Credential()


def bearer(token: str, certificate: transport.Certificate | None = None) -> Credential:
    return Credential({"authorization": f"Bearer {token}"}, certificate)


def basic(username: str, password: str, certificate: transport.Certificate | None = None) -> Credential:
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return Credential({"authorization": f"Basic {pair}"}, certificate)


class Credentials(Protocol):
    """Where credentials come from."""

    async def current(self) -> Credential:
        """Those to use now. `errors.CredentialsFailed` if there are none to be had."""

    def reject(self, credential: Credential) -> None:
        """The server did not take these: do not offer them from memory again."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Credentials that never change."""

    credential: Credential

    async def current(self) -> Credential:
        return self.credential

    def reject(self, credential: Credential) -> None:
        """There are no others."""


class Files:
    """Files that someone replaces from time to time, as the kubelet does with the token of a service account.

    What was read is used for a minute, and for longer while the files cannot be read.
    """

    def __init__(
        self, time: clock.Clock, *, token: Path | None = None, certificate: tuple[Path, Path] | None = None
    ) -> None:
        self._clock = time
        self._token = token
        self._certificate = certificate
        self._credential: Credential | None = None
        self._stale_at_s = 0.0

    async def current(self) -> Credential:
        now_s = self._clock.monotonic_s()
        if self._credential is None or now_s >= self._stale_at_s:
            self._refresh(now_s)
        assert self._credential is not None
        return self._credential

    def reject(self, credential: Credential) -> None:
        self._stale_at_s = 0.0

    def _refresh(self, now_s: float) -> None:
        try:
            self._credential = self._read()
        except errors.CredentialsFailed:
            if self._credential is None:
                raise
        self._stale_at_s = now_s + _FILES_S

    def _read(self) -> Credential:
        certificate = self._certificate and transport.Certificate(*(_read(path) for path in self._certificate))
        if self._token is None:
            return Credential(certificate=certificate)
        return bearer(_read(self._token).decode(errors="replace").strip(), certificate)


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise errors.CredentialsFailed(str(path), error.strerror or str(error)) from error
    if not content.strip():
        raise errors.CredentialsFailed(str(path), "the file is empty")
    return content


class Authenticated:
    """A transport that says who is asking."""

    def __init__(self, inner: transport.Transport, credentials: Credentials) -> None:
        self._inner = inner
        self._credentials = credentials

    async def send(self, request: transport.Request) -> transport.Response:
        credential = await self._credentials.current()
        request.check_may_send()
        response = await self._inner.send(_sign(request, credential))
        if response.status != _UNAUTHORIZED:
            return response
        self._credentials.reject(credential)
        other = await self._credentials.current()
        if other == credential:
            return response
        await response.stream.aclose()
        request.check_may_send()
        return await self._inner.send(_sign(request, other))


def _sign(request: transport.Request, credential: Credential) -> transport.Request:
    headers = {**request.headers, **credential.headers}
    return dataclasses.replace(request, headers=headers, certificate=credential.certificate or request.certificate)
