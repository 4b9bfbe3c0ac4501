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

from windlass import clock, errors, input_files
from windlass.kube import errors as kube_errors
from windlass.kube import kubeconfig, transport

_FILES_S = 60.0
"""Cache time of credential files. The kubelet replaces tokens long before they expire."""

_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials of one request: headers, a client certificate, both or neither."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: transport.Certificate | None = None


ANONYMOUS = Credential()


def bearer_credential(token: str, certificate: transport.Certificate | None = None) -> Credential:
    return Credential({"authorization": f"Bearer {token}"}, certificate)


def basic_credential(username: str, password: str, certificate: transport.Certificate | None = None) -> Credential:
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return Credential({"authorization": f"Basic {pair}"}, certificate)


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """The current credentials. `errors.CredentialsFailed` if there are none."""

    def reject(self, credential: Credential) -> None:
        """The server rejected these credentials (401): drop them from the cache."""


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Fixed credentials."""

    credential: Credential

    async def current(self) -> Credential:
        return self.credential

    def reject(self, credential: Credential) -> None:
        """Does nothing: there are no others."""


class FileCredentials:
    """Credentials from files that are replaced, such as the token of a service account.

    File contents are cached for a minute, and longer while the files cannot be read.
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
        content = input_files.read_bytes(path)
    except OSError as error:
        raise kube_errors.CredentialsFailed(str(path), error.strerror or str(error)) from error
    if not content.strip():
        raise kube_errors.CredentialsFailed(str(path), "the file is empty")
    return content


class AuthenticatedTransport:
    """A transport that adds credentials to requests."""

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
"""Credentials that expire within this time are refreshed."""

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
    """Command, arguments and environment of an exec plugin."""

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    api_version: str
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """Cluster information for the plugin, if it requests it."""


def make_exec_command(
    spec: kubeconfig.FileEntry[kubeconfig.User], environment: Mapping[str, str], cluster: Mapping[str, Any]
) -> ExecCommand:
    """The exec command of a kubeconfig's user. InvalidInput if it is unsupported."""
    desired = spec.entry.exec
    assert desired is not None
    where = f"kubeconfig {spec.file}: exec plugin {desired.command!r}"
    if not desired.command:
        raise errors.InvalidInput(f"{where}: no command")
    if desired.api_version not in API_VERSIONS:
        raise errors.InvalidInput(
            f"{where}: apiVersion: found {desired.api_version!r}, expected {' or '.join(API_VERSIONS)}"
        )
    if desired.interactive_mode == "Always":
        raise errors.InvalidInput(f"{where}: interactiveMode: found 'Always', expected Never or IfAvailable")
    program = desired.command
    if "/" in program and not Path(program).is_absolute():
        program = str(spec.resolve(program))
    return ExecCommand(
        program,
        tuple(desired.args or ()),
        {**environment, **{env_var.name: env_var.value for env_var in desired.env or ()}},
        desired.api_version,
        desired.install_hint,
        cluster if desired.provide_cluster_info else None,
    )


class ExecCredentials:
    """Credentials from an exec plugin."""

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
            # Plugins write timestamps and request ids, which would make the message of an event or condition
            # change with each repetition: log them only.
            quoted = complaint[-_LONGEST_QUOTE:].decode(errors="replace").strip()
            program, code = self._command.program, process.returncode
            _log.warning("exec plugin failed: program=%s exit_code=%d stderr=%s", program, code, quoted)
            raise self._failed(f"exit code {code}")
        return printed

    def _read(self, printed: bytes) -> tuple[Credential, float | None]:
        try:
            answer = msgspec.json.decode(printed, type=_ExecCredential)
        except msgspec.MsgspecError as error:
            raise self._failed(f"printed no ExecCredential: {error}") from error
        if answer.kind != "ExecCredential" or answer.api_version != self._command.api_version:
            raise self._failed(
                f"printed a {answer.api_version} {answer.kind}, expected a {self._command.api_version} ExecCredential"
            )
        status = answer.status or _Status()
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

    def _failed(self, reason: str) -> kube_errors.CredentialsFailed:
        return kube_errors.CredentialsFailed(f"exec plugin {self._command.program}", reason)
