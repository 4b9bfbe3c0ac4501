"""What the dashboard's server answers, and to whom."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from tests.web.dashboard_server import TOKEN, Cluster, serve
from windlass import errors
from windlass.observability.options import DashboardOptions
from windlass.web import dashboard

PATHS = ("/", "/published", "/published/stream", "/explain/node/a-0", "/explain/group/a", "/statusz", "/session")
WITHIN = aiohttp.ClientTimeout(total=120)


@contextlib.asynccontextmanager
async def served(
    cluster: Cluster | None = None, allowed: dashboard.AccessPolicy | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    made = cluster or Cluster()
    made.go_round()
    # Cookies of an address are kept only if they are told to be.
    jar = aiohttp.CookieJar(unsafe=True)
    async with serve(made, allowed) as url, aiohttp.ClientSession(url, cookie_jar=jar, timeout=WITHIN) as session:
        yield session


async def events(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, str]]:
    """Server-sent events."""
    found: dict[str, str] = {}
    async for line in answer.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            found[name] = value
        elif found.keys() != {"retry"}:
            yield found
            found = {}
        else:
            found = {}


async def next_event(stream: AsyncIterator[dict[str, str]], kind: str) -> tuple[str, Any]:
    async for event in stream:
        if event["event"] == kind:
            return event.get("id", ""), json.loads(event["data"])
    raise AssertionError(f"the stream ended before a {kind}")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_nothing_can_be_written(method: str) -> None:
    async with served() as session:
        for path in PATHS:
            async with session.request(method, path) as answer:
                assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")


async def test_everything_says_that_nothing_comes_from_or_goes_elsewhere() -> None:
    async with served() as session:
        for path in (*PATHS, "/nowhere", "/main.js"):
            async with session.get(path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'")
                assert "unsafe" not in policy
                assert "*" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:9999", 200),
        ("127.0.0.1:80", 200),
        ("[::1]:8086", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8086", 421),
        ("localhost.evil.example", 421),
        ("10.0.0.7:8086", 421),
        ("", 421),
    ],
)
async def test_on_loopback_only_names_of_this_machine_are_answered(host: str, status: int) -> None:
    async with served() as session:
        for path in ("/", "/published"):
            async with session.get(path, headers={"Host": host}) as answer:
                assert answer.status == status


async def test_a_token_is_asked_for_and_the_page_itself_is_not_secret() -> None:
    async with served(allowed=dashboard.TokenAccess(given=TOKEN)) as session:
        for path in PATHS[1:]:
            async with session.get(path) as answer:
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            async with session.get(path, headers={"Authorization": f"Bearer {TOKEN}x"}) as answer:
                assert answer.status == 401
            async with session.get(path, headers={"Authorization": f"Basic {TOKEN}"}) as answer:
                assert answer.status == 401
        async with session.get("/") as answer:
            assert answer.status == 200
        async with session.get("/published", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert (await answer.json())["cluster"]["nodes"] == 3


@pytest.mark.parametrize(
    "header",
    [
        b"Authorization: Bearer \xff\xfe",
        b"Cookie: windlass-dashboard=1.\xff",
        b"Cookie: windlass-dashboard=99999999999.\xc3\x28",
        b"Authorization: \xff",
    ],
)
async def test_bytes_that_are_no_text_are_no_token(header: bytes, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.go_round()
    async with serve(cluster, dashboard.TokenAccess(given=TOKEN)) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET /published HTTP/1.1\r\nHost: localhost\r\n" + header + b"\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 401 Unauthorized\r\n"
        writer.close()
    assert caplog.records == []


async def test_whoever_sent_the_token_goes_on_with_a_cookie_that_scripts_cannot_read() -> None:
    async with served(allowed=dashboard.TokenAccess(given=TOKEN)) as session:
        async with session.get("/session", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        async with session.get("/published") as answer:
            assert answer.status == 200


def test_a_cookie_ends_and_falls_with_its_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    token = dashboard.TokenAccess(file)
    cookie = token.make_cookie(1000.0)
    assert token.is_authorized("", cookie, 1000.0 + dashboard.COOKIE_MAX_AGE_S - 1)
    assert not token.is_authorized("", cookie, 1000.0 + dashboard.COOKIE_MAX_AGE_S)
    later = str(int(cookie.partition(".")[0]) + 1000)
    assert not token.is_authorized("", f"{later}.{cookie.partition('.')[2]}", 1000.0)
    for forged in ("", ".", "9" * 30, "-1.x", "²³.x", f"{later}."):
        assert not token.is_authorized("", forged, 1000.0)
    file.write_text("another-token-than-before")
    assert not token.is_authorized("", cookie, 1000.0)
    assert token.is_authorized("bearer another-token-than-before", "", 1000.0)


@pytest.mark.parametrize("address", [":8086", "0.0.0.0:8086", "[::]:8086", "example.com:8086", "10.0.0.1:8086"])
def test_an_address_that_others_reach_wants_a_token_file(address: str, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="--dashboard-token-file"):
        dashboard.choose_access(DashboardOptions(address))
    file = tmp_path / "token"
    with pytest.raises(errors.InvalidInput, match="cannot be read"):
        dashboard.choose_access(DashboardOptions(address, str(file)))
    file.write_text("short")
    with pytest.raises(errors.InvalidInput, match="found 5 characters, expected at least 16"):
        dashboard.choose_access(DashboardOptions(address, str(file)))
    file.write_text(TOKEN)
    assert dashboard.choose_access(DashboardOptions(address, str(file))) == dashboard.TokenAccess(file)


@pytest.mark.parametrize("address", ["127.0.0.1:8086", "localhost:0", "[::1]:8086", "127.9.9.9:1"])
def test_loopback_needs_no_token(address: str) -> None:
    assert dashboard.choose_access(DashboardOptions(address)) == dashboard.LoopbackAccess()


def test_half_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="expected both"):
        dashboard.choose_tls(DashboardOptions(dashboard_tls_cert_file="one"))
    with pytest.raises(errors.InvalidInput, match="cannot be used"):
        dashboard.choose_tls(DashboardOptions(dashboard_tls_cert_file="one", dashboard_tls_key_file="other"))


async def test_the_page_is_sent_once_while_it_is_the_same() -> None:
    async with served() as session:
        async with session.get("/main.js") as answer:
            tag = answer.headers["ETag"]
            assert answer.content_type == "text/javascript"
        async with session.get("/main.js", headers={"If-None-Match": tag}) as answer:
            assert answer.status == 304


def test_the_page_names_nobody_outside() -> None:
    for name, file in dashboard.load_static_files().items():
        text = file.body.decode()
        for link in ("http://", "https://", "//cdn", "@import", "eval(", "innerHTML"):
            assert link not in text.replace("http://www.w3.org/2000/svg", ""), f"{name}: {link}"


async def test_whoever_has_not_decided_says_so() -> None:
    cluster = Cluster()
    async with serve(cluster) as url, aiohttp.ClientSession(url, timeout=WITHIN) as session:
        async with session.get("/published") as answer:
            assert (answer.status, await answer.text()) == (503, "it has decided nothing yet\n")
        async with session.get("/published/stream") as answer:
            stream = events(answer)
            _, beat = await next_event(stream, "beat")
            assert beat["trouble"] == "it has decided nothing yet"
            cluster.go_round()
            _, status = await next_event(stream, "status")
            assert status["cluster"]["nodes"] == 3


async def test_a_stream_goes_on_where_it_broke_off() -> None:
    cluster = Cluster()
    async with served(cluster) as session:
        async with session.get("/published/stream") as item, session.get("/published/stream") as other:
            stream = events(item)
            last_id, _ = await next_event(stream, "status")
            await next_event(events(other), "status")
            item.close()
            cluster.nodes = cluster.nodes[:2]
            cluster.go_round()
            async with session.get("/published/stream", headers={"Last-Event-ID": last_id}) as again:
                _, change = await next_event(events(again), "change")
        assert change["nodes_gone"] == ["a-2"]


async def test_whoever_reads_nothing_holds_up_nobody() -> None:
    cluster = Cluster()
    async with served(cluster) as session, session.get("/published/stream") as slow:
        async with session.get("/published/stream") as quick:
            stream = events(quick)
            await next_event(stream, "status")
            for number in range(300):
                cluster.nodes = cluster.nodes[: 2 + number % 2] or cluster.nodes
                cluster.go_round()
                await asyncio.sleep(0)
            assert len(cluster.published._row) <= 64
            _, last = await next_event(stream, "change")
            while last["cluster"]["at_s"] < cluster.now_s:
                async for event in stream:
                    if event["event"] in ("change", "status"):
                        last = json.loads(event["data"])
                        break
        assert not slow.closed


async def test_things_are_explained() -> None:
    async with served() as session:
        async with session.get("/explain/pod/default/large?output=text") as answer:
            assert "cpu: 9 asked, 4 free on an empty node" in await answer.text()
        async with session.get("/explain/node/nobody?output=text") as answer:
            assert answer.status == 404


# Beside an autoscaler


async def test_an_autoscaler_goes_on_without_a_page_where_the_address_is_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster()
    async with (
        serve(cluster) as url,
        dashboard.serve_beside_autoscaler(DashboardOptions(url.removeprefix("http://")), cluster.published, cluster),
    ):
        pass
    assert "the dashboard is not served" in caplog.text


async def test_an_autoscaler_does_not_begin_with_flags_that_would_let_everybody_in() -> None:
    cluster = Cluster()
    with pytest.raises(errors.InvalidInput, match="--dashboard-token-file"):
        async with dashboard.serve_beside_autoscaler(DashboardOptions(":0"), cluster.published, cluster):
            pass


async def test_nothing_is_served_at_no_address() -> None:
    cluster = Cluster()
    async with dashboard.serve_beside_autoscaler(DashboardOptions(""), cluster.published, cluster):
        pass


async def test_over_tls_the_cookie_never_goes_in_the_clear(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    chain, key, token = tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "token"
    certificate.cert_chain_pems[0].write_to_path(chain)
    certificate.private_key_pem.write_to_path(key)
    token.write_text(TOKEN)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    cluster = Cluster()
    dashboard_options = DashboardOptions("127.0.0.1:0", str(token), str(chain), str(key))
    async with (
        dashboard.serve_dashboard(dashboard_options, cluster.published, cluster) as url,
        aiohttp.ClientSession(url) as session,
    ):
        assert url.startswith("https://")
        given = {"Authorization": f"Bearer {TOKEN}"}
        async with session.get("/session", headers=given, ssl=trusting) as answer:
            assert "Secure" in answer.headers["Set-Cookie"]
