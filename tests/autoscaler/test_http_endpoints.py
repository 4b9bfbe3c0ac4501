import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import ClassVar, TypeVar

import aiohttp
import prometheus_client
import pytest
import trustme

from windlass import clock, errors
from windlass.autoscaler import http_endpoints
from windlass.autoscaler.record_replay import replay
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot
from windlass.explain import explain_context
from windlass.observability import debugging_snapshot, options
from windlass.runtime import health, http_server, loop

T = TypeVar("T")


class Turns:
    """A loop whose turns begin and end when the test says so."""

    def __init__(self) -> None:
        self.time = clock.VirtualClock()
        self.loop = loop.Loop("main", self._never, 10.0, self.time)
        self.activity = health.LoopActivity(self.loop, self.time, 600.0, 900.0, 1200.0)

    def begin(self) -> None:
        self.loop.begun_at_s = self.time.monotonic_s()
        self.loop.first_at_s = self.loop.begun_at_s if self.loop.first_at_s is None else self.loop.first_at_s

    def succeed(self) -> None:
        self.loop.succeeded_at_s = self.time.monotonic_s()

    def rest(self, seconds: float) -> None:
        self.time.run(self.time.sleep(seconds))

    async def _never(self) -> None:
        raise NotImplementedError


@contextlib.asynccontextmanager
async def serve(
    activity: health.LoopActivity,
    *,
    snapshots: debugging_snapshot.DebuggingSnapshotter | None = None,
    profiling: bool = False,
    debugging: bool = True,
) -> AsyncIterator[str]:
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("cluster_autoscaler_errors", "Errors.", registry=registry)
    app = http_endpoints.make_app(
        health.Health(), registry, activity, snapshots=snapshots, profiling=profiling, debugging=debugging
    )
    async with http_server.serve("127.0.0.1:0", app) as port:
        yield f"http://127.0.0.1:{port}"


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


def test_a_loop_that_has_not_begun_is_well() -> None:
    turns = Turns()
    turns.rest(10_000.0)
    assert http_endpoints.describe_health(turns.activity) == ""


def test_the_first_success_may_take_longer() -> None:
    turns = Turns()
    turns.begin()
    turns.rest(1200.0)
    assert http_endpoints.describe_health(turns.activity) == ""
    turns.rest(1.0)
    assert http_endpoints.describe_health(turns.activity) == (
        "Error: last activity more 20m1s ago, last success more than 20m1s ago"
    )


def test_a_loop_that_stands_still_is_not_well() -> None:
    turns = Turns()
    turns.begin()
    turns.rest(1.0)
    turns.succeed()
    turns.rest(600.0)
    assert http_endpoints.describe_health(turns.activity) == ""
    turns.rest(0.5)
    assert http_endpoints.describe_health(turns.activity) == (
        "Error: last activity more 10m0.5s ago, last success more than 10m0.5s ago"
    )
    turns.begin()
    assert http_endpoints.describe_health(turns.activity) == ""


def test_a_loop_that_only_fails_is_not_well() -> None:
    turns = Turns()
    turns.begin()
    turns.succeed()
    for _ in range(90):
        turns.rest(10.0)
        turns.begin()
    assert http_endpoints.describe_health(turns.activity) == ""
    turns.rest(10.0)
    assert http_endpoints.describe_health(turns.activity) == (
        "Error: last activity more 10s ago, last success more than 15m10s ago"
    )


def ask(turns: Turns, *paths: str) -> list[tuple[int, str]]:
    async def ask_all() -> list[tuple[int, str]]:
        async with serve(turns.activity) as at:
            return [await get(at + path) for path in paths]

    return asyncio.run(ask_all())


def test_health_is_answered_as_the_peer_answers() -> None:
    turns = Turns()
    assert ask(turns, "/health-check") == [(200, "OK")]
    turns.begin()
    turns.rest(2000.0)
    (status, text), (own_status, _), (_, metrics) = ask(turns, "/health-check", "/healthz", "/metrics")

    assert (status, text) == (500, "Error: last activity more 33m20s ago, last success more than 33m20s ago")
    assert own_status == 200
    assert "cluster_autoscaler_errors_total 0.0" in metrics


async def test_what_was_not_asked_for_is_not_served() -> None:
    async with serve(Turns().activity) as at:
        assert (await get(f"{at}/snapshotz"))[0] == 404
        assert (await get(f"{at}/debug/pprof/"))[0] == 404


async def wait_wanted(snapshots: debugging_snapshot.DebuggingSnapshotter) -> None:
    while not snapshots.is_wanted:
        await asyncio.sleep(0.01)


