"""`windlass top`: live status of the cluster in the terminal."""

import contextlib
import logging
import os
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from windlass import errors, product
from windlass.cli import query_source

if TYPE_CHECKING:
    import asyncio

    from windlass.autoscaler.app import AutoscalerProcess
    from windlass.autoscaler.options.command_line import AutoscalerCommand
    from windlass.autoscaler.options.process_options import ProcessOptions
    from windlass.cli import leader
    from windlass.explain import queries
    from windlass.tui.app import ExplainCallback, FollowStatus
    from windlass.tui.status_stream import StatusCallback

DEFAULT_ADDRESS = "127.0.0.1:8085"

_CONNECT_TIMEOUT_S = 0.5

_POLL_S = 1.0
"""Time between two statuses through the API server, or of the decisions that are made here."""


def top(
    *flags: Annotated[str, Parameter(name="FLAGS", allow_leading_hyphen=True)],
    address: str | None = None,
    token: str | None = None,
    token_file: Path | None = None,
    certificate_authority: Path | None = None,
    recording: Path | None = None,
    at: str | None = None,
) -> int:
    """Watch nodes, pending pods, cost and decisions in the terminal.

    Queries a running autoscaler (--address, or WINDLASS_ADDRESS), a simulation of `windlass simulate --serve`, or shows
    a moment of a recording. Without either, queries what listens on 127.0.0.1:8085, such as a port-forward; else the
    leader in the cluster of the current kubeconfig, through the API server; and if none can be asked, or with flags,
    observes that cluster and decides without acting. Changes nothing. Keys: Tab, arrows, Enter explains, s sorts, /
    filters, p pauses, q quits.

    Exit code: 0, or 2 if no source could be queried.

    Parameters
    ----------
    flags
        Flags of `windlass autoscaler`, where the cluster itself is read: --kubeconfig, --context, --expander …
    address
        Address of an autoscaler or a simulation: HOST:PORT, https://HOST:PORT, or the URL of its dashboard.
    token
        Token for addresses other than loopback. Other users of this machine can read it here: prefer --token-file, or
        the environment (WINDLASS_TOKEN).
    token_file
        File with the token, as in --dashboard-token-file.
    certificate_authority
        File with the certificate authority of the server, if the system does not trust it.
    recording
        File written by `windlass autoscaler --record` or `windlass simulate --record`.
    at
        Time within the recording: 2026-11-16T02:30:00Z, or 45m after its beginning; its end by default.
    """
    try:
        import textual  # noqa: F401
    except ImportError:
        raise errors.InvalidInput(product.explain_missing_extra("top", "tui")) from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise errors.InvalidInput("top: found no terminal, expected one; `windlass status` prints the same once")
    from windlass.tui.app import TopApp

    source = query_source.find_source(address, recording, at, flags)
    if source.recording is not None:
        if token or token_file or certificate_authority:
            raise errors.InvalidInput(
                "--recording: no server is queried; expected no --token and no --certificate-authority"
            )
    elif source.server is not None or (not flags and _is_listening(DEFAULT_ADDRESS)):
        asked = address or os.environ.get(query_source.ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        source = query_source.QuerySource(query_source.parse_server(asked, token, token_file, certificate_authority))
    if source.recording is None and source.server is None:
        follow, explain = _follow_cluster(source, token_file)
    else:
        follow, explain = _find_follow(source), _find_explain(source)
    logging.disable(logging.CRITICAL)  # the screen is taken
    TopApp(follow, explain).run()
    return 0


def _is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S):
        return True
    return False


def _follow_cluster(
    source: query_source.QuerySource, token_file: Path | None
) -> "tuple[FollowStatus, ExplainCallback]":
    """The leader of the cluster of the kubeconfig, or decisions that are made here."""
    import asyncio

    from windlass.cli import leader

    command = query_source.parse_flags(source.flags)
    token = query_source.read_token(token_file)

    async def find() -> leader.Leader:
        async with leader.connect(command.options) as api:
            found = await leader.find_leader(api, command.options, token)
            await leader.fetch(api, found, _published_path())
            return found

    if source.asks_leader:
        try:
            found = asyncio.run(find())
        except leader.NoLeader as error:
            print(f"windlass: {error}; decided here instead, without acting", file=sys.stderr)
        else:
            return _follow_leader(found, command.options), _find_explain(source)
    else:
        asyncio.run(_check_reachable(command.options))
    here = _Here(command)
    return here.follow, here.explain


def _published_path() -> str:
    from windlass.observability import status_routes

    return status_routes.PUBLISHED_PATH


