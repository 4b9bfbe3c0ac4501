"""Stories: played twice they are the same to the byte, with trouble, with a trace, and with the real autoscaler."""

import pathlib

import msgspec
import pytest

from tests.simulator import small_clusters
from windlass import clock
from windlass.apiserver import embedded_server, server
from windlass.kube import errors, transport
from windlass.simulator import autoscaler_run, simulation, workload_trace
from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.node_groups import RandomStreams
from windlass.simulator.scenario import loader
from windlass.simulator.simulation import FaultInjector

SCENARIOS = pathlib.Path(__file__).parents[2] / "scenarios"
TRACE = pathlib.Path(__file__).parents[3] / "shared" / "traces" / "openb-2023"

EVENTFUL = """
name: eventful
seed: {seed}
duration: 3h
groups:
  - name: general
    zones: [a, b]
    min: 1
    max: 9
    initial: 2
    capacity: {{cpu: 8, memory: 32Gi}}
    boot: {{median: 90s, spread: 0.4}}
    failure_rate: 0.2
workloads:
  - {{name: agent, kind: DaemonSet, requests: {{cpu: 100m}}}}
  - name: web
    daily: {{low: 10, high: 60, peak: 1h30m, noise: 0.1}}
    requests: {{cpu: 500m}}
    budget: {{max_unavailable: 20%}}
  - name: batch
    kind: Job
    replicas: 3
    run: {{median: 5m, spread: 0.5}}
    requests: {{cpu: 1}}
    arrivals: {{per_hour: 20}}
timeline:
  - {{at: 40m, do: outage, zone: a, for: 20m}}
  - {{at: 80m, do: vanish, group: general, count: 1}}
  - {{at: 90m, do: rollout, workload: web}}
  - {{at: 100m, do: upgrade, group: general-b}}
"""


async def _grow_while_anyone_waits(story: simulation.Simulation) -> None:
    """A stand-in for an autoscaler: one machine more for each group, every minute, while pods wait."""
    api = story.cluster.api
    while True:
        await story.clock.sleep(60)
        waiting = any(not api_client.node_of(pod) for pod in api.list_objects(api_client.PODS).values())
        for found in list(api.list_objects(api_client.MACHINE_DEPLOYMENTS).values()):
            if waiting and found["spec"]["replicas"] < 9:
                name = found["metadata"]["name"]
                small_clusters.scale(story.cluster, api_client.MACHINE_DEPLOYMENTS, name, found["spec"]["replicas"] + 1)


def _play(seed: int) -> bytes:
    story = simulation.Simulation(loader.parse_scenario(EVENTFUL.format(seed=seed), "eventful"))
    result = story.run(_grow_while_anyone_waits)
    assert result.violations == ()
    assert story.checker.steps > 100
    return msgspec.json.encode((result.totals, result.series, story.cluster.server.version))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    first = _play(1)
    assert _play(1) == first
    assert _play(2) != first


def test_whoever_plays_and_fails_ends_the_story() -> None:
    async def fail(story: simulation.Simulation) -> None:
        await story.clock.sleep(100)
        raise ValueError("no idea")

    story = simulation.Simulation(loader.parse_scenario(EVENTFUL.format(seed=1), "eventful"))
    with pytest.raises(ValueError, match="no idea"):
        story.run(fail)
    assert story.clock.monotonic_s() == 100


def test_trouble_fails_its_share_of_requests_and_keeps_the_rest_waiting() -> None:
    time = clock.VirtualClock()
    troubled = FaultInjector(
        embedded_server.InProcessTransport(server.Server(time), time), time, RandomStreams(1).for_component("trouble")
    )
    request = transport.Request("GET", "/api/v1/nodes")

    async def ask() -> int:
        failed = 0
        for _ in range(200):
            try:
                assert (await troubled.send(request)).status == 200
            except errors.ConnectFailed:
                failed += 1
        return failed

    assert time.run(ask()) == 0
    assert time.monotonic_s() == 0
    troubled.error_rate, troubled.delay_s = 0.25, 2.0
    assert 30 < time.run(ask()) < 70
    assert time.monotonic_s() == 400


# ── Traces ───────────────────────────────────────────────────────────────────────────────────────────────────────

PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time
late,1000,1024,0,0,,1000,1600,1100
early,4000,4096,1,1000,T4|P100,0,500,
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,16384,2,T4\nn2,8000,16384,2,T4\nn3,4000,8192,0,\n"


