"""Settings: what the user decides, as far as a decision depends on it.

One field is one flag: the flag's name in snake case, `_s` for a duration and `_bytes` for an amount of memory; the text
under a field is the flag's help. Defaults are Cluster Autoscaler's. Flags that only set up the process (addresses,
clients, leader election, logs) are not here. `Settings.cluster_autoscaler()` decides as Cluster Autoscaler does; what
the default decides otherwise is in `deviations`.
"""

from dataclasses import dataclass
from typing import TypeVar

from windlass.engine.model import node_groups
from windlass.engine.model.deviations import ALL_DEVIATIONS, NO_DEVIATIONS, Deviations
from windlass.engine.model.facts import SpreadConstraint
from windlass.selectors import NodeSelector


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """One profile of a KubeSchedulerConfiguration, as far as filters are concerned."""

    disabled: frozenset[str] = frozenset()
    """Names of plugins that do not filter."""
    ignored_resources: frozenset[str] = frozenset()
    """NodeResourcesFit: extended resources that are not checked."""
    ignored_resource_groups: frozenset[str] = frozenset()
    """NodeResourcesFit: prefixes (before the slash) of extended resources that are not checked."""
    added_affinity: NodeSelector | None = None
    """NodeAffinity: what every pod of this profile needs on top of its own affinity."""
    binding_timeout_s: float = 600.0
    """DynamicResources: how long an allocated claim may wait for its devices to become ready."""
    default_constraints: tuple[SpreadConstraint, ...] = ()
    """PodTopologySpread: hard constraints for pods that have none."""


DEFAULT_FILTER_CONFIG = FilterConfig()

MINUTE_S = 60.0

HOUR_S = 3600.0

TEN_YEARS_S = 87600 * HOUR_S

GIB = 2**30

Overridden = TypeVar("Overridden")


@dataclass(frozen=True, slots=True)
class Bounds:
    """At least and at most, both included."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class GpuBounds:
    """Bounds on the GPUs of one type: the value of the GPU label."""

    gpu_type: str
    min: int
    max: int


@dataclass(frozen=True, slots=True)
class PriorityGrace:
    """Pods of this priority and above, up to the next rule's, get at most so much time to terminate."""

    priority: int
    grace_s: int


@dataclass(frozen=True, slots=True)
class GroupDefaults:
    """What holds for a group that does not override it; `for_group` gives what holds for one group."""

    scale_down_utilization_threshold: float = 0.5
    """Share of a node's allocatable cpu or memory, the larger of both, up to which it may be removed."""
    scale_down_gpu_utilization_threshold: float = 0.5
    """The same for nodes with GPUs, of which only the GPUs count."""
    scale_down_unneeded_time_s: float = 10 * MINUTE_S
    """Longer than this unneeded, and a node may go: long enough for load that comes in waves."""
    scale_down_unready_time_s: float = 20 * MINUTE_S
    """The same for a node that is not ready: longer, because it may recover."""
    max_node_provision_time_s: float = 15 * MINUTE_S
    """Longer than this, and an instance without a node, or a scale-up without its nodes, has failed."""
    max_node_startup_time_s: float = 15 * MINUTE_S
    """Younger than this, and a node that is not ready has merely not started yet."""
    ignore_daemonsets_utilization: bool = False
    """Leave pods of DaemonSets out of a node's utilization: they go with the node anyway."""
    zero_or_max: bool = False
    """All or nothing: the group is only ever empty or full. Set by the group, not by a flag."""
    allow_non_atomic_scale_up_to_max: bool = False
    """Of such a group: a scale-up that failed in part is not cancelled, and the nodes that came stay. Set by the
    group, not by a flag."""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Which pending pods ask for nodes."""

    expendable_pods_priority_cutoff: int = -10
    """Pods of a lower priority neither trigger a scale-up nor keep a node."""
    new_pod_scale_up_delay_s: float = 0.0
    """Pods must be older than this; an annotation of the pod can only raise it."""
    allowed_scheduler_names: tuple[str, ...] = ()
    """Only pods of these schedulers count; empty: of all."""
    bypassed_scheduler_names: tuple[str, ...] = ()
    """Pods of these schedulers are helped before the scheduler has marked them unschedulable, and without waiting."""


@dataclass(frozen=True, slots=True)
class TemplateSettings:
    """What a new node of a group is taken to look like."""

    startup_taint: tuple[str, ...] = ()
    """Keys of taints that go once a node has started: not part of a template, and a node with one is not ready. Holds
    --ignore-taint too, its old name."""
    startup_taint_prefix: tuple[str, ...] = ()
    """Prefixes of such keys, beside those built in."""
    status_taint: tuple[str, ...] = ()
    """Keys of taints that come and go: not part of a template."""
    scale_from_unschedulable: bool = False
    """A template made from a cordoned node is not cordoned."""
    force_ds: bool = False
    """Count pods of DaemonSets that do not run on the node a template was made from."""
    node_info_cache_expire_time_s: float = TEN_YEARS_S
    """How long a template made from a real node outlives the group's nodes: ten years."""

    @property
    def expires(self) -> bool:
        """Can a template expire while a process runs?"""
        return self.node_info_cache_expire_time_s < TEN_YEARS_S


