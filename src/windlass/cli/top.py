"""`windlass top`: live status of the cluster in the terminal."""

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from windlass import errors, product
from windlass.cli import query_source

if TYPE_CHECKING:
    from windlass.tui.app import ExplainCallback, FollowStatus
    from windlass.tui.status_stream import StatusCallback

DEFAULT_ADDRESS = "127.0.0.1:8085"


def top(
    *,
    address: str | None = None,
    token: str | None = None,
    token_file: Path | None = None,
    certificate_authority: Path | None = None,
    recording: Path | None = None,
    at: str | None = None,
) -> int:
    """Watch nodes, pending pods, cost and decisions in the terminal.

    Queries a running autoscaler (--address, or WINDLASS_ADDRESS; 127.0.0.1:8085 by default) or a simulation of
    `windlass simulate --serve`, or shows a moment of a recording. Changes nothing. Keys: Tab, arrows, Enter explains,
    s sorts, / filters, p pauses, q quits.

    Exit code: 0, or 2 if no source could be queried.

    Parameters
    ----------
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

    source = query_source.find_source(address, recording, at, ())
    if source.recording is None:
        asked = address or os.environ.get(query_source.ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        source = query_source.QuerySource(query_source.parse_server(asked, token, token_file, certificate_authority))
    elif token or token_file or certificate_authority:
        raise errors.InvalidInput(
            "--recording: no server is queried; expected no --token and no --certificate-authority"
        )
    TopApp(_find_follow(source), _find_explain(source)).run()
    return 0


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
        namespace, slash, pod = name.partition("/")
        is_pod = kind == "pod" and slash
        question = queries.ExplainQuery(queries.SubjectKind(kind), pod if is_pod else name, namespace if is_pod else "")
        return "\n".join(queries.render_explanation(query_source.run_query(question, source)))

    return explain