async def _check_reachable(options: "ProcessOptions") -> None:
    from windlass.cli import leader

    async with leader.connect(options):
        pass


def _follow_leader(found: "leader.Leader", options: "ProcessOptions") -> "FollowStatus":
    """Statuses of the leader, whichever pod that is."""
    import asyncio
    import time

    import msgspec

    from windlass.cli import leader
    from windlass.observability.status_model import PublishedStatus
    from windlass.tui import status_stream

    async def follow(on_status: "StatusCallback") -> None:
        leading, update = found, status_stream.StatusUpdate()
        async with leader.connect(options) as api:
            while True:
                try:
                    body = await leader.fetch(api, leading, _published_path())
                    update = status_stream.StatusUpdate(msgspec.json.decode(body, type=PublishedStatus), time.time())
                except (errors.WindlassError, msgspec.DecodeError) as error:
                    update = status_stream.StatusUpdate(update.status, time.time(), str(error))
                    with contextlib.suppress(errors.WindlassError):
                        leading = await leader.find_leader(api, options, leading.token)
                on_status(update)
                await asyncio.sleep(_POLL_S)

    return follow


@dataclass(slots=True)
class _Here:
    """Decisions on the cluster of the kubeconfig that are made in this process, and not acted on."""

    command: "AutoscalerCommand"
    process: "AutoscalerProcess | None" = None
    loop: "asyncio.AbstractEventLoop | None" = field(default=None)

    async def follow(self, on_status: "StatusCallback") -> None:
        import asyncio

        from windlass import clock
        from windlass.autoscaler import app
        from windlass.observability import status_builder
        from windlass.observability.status_publisher import StatusPublisher
        from windlass.tui import status_stream

        time = clock.RealClock()
        published = StatusPublisher(time.now_s, status_builder.PublisherInfo("dry run"))
        self.loop = asyncio.get_running_loop()
        deciding = asyncio.create_task(
            app.follow_cluster(self.command.settings, self.command.options, time, published, self._attach)
        )
        try:
            while not deciding.done():
                on_status(status_stream.StatusUpdate(published.status, time.now_s()))
                await asyncio.wait({deciding}, timeout=_POLL_S)
            trouble = f"{deciding.exception() or 'nothing is decided any more'}"
            on_status(status_stream.StatusUpdate(published.status, time.now_s(), trouble))
        finally:
            deciding.cancel()
            await asyncio.gather(deciding, return_exceptions=True)

    def _attach(self, process: "AutoscalerProcess") -> None:
        self.process = process

    def explain(self, kind: str, name: str) -> str:
        import asyncio

        from windlass.explain import explain_context, queries

        if self.process is None or self.loop is None:
            raise errors.WindlassError("nothing was decided yet")
        question = _question(kind, name)
        asked = self.process.autoscaler.query(
            lambda *moment: queries.answer_query(question, explain_context.evaluate(*moment))
        )
        answer = asyncio.run_coroutine_threadsafe(asked, self.loop).result()
        if isinstance(answer, queries.ObjectNotFound):
            return str(answer)
        return "\n".join(queries.render_explanation(answer))


def _find_follow(source: query_source.QuerySource) -> "FollowStatus":
    """The source of statuses. InvalidInput if it cannot be used, before the screen is taken over."""
    from windlass.observability import status_routes
    from windlass.tui import status_stream

    if source.recording is not None:
        from windlass.autoscaler.record_replay import replay

        at_s = query_source.parse_time(source.at, source.recording) if source.at else float("inf")
        status = replay.read_published_status(source.recording, at_s)

        async def show(on_status: "StatusCallback") -> None:
            on_status(status_stream.StatusUpdate(status, status.cluster.at_s))

        return show
    assert source.server is not None
    asked, tls = source.server, source.server.tls
    with contextlib.suppress(query_source.ServerNotReady):  # it will
        query_source.fetch(asked, status_routes.PUBLISHED_PATH)
    return lambda on_status: status_stream.follow_status(asked.url, on_status, asked.headers, tls)


def _find_explain(source: query_source.QuerySource) -> "ExplainCallback":
    from windlass.explain import queries

    def explain(kind: str, name: str) -> str:
        return "\n".join(queries.render_explanation(query_source.run_query(_question(kind, name), source)))

    return explain


def _question(kind: str, name: str) -> "queries.ExplainQuery":
    from windlass.explain import queries

    namespace, slash, pod = name.partition("/")
    is_pod = kind == "pod" and slash
    return queries.ExplainQuery(queries.SubjectKind(kind), pod if is_pod else name, namespace if is_pod else "")
