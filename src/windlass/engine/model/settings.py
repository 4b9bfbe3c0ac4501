"""Settings: all flags that decisions depend on.

One field is one flag: the flag's name in snake case, `_s` for a duration and `_bytes` for an amount of memory; the text
under a field is the flag's help. Defaults are Cluster Autoscaler's. Flags that only set up the process (addresses,
clients, leader election, logs) are in `autoscaler.options.process_options`. `Settings.cluster_autoscaler()` decides as
Cluster Autoscaler does; where the default decides differently is in `deviations`.
"""

from dataclasses import dataclass
from typing import TypeVar

from windlass.engine.model import node_groups
from windlass.engine.model.deviations import ALL_DEVIATIONS, NO_DEVIATIONS, Deviations
from windlass.engine.model.facts import SpreadConstraint
from windlass.selectors import NodeSelector


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """Filter configuration of one profile of a KubeSchedulerConfiguration."""

    disabled: frozenset[str] = frozenset()
    """Names of plugins that are disabled at the filter extension point."""
    prefilter_only: frozenset[str] = frozenset()
    """Those of `disabled` whose preFilter is enabled: it rejects pods and narrows the search to named nodes."""
    ignored_resources: frozenset[str] = frozenset()
    """NodeResourcesFit: extended resources that are not checked."""
    ignored_resource_groups: frozenset[str] = frozenset()
    """NodeResourcesFit: prefixes (before the slash) of extended resources that are not checked."""
    added_affinity: NodeSelector | None = None
    """NodeAffinity: affinity that every pod of this profile has in addition to its own."""
    binding_timeout_s: float = 600.0
    """DynamicResources: time that an allocated claim may wait for its devices to become ready."""
    default_constraints: tuple[SpreadConstraint, ...] = ()
    """PodTopologySpread: hard constraints of pods that have none."""

    def runs_prefilter(self, name: str) -> bool:
        return name not in self.disabled or name in self.prefilter_only


DEFAULT_FILTER_CONFIG = FilterConfig()

MINUTE_S = 60.0

HOUR_S = 3600.0

TEN_YEARS_S = 87600 * HOUR_S

GIB = 2**30

Overridden = TypeVar("Overridden")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower and upper bound, both inclusive."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class GpuBounds:
    """Bounds on GPUs of one type, the value of the GPU label."""

    gpu_type: str
    min: int
    max: int


@dataclass(frozen=True, slots=True)
class PriorityGrace:
    """Termination grace period of pods of at least this priority and below that of the next rule."""

    priority: int
    grace_s: int


@dataclass(frozen=True, slots=True)
class GroupDefaults:
    """Defaults of node groups; `for_group` merges them with a group's overrides."""

    scale_down_utilization_threshold: float = 0.5
    """Maximum utilization of a node that can be removed: the larger share of allocatable cpu and memory that its pods
    request."""
    scale_down_gpu_utilization_threshold: float = 0.5
    """Maximum GPU utilization of a GPU node that can be removed; other resources are not considered."""
    scale_down_unneeded_time_s: float = 10 * MINUTE_S
    """Time that a node must be unneeded before it is eligible for scale-down."""
    scale_down_unready_time_s: float = 20 * MINUTE_S
    """Time that an unready node must be unneeded before it is eligible for scale-down."""
    max_node_provision_time_s: float = 15 * MINUTE_S
    """Time to wait for a node to be provisioned: after it, an instance without a node, or a scale-up whose nodes are
    missing, has failed."""
    max_node_startup_time_s: float = 15 * MINUTE_S
    """Age up to which an unready node counts as starting up."""
    ignore_daemonsets_utilization: bool = False
    """Ignore DaemonSet pods when calculating a node's utilization for scale-down."""
    zero_or_max: bool = False
    """Scale the group only between zero and its maximum. Set by the group's annotation, not by a flag."""
    allow_non_atomic_scale_up_to_max: bool = False
    """Keep the nodes of a partly failed scale-up of a zero-or-max group. Set by the group's annotation, not by a
    flag."""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Selection of pending pods that can trigger a scale-up."""

    expendable_pods_priority_cutoff: int = -10
    """Pods with a priority below this cutoff are expendable: they neither trigger a scale-up nor prevent a
    scale-down."""
    new_pod_scale_up_delay_s: float = 0.0
    """Age below which pods do not trigger a scale-up. A pod's annotation can only raise it."""
    allowed_scheduler_names: tuple[str, ...] = ()
    """Names of schedulers whose pods are considered; empty: all."""
    bypassed_scheduler_names: tuple[str, ...] = ()
    """Names of schedulers whose pods can trigger a scale-up without having been marked unschedulable."""