async def test_a_snapshot_is_what_the_next_loop_saw() -> None:
    snapshots = debugging_snapshot.DebuggingSnapshotter()
    snapshots.offer(b"too early")
    async with serve(Turns().activity, snapshots=snapshots) as at:
        for body in ('{"NodeList":[]}', '{"NodeList":null}'):
            asking = asyncio.create_task(get(f"{at}/snapshotz"))
            await wait_wanted(snapshots)
            snapshots.offer(body.encode())
            snapshots.offer(b"too late")
            assert await asking == (200, body)
            assert not snapshots.is_wanted


async def test_only_one_may_wait_for_a_snapshot() -> None:
    snapshots = debugging_snapshot.DebuggingSnapshotter()
    async with serve(Turns().activity, snapshots=snapshots) as at:
        asking = asyncio.create_task(get(f"{at}/snapshotz"))
        await wait_wanted(snapshots)
        status, text = await get(f"{at}/snapshotz")
        snapshots.offer(b"{}")
        assert await asking == (200, "{}")
    assert status == 429
    assert text == "Another debugging snapshot request is being processed. Concurrent requests not supported"


async def test_a_replica_that_does_not_lead_has_no_snapshot_and_says_so_at_once() -> None:
    snapshots = debugging_snapshot.DebuggingSnapshotter(lambda: False)
    async with serve(Turns().activity, snapshots=snapshots) as at:
        for _ in range(2):
            status, text = await get(f"{at}/snapshotz")
            assert (status, text) == (503, "this replica does not lead, so no loop runs here; ask the leader\n")


async def test_a_loop_that_does_not_end_in_time_gives_no_snapshot_and_holds_up_nobody() -> None:
    snapshots = debugging_snapshot.DebuggingSnapshotter(within_s=0.05)
    async with serve(Turns().activity, snapshots=snapshots) as at:
        for _ in range(2):
            assert await get(f"{at}/snapshotz") == (503, "no loop ended within 0.05 s\n")
        assert not snapshots.is_wanted


async def test_whoever_waits_for_a_snapshot_is_sent_away_at_the_end() -> None:
    snapshots = debugging_snapshot.DebuggingSnapshotter()
    async with serve(Turns().activity, snapshots=snapshots) as at:
        asking = asyncio.create_task(get(f"{at}/snapshotz"))
        await wait_wanted(snapshots)
    assert (await asking)[0] == 503


async def test_profiles_show_what_the_process_does() -> None:
    async with serve(Turns().activity, profiling=True) as at:
        pages = (await get(f"{at}/debug/pprof/"))[1].splitlines()
        assert pages == ["/debug/pprof/profile", "/debug/pprof/goroutine", "/debug/pprof/heap", "/debug/pprof/cmdline"]
        status, profile = await get(f"{at}/debug/pprof/profile?seconds=0.1")
        assert status == 200
        assert any(line.startswith("MainThread;") and line.split()[-1].isdigit() for line in profile.splitlines())
        assert "answer_threads" in (await get(f"{at}/debug/pprof/goroutine"))[1]
        assert "peak resident set: " in (await get(f"{at}/debug/pprof/heap"))[1]
        assert (await get(f"{at}/debug/pprof/cmdline"))[0] == 200


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "nan", "601"])
async def test_a_profile_takes_a_sensible_time(seconds: str) -> None:
    async with serve(Turns().activity, profiling=True) as at:
        assert await get(f"{at}/debug/pprof/profile?seconds={seconds}") == (
            400,
            f"seconds: found '{seconds}', expected more than 0 and at most 600 seconds",
        )


async def test_a_profile_under_way_does_not_hold_up_the_end() -> None:
    async with serve(Turns().activity, profiling=True) as at:
        asking = asyncio.create_task(get(f"{at}/debug/pprof/profile?seconds=600"))
        while "in sample" not in (await get(f"{at}/debug/pprof/goroutine"))[1]:
            await asyncio.sleep(0.01)
    assert (await asking)[0] == 200