@dataclass(frozen=True, slots=True)
class ScaleUpSettings:
    """How new nodes are estimated, chosen and shared."""

    expander: tuple[str, ...] = ("least-waste",)
    """Strategies that narrow the options one after another; ties are drawn at random."""
    max_nodes_per_scaleup: int = 1000
    """Nodes that one scale-up may add; 0: no limit. With --joint-scale-up all rounds of a loop count together, with
    --salvo-scale-up alone each for itself."""
    max_nodegroup_binpacking_duration_s: float = 10.0
    """Time for one group's estimate."""
    max_binpacking_time_s: float = 5 * MINUTE_S
    """Time for all estimates of a scale-up; what is estimated by then is chosen from."""
    fastpath_binpacking_enabled: bool = False
    """Estimate the last pod group by division instead of packing its pods."""
    scale_up_from_zero: bool = True
    """Go on in a cluster without ready nodes."""
    parallel_scale_up: bool = False
    """Raise groups at the same time, so that one failure does not keep the others from being tried. Without effect
    while --joint-scale-up is on, which does that anyway."""
    salvo_scale_up: bool = False
    """Repeat the scale-up within a loop for the pods that are left. Without effect while --joint-scale-up is on, which
    does that anyway."""
    salvo_scale_up_budget_s: float = MINUTE_S
    """Time after which it is not repeated again."""
    enforce_node_group_min_size: bool = False
    """Raise groups that are below their minimum."""
    scaleup_simulation_for_skipped_node_groups_enabled: bool = False
    """Check pods against groups that cannot be scaled up, too. Where such a group would reject the pod anyway, that
    reason is given, not why the group is skipped."""
    balance_similar_node_groups: bool = False
    """Share new nodes between similar groups."""
    balancing_label: tuple[str, ...] = ()
    """Labels that alone decide whether groups are similar; empty: resources and all labels do."""
    balancing_ignore_label: tuple[str, ...] = ()
    """Labels that may differ between similar groups, beside those built in."""
    memory_difference_ratio: float = 0.015
    """How far the memory capacity of similar groups may differ, as a share of the larger."""
    max_allocatable_difference_ratio: float = 0.05
    """How far what is allocatable may differ."""
    max_free_difference_ratio: float = 0.05
    """How far what a new node's own pods leave free may differ."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """What the whole cluster may grow to, and must keep."""

    max_nodes_total: int = 0
    """Nodes at most; 0: no limit."""
    cores_total: Bounds = Bounds(0, 320_000)
    """Cores of all nodes."""
    memory_total_bytes: Bounds = Bounds(0, 6_400_000 * GIB)
    """Memory of all nodes. The flag counts in GiB."""
    gpu_total: tuple[GpuBounds, ...] = ()
    """GPUs of all nodes, by type."""
    capacity_quotas_enabled: bool = False
    """CapacityQuota objects limit, too."""


@dataclass(frozen=True, slots=True)
class ScaleDownSettings:
    """Which nodes are unneeded, and when they may go."""

    scale_down_enabled: bool = True
    """Remove nodes at all."""
    scale_down_unready_enabled: bool = True
    """Remove nodes that are not ready, too."""
    ignore_mirror_pods_utilization: bool = False
    """Leave mirror pods out of a node's utilization: they go with the node anyway."""
    scale_down_delay_after_add_s: float = 10 * MINUTE_S
    """Pause after a scale-up: the new load may not have settled."""
    scale_down_delay_after_delete_s: float = 0.0
    """Pause after a removal began."""
    scale_down_delay_after_failure_s: float = 3 * MINUTE_S
    """Pause after a removal failed."""
    scale_down_delay_type_local: bool = False
    """The pauses hold for the group concerned only."""
    scale_down_simulation_timeout_s: float = 30.0
    """Time for finding unneeded nodes."""
    unremovable_node_recheck_timeout_s: float = 5 * MINUTE_S
    """How long a node that could not be removed is not looked at again. Without effect while
    --recheck-unremovable-nodes is on, which looks at each node in every loop."""
    max_scale_down_parallelism: int = 10
    """Nodes that may be on their way out at the same time."""
    max_drain_parallelism: int = 1
    """Of these, nodes that have pods to be moved."""
    max_bulk_soft_taint_count: int = 10
    """Nodes that one loop may mark as candidates, or unmark; 0: no marks at all."""
    max_bulk_soft_taint_time_s: float = 3.0
    """Time for that: afterwards no more marks are begun in that loop. 0: none is."""
    node_deletion_candidate_ttl_s: float = 0.0
    """Age up to which a mark found at the start restores the node's unneeded time; 0: never."""
    scan_interval_s: float = 10.0
    """Time between loops: with the unneeded time it tells how many candidates are worth looking at."""


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """Which pods may be moved, and how a node is emptied."""

    skip_nodes_with_system_pods: bool = True
    """Keep nodes with pods of kube-system that no budget covers."""
    skip_nodes_with_local_storage: bool = True
    """Keep nodes with pods that store on the node's disk."""
    skip_nodes_with_custom_controller_pods: bool = True
    """Keep nodes with pods whose controller is not one of Kubernetes' own."""
    min_replica_count: int = 0
    """Pods of controllers with fewer replicas stay."""
    blocking_system_pod_distruption_timeout_s: float = HOUR_S
    """Age at which a pod of kube-system may go without a budget."""
    cordon_node_before_terminating: bool = True
    """Set a node unschedulable together with the taint."""
    node_delete_delay_after_taint_s: float = 5.0
    """Time between the taint and what follows, for the scheduler to see it."""
    dynamic_node_delete_delay_after_taint_enabled: bool = False
    """Measure that time instead: twice the slowest round trip to the API server within the last hour."""
    max_graceful_termination_s: int = 600
    """Time that a pod gets to terminate, at most. Not together with drain_priority_config."""
    drain_priority_config: tuple[PriorityGrace, ...] = ()
    """Pods go in ascending order of these priorities, each with its own time; empty: all at once."""
    max_pod_eviction_time_s: float = 2 * MINUTE_S
    """How long an eviction that is refused is tried again."""
    daemonset_eviction_for_empty_nodes: bool = False
    """Evict pods of DaemonSets from nodes that have no others."""
    daemonset_eviction_for_occupied_nodes: bool = True
    """Evict pods of DaemonSets from nodes that have others."""
    node_deletion_delay_timeout_s: float = 2 * MINUTE_S
    """How long an annotation may hold back the deletion of an empty node."""
    node_deletion_batcher_interval_s: float = 0.0
    """How long nodes of one group are gathered to be deleted by one call; 0: each by its own."""


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """When the cluster or a group is left alone, and what becomes of instances that do not come up."""

    max_total_unready_percentage: float = 45.0
    """Share of unready nodes above which nothing is done: the fault may be the network between."""
    ok_total_unready_count: int = 3
    """Unready nodes that are always tolerated, because in a small cluster one is a large share."""
    initial_node_group_backoff_duration_s: float = 5 * MINUTE_S
    """How long a group is left alone after its first failed scale-up."""
    max_node_group_backoff_duration_s: float = 30 * MINUTE_S
    """Where doubling that time ends."""
    node_group_backoff_reset_timeout_s: float = 3 * HOUR_S
    """Time after a group's last failure when it is forgotten."""
    force_delete_unregistered_nodes: bool = False
    """Delete instances that never registered even below the group's minimum."""
    force_delete_failed_nodes: bool = False
    """Delete instances that could not be created even below the group's minimum."""


