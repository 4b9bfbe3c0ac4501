"""Metrics: every family of the recording, by name, type and labels, and what they count."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.loop import builders
from tests.observability import cluster_autoscaler_recordings
from tests.observability.recorded_situations import PEER, mark
from tests.observability.reporter_cluster import Stage
from windlass.engine import taints
from windlass.engine.model import facts, plan
from windlass.engine.model.settings import Settings
from windlass.observability import counter_values, gauge_values, metric_definitions, options
from windlass.observability.metric_definitions import MetricRegistry

_SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')

Sample = tuple[str, tuple[tuple[str, str], ...], float]


def samples(text: str) -> Iterator[Sample]:
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _SAMPLE.match(line)
            assert match is not None, line
            yield match[1], tuple(_LABEL.findall(match[2] or "")), float(match[3])


def read(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of every family, as the recording lists them."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    found: dict[str, set[str]] = {name: set() for name in kinds}
    for name, labels, _ in samples(text):
        family = name if name in kinds else re.sub(r"_(bucket|count|sum)$", "", name)
        found[family] |= {key for key, _ in labels} - {"le"}
    return {name: (kinds[name], tuple(sorted(labels))) for name, labels in found.items()}


def value(text: str, name: str, **labels: str) -> float:
    wanted = set(labels.items())
    (found,) = [number for sample, given, number in samples(text) if sample == name and set(given) == wanted]
    return found


async def a_scale_up_and_a_scale_down(stage: Stage) -> None:
    """One group 1 → 6 → 5 → 4, as the recording had it, with a pod that fits nowhere."""
    members = builders.nodes("g", 1)
    busy = [builders.running("w-0", "g-0", 3000)]
    waiting = [builders.pending(f"w-{number}", 3000) for number in range(1, 6)]
    picky = builders.pending("picky", spec={"node_selector": (("zone", "elsewhere"),)})
    group = builders.group("g", members, min_size=1)
    stage.loop(builders.observe([group], members, [*busy, *waiting, picky]))
    await stage.clock.sleep(30)
    grown = builders.nodes("g", 6)
    spread = [builders.running(f"w-{number}", f"g-{number}", 3000) for number in range(4)]
    light = builders.running("light", "g-4", 500)
    group = builders.group("g", grown, min_size=1)
    observation = builders.observe([group], grown, [*spread, light, picky])
    for _ in range(3):
        stage.loop(observation)
        await stage.clock.sleep(1)
    stage.move_drains(observation)
    marked = [mark(node, stage.clock.now_s()) if node.name in ("g-4", "g-5") else node for node in grown]
    observation = builders.observe([group], marked, [*spread, light, picky])
    for _ in range(3):
        stage.loop(observation)
        stage.move_drains(observation)
        await stage.clock.sleep(6)
    observation = builders.observe([group], marked, [*spread, picky])
    stage.move_drains(observation)
    stage.loop(observation)


@pytest.fixture(scope="module")
def face() -> str:
    settings = builders.at_once(PEER)
    stage = Stage(settings, reporting=options.ReportingOptions(emit_per_nodegroup_metrics=True))
    return stage.play(a_scale_up_and_a_scale_down).reporter.metrics.render().decode()


@pytest.mark.parametrize("family", cluster_autoscaler_recordings.families())
def test_each_recorded_family_is_there_with_its_type_and_labels(family: str, face: str) -> None:
    assert read(face)[family] == cluster_autoscaler_recordings.families()[family]


def test_no_family_is_there_that_the_peer_does_not_have(face: str) -> None:
    known = {family.name for family in metric_definitions.METRIC_FAMILIES}
    ours = {name for name in read(face) if name.startswith("cluster_autoscaler_")}
    assert ours <= known
    assert ours == set(cluster_autoscaler_recordings.families())


@pytest.mark.skipif(not cluster_autoscaler_recordings.OUTSIDE.exists(), reason="the recording is not at hand")
def test_the_transcription_is_the_recording() -> None:
    lines = (cluster_autoscaler_recordings.OUTSIDE / "metrics.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    assert {
        row[0]: (row[1], tuple(row[2].split(",")) if row[2] else ()) for row in rows
    } == cluster_autoscaler_recordings.families()


def test_what_was_done_is_counted(face: str) -> None:
    none = {"gpu_resource_name": "", "gpu_name": "", "dra_drivers": ""}
    prefix = "cluster_autoscaler_"
    assert value(face, f"{prefix}scaled_up_nodes_total", **none) == 5
    assert value(face, f"{prefix}scaled_down_nodes_total", reason="empty", **none) == 1
    assert value(face, f"{prefix}scaled_down_nodes_total", reason="underutilized", **none) == 1
    assert value(face, f"{prefix}evicted_pods_total", eviction_result="succeeded") == 1
    assert value(face, f"{prefix}nodes_count", state="ready") == 6
    assert value(face, f"{prefix}node_group_max_count", node_group="g") == 10
    assert value(face, f"{prefix}node_group_backoff_status", node_group="g", reason="") == 0
    assert value(face, f"{prefix}unschedulable_pods_count", type="unschedulable") == 1
    assert value(face, f"{prefix}cluster_cpu_current_cores") == 16  # two of six nodes are being deleted
    assert value(face, f"{prefix}node_taints_count", type=facts.TO_BE_DELETED) == 2
    assert value(face, f"{prefix}function_duration_seconds_count", function="main") == 8
    assert value(face, f"{prefix}cpu_limits_cores", direction="maximum") == 320_000
    assert (
        value(face, f"{prefix}binpacking_heterogeneity_sum", instance_type="", cpu_count="4", namespace_count="1") == 1
    )
    assert value(face, "windlass_instructions_total", kind="DeleteNode", outcome="done") == 2


def test_nothing_shows_when_a_series_began_or_is_totalled_twice(face: str) -> None:
    names = {name for name, _, _ in samples(face)}
    assert not [name for name in names if name.endswith("_created")]
    assert "cluster_autoscaler_old_unregistered_nodes_removed_count" in names
    assert "cluster_autoscaler_errors_total" in names
    assert {"process_cpu_seconds_total", "python_info"} <= names


def test_series_that_the_peer_shows_from_the_start_are_there() -> None:
    text = MetricRegistry().render().decode()
    for name, labels in metric_definitions.INITIAL_SERIES:
        family = next(
            metric_family
            for metric_family in metric_definitions.METRIC_FAMILIES
            if metric_family.name == metric_definitions.CA_PREFIX + name
        )
        assert value(text, family.name, **dict(zip(family.labels, labels, strict=True))) == 0
    assert not [name for name, _, _ in samples(text) if name.startswith("cluster_autoscaler_node_group_")]
    assert "cluster_autoscaler_unremovable_nodes_count" not in read(text)


def test_a_group_that_is_gone_disappears_and_a_reason_that_is_gone_is_nought() -> None:
    metrics = MetricRegistry(per_group=True)
    size, reason = "cluster_autoscaler_node_group_max_count", "cluster_autoscaler_unremovable_nodes_count"
    metrics.set_gauges({size: {("a",): 3.0, ("b",): 4.0}, reason: {("NotUnderutilized",): 2.0}})
    metrics.set_gauges({size: {("b",): 4.0}, reason: {}})
    text = metrics.render().decode()
    assert [labels for name, labels, _ in samples(text) if name == size] == [(("node_group", "b"),)]
    assert value(text, reason, reason="NotUnderutilized") == 0


def test_buckets_are_the_peers() -> None:
    buckets = metric_definitions.FUNCTION_DURATIONS.buckets
    assert len(buckets) == 150
    assert buckets[0] == 0.1
    assert buckets[-1] == pytest.approx(1800.0)
    assert list(metric_definitions.HETEROGENEITY.buckets) == [1, 2, 4, 8, 16, 32]
    assert metric_definitions.REMOVAL_LATENCY.buckets[-1] == pytest.approx(1477.89, abs=0.01)


def test_labels_and_help_are_escaped() -> None:
    metrics = MetricRegistry(per_group=True)
    name = "cluster_autoscaler_node_group_max_count"
    metrics.set_gauges({name: {('a"b\\c\nd',): 1.0}})
    assert f'{name}{{node_group="a\\"b\\\\c\\nd"}} 1\n' in metrics.render().decode()


# ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("labels", "capacity", "template", "told"),
    [
        ({}, {}, {}, ("", "")),
        ({}, {"nvidia.com/gpu": 2}, {}, ("nvidia.com/gpu", "generic")),
        ({"cluster-api/accelerator": "t4"}, {"amd.com/gpu": 1}, {}, ("amd.com/gpu", "not-listed")),
        ({"cluster-api/accelerator": "t4"}, {}, {"nvidia.com/gpu": 1}, ("nvidia.com/gpu", "missing-gpu")),
        ({"cluster-api/accelerator": "t4"}, {}, {}, ("nvidia.com/gpu", "unexpected-label")),
    ],
)
def test_gpus_are_described_as_far_as_they_show(
    labels: dict[str, str], capacity: dict[str, int], template: dict[str, int], told: tuple[str, str]
) -> None:
    has = tuple(capacity.items())
    node = builders.node("n", labels=labels, capacity=has, allocatable=has)
    group = builders.group("g", template=builders.node("t", capacity=tuple(template.items())))
    assert counter_values.describe_gpu(node, group) == told


def test_scale_ups_that_failed_are_counted_by_cause() -> None:
    async def script(stage: Stage) -> None:
        observation = builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 100)])
        stage.loop(observation, {plan.Resize("g", 0, 1, 10): "replicas are frozen"})

    text = Stage(PEER).play(script).reporter.metrics.render().decode()
    assert value(text, "cluster_autoscaler_failed_node_creations_total", reason="cloudProviderError") == 1
    assert value(text, "windlass_instructions_total", kind="Resize", outcome="failed") == 1


def test_nodes_that_do_not_come_are_counted_once_however_long_the_decision_stands() -> None:
    settings = builders.choose(PEER, "groups", max_node_provision_time_s=60.0)

    async def script(stage: Stage) -> None:
        stage.loop(builders.observe([builders.group("g", target=0)], [], [builders.pending("p", 100)]))
        late = builders.observe([builders.group("g", target=1)])
        for _ in range(4):
            await stage.clock.sleep(45)
            stage.loop(late)

    text = Stage(settings, reporting=options.ReportingOptions(emit_per_nodegroup_metrics=True)).play(script)
    face = text.reporter.metrics.render().decode()
    assert value(face, "cluster_autoscaler_failed_node_creations_total", reason="timeout") == 1
    assert value(face, "cluster_autoscaler_node_group_backoff_status", node_group="g", reason="timeout") == 1


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (taints.TO_BE_DELETED_KEY, taints.TO_BE_DELETED_KEY),
        ("node.kubernetes.io/not-ready", "node.kubernetes.io/not-ready"),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/x", "ignore-taint.cluster-autoscaler.kubernetes.io/"),
        ("startup-taint.cluster-autoscaler.kubernetes.io/x", "startup-taint"),
        ("mine", "startup-taint"),
        ("status-taint.cluster-autoscaler.kubernetes.io/x", "status-taint"),
        ("dedicated", "other"),
    ],
)
def test_taints_are_counted_by_type(key: str, told: str) -> None:
    template_settings = replace(Settings().templates, startup_taint=("mine",))
    assert gauge_values.taint_type(key, taints.make_transient_taints(template_settings)) == told


def test_limits_that_stand_in_the_way_are_counted() -> None:
    settings = builders.choose(PEER, "limits", cores_total=replace(PEER.limits.cores_total, max=4))

    async def script(stage: Stage) -> None:
        members = builders.nodes("g", 1)
        busy, waiting = builders.running("busy", "g-0", 4000), builders.pending("p", 4000)
        stage.loop(builders.observe([builders.group("g", members)], members, [busy, waiting]))

    text = Stage(settings).play(script).reporter.metrics.render().decode()
    skipped = "cluster_autoscaler_skipped_scale_events_count"
    assert value(text, skipped, direction="up", reason="CpuResourceLimit") == 1
    assert value(text, skipped, direction="up", reason="MemoryResourceLimit") == 0


def test_removals_are_told_by_how_late_they_come_and_what_kept_them() -> None:
    settings = builders.choose(PEER, "groups", scale_down_unneeded_time_s=60.0)

    async def script(stage: Stage) -> None:
        members = builders.nodes("g", 3)
        busy = builders.running("busy", "g-0", 3000)
        for _ in range(2):
            stage.loop(builders.observe([builders.group("g", members, min_size=2)], members, [busy]))
            await stage.clock.sleep(80)
        left = [node for node in members if node.name not in stage.memory.durable.drains]
        stage.loop(builders.observe([builders.group("g", left)], left, [busy]))

    reporting_options = options.ReportingOptions(node_removal_latency_tracking_enabled=True)
    text = Stage(settings, reporting=reporting_options).play(script).reporter.metrics.render().decode()
    late = "cluster_autoscaler_node_removal_latency_seconds"
    assert value(text, f"{late}_sum", deleted="true", delay_reason="none") == 20
    assert value(text, f"{late}_count", deleted="true", delay_reason="none") == 1
    assert value(text, f"{late}_sum", deleted="true", delay_reason="NodeGroupMinSizeReached") == 100


@pytest.mark.parametrize(("enabled", "longest_s"), [(True, 30.0), (False, 0.0)])
def test_the_longest_time_that_a_candidate_was_skipped_is_shown_if_asked_for(enabled: bool, longest_s: float) -> None:
    """Of 14 unneeded nodes, Cluster Autoscaler tries one more than may be removed at the same time in each loop."""
    settings = builders.choose(PEER, "scale_down", max_scale_down_parallelism=1)
    members = builders.nodes("g", 14)

    async def script(stage: Stage) -> None:
        for _ in range(4):
            stage.loop(builders.observe([builders.group("g", members, min_size=1)], members))
            await stage.clock.sleep(10)

    reporting_options = options.ReportingOptions(max_node_skip_eval_time_tracker_enabled=enabled)
    text = Stage(settings, reporting=reporting_options).play(script).reporter.metrics.render().decode()
    assert value(text, "cluster_autoscaler_max_node_skip_eval_duration_seconds") == longest_s


def test_metrics_of_our_own_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
    own = [
        family
        for family in metric_definitions.METRIC_FAMILIES
        if family.name.startswith(metric_definitions.WINDLASS_PREFIX)
    ]
    assert own
    for family in own:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        assert f"| `{family.name}` | {family.kind} | {labels}{' ' if labels else ''}|" in page
