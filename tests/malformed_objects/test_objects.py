"""Objects and annotations of every kind, bent on their way from the API server into the autoscaler.

A small cluster lives for a few minutes. What the autoscaler reads of it is bent, each object with some chance, and its
groups carry annotations that nobody can make sense of. It goes on deciding, and nothing fails that it did not foresee.
"""

import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Iterator

import msgspec
import pytest
from hypothesis import given

from tests import strategies
from tests.malformed_objects import mutations
from tests.unexpected_error_guard import Unforeseen
from windlass.autoscaler import informer_sinks
from windlass.autoscaler.app import AutoscalerProcess
from windlass.engine.loop import Decision
from windlass.engine.model import facts
from windlass.engine.snapshot import cluster_snapshot
from windlass.kube import reflector, resources, transport
from windlass.observability.status_publisher import StatusPublisher
from windlass.simulator import autoscaler_run
from windlass.simulator.scenario import model
from windlass.simulator.simulation import Simulation

LASTS_S = 900.0
ANNOTATIONS = (
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size",
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size",
    "capacity.cluster-autoscaler.kubernetes.io/cpu",
    "capacity.cluster-autoscaler.kubernetes.io/memory",
    "capacity.cluster-autoscaler.kubernetes.io/gpu-count",
    "capacity.cluster-autoscaler.kubernetes.io/gpu-type",
    "capacity.cluster-autoscaler.kubernetes.io/maxPods",
    "capacity.cluster-autoscaler.kubernetes.io/labels",
    "capacity.cluster-autoscaler.kubernetes.io/taints",
    "capacity.cluster-autoscaler.kubernetes.io/csi-driver",
    "capacity.cluster-autoscaler.kubernetes.io/dra-driver",
    "cluster.x-k8s.io/autoscaling-options-scaledownunneededtime",
    "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime",
    "cluster.x-k8s.io/delete-machine",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled",
)
_TOP = ("apiVersion", "kind")


class Bending:
    """Carries answers with what is in them bent: lines of watches, items of lists."""

    def __init__(self, inner: transport.Transport, chance: random.Random, share: float) -> None:
        self._inner, self._chance, self._share = inner, chance, share
        self.bent = 0

    async def send(self, request: transport.Request) -> transport.Response:
        answer = await self._inner.send(request)
        if request.method != "GET" or not any(name == "watch" for name, _ in request.query):
            return answer
        return transport.Response(answer.status, answer.headers, self._bend(answer.stream))

    async def _bend(self, stream: transport.Stream) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in stream:
                yield b"".join(map(self._bend_line, chunk.splitlines(keepends=True)))
        finally:
            await stream.aclose()

    def _bend_line(self, line: bytes) -> bytes:
        event = msgspec.json.decode(line)
        if event["type"] in ("BOOKMARK", "ERROR") or self._chance.random() >= self._share:
            return line
        self.bent += 1
        found = event["object"]
        if self._chance.random() < 0.3:
            told = found["metadata"].setdefault("annotations", {})
            for key in self._chance.sample(ANNOTATIONS, 3):
                told[key] = self._chance.choice(mutations.ODD_TEXTS)
        else:
            # Versions are the server's own, and it is trusted to count.
            version = found["metadata"].get("resourceVersion")
            for _ in range(2):
                key = self._chance.choice([key for key in found if key not in _TOP])
                found[key] = mutations.bend(found[key], self._chance)
            if isinstance(found.get("metadata"), dict):
                found["metadata"]["resourceVersion"] = version
        return msgspec.json.encode({**event, "object": found}) + b"\n"


class Hearing:
    """Who plays, and what it decided."""

    def __init__(self, simulation: Simulation) -> None:
        self.published = StatusPublisher(simulation.clock.now_s)
        self.decisions = 0
        self.process: AutoscalerProcess | None = None

    def attach(self, process: AutoscalerProcess) -> None:
        self.process = process

    def on_event(self, decision: Decision) -> None:
        self.decisions += 1


