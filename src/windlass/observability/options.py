"""Observability options: mode, own objects, reporting, dashboard and logging.

One field is one flag; see `windlass.autoscaler.options.process_options`.
"""

from dataclasses import dataclass

PRIORITY_CONFIG_MAP = "cluster-autoscaler-priority-expander"

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class ModeOptions:
    """Whether anything is done at all."""

    dry_run: bool = False
    """Decide and report, and change nothing."""
    shadow: bool = False
    """Run beside another autoscaler without its lease, change nothing, and tell where both agree and where not."""
    shadow_window_s: float = MINUTE_S
    """How long what one of both does may come before or after the other does it, and still be the same thing."""

    @property
    def name(self) -> str:
        """For those who watch: live, dry-run or shadow."""
        return "shadow" if self.shadow else "dry-run" if self.dry_run else "live"


@dataclass(frozen=True, slots=True)
class ObjectOptions:
    """Objects of windlass's own, and files that it reads."""

    namespace: str = "kube-system"
    """Where its ConfigMaps and its Lease are."""
    write_status_configmap: bool = True
    """Keep the status in a ConfigMap."""
    status_config_map_name: str = "cluster-autoscaler-status"
    """The name of that ConfigMap."""
    memory_config_map: str = "windlass-memory"
    """The ConfigMap that keeps timers, requests and backoffs over a restart; empty: they are lost, as in the peer."""
    scheduler_config_file: str = ""
    """A KubeSchedulerConfiguration with one profile, whose filters are honoured."""


@dataclass(frozen=True, slots=True)
class ReportingOptions:
    """What is shown to the outside, and where."""

    address: str = ":8085"
    """Where /metrics, /health-check and the rest are served. Whoever is not on this machine sees these two alone."""
    tls_cert_file: str = ""
    """A certificate, to serve --address over TLS. It may be replaced at any time."""
    tls_private_key_file: str = ""
    """The certificate's private key."""
    enable_debugging_handlers: bool = True
    """Serve /explain, /statusz, /published, /snapshotz and /debug/pprof on --address, to callers on this machine. Turn
    it off behind a service mesh, whose sidecar makes every caller one of this machine."""
    profiling: bool = False
    """Serve /debug/pprof: where the time goes, what the threads do, what fills the memory."""
    debugging_snapshot_enabled: bool = False
    """Serve /snapshotz: what the next loop sees, whole, as JSON."""
    emit_per_nodegroup_metrics: bool = False
    """Metrics for each node group."""
    node_removal_latency_tracking_enabled: bool = False
    """A metric for the time from a node's being unneeded to its removal, or to its being needed again."""
    max_node_skip_eval_time_tracker_enabled: bool = False
    """A metric for the longest time that a node was not looked at."""
    record_duplicated_events: bool = False
    """Record an event again that was recorded within the last five minutes."""


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Where the dashboard is served, and to whom."""

    dashboard_address: str = "127.0.0.1:8086"
    """Where the dashboard is served, by itself; empty: nowhere. Away from loopback a token is asked for."""
    dashboard_token_file: str = ""
    """A file with the token that readers of the dashboard must know. Read again whenever one asks."""
    dashboard_tls_cert_file: str = ""
    """A certificate, to serve the dashboard over TLS."""
    dashboard_tls_key_file: str = ""
    """The certificate's private key."""


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """What is logged, and how."""

    v: int = 0
    """How much: 0 what was done, 1 to 4 why, 5 to 8 each step, 9 every call to an API server."""
    vmodule: str = ""
    """How much for single files: <pattern>=<level>, separated by commas; a pattern is a file's name without .py."""
    logging_format: str = "text"
    """text, as klog writes it, or json."""
    logtostderr: bool = True
    """Log to standard error. Off: to --log-file, or to a file in --log-dir, if one of them is given."""
    alsologtostderr: bool = False
    """Log to standard error as well as to the file."""
    log_file: str = ""
    """Log to this file, if not --logtostderr."""
    log_dir: str = ""
    """Log to windlass.log in this directory, if neither --logtostderr nor --log-file is given."""
    log_file_max_size: int = 1800
    """How large such a file may grow, in MiB: then it is renamed to end in .1, and a new one is begun. 0: no limit."""
    stderrthreshold: str = "2"
    """While logs go to a file, those of this severity and above go to standard error as well: 0 or INFO, 1 or WARNING,
    2 or ERROR, 3 or FATAL."""
    log_text_split_stream: bool = False
    """In text format: errors to standard error, all else to standard output."""
    log_json_split_stream: bool = False
    """The same in JSON format."""
    skip_headers: bool = False
    """Leave out what stands before the message in text format."""
    add_dir_header: bool = False
    """Name the file's directory, too, in text format."""
