"""One run: batches of malformed objects, ordinary work in between, and what came of it."""

import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.apiserver import server_process
from tests.malformed_input import checks, cluster, malform, objects
from tests.malformed_input.cluster import IDLE, ORDINARY
from tests.malformed_input.objects import BOUND_POD, KINDS, WEIGHTS, Json, Kind
from tests.malformed_input.proxy import Proxy, Write

FLAGS = (
    "--cloud-provider=clusterapi",
    "--scan-interval=1s",
    "--quiet-window-max=2s",
    "--scale-down-unneeded-time=2s",
    "--scale-down-unready-time=4s",
    "--scale-down-delay-after-add=0s",
    "--scale-down-delay-after-failure=1s",
    "--unremovable-node-recheck-timeout=5s",
    "--node-delete-delay-after-taint=1s",
    "--initial-node-group-backoff-duration=5s",
    "--max-node-provision-time=1m",
    "--max-scale-down-parallelism=1000",
    "--max-drain-parallelism=1000",
    "--scale-down-candidates-pool-ratio=1",
    "--ok-total-unready-count=100000",
    "--expander=priority,least-waste",
    "--enable-provisioning-requests",
    "--capacity-buffer-controller-enabled",
    "--capacity-buffer-pod-injection-enabled",
    "--capacity-quotas-enabled",
    "--enable-csi-node-aware-scheduling",
    "-v=2",
)
_LOOPS = 'cluster_autoscaler_function_duration_seconds_count{function="main"}'
_RENEW_DEADLINE_S = 10.0
_ENOUGH = 2000
"""A run of so many objects must have drained nodes, or it shows nothing of that."""
_VERSION = re.compile(rb'"resourceVersion":"\d+",?')


class Failed(Exception):
    """Something did not hold."""


