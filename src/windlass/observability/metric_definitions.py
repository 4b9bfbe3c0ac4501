"""Metric definitions: every metric family by name, type and labels, and the values of metrics.

Metric registry: keeps gauges, counters and histograms, and renders the Prometheus exposition format.

Values come from `gauge_values` and `counter_values`.
"""

import enum
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import prometheus_client
from prometheus_client import gc_collector, platform_collector, process_collector
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from windlass.runtime import http_server

CA_PREFIX = "cluster_autoscaler_"

WINDLASS_PREFIX = "windlass_"


class MetricKind(enum.StrEnum):
    """Type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric family."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    per_group: bool = False
    """Only with --emit-per-nodegroup-metrics: one series per group."""
    constant: str = ""
    """Why the metric is constant, if it is."""
    normally_zero: str = ""
    """When the metric changes, if only with Cluster Autoscaler's behavior or because of a bug."""


class LoopFunction(enum.StrEnum):
    """Measured parts of the loop, with Cluster Autoscaler's names."""

    MAIN = "main"
    MAIN_SUCCESSFUL = "mainSuccessful"
    AUTOSCALING = "autoscaling"
    LOOP_WAIT = "loopWait"
    CLOUD_PROVIDER_REFRESH = "cloudProviderRefresh"
    UPDATE_STATE = "updateClusterState"
    FILTER_OUT_SCHEDULABLE = "filterOutSchedulable"
    SCALE_UP = "scaleUp"
    BUILD_EQUIVALENCE_GROUPS = "scaleUp:buildPodEquivalenceGroups"
    ESTIMATE = "scaleUp:estimate"
    SKIPPED_GROUPS = "scaleUp:skippedNodeGroupsSimulation"
    FIND_UNNEEDED = "findUnneeded"
    SCALE_DOWN = "scaleDown"
    NODE_DELETION = "scaleDown:nodeDeletion"
    SOFT_TAINT = "scaleDown:softTaintUnneeded"


def buckets_between(smallest: float, largest: float, count: int) -> tuple[float, ...]:
    """Return geometric histogram buckets."""
    factor = (largest / smallest) ** (1 / (count - 1))
    return tuple(smallest * factor**number for number in range(count))


