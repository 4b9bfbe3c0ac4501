"""Names of flags that set no field: those that wire the process together, those without effect, and old names."""

WIRING = frozenset(
    {
        "address",
        "cloud-config",
        "cloud-provider",
        "cluster-name",
        "clusterapi-cloud-config-authoritative",
        "debugging-snapshot-enabled",
        "emit-per-nodegroup-metrics",
        "feature-gates",
        "frequent-loops-enabled",
        "grpc-expander-cert",
        "grpc-expander-url",
        "kube-api-content-type",
        "kube-client-burst",
        "kube-client-qps",
        "kubeconfig",
        "kubernetes",
        "leader-elect",
        "leader-elect-lease-duration",
        "leader-elect-renew-deadline",
        "leader-elect-resource-lock",
        "leader-elect-resource-name",
        "leader-elect-resource-namespace",
        "leader-elect-retry-period",
        "lease-resource-name",
        "max-failing-time",
        "max-inactivity",
        "max-node-skip-eval-time-tracker-enabled",
        "max-startup-time",
        "namespace",
        "node-group-auto-discovery",
        "node-removal-latency-tracking-enabled",
        "nodes",
        "profiling",
        "record-duplicated-events",
        "scheduler-config-file",
        "status-config-map-name",
        "user-agent",
        "write-status-configmap",
    }
)
"""Flags that no decision depends on; whoever builds the process reads them."""

LOGGING = frozenset(
    {
        "add-dir-header",
        "alsologtostderr",
        "log-backtrace-at",
        "log-dir",
        "log-file",
        "log-file-max-size",
        "log-flush-frequency",
        "log-json-info-buffer-size",
        "log-json-split-stream",
        "log-text-info-buffer-size",
        "log-text-split-stream",
        "logging-format",
        "logtostderr",
        "one-output",
        "scheduler-verbosity",
        "skip-headers",
        "skip-log-headers",
        "stderrthreshold",
        "v",
        "vmodule",
    }
)
"""Flags of the log."""

WITHOUT_EFFECT = frozenset(
    {
        "async-node-groups",
        "aws-use-static-instance-list",
        "bulk-mig-instances-listing-enabled",
        "cloud-provider-gce-l7lb-src-cidrs",
        "cloud-provider-gce-lb-src-cidrs",
        "cluster-snapshot-parallelism",
        "enable-inter-pod-affinity-hostname-fast-path",
        "gce-concurrent-refreshes",
        "gce-expander-ephemeral-storage-support",
        "gce-mig-instances-min-refresh-wait-time",
        "max-autoprovisioned-node-group-count",
        "node-autoprovisioning-enabled",
        "predicate-parallelism",
        "regional",
        "scale-down-candidates-pool-min-count",
        "scale-down-candidates-pool-ratio",
        "scale-down-non-empty-candidates-count",
    }
)
"""Flags of other clouds, and flags that change nothing: accepted, and worth a warning."""

OLD_NAMES = {
    "batch-timebox": "check-capacity-provisioning-request-batch-timebox",
    "max-batch-size": "check-capacity-provisioning-request-max-batch-size",
    "max-empty-bulk-delete": "max-scale-down-parallelism",
}
"""Where both names are given, the new one counts. `ignore-taint` is older than `startup-taint`, but they add up."""

SETTING_NOTHING = WIRING | LOGGING | WITHOUT_EFFECT
