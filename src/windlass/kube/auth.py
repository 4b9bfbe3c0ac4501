"""Credentials for an API server: static, from files, or from exec plugins.

`AuthenticatedTransport` wraps a transport: it adds the current credentials, and on 401 asks once for new ones and sends
the request again. Tokens in files are re-read; exec plugins run as kubectl runs them, never interactively.
"""

import asyncio
import base64
import contextlib
import dataclasses
import datetime
import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from windlass import clock, errors
from windlass.kube import errors as kube_errors
from windlass.kube import kubeconfig, transport

_FILES_S = 60.0
"""How long what was read from a file is used: the kubelet replaces tokens long before they expire."""

_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Credential:
    """What proves who we are: headers, a client certificate, or both; or nothing, for servers that do not ask."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: transport.Certificate | None = None


ANONYMOUS = Credential()


def bearer_credential(token: str, certificate: transport.Certificate | None = None) -> Credential:
    return Credential({"authorization": f"Bearer {token}"}, certificate)


def basic_credential(username: str, password: str, certificate: transport.Certificate | None = None) -> Credential:
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return Credential({"authorization": f"Basic {pair}"}, certificate)


class Credentials(Protocol):
    """Where credentials come from."""

    async def current(self) -> Credential:
        """Those to use now. `errors.CredentialsFailed` if there are none to be had."""

    def reject(self, credential: Credential) -> None:
        """The server did not take these: do not offer them from memory again."""


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Credentials that never change."""

    credential: Credential

    async def current(self) -> Credential:
        return self.credential

    def reject(self, credential: Credential) -> None:
        """There are no others."""


class FileCredentials:
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
        except kube_errors.CredentialsFailed:
            if self._credential is None:
                raise
        self._stale_at_s = now_s + _FILES_S

    def _read(self) -> Credential:
        certificate = self._certificate and transport.Certificate(*(_read(path) for path in self._certificate))
        if self._token is None:
            return Credential(certificate=certificate)
        return bearer_credential(_read(self._token).decode(errors="replace").strip(), certificate)


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise kube_errors.CredentialsFailed(str(path), error.strerror or str(error)) from error
    if not content.strip():
        raise kube_errors.CredentialsFailed(str(path), "the file is empty")
    return content


class AuthenticatedTransport:
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


API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

_TIME_S = 60.0

_MARGIN_S = 10.0
"""Credentials this close to their end are not begun with."""

_LONGEST_QUOTE = 500

_log = logging.getLogger(__name__)


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime.datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """What to run, and what to tell it."""

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    api_version: str
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What the plugin is told of the cluster, where it asks to be."""


def make_exec_command(
    spec: kubeconfig.FileEntry[kubeconfig.User], environment: Mapping[str, str], cluster: Mapping[str, Any]
) -> ExecCommand:
    """The command that a kubeconfig's user names. InvalidInput if it cannot be run here."""
    wanted = spec.entry.exec
    assert wanted is not None
    where = f"kubeconfig {spec.file}: exec plugin {wanted.command!r}"
    if not wanted.command:
        raise errors.InvalidInput(f"{where}: no command")
    if wanted.api_version not in API_VERSIONS:
        raise errors.InvalidInput(
            f"{where}: apiVersion: found {wanted.api_version!r}, expected {' or '.join(API_VERSIONS)}"
        )
    if wanted.interactive_mode == "Always":
        raise errors.InvalidInput(f"{where}: interactiveMode: found 'Always', expected Never or IfAvailable")
    program = wanted.command
    if "/" in program and not Path(program).is_absolute():
        program = str(spec.resolve(program))
    return ExecCommand(
        program,
        tuple(wanted.args or ()),
        {**environment, **{each.name: each.value for each in wanted.env or ()}},
        wanted.api_version,
        wanted.install_hint,
        cluster if wanted.provide_cluster_info else None,
    )


class ExecCredentials:
    """Credentials from a command."""

    def __init__(self, command: ExecCommand, time: clock.Clock) -> None:
        self._command = command
        self._clock = time
        self._running = asyncio.Lock()
        self._credential: Credential | None = None
        self._expires_at_s: float | None = None

    async def current(self) -> Credential:
        async with self._running:
            if self._credential is None or self._is_expired():
                self._credential, self._expires_at_s = self._read(await self._run())
            return self._credential

    def reject(self, credential: Credential) -> None:
        if credential == self._credential:
            self._credential = None

    def _is_expired(self) -> bool:
        return self._expires_at_s is not None and self._clock.now_s() >= self._expires_at_s - _MARGIN_S

    async def _run(self) -> bytes:
        command = self._command
        spec = {"interactive": False, **({"cluster": command.cluster} if command.cluster else {})}
        info = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**command.environment, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                command.program,
                *command.arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise self._failed(f"{error.strerror}. {command.install_hint}".rstrip(". ")) from error
        return await self._wait(process)

    async def _wait(self, process: asyncio.subprocess.Process) -> bytes:
        try:
            async with asyncio.timeout(_TIME_S):
                printed, complaint = await process.communicate()
        except TimeoutError as error:
            raise self._failed(f"not done within {_TIME_S:g} s") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.communicate()
        if process.returncode:
            # Plugins write timestamps and request ids: such text is for the log, and not for an error that becomes the
            # message of an event or a condition.
            quoted = complaint[-_LONGEST_QUOTE:].decode(errors="replace").strip()
            program, code = self._command.program, process.returncode
            _log.warning("exec plugin failed: program=%s exit_code=%d stderr=%s", program, code, quoted)
            raise self._failed(f"exit code {code}")
        return printed

    def _read(self, printed: bytes) -> tuple[Credential, float | None]:
        try:
            found = msgspec.json.decode(printed, type=_ExecCredential)
        except msgspec.MsgspecError as error:
            raise self._failed(f"printed no ExecCredential: {error}") from error
        if found.kind != "ExecCredential" or found.api_version != self._command.api_version:
            raise self._failed(
                f"printed a {found.api_version} {found.kind}, expected a {self._command.api_version} ExecCredential"
            )
        status = found.status or _Status()
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._failed("printed a client certificate without its key, or a key without its certificate")
        if not status.token and not status.client_certificate_data:
            raise self._failed("printed neither a token nor a client certificate")
        certificate = None
        if status.client_certificate_data and status.client_key_data:
            pair = (status.client_certificate_data.encode(), status.client_key_data.encode())
            certificate = transport.Certificate(*pair)
        headers = {"authorization": f"Bearer {status.token}"} if status.token else {}
        expires = status.expiration_timestamp
        return Credential(headers, certificate), None if expires is None else expires.timestamp()

    def _failed(self, why: str) -> kube_errors.CredentialsFailed:
        return kube_errors.CredentialsFailed(f"exec plugin {self._command.program}", why)
