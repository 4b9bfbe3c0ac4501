"""Metric definitions: every metric family by name, type and labels, and the values of metrics."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

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