@dataclass(frozen=True, slots=True)
class TemplateSettings:
    """Construction of node templates."""

    startup_taint: tuple[str, ...] = ()
    """Keys of startup taints: ignored in node templates, and a node that has one is unready. Includes values of
    --ignore-taint, its older name."""
    startup_taint_prefix: tuple[str, ...] = ()
    """Prefixes of startup taint keys, in addition to the built-in ones."""
    status_taint: tuple[str, ...] = ()
    """Keys of status taints: ignored in node templates, but not a sign of an unready node."""
    scale_from_unschedulable: bool = False
    """Treat a template made from a cordoned node as schedulable."""
    force_ds: bool = False
    """Add the pods of all suitable DaemonSets to a template, including those that do not run on the node it was made
    from."""
    node_info_cache_expire_time_s: float = TEN_YEARS_S
    """Time after which a cached template made from a real node expires once the group has no nodes. Default: ten
    years."""

    @property
    def expires(self) -> bool:
        """Whether a template can expire during the lifetime of a process."""
        return self.node_info_cache_expire_time_s < TEN_YEARS_S


@dataclass(frozen=True, slots=True)
class ScaleUpSettings:
    """Scale-up: estimation, choice of node groups, and balancing."""

    expander: tuple[str, ...] = ("least-waste",)
    """Expanders in the order of evaluation; each narrows the options of the one before, and remaining ties are broken
    at random."""
    max_nodes_per_scaleup: int = 1000
    """Maximum number of nodes added by one scale-up; 0: no limit. With --joint-scale-up it applies to all rounds of a
    loop together, with --salvo-scale-up alone to each round."""
    max_nodegroup_binpacking_duration_s: float = 10.0
    """Time limit for the binpacking of one node group."""
    max_binpacking_time_s: float = 5 * MINUTE_S
    """Time limit for all binpacking of a scale-up; the choice is made from the groups estimated until then."""
    fastpath_binpacking_enabled: bool = False
    """Estimate the last pod equivalence group by division instead of simulating the placement of its pods."""
    scale_up_from_zero: bool = True
    """Scale up even if the cluster has no ready nodes."""
    parallel_scale_up: bool = False
    """Scale up node groups in parallel, so that the failure of one does not stop the others. No effect with
    --joint-scale-up, which always does."""
    salvo_scale_up: bool = False
    """Repeat the scale-up within a loop for pods that remain unschedulable. No effect with --joint-scale-up, which
    always does."""
    salvo_scale_up_budget_s: float = MINUTE_S
    """Time after which --salvo-scale-up starts no further round."""
    enforce_node_group_min_size: bool = False
    """Scale up node groups that are below their minimum size."""
    scaleup_simulation_for_skipped_node_groups_enabled: bool = False
    """Simulate the scale-up of skipped node groups as well. If such a group would reject the pod anyway, that reason is
    reported instead of the reason for skipping."""
    balance_similar_node_groups: bool = False
    """Balance new nodes between similar node groups."""
    balancing_label: tuple[str, ...] = ()
    """Labels that alone decide whether node groups are similar; empty: compare resources and all labels."""
    balancing_ignore_label: tuple[str, ...] = ()
    """Labels ignored when comparing node groups for similarity, in addition to the built-in ones."""
    memory_difference_ratio: float = 0.015
    """Maximum difference in memory capacity between similar node groups, as a ratio of the larger one."""
    max_allocatable_difference_ratio: float = 0.05
    """Maximum difference in allocatable resources between similar node groups, as a ratio of the larger one."""
    max_free_difference_ratio: float = 0.05
    """Maximum difference in free resources between new nodes of similar node groups, as a ratio of the larger one."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Cluster-wide resource limits."""

    max_nodes_total: int = 0
    """Maximum number of nodes in the cluster; 0: no limit."""
    cores_total: Bounds = Bounds(0, 320_000)
    """Minimum and maximum number of cores in the cluster."""
    memory_total_bytes: Bounds = Bounds(0, 6_400_000 * GIB)
    """Minimum and maximum memory of the cluster, in GiB."""
    gpu_total: tuple[GpuBounds, ...] = ()
    """Minimum and maximum number of GPUs of a type in the cluster."""
    capacity_quotas_enabled: bool = False
    """Enforce CapacityQuota objects."""