def _find_address() -> str:
    """One of this machine's that is not its loopback; empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return ""
        found: str = probe.getsockname()[0]
    return "" if found.startswith("127.") else found


def test_from_elsewhere_health_and_metrics_are_seen_and_nothing_that_names_pods_or_nodes() -> None:
    address = _find_address()
    if not address:
        pytest.skip("this machine has no address but its loopback")

    async def play() -> dict[str, int]:
        registry = prometheus_client.CollectorRegistry()
        app = http_endpoints.make_app(health.Health(), registry, Turns().activity, profiling=True)
        async with http_server.serve("0.0.0.0:0", app) as port:
            here, there = f"http://127.0.0.1:{port}", f"http://{address}:{port}"
            assert (await get(f"{here}/debug/pprof/cmdline"))[0] == 200
            paths = (
                "/metrics",
                "/health-check",
                "/healthz",
                "/readyz",
                "/debug/pprof/cmdline",
                "/snapshotz",
                "/statusz",
            )
            return {path: (await get(there + path))[0] for path in paths}

    found = asyncio.run(play())
    opened = {path for path, status in found.items() if status == 200}
    assert opened == {"/metrics", "/health-check", "/healthz", "/readyz"}
    assert {status for path, status in found.items() if path not in opened} == {403}


def test_the_address_is_served_over_tls_where_there_is_a_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(made.cert_chain_pems[0].bytes())
    key.write_bytes(made.private_key_pem.bytes())
    files = http_endpoints.find_serving_certificate(
        options.ReportingOptions(tls_cert_file=str(certificate), tls_private_key_file=str(key))
    )
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def play() -> int:
        app = http_endpoints.make_app(health.Health(), prometheus_client.CollectorRegistry(), Turns().activity)
        async with (
            http_server.reloading_ssl_context(files, clock.RealClock()) as context,
            http_server.serve("localhost:0", app, context) as port,
            aiohttp.ClientSession() as session,
            session.get(f"https://localhost:{port}/healthz", ssl=trusting) as answer,
        ):
            return answer.status

    assert asyncio.run(play()) == 200


def test_half_a_certificate_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="--tls-cert-file: found one of it"):
        http_endpoints.find_serving_certificate(options.ReportingOptions(tls_cert_file="tls.crt"))


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8085", 200), ("127.0.0.1", 200), ("[::1]:1", 200), ("evil.example:8085", 421), ("", 421)],
)
async def test_paths_for_this_machine_are_not_served_under_a_name_of_another(host: str, status: int) -> None:
    async with serve(Turns().activity, profiling=True) as at, aiohttp.ClientSession(headers={"Host": host}) as session:
        for path, expected in (("/debug/pprof/cmdline", status), ("/metrics", 200), ("/health-check", 200)):
            async with session.get(at + path) as answer:
                assert answer.status == expected, path
                assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_paths_for_this_machine_can_be_turned_off() -> None:
    async with serve(Turns().activity, profiling=True, debugging=False) as at:
        assert await get(f"{at}/debug/pprof/cmdline") == (
            403,
            "/debug/pprof/cmdline is turned off: --enable-debugging-handlers=false\n",
        )
        assert [(await get(at + path))[0] for path in ("/metrics", "/health-check", "/healthz")] == [200, 200, 200]


class Asked:
    """A source of explanations whose loop has decided, or not."""

    past_choices: ClassVar[dict[str, explain_context.PastChoice]] = {}
    set_aside: ClassVar[tuple[errors.InvalidObject, ...]] = ()

    def __init__(self, *, has_decided: bool = True) -> None:
        self.has_decided = has_decided

    async def query(self, question: Callable[[Observation, LoopMemory, Settings, float], T]) -> T:
        if not self.has_decided:
            raise errors.WindlassError("no loop has ended yet")
        return question(Observation(cluster_snapshot.Snapshot()), LoopMemory(), Settings(), 7.0)


async def fetch_recording(asked: Asked, recording: Path | None, query: str = "") -> tuple[int, bytes]:
    app = http_endpoints.make_app(
        health.Health(),
        prometheus_client.CollectorRegistry(),
        Turns().activity,
        answering=asked,
        recording=recording,
    )
    async with (
        http_server.serve("127.0.0.1:0", app) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/recording{query}") as answer,
    ):
        return answer.status, await answer.read()


async def test_a_recording_is_served_with_what_was_rotated_out_of_it(tmp_path: Path) -> None:
    recording = tmp_path / "live.rec"
    recording.write_bytes(b"now")
    assert await fetch_recording(Asked(), recording) == (200, b"now")
    assert (await fetch_recording(Asked(), recording, "?part=older"))[0] == 404
    (tmp_path / "live.rec.1").write_bytes(b"before")
    assert await fetch_recording(Asked(), recording, "?part=older") == (200, b"before")


async def test_without_a_recording_the_moment_is_served_as_one(tmp_path: Path) -> None:
    status, body = await fetch_recording(Asked(), None)
    assert status == 200
    (tmp_path / "moment.rec").write_bytes(body)
    recorded = replay.Recording(tmp_path / "moment.rec")
    assert [(step.now_s, step.of) for step in recorded] == [(7.0, "decide")]
    assert not recorded.is_cut
    assert (await fetch_recording(Asked(has_decided=False), None))[0] == 503
    assert (await fetch_recording(Asked(), None, "?part=older"))[0] == 404
