"""Sources of explanations: a running autoscaler over HTTP, the cluster of the current kubeconfig, or a recording."""

import os
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windlass import errors, input_files

if TYPE_CHECKING:
    from windlass.autoscaler import app
    from windlass.autoscaler.options import command_line
    from windlass.explain import explain_context, queries

TOKEN_VARIABLE = "WINDLASS_TOKEN"
"""Environment variable with a token."""

_TIMEOUT_S = 60.0

_TOKEN_VISIBLE = f"windlass: --token: other users of this machine can read it; use --token-file, or {TOKEN_VARIABLE}"

_SCHEMES = ("http", "https")

_CERTIFICATE_UNTRUSTED = (
    "its certificate is not trusted; expected --certificate-authority, the certificate of its issuer"
)


class ObjectNotFound(errors.WindlassError):
    """No such pod, node or group."""


class ServerNotReady(errors.InvalidInput):
    """The autoscaler has not completed a loop yet."""


@dataclass(frozen=True, slots=True)
class StatusServer:
    """Address, token and trusted certificate of a status API."""

    address: str
    """Host and port."""
    scheme: str = "http"
    token: str = ""
    certificate_authority: Path | None = None

    @property
    def url(self) -> str:
        """The URL without a path."""
        return f"{self.scheme}://{self.address}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def tls(self) -> ssl.SSLContext | None:
        """None for the system's certificate authorities. InvalidInput if the file holds no certificate."""
        if self.certificate_authority is None:
            return None
        try:
            return ssl.create_default_context(cafile=str(self.certificate_authority))
        except (OSError, ssl.SSLError) as error:
            found = f"--certificate-authority {self.certificate_authority}: cannot be used: {error}"
            raise errors.InvalidInput(found) from None


def parse_server(
    address: str, token: str | None = None, token_file: Path | None = None, certificate_authority: Path | None = None
) -> StatusServer:
    """The server of HOST:PORT, :PORT, or the URL with token that a dashboard prints. InvalidInput otherwise."""
    import urllib.parse

    scheme, colon, rest = address.partition("://")
    if not colon:
        scheme, rest = "http" if certificate_authority is None else "https", address
    if scheme not in _SCHEMES:
        raise errors.InvalidInput(f"--address: found {address!r}, accepted are HOST:PORT, http://… and https://…")
    if scheme == "http" and certificate_authority is not None:
        raise errors.InvalidInput(f"--certificate-authority: found {address!r}, expected an address of https://")
    place, _, fragment = rest.partition("#")
    host = place.partition("/")[0]
    host = f"127.0.0.1{host}" if host.startswith(":") else host
    given = urllib.parse.parse_qs(fragment).get("token", [""])[0]
    try:
        found = urllib.parse.urlsplit(f"//{host}")
        is_usable = (
            bool(found.hostname)
            and (found.port is not None or bool(colon))
            and found.username is None
            and host.isascii()
            and host.isprintable()
        )
    except ValueError:
        is_usable = False
    if not is_usable or " " in host:
        raise errors.InvalidInput(f"--address: found {address!r}, expected HOST:PORT, such as 127.0.0.1:8085")
    shown = _read_token(token, token_file) or _check_token("--address", given)
    shown = shown or _check_token(TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE, ""))
    return StatusServer(host, scheme, shown, certificate_authority)


def fetch(server: StatusServer, path: str, query: str = "") -> bytes:
    """What a path answers. ObjectNotFound, ServerNotReady, or InvalidInput if no server answers."""
    import urllib.error
    import urllib.parse
    import urllib.request

    tls = server.tls
    try:
        request = urllib.request.Request(f"{server.url}{urllib.parse.quote(path)}{query}", headers=server.headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=tls) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace").strip()
        error.close()
        raise _response_error(server, error.code, text) from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise errors.InvalidInput(f"{server.address}: {_CERTIFICATE_UNTRUSTED}: {reason.verify_message}") from None
        raise errors.InvalidInput(f"{server.address}: no autoscaler answers there: {reason}") from None


def _response_error(server: StatusServer, status: int, text: str) -> errors.WindlassError:
    if status == 401:
        what = "the token is not valid" if server.token else f"a token is needed: --token-file, or {TOKEN_VARIABLE}"
        return errors.InvalidInput(f"{server.address}: {what}")
    return {404: ObjectNotFound, 503: ServerNotReady}.get(status, errors.InvalidInput)(f"{server.address}: {text}")