@dataclass(frozen=True, slots=True)
class ScaleDownSettings:
    """Scale-down: eligibility, timing and concurrency."""

    scale_down_enabled: bool = True
    """Enable scale-down."""
    scale_down_unready_enabled: bool = True
    """Enable scale-down of unready nodes."""
    ignore_mirror_pods_utilization: bool = False
    """Ignore mirror pods when calculating a node's utilization for scale-down."""
    scale_down_delay_after_add_s: float = 10 * MINUTE_S
    """Time after a scale-up before scale-down resumes."""
    scale_down_delay_after_delete_s: float = 0.0
    """Time after a node deletion started before scale-down resumes."""
    scale_down_delay_after_failure_s: float = 3 * MINUTE_S
    """Time after a failed node deletion before scale-down resumes."""
    scale_down_delay_type_local: bool = False
    """Apply the scale-down delays per node group instead of cluster-wide."""
    scale_down_simulation_timeout_s: float = 30.0
    """Time limit of the simulation that finds unneeded nodes."""
    unremovable_node_recheck_timeout_s: float = 5 * MINUTE_S
    """Time before an unremovable node is evaluated again. No effect with --recheck-unremovable-nodes, which evaluates
    each node in every loop."""
    max_scale_down_parallelism: int = 10
    """Maximum number of nodes that are removed at the same time, empty or drained."""
    max_drain_parallelism: int = 1
    """Maximum number of nodes that are drained at the same time."""
    max_bulk_soft_taint_count: int = 10
    """Maximum number of nodes that one loop marks or unmarks with the DeletionCandidate taint; 0: no such taints."""
    max_bulk_soft_taint_time_s: float = 3.0
    """Time limit for these taint updates in one loop; after it, no further update starts. 0: no updates."""
    node_deletion_candidate_ttl_s: float = 0.0
    """Maximum age of a DeletionCandidate taint found at startup that restores the node's unneeded time; 0: never."""
    scan_interval_s: float = 10.0
    """Interval between loops."""


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """Drain: pods that can be moved, and how nodes are emptied."""

    skip_nodes_with_system_pods: bool = True
    """Never remove nodes with kube-system pods that no PodDisruptionBudget covers (except DaemonSet and mirror
    pods)."""
    skip_nodes_with_local_storage: bool = True
    """Never remove nodes with pods that use local storage, such as emptyDir or hostPath."""
    skip_nodes_with_custom_controller_pods: bool = True
    """Never remove nodes with pods of custom controllers."""
    min_replica_count: int = 0
    """Minimum number of replicas of a controller whose pods may be evicted for scale-down."""
    blocking_system_pod_distruption_timeout_s: float = HOUR_S
    """Age after which a kube-system pod without a PodDisruptionBudget no longer blocks scale-down."""
    cordon_node_before_terminating: bool = True
    """Cordon nodes when they are tainted for deletion."""
    node_delete_delay_after_taint_s: float = 5.0
    """Time between the ToBeDeleted taint and the next step, so that the scheduler observes the taint."""
    dynamic_node_delete_delay_after_taint_enabled: bool = False
    """Derive that delay from measurements: twice the slowest API request of the last hour."""
    max_graceful_termination_s: int = 600
    """Maximum time that an evicted pod gets to terminate. Not allowed together with --drain-priority-config."""
    drain_priority_config: tuple[PriorityGrace, ...] = ()
    """Evict pods in ascending order of these priorities, each with its own grace period; empty: all pods at once."""
    max_pod_eviction_time_s: float = 2 * MINUTE_S
    """Maximum time to retry the eviction of a pod."""
    daemonset_eviction_for_empty_nodes: bool = False
    """Evict DaemonSet pods from empty nodes."""
    daemonset_eviction_for_occupied_nodes: bool = True
    """Evict DaemonSet pods from non-empty nodes."""
    node_deletion_delay_timeout_s: float = 2 * MINUTE_S
    """Maximum time to wait for the removal of delay-deletion annotations before an empty node is deleted."""
    node_deletion_batcher_interval_s: float = 0.0
    """Time for which deletions in one node group are gathered into a batch; 0: no batches."""


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Cluster health: unready nodes, backoff and failed instances."""

    max_total_unready_percentage: float = 45.0
    """Maximum percentage of unready nodes; above it, the cluster is unhealthy and nothing is scaled."""
    ok_total_unready_count: int = 3
    """Number of unready nodes that is always allowed, regardless of --max-total-unready-percentage."""
    initial_node_group_backoff_duration_s: float = 5 * MINUTE_S
    """Duration of the first backoff of a node group after a failed scale-up."""
    max_node_group_backoff_duration_s: float = 30 * MINUTE_S
    """Maximum duration of a node group's backoff."""
    node_group_backoff_reset_timeout_s: float = 3 * HOUR_S
    """Time after a node group's last failed scale-up after which its backoff is reset."""
    force_delete_unregistered_nodes: bool = False
    """Delete unregistered nodes even if the node group falls below its minimum size."""
    force_delete_failed_nodes: bool = False
    """Delete failed instances even if the node group falls below its minimum size."""