@dataclass(frozen=True, slots=True)
class ProvisioningRequestSettings:
    """Capacity asked for by ProvisioningRequest objects."""

    enable_provisioning_requests: bool = False
    """Serve them at all."""
    check_capacity_batch_processing: bool = False
    """Serve several check-capacity requests in one loop."""
    check_capacity_provisioning_request_max_batch_size: int = 10
    """That many at most."""
    check_capacity_provisioning_request_batch_timebox_s: float = 10.0
    """For so long at most."""
    check_capacity_processor_instance: str = ""
    """Serve only check-capacity requests that name this instance, and no others; empty: those that name none."""
    provisioning_request_initial_backoff_time_s: float = MINUTE_S
    """Time until a request that failed is tried again."""
    provisioning_request_max_backoff_time_s: float = 10 * MINUTE_S
    """Where doubling that time ends."""
    provisioning_request_max_backoff_cache_size: int = 1000
    """Requests whose time is remembered."""


@dataclass(frozen=True, slots=True)
class InjectionSettings:
    """Pods that do not exist but are made room for."""

    capacity_buffer_controller_enabled: bool = False
    """Keep the status of CapacityBuffer objects."""
    capacity_buffer_pod_injection_enabled: bool = False
    """Make room for the buffers' pods."""
    capacity_buffer_pod_dry_run_enabled: bool = True
    """Let the API server complete the buffers' pods, by creating them in a dry run; it needs the right to create pods.
    Off: only requests that follow from limits are filled in."""
    enable_proactive_scaleup: bool = False
    """Make room for pods that controllers want but have not created yet."""
    pod_injection_limit: int = 5000
    """Pending pods, made-up ones included, beyond which none are made up."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decisions depend on besides what is seen and remembered."""

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
    """What the scheduler's configuration changes about its filters."""
    deviations: Deviations = ALL_DEVIATIONS
    seed: int = 0
    """Where ties are drawn from, together with the number of the loop: the same seed draws the same."""

    @classmethod
    def cluster_autoscaler(cls) -> "Settings":
        """The peer's behaviour, and its defaults."""
        return cls(deviations=NO_DEVIATIONS)


def for_group(settings: Settings, options: node_groups.GroupOptions) -> GroupDefaults:
    """What holds for a group with these options."""
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
"""As many pods as Kubernetes supports in one cluster: no more are imagined of one source."""
