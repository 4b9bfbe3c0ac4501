"""Exec credential plugins: a command of the user's that prints credentials, as kubectl runs it.

What it prints is used until it expires or the server refuses it. A plugin that wants to talk to someone is refused:
nobody is there.
"""

import asyncio
import contextlib
import datetime
import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from windlass import clock, errors
from windlass.kube import auth, kubeconfig, transport
from windlass.kube import errors as kube_errors

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
class Command:
    """What to run, and what to tell it."""

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    api_version: str
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What the plugin is told of the cluster, where it asks to be."""


def prepare(
    spec: kubeconfig.From[kubeconfig.User], environment: Mapping[str, str], cluster: Mapping[str, Any]
) -> Command:
    """The command that a kubeconfig's user names. InvalidInput if it cannot be run here."""
    wanted = spec.found.exec
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
    return Command(
        program,
        tuple(wanted.args or ()),
        {**environment, **{each.name: each.value for each in wanted.env or ()}},
        wanted.api_version,
        wanted.install_hint,
        cluster if wanted.provide_cluster_info else None,
    )


class Plugin:
    """Credentials from a command."""

    def __init__(self, command: Command, time: clock.Clock) -> None:
        self._command = command
        self._clock = time
        self._running = asyncio.Lock()
        self._credential: auth.Credential | None = None
        self._expires_at_s: float | None = None

    async def current(self) -> auth.Credential:
        async with self._running:
            if self._credential is None or self._is_expired():
                self._credential, self._expires_at_s = self._read(await self._run())
            return self._credential

    def reject(self, credential: auth.Credential) -> None:
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

    def _read(self, printed: bytes) -> tuple[auth.Credential, float | None]:
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
        return auth.Credential(headers, certificate), None if expires is None else expires.timestamp()

    def _failed(self, why: str) -> kube_errors.CredentialsFailed:
        return kube_errors.CredentialsFailed(f"exec plugin {self._command.program}", why)
