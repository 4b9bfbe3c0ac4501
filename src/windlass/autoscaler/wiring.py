"""Wiring: what the user decides about the process, as far as no decision depends on it.

As in `engine.settings`, one field is one flag, with its name in snake case, `_s` for a duration. Defaults are those of
Cluster Autoscaler. Whoever builds the process reads it; `autoscaler.flags` reads the text.

How often a loop begins is `Settings.scale_down.scan_interval_s`: decisions depend on it, too.
"""

from dataclasses import dataclass

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Mode:
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
class Clients:
    """How the API servers are reached."""

    kubeconfig: str = ""
    """Path to the kubeconfig of the cluster whose pods are served; empty: the pod's own service account."""
    kubernetes: str = ""
    """Address of its API server; empty: the kubeconfig's."""
    cloud_config: str = ""
    """Path to the kubeconfig of the management cluster, where the Machines are; empty: the same cluster, unless
    --clusterapi-cloud-config-authoritative."""
    clusterapi_cloud_config_authoritative: bool = False
    """Without --cloud-config, take the pod's own service account for the management cluster, not --kubeconfig."""
    kube_client_qps: float = 5.0
    """Calls a second to an API server at most; 0 or less: no limit. Watches do not count."""
    kube_client_burst: int = 10
    """Calls that may be made at once after a quiet time."""
    user_agent: str = "cluster-autoscaler"
    """By which name calls are made."""


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """Where the node groups are found."""

    cloud_provider: str = "clusterapi"
    """Who makes nodes: clusterapi, and nobody else."""
    node_group_auto_discovery: tuple[str, ...] = ()
    """Where to look: clusterapi:namespace=<namespace>,clusterName=<name>,<label>=<value>, any of them. Of several, each
    adds groups; none: every namespace."""


@dataclass(frozen=True, slots=True)
class Objects:
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
class Scheduler:
    """kube-scheduler, whose filters are applied."""

    kube_scheduler_version: str = ""
    """The release whose filters are applied: 1.36 or 1.37. Empty: the API server's, or the nearest to it."""
    feature_gates: tuple[tuple[str, bool], ...] = ()
    """Feature gates that kube-scheduler is started with. Those that change what its filters say are honoured:
    DRAFractionalCapacityRange, TaintTolerationComparisonOperators and VolumeLimitScaling."""


@dataclass(frozen=True, slots=True)
class Expander:
    """The server that --expander=grpc asks."""

    grpc_expander_url: str = ""
    """Where it is: HOST:PORT, dns:///HOST:PORT or unix:PATH; http://HOST:PORT to do without TLS."""
    grpc_expander_cert: str = ""
    """Path to the certificate of that server, or to that of who signed it. Not needed with http:// and unix:."""


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Of several processes, one acts."""

    leader_elect: bool = True
    """Act only while holding the Lease."""
    leader_elect_lease_duration_s: float = 15.0
    """How long others wait after the last renewal that they saw."""
    leader_elect_renew_deadline_s: float = 10.0
    """How long the leader goes on after its last renewal."""
    leader_elect_retry_period_s: float = 2.0
    """How often the leader renews, and the others look."""
    leader_elect_resource_name: str = "cluster-autoscaler"
    """The name of the Lease. --lease-resource-name is an older name of this flag."""
    leader_elect_resource_namespace: str = ""
    """Where the Lease is; empty: --namespace."""


@dataclass(frozen=True, slots=True)
class Loop:
    """When a loop begins, and when its process is taken for stuck."""

    frequent_loops_enabled: bool = True
    """Begin a loop at once when a pod turns unschedulable or something was done, not only every --scan-interval."""
    max_inactivity_s: float = 10 * MINUTE_S
    """Longer than this without a loop that begins or ends, and /health-check complains."""
    max_failing_time_s: float = 15 * MINUTE_S
    """Longer than this without a loop that succeeds, and /health-check complains."""
    max_startup_time_s: float = 20 * MINUTE_S
    """Instead of both, from when it leads until the first loop succeeds. Never shorter than either."""


@dataclass(frozen=True, slots=True)
class Reporting:
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
class Dashboard:
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
class Recording:
    """What is written down, so that it can be decided again."""

    record: str = ""
    """Write everything that is decided on, and what is decided, to this file, for `windlass replay`."""
    record_limit_mib: int = 100
    """How large recordings may become, in MiB: the file, and FILE.1, where it is moved when it has half of that."""


@dataclass(frozen=True, slots=True)
class Logging:
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


@dataclass(frozen=True, slots=True)
class Wiring:
    """Everything that the process is built from besides the settings of decisions."""

    mode: Mode = Mode()
    clients: Clients = Clients()
    node_groups: NodeGroups = NodeGroups()
    objects: Objects = Objects()
    scheduler: Scheduler = Scheduler()
    expander: Expander = Expander()
    leader_election: LeaderElection = LeaderElection()
    loop: Loop = Loop()
    reporting: Reporting = Reporting()
    dashboard: Dashboard = Dashboard()
    recording: Recording = Recording()
    logging: Logging = Logging()

    @property
    def acts(self) -> bool:
        """Is anything changed in the cluster?"""
        return not (self.mode.dry_run or self.mode.shadow)

    @property
    def leads(self) -> bool:
        """Does it take part in leader election? Who changes nothing need not."""
        return self.leader_election.leader_elect and self.acts

    @property
    def lease_namespace(self) -> str:
        return self.leader_election.leader_elect_resource_namespace or self.objects.namespace