def exponential_buckets(smallest: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(smallest * factor**number for number in range(count))


_GPU_LABELS = ("gpu_resource_name", "gpu_name")

_NODE_LABELS = (*_GPU_LABELS, "dra_drivers")

_SKIPPED_HELP = (
    "Longest time since a scale-down candidate was evaluated, with --max-node-skip-eval-time-tracker-enabled."
)

_GAUGES = (
    ("cluster_safe_to_autoscale", "Whether the cluster is healthy: 1 if it is, 0 if too many nodes are unready.", ()),
    ("nodes_count", "Number of nodes by state.", ("state",)),
    ("node_groups_count", "Number of node groups by type: autoscaled or autoprovisioned.", ("node_group_type",)),
    ("unschedulable_pods_count", "Number of unschedulable pods, by scheduler result.", ("type",)),
    ("skipped_pods_count", "Number of unschedulable pods skipped by scale-up for lack of time.", ("requestor",)),
    ("max_nodes_count", "Maximum number of nodes in all node groups, limited by --max-nodes-total.", ()),
    ("cluster_cpu_current_cores", "Number of cores in the cluster, minus nodes being deleted.", ()),
    ("cpu_limits_cores", "Minimum and maximum number of cores, from --cores-total.", ("direction",)),
    ("cluster_memory_current_bytes", "Bytes of memory in the cluster, minus nodes being deleted.", ()),
    ("memory_limits_bytes", "Minimum and maximum bytes of memory, from --memory-total.", ("direction",)),
    ("last_activity", "Time of the last start of a part of the loop, in seconds since the epoch.", ("activity",)),
    ("pending_node_deletions", "Number of empty nodes that wait to be deleted with others of their group.", ()),
    ("unneeded_nodes_count", "Number of nodes currently considered unneeded.", ()),
    ("unremovable_nodes_count", "Number of nodes currently considered unremovable, by reason.", ("reason",)),
    ("scale_down_in_cooldown", "Whether scale-down is in cooldown: 1 if it is, otherwise 0.", ()),
    ("overflowing_controllers_count", "Number of controllers with too many pod equivalence groups.", ()),
    ("node_taints_count", "Number of node taints by type.", ("type",)),
    (
        "inconsistent_instances_migs_count",
        "Number of managed instance groups with an inconsistent list of instances.",
        (),
    ),
    ("max_node_skip_eval_duration_seconds", _SKIPPED_HELP, ()),
    (
        "dra_node_template_resources_mismatch",
        "Number of DRA pools on ready nodes that differ from the template of their node group.",
        ("driver", "mismatch_type"),
    ),
)

_GROUP_GAUGES = (
    ("node_group_min_count", "Minimum size of a node group.", ("node_group",)),
    ("node_group_max_count", "Maximum size of a node group.", ("node_group",)),
    ("node_group_target_count", "Target size of a node group.", ("node_group",)),
    ("node_group_healthiness", "Whether a node group is healthy: 1 if it is, otherwise 0.", ("node_group",)),
    (
        "node_group_backoff_status",
        "Whether a node group is in backoff: 1 if it is, otherwise 0.",
        ("node_group", "reason"),
    ),
)

_COUNTERS = (
    ("errors_total", "Number of failed loops, by type of error.", ("type",)),
    ("scaled_up_nodes_total", "Number of nodes added by scale-up.", _NODE_LABELS),
    ("scaled_up_gpu_nodes_total", "Number of GPU nodes added by scale-up.", _GPU_LABELS),
    ("failed_scale_ups_total", "Number of failed scale-ups of node groups.", ("reason", *_NODE_LABELS)),
    ("failed_gpu_scale_ups_total", "Number of failed scale-ups of GPU node groups.", ("reason", *_GPU_LABELS)),
    ("failed_node_creations_total", "Number of nodes that scale-up requested and that were not created.", ("reason",)),
    ("scaled_down_nodes_total", "Number of nodes removed by scale-down.", ("reason", *_NODE_LABELS)),
    ("scaled_down_gpu_nodes_total", "Number of GPU nodes removed by scale-down.", ("reason", *_GPU_LABELS)),
    ("evicted_pods_total", "Number of pods evicted by scale-down, by result.", ("eviction_result",)),
    ("old_unregistered_nodes_removed_count", "Number of removed instances that had not registered as nodes.", ()),
    ("skipped_scale_events_count", "Number of times that a resource limit blocked scaling.", ("direction", "reason")),
    ("created_node_groups_total", "Number of node groups created by node autoprovisioning.", ("group_type",)),
    ("deleted_node_groups_total", "Number of node groups deleted by node autoprovisioning.", ("group_type",)),
)

BUFFERS_RECONCILED = MetricFamily(
    f"{CA_PREFIX}capacity_buffer_oldest_reconciliation_timestamp_seconds",
    MetricKind.GAUGE,
    "Oldest reconciliation time of CapacityBuffers, or creation time of new ones; the current time without any.",
    ("new_buffer",),
)

FUNCTION_DURATIONS = MetricFamily(
    f"{CA_PREFIX}function_duration_seconds", MetricKind.HISTOGRAM, "Duration of the parts of the loop.", ("function",),
    buckets_between(0.1, 1800.0, 150),
)  # fmt: skip

FUNCTION_DURATION_SUMS = MetricFamily(
    f"{CA_PREFIX}function_duration_quantile_seconds",
    MetricKind.SUMMARY,
    "Duration of the parts of the loop.",
    ("function",),
)

HETEROGENEITY = MetricFamily(
    f"{CA_PREFIX}binpacking_heterogeneity", MetricKind.HISTOGRAM, "Number of pod equivalence groups per estimate.",
    ("instance_type", "cpu_count", "namespace_count"), exponential_buckets(1.0, 2.0, 6),
)  # fmt: skip

REMOVAL_LATENCY = MetricFamily(
    f"{CA_PREFIX}node_removal_latency_seconds", MetricKind.HISTOGRAM,
    "Time from a node's eligibility for removal until its removal, or until it was needed again, with "
    "--node-removal-latency-tracking-enabled.",
    ("deleted", "delay_reason"),
    exponential_buckets(1.0, 1.5, 19),
)  # fmt: skip

DECISION_SECONDS = MetricFamily(
    f"{WINDLASS_PREFIX}decision_seconds", MetricKind.HISTOGRAM, "Duration of decisions: loops and drain steps.",
    ("kind",), (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
)  # fmt: skip

INSTRUCTIONS = MetricFamily(
    f"{WINDLASS_PREFIX}instructions_total",
    MetricKind.COUNTER,
    "Number of executed instructions, by kind and outcome.",
    ("kind", "outcome"),
)

SET_ASIDE_OBJECTS = MetricFamily(
    f"{WINDLASS_PREFIX}set_aside_objects",
    MetricKind.GAUGE,
    "Number of objects that cannot be read or evaluated completely, by kind.",
    ("kind",),
)

MEMORY_BYTES = MetricFamily(
    f"{WINDLASS_PREFIX}memory_bytes", MetricKind.GAUGE, "Size of the persisted memory in bytes."
)

EXPANDER_ANSWERS = MetricFamily(
    f"{WINDLASS_PREFIX}expander_answers_total",
    MetricKind.COUNTER,
    "Number of responses of the gRPC expander, by their effect.",
    ("worth",),
)

UNEXPECTED_ERRORS = MetricFamily(
    http_server.UNEXPECTED_ERRORS_NAME,
    MetricKind.COUNTER,
    http_server.UNEXPECTED_ERRORS_HELP,
    http_server.UNEXPECTED_ERRORS_LABELS,
)
"""Also exported by the operator."""

DRAINING_NODES = MetricFamily(
    f"{WINDLASS_PREFIX}draining_nodes", MetricKind.GAUGE, "Number of draining nodes, by phase.", ("phase",)
)

CONSTANT_METRICS: Mapping[str, str] = {
    f"{CA_PREFIX}skipped_pods_count": "0: equivalent pods are placed together, so no search is cut off.",
    f"{CA_PREFIX}inconsistent_instances_migs_count": "0: Cluster API has no managed instance groups.",
    f"{CA_PREFIX}created_node_groups_total": "no series: windlass does not create or delete node groups.",
    f"{CA_PREFIX}deleted_node_groups_total": "no series: windlass does not create or delete node groups.",
}
"""Families that exist for Cluster Autoscaler's dashboards and never change, and why."""

NORMALLY_ZERO_METRICS: Mapping[str, str] = {
    f"{CA_PREFIX}overflowing_controllers_count": (
        "it changes with `--group-pods-by-likeness=false`, as with `--behavior=cluster-autoscaler`. Otherwise a "
        "controller may have any number of pod equivalence groups."
    ),
    http_server.UNEXPECTED_ERRORS_NAME: "it changes because of a bug only.",
}
"""Families that are 0 in the default behavior without bugs, and when they change."""

_FAMILIES: tuple[MetricFamily, ...] = (
    *(MetricFamily(CA_PREFIX + name, MetricKind.GAUGE, text, labels) for name, text, labels in _GAUGES),
    *(
        MetricFamily(CA_PREFIX + name, MetricKind.GAUGE, text, labels, per_group=True)
        for name, text, labels in _GROUP_GAUGES
    ),
    *(MetricFamily(CA_PREFIX + name, MetricKind.COUNTER, text, labels) for name, text, labels in _COUNTERS),
    BUFFERS_RECONCILED,
    FUNCTION_DURATIONS,
    FUNCTION_DURATION_SUMS,
    HETEROGENEITY,
    REMOVAL_LATENCY,
    DECISION_SECONDS,
    INSTRUCTIONS,
    SET_ASIDE_OBJECTS,
    MEMORY_BYTES,
    EXPANDER_ANSWERS,
    DRAINING_NODES,
    UNEXPECTED_ERRORS,
)

METRIC_FAMILIES = tuple(
    replace(one, constant=CONSTANT_METRICS.get(one.name, ""), normally_zero=NORMALLY_ZERO_METRICS.get(one.name, ""))
    for one in _FAMILIES
)

ERROR_TYPES = (
    "apiCallError", "cloudProviderError", "configurationError", "internalError", "nodeGroupDoesNotExistError",
    "transientError", "unexpectedScaleDownStateError",
)  # fmt: skip

_NO_LABELS = ("", "", "")

INITIAL_SERIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    *(("errors_total", (one,)) for one in ERROR_TYPES),
    *(("failed_scale_ups_total", (one, *_NO_LABELS)) for one in ("cloudProviderError", "apiCallError", "timeout")),
    *(("failed_node_creations_total", (one,)) for one in ("cloudProviderError", "apiCallError", "timeout")),
    *(("scaled_down_nodes_total", (one, *_NO_LABELS)) for one in ("underutilized", "empty", "unready")),
    *(("evicted_pods_total", (one,)) for one in ("succeeded", "failed")),
    *(
        ("skipped_scale_events_count", (direction, limit))
        for direction in ("down", "up")
        for limit in ("CpuResourceLimit", "MemoryResourceLimit")
    ),
)
"""Series that exist from the start, at 0: metric without its prefix, and label values."""

SeriesValues = Mapping[tuple[str, ...], float]
"""Values by label values, in the family's order; `()` without labels."""

GaugeValues = Mapping[str, SeriesValues]
"""Values by metric name. A metric that is missing here keeps its values."""


@dataclass(frozen=True, slots=True)
class CounterIncrement:
    """An increment of a counter."""

    name: str
    labels: tuple[str, ...] = ()
    by: float = 1.0


def format_go_float(value: float) -> str:
    """Format a float like Go's %v, for the range of ratios."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value).removesuffix(".0")


_SUFFIXES = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("", "_count", "_sum")}


def render_exposition(registry: prometheus_client.CollectorRegistry, untotalled: Collection[str] = ()) -> bytes:
    """Render all metrics. `untotalled`: counters whose names do not end in `_total`."""
    return "".join(line for family in registry.collect() for line in _sample_lines(family, untotalled)).encode()


def _sample_lines(family: Metric, untotalled: Collection[str]) -> Iterator[str]:
    name = family.name
    if family.type == "counter" and name not in untotalled:
        name += "_total"
    kind = {"info": "gauge", "stateset": "gauge", "unknown": "untyped", "gaugehistogram": "histogram"}
    samples = [(_sample_name(sample, family, name), sample) for sample in family.samples]
    kept = [(spelled, sample) for spelled, sample in samples if spelled]
    if not kept:
        return
    if family.type == "info":
        name += "_info"
    yield f"# HELP {name} {_escape_label(family.documentation)}\n"
    yield f"# TYPE {name} {kind.get(family.type, family.type)}\n"
    for spelled, sample in kept:
        yield f"{spelled}{_format_labels(sample)} {format_go_float(sample.value)}\n"


def _sample_name(sample: Sample, family: Metric, name: str) -> str:
    """Return the name of a sample; empty if it is not shown."""
    if family.type == "counter":
        return "" if sample.name.endswith("_created") else name
    known = _SUFFIXES.get(family.type)
    return sample.name if known is None or sample.name.removeprefix(family.name) in known else ""


def _format_labels(sample: Sample) -> str:
    if not sample.labels:
        return ""
    parts = (f'{key}="{_escape_label(value, quoted=True)}"' for key, value in sorted(sample.labels.items()))
    return f"{{{','.join(parts)}}}"


def _escape_label(text: str, quoted: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quoted else text


_WITHOUT_TOTAL_SUFFIX = frozenset(
    family.name
    for family in METRIC_FAMILIES
    if family.kind is MetricKind.COUNTER and not family.name.endswith("_total")
)

_KEPT_AT_ZERO = frozenset(
    {
        f"{CA_PREFIX}unremovable_nodes_count",
        f"{CA_PREFIX}node_taints_count",
        f"{CA_PREFIX}dra_node_template_resources_mismatch",
        DRAINING_NODES.name,
    }
)
"""Gauges whose series stay at 0 without objects of their kind. Other series disappear with their object."""


class MetricRegistry:
    """All metrics of one process."""

    def __init__(self, *, per_group: bool = False) -> None:
        self.registry = prometheus_client.CollectorRegistry(auto_describe=False)
        process_collector.ProcessCollector(registry=self.registry)
        platform_collector.PlatformCollector(registry=self.registry)
        gc_collector.GCCollector(registry=self.registry)
        http_server.register_unexpected_errors(self.registry)
        shown = [family for family in METRIC_FAMILIES if per_group or not family.per_group]
        self._gauges = {
            metric_family.name: _gauge(metric_family, self.registry)
            for metric_family in shown
            if metric_family.kind is MetricKind.GAUGE
        }
        self._counters = {one.name: _counter(one, self.registry) for one in shown if _is_counted_here(one)}
        self._histograms = {
            one.name: _histogram(one, self.registry) for one in shown if one.kind is MetricKind.HISTOGRAM
        }
        sums = FUNCTION_DURATION_SUMS
        self._sums = prometheus_client.Summary(
            sums.name, sums.help, sums.labels,
            registry=self.registry,
        )  # fmt: skip
        self._labels: dict[str, set[tuple[str, ...]]] = {}
        for name, labels in INITIAL_SERIES:
            self.increment((CounterIncrement(CA_PREFIX + name, labels, 0.0),))

    def render(self) -> bytes:
        """Render the response of /metrics."""
        return render_metrics(self.registry)

    def set_gauges(self, readings: GaugeValues) -> None:
        """Set gauges. Series that are missing now disappear, or become 0."""
        for name, values in readings.items():
            gauge = self._gauges.get(name)
            if gauge is None:
                continue
            for labels, value in values.items():
                (gauge.labels(*labels) if labels else gauge).set(value)
            gone = self._labels.get(name, set()) - set(values)
            for labels in gone:
                if name in _KEPT_AT_ZERO:
                    gauge.labels(*labels).set(0.0)
                else:
                    gauge.remove(*labels)
            self._labels[name] = set(values) | (gone if name in _KEPT_AT_ZERO else set())

    def increment(self, counts: Iterable[CounterIncrement]) -> None:
        """Increment counters."""
        for counter_increment in counts:
            counter = self._counters[counter_increment.name]
            (counter.labels(*counter_increment.labels) if counter_increment.labels else counter).inc(
                counter_increment.by
            )

    def observe(self, family: MetricFamily, labels: tuple[str, ...], value: float) -> None:
        """Observe a histogram value."""
        self._histograms[family.name].labels(*labels).observe(value)

    def observe_duration(self, function: LoopFunction, seconds: float) -> None:
        """Observe the duration of a part of the loop."""
        self.observe(FUNCTION_DURATIONS, (str(function),), seconds)
        self._sums.labels(str(function)).observe(seconds)

    def set_last_activity(self, function: LoopFunction, now_s: float) -> None:
        """Record the start of a part of the loop."""
        self._gauges[f"{CA_PREFIX}last_activity"].labels(str(function)).set(float(int(now_s)))

    def set_aside(self, by_kind: Mapping[str, int]) -> None:
        """Set the number of invalid objects by kind."""
        self.set_gauges({SET_ASIDE_OBJECTS.name: {(kind,): float(count) for kind, count in by_kind.items()}})


def render_metrics(registry: prometheus_client.CollectorRegistry) -> bytes:
    """Render a registry with these metrics, for `runtime.http_server`."""
    return render_exposition(registry, _WITHOUT_TOTAL_SUFFIX)


def _is_counted_here(family: MetricFamily) -> bool:
    return (
        family.kind is MetricKind.COUNTER and family.name != UNEXPECTED_ERRORS.name
    )  # counted by the process-wide registry


def _gauge(family: MetricFamily, registry: prometheus_client.CollectorRegistry) -> prometheus_client.Gauge:
    return prometheus_client.Gauge(family.name, family.help, family.labels, registry=registry)


def _counter(family: MetricFamily, registry: prometheus_client.CollectorRegistry) -> prometheus_client.Counter:
    return prometheus_client.Counter(family.name, family.help, family.labels, registry=registry)


def _histogram(family: MetricFamily, registry: prometheus_client.CollectorRegistry) -> prometheus_client.Histogram:
    return prometheus_client.Histogram(
        family.name, family.help, family.labels, buckets=family.buckets, registry=registry
    )
