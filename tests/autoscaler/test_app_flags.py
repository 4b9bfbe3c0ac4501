"""Flags of the process that change one thing each: what the process does with and without them."""

import asyncio
import contextlib
import dataclasses
import random
import socket
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
import yaml

from tests.autoscaler.in_process_cluster import NOW_S, Cluster
from tests.autoscaler.test_app_events import add_groups, autoscaling, played, sizes
from windlass import clock, scheduler_releases
from windlass.apiserver import embedded_server, registry, server
from windlass.autoscaler import app, shadow_mode
from windlass.autoscaler.autoscaler import run_inline
from windlass.autoscaler.options import flags
from windlass.autoscaler.record_replay import recorder, snapshot_journal
from windlass.errors import InvalidInput, WindlassError
from windlass.kube import resources, rest_config, transport
from windlass.providers.clusterapi import auto_discovery
from windlass.runtime import leader_election

# ── Leader election ──────────────────────────────────────────────────────────────────────────────────────────────


async def find_leases(cluster: Cluster) -> dict[tuple[str, str], int]:
    """The time that each Lease is held for."""
    found = (await cluster.api.list(resources.LEASES.untyped())).items
    return {
        (one["metadata"]["namespace"], one["metadata"]["name"]): one["spec"]["leaseDurationSeconds"] for one in found
    }


@played
async def test_the_lease_is_where_flags_say_and_is_held_as_long(cluster: Cluster) -> None:
    add_groups(cluster)
    async with autoscaling(cluster, leader_elect="false"):
        await cluster.clock.sleep(10.0)
    assert await find_leases(cluster) == {}
    async with autoscaling(cluster, leader_elect="true"):
        await cluster.clock.sleep(10.0)
        assert await find_leases(cluster) == {("kube-system", "cluster-autoscaler"): 15}
    elsewhere = {"leader_elect_resource_name": "mine", "leader_elect_resource_namespace": "default"}
    async with autoscaling(cluster, leader_elect="true", leader_elect_lease_duration="40s", **elsewhere):
        await cluster.clock.sleep(10.0)
        assert (await find_leases(cluster))["default", "mine"] == 40


@played
async def test_the_lease_is_renewed_as_often_as_the_flag_says(cluster: Cluster) -> None:
    add_groups(cluster)
    renewals = list[int]()
    for period in ("2s", "6s"):
        before = len(cluster.carrier.sent)
        async with autoscaling(cluster, leader_elect="true", leader_elect_retry_period=period):
            await cluster.clock.sleep(60.0)
        sent = cluster.carrier.sent[before:]
        renewals.append(sum("/leases/" in request.path and request.method in ("PUT", "PATCH") for request in sent))
    assert renewals[0] > 2 * renewals[1] > 0


@played
async def test_a_lease_that_cannot_be_renewed_is_given_up_after_the_time_of_the_flag(cluster: Cluster) -> None:
    add_groups(cluster)
    led_s = list[float]()
    for deadline in ("5s", "10s"):
        words = {"leader-elect-renew-deadline": deadline}
        process = make_process(cluster, words, cluster.clock)
        leading = asyncio.create_task(process.run_without_serving())
        await cluster.clock.sleep(30.0)
        since_s = cluster.clock.monotonic_s()
        for method in ("PUT", "PATCH", "GET"):
            cluster.carrier.forbid(method, "/leases/", 503, "ServiceUnavailable")
        with contextlib.suppress(leader_election.LeadershipLost, BaseExceptionGroup):
            await leading
        led_s.append(cluster.clock.monotonic_s() - since_s)
        cluster.carrier.allow()
        await cluster.clock.sleep(30.0)
    assert led_s[0] < 6.0 < led_s[1]


def make_process(cluster: Cluster, words: dict[str, str], time: clock.Clock) -> app.AutoscalerProcess:
    servers = app.ApiServers(cluster.carrier, cluster.carrier)
    settings, options = flags.parse_settings(words), flags.parse_process_options(words)
    return app.AutoscalerProcess(
        servers, settings, options, auto_discovery.Config(), time, run_inline, random.Random(1)
    )


# ── Its own objects ──────────────────────────────────────────────────────────────────────────────────────────────


async def find_config_maps(cluster: Cluster) -> set[tuple[str, str]]:
    found = (await cluster.api.list(resources.CONFIG_MAPS.untyped())).items
    return {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found}