def _write(where: pathlib.Path, pods: str = PODS, nodes: str = NODES) -> tuple[pathlib.Path, pathlib.Path]:
    (where / "pods.csv").write_text(pods)
    (where / "nodes.csv").write_text(nodes)
    return where / "pods.csv", where / "nodes.csv"


def test_a_trace_is_read_with_arrivals_divided_and_lifetimes_kept(tmp_path: pathlib.Path) -> None:
    trace = workload_trace.load_trace(*_write(tmp_path), compress=10)
    assert [(pod.name, pod.created_s, pod.lasts_s) for pod in trace.pods] == [("early", 0, 500), ("late", 100, 500)]
    assert trace.pods[0].gpu_models == ("T4", "P100")
    assert [(type_.name, count) for type_, count in trace.machines] == [("m4-8", 1), ("m8-16-2xt4", 2)]
    assert trace.machine_count == 3


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        (PODS.replace("1000,1024", "much,1024"), "pods.csv:2: cpu_milli: found 'much', accepted is a number"),
        (PODS.replace("1000,1600,1100", "1000,900,1100"), "pods.csv:2: deletion_time: found 900, accepted is 1100"),
        (PODS.replace("gpu_spec", "gpus"), "pods.csv:2: gpu_spec: found nothing"),
    ],
)
def test_a_bad_trace_is_refused_with_file_line_and_column(tmp_path: pathlib.Path, pods: str, said: str) -> None:
    with pytest.raises(workload_trace.InvalidTrace) as refused:
        workload_trace.load_trace(*_write(tmp_path, pods))
    assert said in str(refused.value)


def test_pods_of_a_trace_run_as_long_as_they_did_on_machines_that_they_accept(tmp_path: pathlib.Path) -> None:
    trace = workload_trace.load_trace(*_write(tmp_path))
    story = simulation.Simulation(workload_trace.make_scenario(trace, "trace"), trace)

    async def watch(story: simulation.Simulation) -> None:
        for name in ("m8-16-2xt4", "m4-8"):
            small_clusters.scale(story.cluster, api_client.MACHINE_DEPLOYMENTS, name, 1)
        await story.clock.sleep(300)
        (pod,) = small_clusters.running(story.cluster)
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "early"
        assert api_client.node_of(pod).startswith("m8-16-2xt4")
        await story.clock.sleep(900)
        (pod,) = small_clusters.running(story.cluster)
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "late"
        await story.clock.sleep(1e9)

    result = story.run(watch)
    assert result.totals["pods"] == 2
    assert not small_clusters.pods(story.cluster)


@pytest.mark.skipif(not TRACE.exists(), reason="the recorded trace is not beside the project")
def test_the_recorded_trace_can_be_read() -> None:
    trace = workload_trace.load_trace(TRACE / "pods.csv.gz", TRACE / "nodes.csv.gz", compress=100)
    assert (len(trace.pods), trace.machine_count, len(trace.machines)) == (8152, 1523, 27)
    assert 1.4 < trace.lasts_s / 86400 < 1.6


# ── The real autoscaler ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["overprovisioning", "rollout", "api-trouble", "gang"])
def test_the_autoscaler_plays_a_story_to_its_expected_end(name: str) -> None:
    result = simulation.Simulation(loader.load_scenario(SCENARIOS / f"{name}.yaml")).run(autoscaler_run.run_autoscaler)
    assert result.violations == ()
    assert [str(outcome) for outcome in result.outcomes if not outcome.is_met] == []


def test_the_autoscaler_knows_what_machines_of_a_story_cost() -> None:
    story = """
    name: dear and cheap
    duration: 10m
    flags: {expander: price}
    groups:
      - {name: base, min: 1, max: 1, capacity: {cpu: 4, memory: 16Gi}, price: 1}
      - {name: cheap, max: 5, capacity: {cpu: 4, memory: 16Gi}, price: 0.1}
      - {name: dear, max: 5, capacity: {cpu: 4, memory: 16Gi}, price: 3}
    workloads:
      - {name: web, replicas: 9, requests: {cpu: 1, memory: 1Gi}}
    """
    nodes = simulation.Simulation(loader.parse_scenario(story, "story")).run(autoscaler_run.run_autoscaler).series.nodes
    assert (nodes["cheap"][-1], max(nodes["dear"])) == (2, 0)