def _read_token(token: str | None, file: Path | None) -> str:
    if token:
        print(_TOKEN_VISIBLE, file=sys.stderr)
    if file is None:
        return _check_token("--token", token or "")
    if token:
        raise errors.InvalidInput("--token: found --token-file as well, expected one of them")
    try:
        return _check_token(f"--token-file {file}", input_files.read_text(file).strip())
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInput(f"--token-file {file}: cannot be read: {error}") from None


def read_token(file: Path | None) -> str:
    """The token of a file, or of the environment; empty without either."""
    return _read_token(None, file) or _check_token(TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE, ""))


def _check_token(where: str, token: str) -> str:
    """Refuse characters that would end the HTTP header of the token."""
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise errors.InvalidInput(f"{where}: found invalid characters, expected printable ASCII")
    return token


ADDRESS_VARIABLE = "WINDLASS_ADDRESS"
"""Environment variable for --address."""


@dataclass(frozen=True, slots=True)
class QuerySource:
    """The source of a query: a running autoscaler, a recording, or else the API server with these autoscaler flags."""

    server: StatusServer | None = None
    recording: Path | None = None
    at: str = ""
    flags: Sequence[str] = ()
    asks_leader: bool = False
    """The leader of that cluster answers, if there is one that can be reached."""


def find_source(address: str | None, recording: Path | None, at: str | None, flags: Sequence[str]) -> QuerySource:
    """InvalidInput for options that exclude each other."""
    if at and recording is None:
        raise errors.InvalidInput("--at: found no --recording, expected with --recording only")
    if recording is not None:
        if flags or address:
            raise errors.InvalidInput(
                "--recording: a recording has its own settings; expected no flags and no --address"
            )
        return QuerySource(recording=recording, at=at or "")
    if address and flags:
        raise errors.InvalidInput(f"--address: the autoscaler has its own settings; expected no {flags[0]}")
    server = "" if flags else address or os.environ.get(ADDRESS_VARIABLE, "")
    if server:
        return QuerySource(parse_server(server))
    return QuerySource(flags=flags, asks_leader=_are_connection_flags(flags))


_CONNECTION_FLAGS = frozenset({
    "cloud-config", "clusterapi-cloud-config-authoritative", "context", "insecure-skip-tls-verify", "kubeconfig",
    "kubernetes", "leader-elect-resource-name", "leader-elect-resource-namespace", "lease-resource-name", "namespace",
    "request-timeout",
})  # fmt: skip
"""Flags that say which cluster is meant, and not how to decide."""


def _are_connection_flags(flags: Sequence[str]) -> bool:
    from windlass.autoscaler.options import command_line

    words = command_line.split_arguments(flags)
    return not words.stray and words.given.keys() <= _CONNECTION_FLAGS


def run_query(question: "queries.ExplainQuery", source: QuerySource) -> "queries.Explanation":
    """The answer. ObjectNotFound if there is no such object, InvalidInput for an unusable source."""
    from windlass.explain import queries

    if source.server is not None:
        return _query_server(question, source.server)
    if source.asks_leader:
        try:
            return query_leader(question, source)
        except errors.WindlassError as error:
            if not _is_no_leader(error):
                raise
            print(f"windlass: {error}; decided here instead, without acting", file=sys.stderr)
    answer = queries.answer_query(question, load_explain_context(source))
    if isinstance(answer, queries.ObjectNotFound):
        raise ObjectNotFound(str(answer))
    return answer


def _is_no_leader(error: errors.WindlassError) -> bool:
    from windlass.cli import leader

    return isinstance(error, leader.NoLeader)


def query_leader(question: "queries.ExplainQuery", source: QuerySource) -> "queries.Explanation":
    """The leader's answer. NoLeader if there is none that can be reached."""
    import asyncio

    from windlass.cli import leader
    from windlass.kube import errors as kube_errors
    from windlass.observability import status_routes

    options = parse_flags(source.flags).options

    async def ask() -> bytes:
        async with leader.connect(options) as api:
            found = await leader.find_leader(api, options, read_token(None))
            return await leader.fetch(api, found, status_routes.explain_path(question))

    try:
        text = asyncio.run(ask())
    except kube_errors.NotFound as error:
        raise ObjectNotFound(error.message) from None
    try:
        return _decode_answer(question, text)
    except ValueError as error:
        raise leader.NoLeader(f"the leader answers something else: {error}") from None


