"""Observability options: mode, own objects, reporting, dashboard and logging.

One field is one flag; see `windlass.autoscaler.options.process_options`.
"""

from dataclasses import dataclass

PRIORITY_CONFIG_MAP = "cluster-autoscaler-priority-expander"

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class ModeOptions:
    """Operating mode: whether plans are carried out."""

    dry_run: bool = False
    """Decide and report, but change nothing in the cluster."""
    shadow: bool = False
    """Run beside another autoscaler without its Lease, change nothing, and report where the decisions of both agree and
    differ."""
    shadow_window_s: float = MINUTE_S
    """Time window of --shadow: actions of both autoscalers that are at most this far apart count as the same action."""

    @property
    def name(self) -> str:
        """Name of the mode in the published status: live, dry-run or shadow."""
        return "shadow" if self.shadow else "dry-run" if self.dry_run else "live"


@dataclass(frozen=True, slots=True)
class ObjectOptions:
    """ConfigMaps of windlass, and configuration files that it reads."""

    namespace: str = "kube-system"
    """Namespace of windlass's ConfigMaps and of its Lease."""
    write_status_configmap: bool = True
    """Write the status to a ConfigMap."""
    status_config_map_name: str = "cluster-autoscaler-status"
    """Name of the status ConfigMap."""
    memory_config_map: str = "windlass-memory"
    """Name of the ConfigMap that persists timers, scale-up requests and backoffs across restarts. Empty: they are lost
    at a restart, as in Cluster Autoscaler."""
    scheduler_config_file: str = ""
    """Path to a KubeSchedulerConfiguration with one profile, whose filter plugins and arguments are applied."""


@dataclass(frozen=True, slots=True)
class ReportingOptions:
    """HTTP endpoints, metrics and events."""

    address: str = ":8085"
    """Listen address of /metrics, /health-check and the debugging endpoints. Clients that do not connect over loopback
    can read /metrics and /health-check only."""
    tls_cert_file: str = ""
    """Path to a TLS certificate for --address. It is reloaded when the file changes."""
    tls_private_key_file: str = ""
    """Path to the private key of --tls-cert-file."""
    cluster_name: str = ""
    """Name of the cluster on the dashboard and in the published status. By default the name of its Cluster object, as
    the annotations of nodes tell it."""
    currency: str = ""
    """Currency of the prices of node groups, such as $ or EUR, on the dashboard and in `windlass top`. By default that
    of the environment variable WINDLASS_CURRENCY, which all commands take; without it costs have no unit."""
    runbook: str = "docs/runbook.md#"
    """What the dashboard's links to the runbook begin with; the reason follows. A link is text unless it begins with
    http."""
    enable_debugging_handlers: bool = True
    """Serve /explain, /statusz, /published, /snapshotz and /debug/pprof on --address to loopback clients. Disable it
    behind a service mesh: its sidecar turns every client into a loopback client."""
    profiling: bool = False
    """Serve /debug/pprof: CPU profile, stacks of threads and tasks, and memory use."""
    debugging_snapshot_enabled: bool = False
    """Serve /snapshotz: the complete input of the next loop as JSON."""
    emit_per_nodegroup_metrics: bool = False
    """Emit metrics per node group."""
    node_removal_latency_tracking_enabled: bool = False
    """Emit a metric of the time between a node becoming unneeded and its removal, or its being needed again."""
    max_node_skip_eval_time_tracker_enabled: bool = False
    """Emit a metric of the longest time that a node was skipped by the scale-down simulation."""
    record_duplicated_events: bool = False
    """Record an event again even if the same event was recorded within the last five minutes."""


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Dashboard server."""

    dashboard_address: str = "127.0.0.1:8086"
    """Listen address of the dashboard, separate from --address. Empty: the dashboard is off. A non-loopback address
    requires --dashboard-token-file."""
    dashboard_token_file: str = ""
    """Path to a file with the bearer token that dashboard clients must present. It is read again at each login."""
    dashboard_tls_cert_file: str = ""
    """Path to a TLS certificate for the dashboard."""
    dashboard_tls_key_file: str = ""
    """Path to the private key of --dashboard-tls-cert-file."""


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """Logging, with klog's flags."""

    v: int = 0
    """Log verbosity: 0 actions, 1 to 4 reasons, 5 to 8 single steps, 9 each API request."""
    vmodule: str = ""
    """Verbosity per file: <pattern>=<level>, separated by commas; a pattern matches file names without .py."""
    logging_format: str = "text"
    """Log format: text (klog) or json."""
    logtostderr: bool = True
    """Log to standard error. If false, log to --log-file, or to a file in --log-dir, if one of them is set."""
    alsologtostderr: bool = False
    """Log to standard error as well as to the file."""
    log_file: str = ""
    """Log to this file, if --logtostderr is false."""
    log_dir: str = ""
    """Log to windlass.log in this directory, if --logtostderr is false and --log-file is empty."""
    log_file_max_size: int = 1800
    """Maximum size of a log file in MiB; a full file is renamed to end in .1. 0: no limit."""
    stderrthreshold: str = "2"
    """When logging to a file, log this severity and above to standard error as well: 0 or INFO, 1 or WARNING, 2 or
    ERROR, 3 or FATAL."""
    log_text_split_stream: bool = False
    """In text format, log errors to standard error and everything else to standard output."""
    log_json_split_stream: bool = False
    """In JSON format, log errors to standard error and everything else to standard output."""
    skip_headers: bool = False
    """In text format, omit the header before the message."""
    add_dir_header: bool = False
    """In text format, include the file's directory in the header."""