@played
async def test_the_memory_is_called_as_the_flag_says_and_is_in_the_namespace_of_the_flag(cluster: Cluster) -> None:
    add_groups(cluster, a="4")
    cluster.add_pod("p", "3")
    async with autoscaling(cluster, memory_config_map="remembered", namespace="default"):
        await cluster.clock.sleep(60.0)
    assert await find_config_maps(cluster) == {("default", "remembered")}


# ── Loops ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def wait_raised(cluster: Cluster, within_s: float = 600.0) -> float:
    """How long until a group is raised."""
    since_s = cluster.clock.monotonic_s()
    while not any((await sizes(cluster)).values()):
        assert cluster.clock.monotonic_s() < since_s + within_s, "not raised"
        await cluster.clock.sleep(0.1)
    return cluster.clock.monotonic_s() - since_s


@pytest.mark.parametrize(
    ("words", "least_s", "most_s"),
    [
        ({}, 0.0, 2.0),
        ({"frequent_loops_enabled": "false"}, 2.0, 11.0),
        ({"frequent_loops_enabled": "false", "scan_interval": "2m"}, 60.0, 121.0),
    ],
)
def test_a_pod_is_answered_at_once_or_with_the_next_scan(words: dict[str, str], least_s: float, most_s: float) -> None:
    @played
    async def play(cluster: Cluster) -> None:
        add_groups(cluster, a="4")
        async with autoscaling(cluster, **words):
            await cluster.clock.sleep(121.5)
            cluster.add_pod("p", "3")
            assert least_s <= await wait_raised(cluster) <= most_s

    play()


@pytest.mark.parametrize("frequent", ["true", "false"])
def test_a_group_whose_resize_was_refused_is_tried_again_after_its_backoff(frequent: str) -> None:
    """Although nothing changes meanwhile, and loops that would decide the same are left out."""

    @played
    async def play(cluster: Cluster) -> None:
        add_groups(cluster, a="4")
        cluster.carrier.forbid("PATCH", "/scale", 422, "Invalid")
        cluster.carrier.forbid("PUT", "/scale", 422, "Invalid")
        async with autoscaling(cluster, frequent_loops_enabled=frequent):
            cluster.add_pod("p", "3")
            await cluster.clock.sleep(400.0)  # it was refused twice, and backs off for ten minutes now
            cluster.carrier.allow()
            await wait_raised(cluster, 560.0)

    play()


# ── Clients ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("flag", ["kube_client_burst", "kube_client_qps"])
def test_requests_are_sent_no_faster_than_flags_allow(flag: str) -> None:
    sent = list[int]()
    for value in ("1000", "0.01" if flag == "kube_client_qps" else "1"):

        @played
        async def play(cluster: Cluster, value: str = value) -> None:
            add_groups(cluster, a="4")
            words = {"kube_client_qps": "0.01", "kube_client_burst": "1", flag: value}
            async with autoscaling(cluster, **words):
                await cluster.clock.sleep(20.0)
            sent.append(len(cluster.carrier.sent))

        play()
    assert sent[0] > sent[1]


def write_kubeconfig(path: Path, **servers: str | Mapping[str, object]) -> str:
    """A kubeconfig with a context for each server. The first is the current one."""
    entries: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(servers)),
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in servers],
        "users": [{"name": "u", "user": {}}],
        "clusters": [
            {"name": name, "cluster": {"server": one} if isinstance(one, str) else one} for name, one in servers.items()
        ],
    }
    path.write_text(yaml.safe_dump(entries))
    return str(path)


