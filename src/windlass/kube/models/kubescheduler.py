"""kubescheduler.config.k8s.io: a scheduler's configuration file.

Unlike objects of the API, a file is read strictly: a field that is not known is a mistake. So all fields are here,
though few are looked at.
"""

from __future__ import annotations

import msgspec

from windlass.kube.models import core, meta, pods

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"


class Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of configuration types: unknown fields are errors."""


class Plugin(Strict, frozen=True):
    name: str = ""
    weight: int | None = None


class PluginSet(Strict, frozen=True):
    enabled: list[Plugin] | None = None
    disabled: list[Plugin] | None = None


class Plugins(Strict, frozen=True):
    pre_enqueue: PluginSet | None = None
    queue_sort: PluginSet | None = None
    pre_filter: PluginSet | None = None
    filter: PluginSet | None = None
    post_filter: PluginSet | None = None
    pre_score: PluginSet | None = None
    score: PluginSet | None = None
    reserve: PluginSet | None = None
    permit: PluginSet | None = None
    pre_bind: PluginSet | None = None
    bind: PluginSet | None = None
    post_bind: PluginSet | None = None
    multi_point: PluginSet | None = None
    placement_generate: PluginSet | None = None
    placement_score: PluginSet | None = None


class PluginConfig(Strict, frozen=True):
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"null")
    """The type depends on the plugin: see ARGS."""


class Profile(Strict, frozen=True):
    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] | None = None


class LeaderElection(Strict, frozen=True):
    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class ClientConnection(Strict, frozen=True):
    kubeconfig: str | None = None
    accept_content_types: str | None = None
    content_type: str | None = None
    qps: float | None = None
    burst: int | None = None


class ExtenderTLS(Strict, frozen=True):
    insecure: bool | None = None
    server_name: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    ca_file: str | None = None
    cert_data: str | None = None
    key_data: str | None = None
    ca_data: str | None = None


class ManagedResource(Strict, frozen=True):
    name: str = ""
    ignored_by_scheduler: bool | None = None


class Extender(Strict, frozen=True):
    url_prefix: str | None = None
    filter_verb: str | None = None
    preempt_verb: str | None = None
    prioritize_verb: str | None = None
    weight: int | None = None
    bind_verb: str | None = None
    enable_https: bool | None = msgspec.field(default=None, name="enableHTTPS")
    tls_config: ExtenderTLS | None = None
    http_timeout: str | None = None
    node_cache_capable: bool | None = None
    managed_resources: list[ManagedResource] | None = None
    ignorable: bool | None = None


class KubeSchedulerConfiguration(Strict, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    parallelism: int | None = None
    leader_election: LeaderElection | None = None
    client_connection: ClientConnection | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    profiles: list[Profile] | None = None
    extenders: list[Extender] | None = None
    delay_cache_until_active: bool | None = None


# Plugin arguments


class Args(Strict, frozen=True):
    api_version: str | None = None
    kind: str | None = None


class Requirement(meta.Requirement, frozen=True, forbid_unknown_fields=True):
    pass


class NodeSelectorTerm(core.NodeSelectorTerm, frozen=True, forbid_unknown_fields=True):
    match_expressions: list[Requirement] | None = None  # type: ignore[assignment]
    match_fields: list[Requirement] | None = None  # type: ignore[assignment]


class NodeSelector(core.NodeSelector, frozen=True, forbid_unknown_fields=True):
    node_selector_terms: list[NodeSelectorTerm] | None = None  # type: ignore[assignment]


class PreferredTerm(Strict, frozen=True):
    weight: int | None = None
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Strict, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredTerm] | None = None


class NodeAffinityArgs(Args, frozen=True):
    added_affinity: NodeAffinity | None = None


class ResourceSpec(Strict, frozen=True):
    name: str = ""
    weight: int | None = None


class ShapePoint(Strict, frozen=True):
    utilization: int | None = None
    score: int | None = None


class RequestedToCapacityRatio(Strict, frozen=True):
    shape: list[ShapePoint] | None = None


class ScoringStrategy(Strict, frozen=True):
    type: str | None = None
    resources: list[ResourceSpec] | None = None
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None


class NodeResourcesFitArgs(Args, frozen=True):
    ignored_resources: list[str] | None = None
    ignored_resource_groups: list[str] | None = None
    scoring_strategy: ScoringStrategy | None = None


class SpreadConstraint(pods.TopologySpreadConstraint, frozen=True, forbid_unknown_fields=True):
    pass


class PodTopologySpreadArgs(Args, frozen=True):
    default_constraints: list[SpreadConstraint] | None = None
    defaulting_type: str | None = None


class DefaultPreemptionArgs(Args, frozen=True):
    min_candidate_nodes_percentage: int | None = None
    min_candidate_nodes_absolute: int | None = None


class InterPodAffinityArgs(Args, frozen=True):
    hard_pod_affinity_weight: int | None = None
    ignore_preferred_terms_of_existing_pods: bool | None = None


class NodeResourcesBalancedAllocationArgs(Args, frozen=True):
    resources: list[ResourceSpec] | None = None


class VolumeBindingArgs(Args, frozen=True):
    bind_timeout_seconds: int | None = None
    shape: list[ShapePoint] | None = None


class DynamicResourcesArgs(Args, frozen=True):
    filter_timeout: str | None = None
    binding_timeout: str | None = None


ARGS: dict[str, type[Args]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""Types of plugin arguments; other plugins have none."""
