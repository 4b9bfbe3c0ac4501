"""Flags that set no field: those that change nothing here and why, and old names of flags that do."""

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.autoscaler import flag_values as values


@dataclass(frozen=True, slots=True)
class Ignored:
    """A flag of the peer that is read, checked, and changes nothing."""

    read: values.Reader
    default: str
    why: str


_GCE = "it concerns Google Cloud"
_NO_GROUPS_MADE = "Cluster API's node groups are made by their owners"
_FORGOTTEN = "not even the peer heeds it any more"
_THREADS = "it sets how many threads the peer looks for nodes with"
_IN_TIME = "pods that are alike are placed as one, 50,000 of 100 kinds in less than a second: no search is cut short"
_UNBUFFERED = "every line is written at once"
_ONE_LOG_FILE = "one file holds all severities, and has no header"

WITHOUT_EFFECT: Mapping[str, Ignored] = {
    "async-node-groups": Ignored(values.read_bool, "false", _NO_GROUPS_MADE),
    "aws-use-static-instance-list": Ignored(values.read_bool, "false", "it concerns AWS"),
    "bulk-mig-instances-listing-enabled": Ignored(values.read_bool, "false", _GCE),
    "cloud-provider-gce-l7lb-src-cidrs": Ignored(values.read_text, "130.211.0.0/22,35.191.0.0/16", _GCE),
    "cloud-provider-gce-lb-src-cidrs": Ignored(
        values.read_text, "130.211.0.0/22,209.85.152.0/22,209.85.204.0/22,35.191.0.0/16", _GCE
    ),
    "cluster-name": Ignored(
        values.read_text, "", "with Cluster API, clusterName in --node-group-auto-discovery selects the cluster"
    ),
    "cluster-snapshot-parallelism": Ignored(values.read_int, "16", _THREADS),
    "enable-dynamic-resource-allocation": Ignored(values.read_locked, "true", "it cannot be switched off"),
    "enable-graceful-degradation": Ignored(values.read_bool, "false", _IN_TIME),
    "enable-inter-pod-affinity-hostname-fast-path": Ignored(
        values.read_bool, "false", "it makes the peer's filters faster and decides nothing"
    ),
    "estimator": Ignored(values.read_estimator, "binpacking", "there is one estimator"),
    "gce-concurrent-refreshes": Ignored(values.read_int, "1", _GCE),
    "gce-expander-ephemeral-storage-support": Ignored(values.read_bool, "true", _GCE),
    "gce-mig-instances-min-refresh-wait-time": Ignored(values.read_duration_s, "5s", _GCE),
    "kube-api-content-type": Ignored(
        values.read_text, "application/vnd.kubernetes.protobuf", "JSON is spoken with API servers"
    ),
    "leader-elect-resource-lock": Ignored(values.read_lock, "leases", "Leases are the only lock"),
    "log-backtrace-at": Ignored(values.read_text, ":0", "errors are logged with their traceback anyway"),
    "log-flush-frequency": Ignored(values.read_duration_s, "5s", _UNBUFFERED),
    "log-json-info-buffer-size": Ignored(values.read_quantity, "0", _UNBUFFERED),
    "log-text-info-buffer-size": Ignored(values.read_quantity, "0", _UNBUFFERED),
    "max-autoprovisioned-node-group-count": Ignored(values.read_int, "15", _NO_GROUPS_MADE),
    "node-autoprovisioning-enabled": Ignored(values.read_bool, "false", _NO_GROUPS_MADE),
    "nodes": Ignored(values.read_array, "", "with Cluster API, annotations of a node group set its bounds"),
    "one-output": Ignored(values.read_bool, "false", _ONE_LOG_FILE),
    "pending-pods-batching-timeout": Ignored(values.read_duration_s, "4m0s", _IN_TIME),
    "predicate-parallelism": Ignored(values.read_positive, "4", _THREADS),
    "regional": Ignored(values.read_bool, "false", _GCE),
    "scale-down-candidates-pool-min-count": Ignored(values.read_int, "50", _FORGOTTEN),
    "scale-down-candidates-pool-ratio": Ignored(values.read_float, "0.1", _FORGOTTEN),
    "scale-down-non-empty-candidates-count": Ignored(values.read_int, "30", _FORGOTTEN),
    "scheduler-verbosity": Ignored(values.read_int, "0", "it concerns the log of the peer's own scheduler"),
    "skip-log-headers": Ignored(values.read_bool, "false", _ONE_LOG_FILE),
}
"""Flags of other clouds, and flags that change nothing: accepted, and worth a warning."""


@dataclass(frozen=True, slots=True)
class Overruled:
    """A flag that another one leaves without effect."""

    by: str
    """The flag of a deviation."""
    why: str


OVERRULED: Mapping[str, Overruled] = {
    "parallel-scale-up": Overruled("joint-scale-up", "raises groups at the same time anyway"),
    "salvo-scale-up": Overruled("joint-scale-up", "repeats the scale-up within a loop anyway"),
    "unremovable-node-recheck-timeout": Overruled("recheck-unremovable-nodes", "evaluates each node in every loop"),
}
"""Flags of Cluster Autoscaler that a deviation of the default behavior leaves without effect."""

OLD_NAMES: Mapping[str, str] = {
    "batch-timebox": "check-capacity-provisioning-request-batch-timebox",
    "lease-resource-name": "leader-elect-resource-name",
    "max-batch-size": "check-capacity-provisioning-request-max-batch-size",
    "max-empty-bulk-delete": "max-scale-down-parallelism",
}
"""Where both names are given, the new one counts."""

ADDED_NAMES: Mapping[str, str] = {"ignore-taint": "startup-taint"}
"""Older names whose values are added to those of the new one."""