def reach(words: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The servers of the workload cluster and of the management cluster."""
    reached = dict[int, str]()

    @contextlib.asynccontextmanager
    async def connect(config: rest_config.RestConfig) -> AsyncIterator[Any]:
        made: Any = Silent()
        reached[id(made)] = config.server
        yield made

    monkeypatch.setattr(rest_config.RestConfig, "connect", connect)

    async def play() -> tuple[str, str]:
        async with app.connect(clock.RealClock(), flags.parse_process_options(words).clients) as servers:
            return reached[id(servers.workload)], reached[id(servers.management)]

    return asyncio.run(play())


def test_clusters_are_reached_where_flags_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write_kubeconfig(tmp_path / "one", first="http://127.0.0.1:1", second="http://127.0.0.1:2")
    two = write_kubeconfig(tmp_path / "two", other="http://127.0.0.1:3")
    monkeypatch.setenv("KUBECONFIG", two)
    assert reach({"kubeconfig": one}, monkeypatch) == ("http://127.0.0.1:1",) * 2
    assert reach({"kubeconfig": one, "context": "second"}, monkeypatch) == ("http://127.0.0.1:2",) * 2
    assert reach({"kubeconfig": one, "kubernetes": "http://127.0.0.1:4"}, monkeypatch) == ("http://127.0.0.1:4",) * 2
    split = reach({"kubeconfig": one, "cloud-config": two}, monkeypatch)
    assert split == ("http://127.0.0.1:1", "http://127.0.0.1:3")


def test_the_management_cluster_may_be_the_one_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write_kubeconfig(tmp_path / "one", first="http://127.0.0.1:1")
    inside = dataclasses.replace(rest_config.load_rest_config(clock.RealClock(), one), server="https://inside")
    monkeypatch.setattr(rest_config, "is_in_cluster", lambda *_: True)
    monkeypatch.setattr(rest_config, "in_cluster_config", lambda *_: inside)
    words = {"kubeconfig": one, "clusterapi-cloud-config-authoritative": "true"}
    assert reach(words, monkeypatch) == ("http://127.0.0.1:1", "https://inside")


def test_a_server_that_is_not_verified_is_reached_only_if_the_flag_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = write_kubeconfig(tmp_path / "one", first={"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True})
    with pytest.raises(InvalidInput):
        reach({"kubeconfig": one}, monkeypatch)
    words = {"kubeconfig": one, "insecure-skip-tls-verify": "true"}
    assert reach(words, monkeypatch) == ("https://127.0.0.1:1",) * 2


def observe(
    words: dict[str, str], server: transport.Transport, time: clock.Clock, monkeypatch: pytest.MonkeyPatch
) -> Coroutine[Any, Any, app.DecisionInputs]:
    """Observe the cluster of this server once, as `windlass plan` does."""

    @contextlib.asynccontextmanager
    async def connect(*_: object) -> AsyncIterator[app.ApiServers]:
        yield app.ApiServers(server, server)

    monkeypatch.setattr(app, "connect", connect)
    return app.observe_cluster(flags.parse_settings(words), flags.parse_process_options(words), time)


def test_groups_are_found_where_the_flag_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[int]()

    @played
    async def play(cluster: Cluster) -> None:
        add_groups(cluster, a="4")
        for namespace in ("default", "elsewhere"):
            words = {"node-group-auto-discovery": f"clusterapi:namespace={namespace}"}
            observation, *_ = await observe(words, cluster.carrier, cluster.clock, monkeypatch)
            found.append(len(observation.groups))

    play()
    assert found == [1, 0]


class Silent:
    """A server that does not answer."""

    async def send(self, request: transport.Request) -> transport.Response:
        await asyncio.Event().wait()
        raise AssertionError


def test_a_server_that_is_silent_is_given_up_after_the_time_of_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, seconds in (("3s", 3.0), ("40s", 40.0)):
        time = clock.VirtualClock(NOW_S)

        async def play(limit: str = limit, time: clock.VirtualClock = time) -> float:
            began_s = time.monotonic_s()
            with pytest.raises(WindlassError, match="gave no answer"):
                await observe({"request-timeout": limit}, Silent(), time, monkeypatch)
            return time.monotonic_s() - began_s

        assert time.run(play()) == pytest.approx(seconds)


# ── HTTP endpoints ───────────────────────────────────────────────────────────────────────────────────────────────


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
    return found


def ask(words: dict[str, str], *paths: str, trusting: ssl.SSLContext | None = None) -> list[int]:
    """The status of the answer to each path, of a process in real time with an address of its own."""
    port = find_port()
    scheme = "https" if trusting else "http"

    async def play() -> list[int]:
        time = clock.RealClock()
        made = server.Server(time, registry.ServerSettings())
        cluster = embedded_server.InProcessTransport(made, time)
        given = {"leader-elect": "false", "address": f"127.0.0.1:{port}", **words}
        settings, options = flags.parse_settings(given), flags.parse_process_options(given)
        process = app.AutoscalerProcess(
            app.ApiServers(cluster, cluster), settings, options, auto_discovery.Config(), time, run_inline
        )
        async with process._serving(), aiohttp.ClientSession() as session:
            process._leads_since_s = time.monotonic_s() - 1.0
            statuses = list[int]()
            for path in paths:
                async with session.get(f"{scheme}://localhost:{port}{path}", ssl=trusting or True) as answer:
                    statuses.append(answer.status)
            return statuses

    return asyncio.run(play())


def test_the_process_answers_at_the_address_of_the_flag() -> None:
    assert ask({}, "/healthz", "/metrics") == [200, 200]


def test_a_loop_that_does_not_begin_in_the_time_of_flags_is_unwell() -> None:
    at_once = {"max-inactivity": "0s", "max-failing-time": "0s", "max-startup-time": "0s"}
    assert ask(at_once, "/health-check") == [500]
    for flag in at_once:
        assert ask({**at_once, flag: "10m"}, "/health-check") == [200], flag


def test_paths_for_debugging_are_served_as_flags_say() -> None:
    path = "/debug/pprof/cmdline"
    assert ask({"profiling": "true"}, path) == [200]
    assert ask({}, path) != [200]
    assert ask({"profiling": "true", "enable-debugging-handlers": "false"}, path) != [200]


def test_the_address_is_served_over_tls_with_the_certificate_of_flags(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(made.cert_chain_pems[0].bytes())
    key.write_bytes(made.private_key_pem.bytes())
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    words = {"tls-cert-file": str(certificate), "tls-private-key-file": str(key)}
    assert ask(words, "/healthz", trusting=trusting) == [200]


def test_snapshots_are_made_only_if_asked_for() -> None:
    for word, is_made in (("false", False), ("true", True)):
        time = clock.VirtualClock(NOW_S)
        process = make_process(Cluster(time), {"leader-elect": "false", "debugging-snapshot-enabled": word}, time)
        assert (process._snapshots is not None) is is_made


# ── Recording ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_decisions_are_recorded_in_the_file_of_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "recording"

    @played
    async def play(cluster: Cluster) -> None:
        add_groups(cluster, a="4")
        cluster.add_pod("p", "3")
        async with autoscaling(cluster, record=str(path)):
            await cluster.clock.sleep(60.0)

    play()
    assert path.stat().st_size > 100


def test_a_recording_grows_no_larger_than_the_flag_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = list[int]()

    def make(snapshot: snapshot_journal.JournaledSnapshot, path: Path, limit: int) -> recorder.DecisionRecorder:
        limits.append(limit)
        return recorder.DecisionRecorder(snapshot, path, limit)

    monkeypatch.setattr(app, "DecisionRecorder", make)
    time = clock.VirtualClock(NOW_S)
    make_process(Cluster(time), {"record": str(tmp_path / "recording"), "record-limit": "7"}, time)
    assert limits == [7 * 2**20]


# ── Scheduler ────────────────────────────────────────────────────────────────────────────────────────────────────


async def find_release(cluster: Cluster, **given: str) -> scheduler_releases.SchedulerRelease:
    process = make_process(cluster, {"leader-elect": "false", **given}, cluster.clock)
    running = asyncio.create_task(process.run_without_serving())
    await cluster.clock.sleep(20.0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return process.cluster_state.observe().observation.snapshot.release


@played
async def test_the_release_and_gates_of_flags_are_applied(cluster: Cluster) -> None:
    add_groups(cluster)
    version = "kube-scheduler-version"
    assert (await find_release(cluster, **{version: "1.36"})).version == "1.36"
    newest = await find_release(cluster, **{version: "1.37"})
    assert newest.version == "1.37"
    assert await find_release(cluster, **{version: "1.37", "feature-gates": "VolumeLimitScaling=false"}) != newest


# ── Shadow mode ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_actions_of_both_autoscalers_are_compared_within_the_window_of_the_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    windows = list[float]()

    def make(window_s: float, registry: Any) -> shadow_mode.Shadow:
        windows.append(window_s)
        return shadow_mode.Shadow(window_s, registry)

    monkeypatch.setattr(app, "Shadow", make)
    time = clock.VirtualClock(NOW_S)
    make_process(Cluster(time), {}, time)
    make_process(Cluster(time), {"shadow": "true", "shadow-window": "3m"}, time)
    assert windows == [180.0]