@dataclass(frozen=True, slots=True)
class ProvisioningRequestSettings:
    """ProvisioningRequests."""

    enable_provisioning_requests: bool = False
    """Process ProvisioningRequest objects."""
    check_capacity_batch_processing: bool = False
    """Process several check-capacity ProvisioningRequests in one loop."""
    check_capacity_provisioning_request_max_batch_size: int = 10
    """Maximum number of check-capacity ProvisioningRequests in one batch."""
    check_capacity_provisioning_request_batch_timebox_s: float = 10.0
    """Time limit of one batch of check-capacity ProvisioningRequests."""
    check_capacity_processor_instance: str = ""
    """Process only check-capacity ProvisioningRequests that name this processor instance; empty: those that name
    none."""
    provisioning_request_initial_backoff_time_s: float = MINUTE_S
    """Duration of the first backoff of a failed ProvisioningRequest."""
    provisioning_request_max_backoff_time_s: float = 10 * MINUTE_S
    """Maximum duration of a ProvisioningRequest's backoff."""
    provisioning_request_max_backoff_cache_size: int = 1000
    """Maximum number of ProvisioningRequests whose backoff is cached."""


@dataclass(frozen=True, slots=True)
class InjectionSettings:
    """Injected pods: CapacityBuffers and proactive scale-up."""

    capacity_buffer_controller_enabled: bool = False
    """Run the CapacityBuffer controller, which writes the status of CapacityBuffer objects."""
    capacity_buffer_pod_injection_enabled: bool = False
    """Inject the pods of CapacityBuffers into scale-up and scale-down."""
    capacity_buffer_pod_dry_run_enabled: bool = True
    """Complete the pod templates of CapacityBuffers with dry-run creates, which require the permission to create pods.
    Off: only requests are defaulted, from limits."""
    enable_proactive_scaleup: bool = False
    """Inject pods that controllers want but have not created yet."""
    pod_injection_limit: int = 5000
    """Limit on pending pods, injected ones included, above which no pods are injected."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings that decisions depend on besides observation and memory."""

    groups: GroupDefaults = GroupDefaults()
    pods: PodSettings = PodSettings()
    templates: TemplateSettings = TemplateSettings()
    scale_up: ScaleUpSettings = ScaleUpSettings()
    limits: LimitSettings = LimitSettings()
    scale_down: ScaleDownSettings = ScaleDownSettings()
    drain: DrainSettings = DrainSettings()
    health: HealthSettings = HealthSettings()
    provisioning_requests: ProvisioningRequestSettings = ProvisioningRequestSettings()
    injection: InjectionSettings = InjectionSettings()
    filters: FilterConfig = DEFAULT_FILTER_CONFIG
    """Filter configuration from --scheduler-config-file."""
    deviations: Deviations = ALL_DEVIATIONS
    seed: int = 0
    """Seed for breaking ties, combined with the number of the loop."""

    @classmethod
    def cluster_autoscaler(cls) -> "Settings":
        """Cluster Autoscaler's behavior and defaults."""
        return cls(deviations=NO_DEVIATIONS)


def for_group(settings: Settings, options: node_groups.GroupOptions) -> GroupDefaults:
    """Return the options of a group: its overrides, and defaults for the rest."""
    defaults = settings.groups
    return GroupDefaults(
        _override(options.scale_down_utilization_threshold, defaults.scale_down_utilization_threshold),
        _override(options.scale_down_gpu_utilization_threshold, defaults.scale_down_gpu_utilization_threshold),
        _override(options.scale_down_unneeded_s, defaults.scale_down_unneeded_time_s),
        _override(options.scale_down_unready_s, defaults.scale_down_unready_time_s),
        _override(options.max_node_provision_s, defaults.max_node_provision_time_s),
        _override(options.max_node_startup_s, defaults.max_node_startup_time_s),
        _override(options.ignore_daemonsets_utilization, defaults.ignore_daemonsets_utilization),
        options.zero_or_max,
        options.allow_non_atomic_scale_up_to_max,
    )


def _override(override: Overridden | None, default: Overridden) -> Overridden:
    return default if override is None else override


MAX_INJECTED_PODS = 150_000
"""Maximum number of pods injected from one source: as many as Kubernetes supports in one cluster."""