def make_scenario(seed: int) -> model.Scenario:
    """Two groups, some work that comes and goes, a Job, a budget."""
    return model.Scenario(
        name="bent",
        seed=seed,
        duration=model.Seconds(LASTS_S),
        sample=model.Seconds(LASTS_S),
        flags={"scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "0s"},
        groups=tuple(
            model.Group(
                name=name,
                capacity={"cpu": 4, "memory": "16Gi", "pods": 20},
                max=4,
                initial=2,
                boot=model.Timing(30.0),
            )
            for name in ("one", "two")
        ),
        workloads=(
            model.Workload(name="agent", kind="DaemonSet", requests={"cpu": "100m"}),
            model.Workload(name="web", replicas=6, requests={"cpu": "1"}, budget=model.Budget(max_unavailable=1)),
            model.Workload(name="db", kind="StatefulSet", replicas=2, requests={"cpu": "500m"}, apart="node"),
        ),
        timeline=(
            model.Scale(at=model.Seconds(120.0), workload="web", to=16),
            model.Scale(at=model.Seconds(420.0), workload="web", to=2),
        ),
    )


class Spelling(logging.Handler):
    """Spells out everything that is said, as a live process does, and keeps nothing of it."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)


@contextlib.contextmanager
def forget_what_is_said() -> Iterator[None]:
    """Whoever listens else keeps every word until the test ends: half a gigabyte of nonsense in 280 clusters."""
    root = logging.getLogger()
    listening, root.handlers = root.handlers, [Spelling()]
    try:
        yield
    finally:
        root.handlers = listening


@given(mutations.seeds)
@strategies.examples(14)
def test_whatever_objects_look_like_the_others_are_decided_on(chance: random.Random) -> None:
    simulation = Simulation(make_scenario(chance.randrange(1000)))
    carrier = Bending(simulation.transport, chance, share=chance.choice((0.05, 0.3, 0.7)))
    hearing = Hearing(simulation)

    async def play(simulation: Simulation) -> None:
        await autoscaler_run.run_process(
            simulation.scenario, carrier, simulation.clock, random.Random(1), hearing.on_event, hearing
        )

    with forget_what_is_said(), Unforeseen() as unforeseen:
        simulation.run(play)
    assert not unforeseen.found
    assert carrier.bent
    assert hearing.decisions
    assert hearing.process is not None
    assert hearing.process.autoscaler.loop.failures == 0


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1", "labels": {"app": "web"}},
    "spec": {
        "nodeName": "n",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}, "nodeAffinity": {}},
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}],
        "priority": 5,
        "terminationGracePeriodSeconds": 30,
    },
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}


@given(mutations.seeds)
@strategies.examples(300)
def test_whatever_a_running_pod_looks_like_it_stays_on_its_node(chance: random.Random) -> None:
    """Who it is, where it is and that it runs can be read; all else is bent."""
    found = msgspec.json.decode(msgspec.json.encode(POD))
    for _ in range(chance.randrange(1, 4)):
        key = chance.choice([key for key in found["spec"] if key != "nodeName"])
        found["spec"][key] = mutations.bend(found["spec"][key], chance)
    for key in ("labels", "annotations", "ownerReferences"):
        if chance.random() < 0.2:
            found["metadata"][key] = mutations.bend(found["metadata"].get(key), chance)
    found["status"]["conditions"] = mutations.bend(found["status"]["conditions"], chance)
    kept = cluster_snapshot.Snapshot()
    kept.add_node(facts.Node("n"))
    reflected = reflector.Reflector(
        resources.PODS, informer_sinks.pod_sink(kept, informer_sinks.ChangeBuffer()), random.Random(1)
    )
    reflected.next_step()
    with forget_what_is_said():
        reflected.receive(msgspec.json.encode({"type": "ADDED", "object": found}) + b"\n")
    assert [kept.pod(row).name for row in kept.pods_on(kept.nodes.rows["n"])] == ["p"]


def test_memory_without_end_would_be_refused() -> None:
    with pytest.raises(MemoryError):
        bytearray(2**31)


def test_a_failure_that_nobody_foresaw_would_be_heard() -> None:
    with Unforeseen() as unforeseen:
        try:
            raise KeyError("spec")
        except KeyError:
            logging.getLogger("windlass.x").exception("oh")
    assert "KeyError" in unforeseen.found[0]


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