def load_explain_context(source: QuerySource) -> "explain_context.ExplainContext":
    """The explain context of a recording, or of the cluster."""
    from windlass.explain import explain_context

    if source.recording is not None:
        from windlass.autoscaler.record_replay import replay

        at_s = parse_time(source.at, source.recording) if source.at else float("inf")
        moment = replay.load_inputs_at(source.recording, at_s)
        print(f"windlass: {describe_moment(source.recording, moment.now_s, at_s)}", file=sys.stderr)
        return explain_context.evaluate(*moment)
    return explain_context.evaluate(*observe_cluster(parse_flags(source.flags)))


def parse_flags(flags: Sequence[str]) -> "command_line.AutoscalerCommand":
    """The autoscaler's flags; warnings are printed."""
    from windlass.autoscaler.options import command_line

    command = command_line.parse_command_line(command_line.split_arguments(flags))
    for warning in command.warnings:
        print(f"windlass: {warning}", file=sys.stderr)
    return command


def observe_cluster(command: "command_line.AutoscalerCommand") -> "app.DecisionInputs":
    """Observe the cluster of the current kubeconfig once."""
    import asyncio

    from windlass import clock
    from windlass.autoscaler import app

    return asyncio.run(app.observe_cluster(command.settings, command.options, clock.RealClock()))


def record_cluster(command: "command_line.AutoscalerCommand", path: Path, duration_s: float) -> None:
    """Observe the cluster of the current kubeconfig for a time, or until Ctrl-C, and record it. Changes nothing."""
    import asyncio
    import contextlib
    from dataclasses import replace

    from windlass import clock
    from windlass.autoscaler import app

    options = replace(command.options, recording=replace(command.options.recording, record=str(path)))

    async def run() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(duration_s):
                await app.follow_cluster(command.settings, options, clock.RealClock())

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())


def describe_moment(recording: Path, now_s: float, at_s: float) -> str:
    """Say which decision of a recording is shown for a time that was asked for."""
    from windlass.autoscaler.record_replay import replay
    from windlass.kube import time_formats

    after = time_formats.format_duration(round(now_s - replay.find_start_s(recording)))
    which = "the last" if at_s == float("inf") else f"the last at or before {time_formats.format_time(at_s)}"
    return f"{recording}: the decision of {time_formats.format_time(now_s)}, {after} after its beginning, {which}"


def parse_time(text: str, recording: Path, option: str = "--at") -> float:
    """A time, or a duration after the recording's beginning."""
    from windlass.autoscaler.record_replay import replay
    from windlass.kube import time_formats

    try:
        return time_formats.parse_time(text)
    except ValueError:
        pass
    try:
        return replay.find_start_s(recording) + time_formats.parse_duration(text)
    except ValueError:
        accepted = f"{time_formats.ACCEPTED_TIME}, or {time_formats.ACCEPTED_DURATION} after the recording's beginning"
        raise errors.InvalidInput(f"{option}: found {text!r}, expected {accepted}") from None


def _query_server(question: "queries.ExplainQuery", server: StatusServer) -> "queries.Explanation":
    from windlass.observability import status_routes

    text = fetch(server, status_routes.explain_path(question))
    try:
        return _decode_answer(question, text)
    except ValueError as error:
        raise errors.InvalidInput(f"{server.address}: no autoscaler answers there: {error}") from None


def _decode_answer(question: "queries.ExplainQuery", text: bytes) -> "queries.Explanation":
    from windlass.explain import cluster, groups, nodes, pods, queries
    from windlass.explain.queries import SubjectKind

    kinds = {
        SubjectKind.POD: pods.PodExplanation,
        SubjectKind.NODE: nodes.NodeExplanation,
        SubjectKind.GROUP: groups.GroupExplanation,
        SubjectKind.CLUSTER: cluster.ClusterExplanation,
    }
    return queries.decode_explanation(kinds[question.about], text)
