"""Metric definitions: every metric family by name, kind and labels, and the values that metrics are set to."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from windlass.runtime import http_server

CA_PREFIX = "cluster_autoscaler_"

WINDLASS_PREFIX = "windlass_"


class MetricKind(enum.StrEnum):
    """How a metric behaves."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    per_group: bool = False
    """Only with --emit-per-nodegroup-metrics: one series for each group."""
    constant: str = ""
    """Why it never moves, if so."""
    normally_zero: str = ""
    """When it moves, if only with flags of Cluster Autoscaler's behavior or because of a bug."""


class LoopFunction(enum.StrEnum):
    """Parts of the loop. The names are Cluster Autoscaler's."""

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
    """So many buckets, each larger than the one before by the same factor."""
    factor = (largest / smallest) ** (1 / (count - 1))
    return tuple(smallest * factor**number for number in range(count))


def exponential_buckets(smallest: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(smallest * factor**number for number in range(count))


_GPU_LABELS = ("gpu_resource_name", "gpu_name")

_NODE_LABELS = (*_GPU_LABELS, "dra_drivers")

_SKIPPED_HELP = (
    "How long a candidate for removal has not been evaluated, at most, with --max-node-skip-eval-time-tracker-enabled."
)

_GAUGES = (
    ("cluster_safe_to_autoscale", "1 if few enough nodes are unready for anything to be decided, otherwise 0.", ()),
    ("nodes_count", "Nodes by state.", ("state",)),
    ("node_groups_count", "Node groups by who made them.", ("node_group_type",)),
    ("unschedulable_pods_count", "Pods that wait for a node, by what the scheduler made of them.", ("type",)),
    ("skipped_pods_count", "Waiting pods that were not judged for lack of time.", ("requestor",)),
    ("max_nodes_count", "Nodes that all groups may have together, within --max-nodes-total.", ()),
    ("cluster_cpu_current_cores", "Cores of all nodes that are not being deleted.", ()),
    ("cpu_limits_cores", "What --cores-total allows.", ("direction",)),
    ("cluster_memory_current_bytes", "Memory of all nodes that are not being deleted.", ()),
    ("memory_limits_bytes", "What --memory-total allows.", ("direction",)),
    ("last_activity", "When a part of the loop last began, in seconds since the epoch.", ("activity",)),
    ("pending_node_deletions", "Nodes without pods that wait for others of their group to be deleted with them.", ()),
    ("unneeded_nodes_count", "Nodes that are not needed.", ()),
    ("unremovable_nodes_count", "Nodes that cannot go, by reason.", ("reason",)),
    ("scale_down_in_cooldown", "1 while nothing is removed because of a change before, otherwise 0.", ()),
    ("overflowing_controllers_count", "Controllers whose waiting pods differ too much to be judged together.", ()),
    ("node_taints_count", "Taints on nodes, by type.", ("type",)),
    ("inconsistent_instances_migs_count", "Managed instance groups whose instances are not known in full.", ()),
    ("max_node_skip_eval_duration_seconds", _SKIPPED_HELP, ()),
    (
        "dra_node_template_resources_mismatch",
        "Pools of devices on ready nodes that differ from their group's template.",
        ("driver", "mismatch_type"),
    ),
)

_GROUP_GAUGES = (
    ("node_group_min_count", "The smallest size of a group.", ("node_group",)),
    ("node_group_max_count", "The largest size of a group.", ("node_group",)),
    ("node_group_target_count", "The size that a group should have.", ("node_group",)),
    ("node_group_healthiness", "1 if a group lacks few enough nodes, otherwise 0.", ("node_group",)),
    ("node_group_backoff_status", "1 while a group is left alone after a failure.", ("node_group", "reason")),
)

_COUNTERS = (
    ("errors_total", "Loops that failed, by type of error.", ("type",)),
    ("scaled_up_nodes_total", "Nodes asked for.", _NODE_LABELS),
    ("scaled_up_gpu_nodes_total", "Nodes with GPUs asked for.", _GPU_LABELS),
    ("failed_scale_ups_total", "Scale-ups of a group that failed.", ("reason", *_NODE_LABELS)),
    ("failed_gpu_scale_ups_total", "Scale-ups of a group with GPUs that failed.", ("reason", *_GPU_LABELS)),
    ("failed_node_creations_total", "Nodes asked for that did not come.", ("reason",)),
    ("scaled_down_nodes_total", "Nodes removed.", ("reason", *_NODE_LABELS)),
    ("scaled_down_gpu_nodes_total", "Nodes with GPUs removed.", ("reason", *_GPU_LABELS)),
    ("evicted_pods_total", "Pods that were to leave a node, by whether they could be made to.", ("eviction_result",)),
    ("old_unregistered_nodes_removed_count", "Instances removed that never registered.", ()),
    ("skipped_scale_events_count", "Times that a limit on resources stood in the way.", ("direction", "reason")),
    ("created_node_groups_total", "Node groups created.", ("group_type",)),
    ("deleted_node_groups_total", "Node groups deleted.", ("group_type",)),
)

BUFFERS_RECONCILED = MetricFamily(
    f"{CA_PREFIX}capacity_buffer_oldest_reconciliation_timestamp_seconds",
    MetricKind.GAUGE,
    "When the CapacityBuffer was last reconciled that waits longest, or was created if never; now, where none waits.",
    ("new_buffer",),
)

FUNCTION_DURATIONS = MetricFamily(
    f"{CA_PREFIX}function_duration_seconds", MetricKind.HISTOGRAM, "Time that parts of the loop took.", ("function",),
    buckets_between(0.1, 1800.0, 150),
)  # fmt: skip

FUNCTION_DURATION_SUMS = MetricFamily(
    f"{CA_PREFIX}function_duration_quantile_seconds",
    MetricKind.SUMMARY,
    "Time that parts of the loop took.",
    ("function",),
)

HETEROGENEITY = MetricFamily(
    f"{CA_PREFIX}binpacking_heterogeneity", MetricKind.HISTOGRAM, "Kinds of pods in one estimate.",
    ("instance_type", "cpu_count", "namespace_count"), exponential_buckets(1.0, 2.0, 6),
)  # fmt: skip

REMOVAL_LATENCY = MetricFamily(
    f"{CA_PREFIX}node_removal_latency_seconds", MetricKind.HISTOGRAM,
    "Time from when an unneeded node might go until it went, or was needed again, with "
    "--node-removal-latency-tracking-enabled.",
    ("deleted", "delay_reason"),
    exponential_buckets(1.0, 1.5, 19),
)  # fmt: skip

DECISION_SECONDS = MetricFamily(
    f"{WINDLASS_PREFIX}decision_seconds", MetricKind.HISTOGRAM, "Time that a decision took, by whether it is a loop's or a drain's.",
    ("kind",), (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
)  # fmt: skip

INSTRUCTIONS = MetricFamily(
    f"{WINDLASS_PREFIX}instructions_total",
    MetricKind.COUNTER,
    "Instructions carried out, by kind and outcome.",
    ("kind", "outcome"),
)

SET_ASIDE_OBJECTS = MetricFamily(
    f"{WINDLASS_PREFIX}set_aside_objects",
    MetricKind.GAUGE,
    "Objects that cannot be read or evaluated, or not in full, by kind.",
    ("kind",),
)

MEMORY_BYTES = MetricFamily(
    f"{WINDLASS_PREFIX}memory_bytes", MetricKind.GAUGE, "Size of what is remembered from loop to loop, as saved."
)

EXPANDER_ANSWERS = MetricFamily(
    f"{WINDLASS_PREFIX}expander_answers_total",
    MetricKind.COUNTER,
    "Answers of the grpc expander, by what they were worth.",
    ("worth",),
)

UNEXPECTED_ERRORS = MetricFamily(
    http_server.UNEXPECTED_ERRORS_NAME, MetricKind.COUNTER, http_server.UNEXPECTED_ERRORS_HELP, http_server.UNEXPECTED_ERRORS_LABELS
)  # fmt: skip
"""The operator shows it, too."""

DRAINING_NODES = MetricFamily(
    f"{WINDLASS_PREFIX}draining_nodes", MetricKind.GAUGE, "Nodes on their way out, by what they wait for.", ("phase",)
)

CONSTANT_METRICS: Mapping[str, str] = {
    f"{CA_PREFIX}skipped_pods_count": "0: pods that are alike are judged as one, and no search for room is cut short.",
    f"{CA_PREFIX}inconsistent_instances_migs_count": "0: Cluster API has no such groups.",
    f"{CA_PREFIX}created_node_groups_total": "no series: node groups are the user's.",
    f"{CA_PREFIX}deleted_node_groups_total": "no series: node groups are the user's.",
}
"""Families that are there for the sake of Cluster Autoscaler's dashboards and never move, and why."""

NORMALLY_ZERO_METRICS: Mapping[str, str] = {
    f"{CA_PREFIX}overflowing_controllers_count": (
        "it moves with `--group-pods-by-likeness=false`, as under `--behavior=cluster-autoscaler`. Otherwise pods that "
        "are alike are judged as one, however many kinds of them a controller has."
    ),
    http_server.UNEXPECTED_ERRORS_NAME: "it moves because of a bug only.",
}
"""Families that show 0 in the default behavior and without bugs, and when they move."""

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
"""Series that are there from the start, at 0: metric without its prefix, and values of its labels."""

SeriesValues = Mapping[tuple[str, ...], float]
"""By the values of the labels, in the family's order; `()` where it has none."""

GaugeValues = Mapping[str, SeriesValues]
"""By the name of the metric. A metric that is not here keeps what it shows."""


@dataclass(frozen=True, slots=True)
class CounterIncrement:
    """A counter grows."""

    name: str
    labels: tuple[str, ...] = ()
    by: float = 1.0


def format_go_float(value: float) -> str:
    """A float as Go's %v prints it, for what shares can be."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value).removesuffix(".0")
