"""Process options: settings of the process that no decision depends on.

As in `engine.model.settings`, one field is one flag: the flag's name in snake case, `_s` for a duration; the text under
a field is the flag's help. Defaults are those of Cluster Autoscaler. The loop interval is
`Settings.scale_down.scan_interval_s`, because decisions depend on it.
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
    """Connection to the API servers."""

    kubeconfig: str = ""
    """Path to the kubeconfig of the workload cluster. Empty: in-cluster configuration (the pod's service account)."""
    context: str = ""
    """Context of the kubeconfig of the workload cluster. Empty: its current context."""
    insecure_skip_tls_verify: bool = False
    """Accept a kubeconfig that does not verify the server's certificate: anyone on the way could read and change what
    is sent. For test clusters."""
    request_timeout_s: float = 5.0
    """Time limit for an API server to answer at all, for plan, explain and status, which observe a cluster once."""
    kubernetes: str = ""
    """URL of the workload cluster's API server. Empty: the server of the kubeconfig."""
    cloud_config: str = ""
    """Path to the kubeconfig of the management cluster, which holds the Machines. Empty: the workload cluster, unless
    --clusterapi-cloud-config-authoritative is set."""
    clusterapi_cloud_config_authoritative: bool = False
    """Without --cloud-config, reach the management cluster with the in-cluster configuration instead of
    --kubeconfig."""
    kube_client_qps: float = 5.0
    """Client-side rate limit in requests per second for each API server; 0 or less: no limit. Watches are exempt."""
    kube_client_burst: int = 10
    """Burst size of the client-side rate limit."""
    user_agent: str = "cluster-autoscaler"
    """User-Agent header of API requests."""


@dataclass(frozen=True, slots=True)
class NodeGroupOptions:
    """Discovery of node groups."""

    cloud_provider: str = "clusterapi"
    """Cloud provider. Only clusterapi is supported."""
    node_group_auto_discovery: tuple[str, ...] = ()
    """Node group auto-discovery: clusterapi:namespace=<namespace>,clusterName=<name>,<label>=<value>, each part
    optional. Repeat the flag to discover more groups; without it, all namespaces are searched."""


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Release and feature gates of kube-scheduler, whose filter plugins decide where pods fit."""

    kube_scheduler_version: str = ""
    """Release of kube-scheduler whose filter plugins are applied: 1.36 or 1.37. Empty: the API server's release, or the
    nearest supported one."""
    feature_gates: tuple[tuple[str, bool], ...] = ()
    """Feature gates of kube-scheduler. Those that change filter results take effect: DRAFractionalCapacityRange,
    TaintTolerationComparisonOperators and VolumeLimitScaling."""


@dataclass(frozen=True, slots=True)
class ExpanderOptions:
    """External gRPC expander, used by --expander=grpc."""

    grpc_expander_url: str = ""
    """Address of the external gRPC expander: HOST:PORT, dns:///HOST:PORT or unix:PATH; http://HOST:PORT disables
    TLS."""
    grpc_expander_cert: str = ""
    """Path to the PEM certificate of the gRPC expander server, or of the CA that signed it. Not needed with http:// and
    unix: addresses."""


@dataclass(frozen=True, slots=True)
class LeaderElectionOptions:
    """Leader election."""

    leader_elect: bool = True
    """Start a leader election client and act only while it holds the Lease."""
    leader_elect_lease_duration_s: float = 15.0
    """Time that non-leader candidates wait after the last observed renewal before they try to acquire the Lease."""
    leader_elect_renew_deadline_s: float = 10.0
    """Time within which the leader must renew the Lease; after it, the leader gives up leadership."""
    leader_elect_retry_period_s: float = 2.0
    """Interval between attempts to acquire or renew the Lease."""
    leader_elect_resource_name: str = "cluster-autoscaler"
    """Name of the Lease. --lease-resource-name is an older name of this flag."""
    leader_elect_resource_namespace: str = ""
    """Namespace of the Lease. Empty: --namespace."""


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Start of loops, and liveness limits of the process."""

    frequent_loops_enabled: bool = True
    """Start a loop as soon as a pod becomes unschedulable or the last loop acted, not only every --scan-interval."""
    max_inactivity_s: float = 10 * MINUTE_S
    """Time without the start or end of a loop after which /health-check fails."""
    max_failing_time_s: float = 15 * MINUTE_S
    """Time without a successful loop after which /health-check fails."""
    max_startup_time_s: float = 20 * MINUTE_S
    """Replaces both limits between the start of leadership and the first successful loop. Raised to the larger of both
    if it is shorter."""


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Recording of decisions for `windlass replay`."""

    record: str = ""
    """Path of a file to which all inputs and results of decisions are recorded, for `windlass replay`."""
    record_limit_mib: int = 100
    """Maximum size of recordings in MiB: of the file together with FILE.1, to which it is renamed at half the limit."""


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """All options of the process that are not settings of decisions."""

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
        """Whether the process changes anything in the cluster."""
        return not (self.mode.dry_run or self.mode.shadow)

    @property
    def leads(self) -> bool:
        """Whether the process takes part in leader election. A process that changes nothing does not."""
        return self.leader_election.leader_elect and self.acts

    @property
    def lease_namespace(self) -> str:
        return self.leader_election.leader_elect_resource_namespace or self.objects.namespace
