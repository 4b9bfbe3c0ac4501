"""Process options: settings of the process that no decision depends on.

As in the engine's settings, one field is one flag, with its name in snake case and `_s` for a duration. Defaults are
those of Cluster Autoscaler. The loop interval is `Settings.scale_down.scan_interval_s`, as decisions depend on it.
"""

from dataclasses import dataclass, field

from windlass.observability.options import (
    MINUTE_S,
    DashboardOptions,
    LoggingOptions,
    ModeOptions,
    ObjectOptions,
    ReportingOptions,
)


@dataclass(frozen=True, slots=True)
class ClientOptions:
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
class NodeGroupOptions:
    """Where the node groups are found."""

    cloud_provider: str = "clusterapi"
    """Who makes nodes: clusterapi, and nobody else."""
    node_group_auto_discovery: tuple[str, ...] = ()
    """Where to look: clusterapi:namespace=<namespace>,clusterName=<name>,<label>=<value>, any of them. Of several, each
    adds groups; none: every namespace."""


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """kube-scheduler, whose filters are applied."""

    kube_scheduler_version: str = ""
    """The release whose filters are applied: 1.36 or 1.37. Empty: the API server's, or the nearest to it."""
    feature_gates: tuple[tuple[str, bool], ...] = ()
    """Feature gates that kube-scheduler is started with. Those that change what its filters say are honoured:
    DRAFractionalCapacityRange, TaintTolerationComparisonOperators and VolumeLimitScaling."""


@dataclass(frozen=True, slots=True)
class ExpanderOptions:
    """The server that --expander=grpc asks."""

    grpc_expander_url: str = ""
    """Where it is: HOST:PORT, dns:///HOST:PORT or unix:PATH; http://HOST:PORT to do without TLS."""
    grpc_expander_cert: str = ""
    """Path to the certificate of that server, or to that of who signed it. Not needed with http:// and unix:."""


@dataclass(frozen=True, slots=True)
class LeaderElectionOptions:
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
class LoopOptions:
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
class RecordingOptions:
    """What is written down, so that it can be decided again."""

    record: str = ""
    """Write everything that is decided on, and what is decided, to this file, for `windlass replay`."""
    record_limit_mib: int = 100
    """How large recordings may become, in MiB: the file, and FILE.1, where it is moved when it has half of that."""


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """Everything that the process is built from besides the settings of decisions."""

    mode: ModeOptions = field(default_factory=ModeOptions)
    clients: ClientOptions = ClientOptions()
    node_groups: NodeGroupOptions = NodeGroupOptions()
    objects: ObjectOptions = field(default_factory=ObjectOptions)
    scheduler: SchedulerOptions = SchedulerOptions()
    expander: ExpanderOptions = ExpanderOptions()
    leader_election: LeaderElectionOptions = LeaderElectionOptions()
    loop: LoopOptions = LoopOptions()
    reporting: ReportingOptions = field(default_factory=ReportingOptions)
    dashboard: DashboardOptions = field(default_factory=DashboardOptions)
    recording: RecordingOptions = RecordingOptions()
    logging: LoggingOptions = field(default_factory=LoggingOptions)

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