@dataclass(frozen=True, slots=True)
class Item:
    """A malformed object on its way in."""

    kind: Kind
    name: str
    raw: bytes
    is_offered: bool
    """Is the API server asked to take it? What it refuses is injected."""

    @property
    def key(self) -> str:
        return f"{self.kind.namespace}/{self.name}"

    @staticmethod
    def of(kind: Kind, obj: Json, *, is_offered: bool = True) -> "Item":
        """An object as it is."""
        return Item(kind, obj["metadata"]["name"], malform.encode(obj), is_offered)

    @property
    def clean(self) -> bytes:
        """The object as its deletion names it."""
        metadata = {"name": self.name, "uid": f"uid-{self.name}"}
        if self.kind.namespace:
            metadata["namespace"] = self.kind.namespace
        return json.dumps({"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}).encode()


@dataclass(frozen=True, slots=True)
class Settings:
    """How strict a run is."""

    health_within_s: float = 1.0
    may_pause: bool = False
    """May loops fail that a busy machine ends: a watch not taken up again in time, a write cut off?"""
    patience_s: float = 60.0
    """For anything that is waited for."""


@dataclass(slots=True)
class Report:
    """What came of a run."""

    objects: int = 0
    admitted: int = 0
    broken: int = 0
    """Lines that are not JSON."""
    edited: int = 0
    """How often the autoscaler's own Lease and memory were edited."""
    lists: int = 0
    """How often the server forgot what happened, so that everything was listed anew."""
    loops: int = 0
    slowest_health_s: float = 0.0
    slowest_health_by_clock_s: float = 0.0
    """The same with the time in which other processes had the processor."""
    oldest_lease_s: float = 0.0
    ordinary: int = 0
    """Ordinary pods that got their node."""
    removed: int = 0
    """Nodes that were taken away."""
    evicted: int = 0
    unexpected: dict[str, int] = field(default_factory=dict)


class Bench:
    """The three processes, and how they are asked."""

    def __init__(self, api: cluster.Api, clustered: cluster.Cluster, proxy: Proxy, process: "Autoscaler") -> None:
        self.api, self.cluster, self.proxy, self.process = api, clustered, proxy, process
        self.removals = checks.Removals()


class Autoscaler:
    """`windlass autoscaler` as a process."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "autoscaler.log"
        self.port = _free_port()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, server: str, flags: Sequence[str] = FLAGS) -> None:
        kubeconfig = self._directory / "proxy.kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": server}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                    "users": [{"name": "c", "user": {}}],
                    "current-context": "c",
                }
            )
        )
        kubeconfig.chmod(0o600)
        command = [sys.executable, "-m", "windlass", "autoscaler", f"--kubeconfig={kubeconfig}"]
        command += [f"--address=127.0.0.1:{self.port}", *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        environment["PYTHONFAULTHANDLER"] = "1"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    async def get(self, path: str) -> str:
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            found: bytes = answer.read()
        return found.decode()

    async def metrics(self) -> dict[str, float]:
        """Each series and its value; nothing while it does not answer."""
        try:
            text = await self.get("/metrics")
        except OSError:
            return {}
        series = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in series}

    async def loops(self) -> int:
        return int((await self.metrics()).get(_LOOPS, 0.0))

    def dump_stacks(self) -> None:
        """What all of its threads do now goes to its log, and it ends."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGABRT)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.asynccontextmanager
async def bench(directory: Path, flags: Sequence[str] = FLAGS) -> AsyncIterator[Bench]:
    """Everything started, with a first loop behind it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kubeconfig").unlink(missing_ok=True)
    starting = contextlib.ExitStack()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(starting.close)
        server = await asyncio.to_thread(lambda: starting.enter_context(server_process.serve(directory)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        api = cluster.Api(server.url, session)
        clustered = cluster.Cluster(api)
        await clustered.found()
        process = Autoscaler(directory)
        found: Bench | None = None
        proxy = await stack.enter_async_context(Proxy(server.url, lambda write: _on_event(found, write)))
        found = Bench(api, clustered, proxy, process)
        acting = asyncio.create_task(clustered.run())
        stack.callback(acting.cancel)
        process.start(proxy.url, flags)
        stack.callback(process.end)
        await _wait_first_loop(process)
        yield found


def _on_event(found: Bench | None, write: Write) -> None:
    if found is not None:
        found.removals.on_event(write)


async def _wait_first_loop(process: Autoscaler, within_s: float = 180.0) -> None:
    end_s = time.monotonic() + within_s
    while await process.loops() == 0:
        if process.code is not None or time.monotonic() > end_s:
            raise Failed(f"no first loop: {process.log.read_text(errors='replace')[-2000:]}")
        await asyncio.sleep(0.2)


def draw(count: int, chance: random.Random, first: int = 0) -> list[Item]:
    """So many malformed objects, with names of their own."""
    weights = [WEIGHTS.get(kind.kind, 1) for kind in KINDS]
    items = []
    for number in range(first, first + count):
        [kind] = chance.choices(KINDS, weights)
        name = f"bent-{number}"
        items.append(Item(kind, name, _draw_one(kind, name, chance), chance.random() < 0.35))
    return items


def _draw_one(kind: Kind, name: str, chance: random.Random) -> bytes:
    obj = kind.make(name, "1")
    if kind is BOUND_POD:
        obj["spec"]["nodeName"] = f"{IDLE}-?"
    return malform.malform(obj, chance)


def is_json(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except RecursionError:
        return True  # too deep for this reader
    except ValueError:
        return b"9" * 4400 in raw  # more digits than this reader takes
    return True


class Run:
    """Feeds items and holds the checks to them."""

    def __init__(self, bench_: Bench, chance: random.Random, settings: Settings) -> None:
        self.bench, self.report = bench_, Report()
        self.batch: list[Item] = []
        """What was fed last."""
        self._chance, self._settings = chance, settings
        process = bench_.process
        self._health = checks.Health(process.port, process.pid, settings.health_within_s, process.dump_stacks)
        self._created: dict[str, Item] = {}
        self._number = 0
        self._pods: list[str] = []
        self._anchor = ""
        self._failed_loops = checks.FailedLoops(process.log, may_pause=settings.may_pause)
        self._renewed_s = time.monotonic()
        """When the lease was last seen to be renewed, monotonic."""

    async def feed(self, items: Sequence[Item]) -> None:
        """One batch. A line that is not JSON is sent once: the watch breaks, and is begun anew."""
        self.batch = list(items)
        version = await self.bench.api.version()
        for item in items:
            await asyncio.sleep(0)  # the proxy runs here too
            raw = self._complete(item, version)
            if item.is_offered and await self._offer(item, raw):
                continue
            if not self.bench.proxy.is_watched(item.kind.watch_path):
                continue
            if is_json(raw):
                self.bench.proxy.add(item.kind.watch_path, item.key, raw)
                self._place(item, raw)
            else:
                self.bench.proxy.send_line(item.kind.watch_path, b'{"type":"ADDED","object":' + raw + b"}")
                self.report.broken += 1
        self.report.objects += len(items)

    def _complete(self, item: Item, version: str) -> bytes:
        """What only the present knows: the server's version, and a node for a pod to be on."""
        raw = item.raw.replace(b'"resourceVersion":"1"', b'"resourceVersion":"%b"' % version.encode())
        if b"idle-?" in raw:
            nodes = self.bench.cluster.usable(IDLE) or ["nowhere"]
            raw = raw.replace(b"idle-?", self._chance.choice(nodes).encode())
        return raw

    def _place(self, item: Item, raw: bytes) -> None:
        if item.kind is BOUND_POD and (node := checks.runs_on(raw, item.name, item.kind.namespace)):
            self.bench.removals.placed[item.key] = (node, time.monotonic())

    async def _offer(self, item: Item, raw: bytes) -> bool:
        """Does the API server take it?"""
        offered = _VERSION.sub(b"", raw)  # a server gives versions, and takes none
        status, found = await self.bench.api.call("POST", item.kind.collection, offered)
        if status >= 300:
            return False
        path = f"{item.kind.collection}/{found['metadata']['name']}"
        self._created[path] = item
        self.report.admitted += 1
        if item.kind.plural == "pods":
            body = {**found, "status": objects.UNSCHEDULABLE}
            await self.bench.api.call("PUT", f"{path}/status", body)
        return True

    async def clear(self) -> None:
        """Take away all that was fed."""
        for item in self.batch:
            self.bench.proxy.remove(item.kind.watch_path, item.key, item.clean)
            self.bench.removals.placed.pop(item.key, None)
        for path in self._created:
            status, found = await self.bench.api.call("DELETE", f"{path}?gracePeriodSeconds=0")
            if status == 200 and found.get("metadata", {}).get("finalizers"):
                patch = {"metadata": {"finalizers": None}}
                await self.bench.api.call("PATCH", path, patch, cluster.MERGE)
        self._created.clear()
        self.batch = []

    async def edit_own_objects(self) -> None:
        """Someone edits the autoscaler's own Lease and memory."""
        edits = ((cluster.LEASE, malform.edit_lease), (cluster.MEMORY, malform.edit_memory))
        for path, edit in edits:
            status, found = await self.bench.api.call("GET", path)
            if status == 200:
                edit(found, self._chance)
                status, _ = await self.bench.api.call("PUT", path, found)
                self.report.edited += status == 200

    async def list_anew(self, *, in_pages: bool) -> None:
        """The server forgets what happened: all that there is comes by lists."""
        self.bench.proxy.streams_lists = not in_pages
        self.bench.proxy.forget()
        self.report.lists += 1
        await self.wait_loops(1)

    # Ordinary work

    async def ask_for_node(self) -> None:
        """A pod of another namespace needs a node: its group grows within two loops."""
        self._number += 1
        name = f"web-{self._number}"
        self._pods.append(name)
        before = await self.bench.process.loops()
        await self.bench.cluster.add_pending(name)
        end_s = time.monotonic() + self._settings.patience_s
        known = None if self._settings.may_pause else before
        while await self.bench.cluster.replicas(ORDINARY) < len(self._pods):
            loops = await self.bench.process.loops() - self._failed_loops.paused
            if known is None and await self._is_known(name):
                known = loops
            # One loop may have begun before the pod came, and two may pass.
            if (known is not None and loops > known + 3) or time.monotonic() > end_s:
                raise Failed(f"pod {ORDINARY}/{name} has no node after two loops")
            await self.hold()
            await asyncio.sleep(0.1)
        self.report.ordinary += 1

    async def _is_known(self, name: str) -> bool:
        """Has the autoscaler heard of an ordinary pod? On a busy machine the proxy is late with what it passes on."""
        try:
            await self.bench.process.get(f"/explain/pod/{ORDINARY}/{name}")
        except OSError:
            return False
        return True

    async def forget_pods(self, left: int) -> None:
        """Ordinary pods end, the oldest first: their nodes are not needed any more."""
        while len(self._pods) > left:
            await self.bench.cluster.remove_pod(self._pods.pop(0))

    async def offer_idle_nodes(self, count: int) -> None:
        """New nodes that nobody needs, with a small pod that may be evicted on each: the anchor's node has room."""
        replicas = await self.bench.cluster.replicas(IDLE)
        before = set(self.bench.cluster.nodes)
        if replicas < count:
            await self.bench.cluster.scale(IDLE, count)
            await self._wait_new_nodes(before, count - replicas)
        nodes = [node for node in self.bench.cluster.usable(IDLE) if node not in before or node == self._anchor]
        if nodes and not self._anchor:
            self._anchor = nodes[0]
            await self._run_pod("anchor", self._anchor, "3")
        for node in nodes:
            if node != self._anchor:
                self._number += 1
                safe = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
                await self._run_pod(f"small-{self._number}", node, "100m", **safe)

    async def drain_nodes(self, within_s: float) -> None:
        """Time enough for nodes to become unneeded, and for the pods on them to be evicted."""
        await self.forget_pods(1)
        await self.offer_idle_nodes(4)
        before, end_s = len(self.bench.removals.evicted), time.monotonic() + within_s
        while len(self.bench.removals.evicted) == before and time.monotonic() < end_s:
            await self.wait_loops(1)

    async def _wait_new_nodes(self, before: set[str], count: int) -> None:
        end_s = time.monotonic() + 3.0
        while len(set(self.bench.cluster.usable(IDLE)) - before) < count and time.monotonic() < end_s:
            await asyncio.sleep(0.1)

    async def _run_pod(self, name: str, node: str, cpu: str, **annotations: str) -> None:
        await self.bench.cluster.add_running(name, node, cpu, **annotations)
        self.bench.removals.placed[f"{ORDINARY}/{name}"] = (node, time.monotonic())

    # Checks

    async def wait_loops(self, more: int) -> None:
        began = await self.bench.process.loops()
        end_s = time.monotonic() + self._settings.patience_s
        while await self.bench.process.loops() < began + more:
            await self.hold()
            if time.monotonic() > end_s:
                raise Failed(f"no {more} loops within {self._settings.patience_s:.0f} s")
            await asyncio.sleep(0.15)

    def begin(self) -> None:
        self._health.start()

    def stop(self) -> None:
        self._health.stop()

    async def hold(self) -> None:
        """Everything that must hold at any time. Failed if something does not."""
        process = self.bench.process
        if self._health.slowest_s > self._settings.health_within_s:
            raise Failed(f"/health-check took {self._health.slowest_s:.2f} s: see the end of {process.log}")
        if process.code is not None:
            raise Failed(f"the process ended with code {process.code}: {_last_error(process.log)}")
        if failed := self._failed_loops.find():
            raise Failed(f"a loop failed: {failed[0]}")
        if self._health.unanswered:
            raise Failed(self._health.unanswered[0])
        if self.bench.removals.violations:
            raise Failed(self.bench.removals.violations[0])
        status, lease = await self.bench.api.call("GET", cluster.LEASE)
        now_s, age_s = time.monotonic(), checks.lease_age_s(lease) if status == 200 else None
        if age_s is not None and 0.0 <= age_s <= _RENEW_DEADLINE_S:
            self._renewed_s = max(self._renewed_s, now_s - age_s)
        self.report.oldest_lease_s = max(self.report.oldest_lease_s, now_s - self._renewed_s)
        if now_s - self._renewed_s > _RENEW_DEADLINE_S:
            raise Failed(f"the lease was not renewed for {now_s - self._renewed_s:.1f} s")
        self.report.slowest_health_s = self._health.slowest_s
        self.report.slowest_health_by_clock_s = self._health.slowest_by_clock_s

    async def finish(self) -> Report:
        await self.hold()
        if (
            self.report.objects >= _ENOUGH and not self.bench.removals.evicted
        ):  # by chance, none was due between batches
            await self.drain_nodes(90.0)
        metrics = await self.bench.process.metrics()
        self.report.loops = int(metrics.get(_LOOPS, 0.0))
        self.report.removed, self.report.evicted = len(self.bench.removals.removed), len(self.bench.removals.evicted)
        if self.report.objects >= _ENOUGH and not (self.report.removed and self.report.evicted):
            raise Failed(f"{self.report.removed} nodes were removed, and {self.report.evicted} pods evicted")
        prefix = "windlass_unexpected_errors_total{"
        self.report.unexpected = {
            name[len(prefix) : -1]: int(value) for name, value in metrics.items() if name.startswith(prefix) and value
        }
        return self.report


def _last_error(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(line.strip()[:200] for line in lines[-3:])


async def play(
    directory: Path, count: int, seed: int, settings: Settings | None = None, batch: int = 1000
) -> tuple[Report, str, list[Item]]:
    """A whole run: what came of it, and, if something did not hold, what, and the batch at which it was noticed."""
    chance = random.Random(seed)  # for objects alone, so that a seed always draws the same
    async with bench(directory) as found:
        run = Run(found, random.Random(seed), settings or Settings())
        run.begin()
        try:
            for number in itertools.count():
                left = count - run.report.objects
                if left <= 0:
                    break
                # In a thread: the proxy must not stand still meanwhile.
                items = await asyncio.to_thread(draw, min(batch, left), chance, run.report.objects)
                await _play_batch(run, number, items, left * 2 < count)
            await run.wait_loops(2)
            return await run.finish(), "", []
        except Failed as failed:
            return run.report, str(failed), run.batch
        finally:
            run.stop()


async def _play_batch(run: Run, number: int, items: Sequence[Item], in_pages: bool) -> None:
    await run.offer_idle_nodes(4)
    await run.feed(items)
    if number % 2 == 0:
        await run.ask_for_node()
    else:
        await run.wait_loops(2)
    await run.hold()
    if number % 3 == 0:
        await run.edit_own_objects()
    if number % 5 == 0 or in_pages == run.bench.proxy.streams_lists:
        await run.list_anew(in_pages=in_pages)
    await run.clear()
    if number % 4 == 1:
        await run.drain_nodes(15.0)


async def check(directory: Path, items: Sequence[Item], seed: int, settings: Settings) -> str:
    """Feed just these to a new autoscaler: what does not hold, or nothing."""
    async with bench(directory) as found:
        run = Run(found, random.Random(seed), settings)
        run.begin()
        try:
            await run.offer_idle_nodes(2)
            await run.wait_loops(1)
            await run.feed(items)
            await run.wait_loops(2)
            await run.ask_for_node()
            await run.wait_loops(1)
            await run.hold()
            return ""
        except Failed as failed:
            return str(failed)
        finally:
            run.stop()
