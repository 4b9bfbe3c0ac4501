"""Pods, pod templates, the workload controllers that make pods, disruption budgets and priority classes.

The spec of a `Pod` is kept as JSON: pods of one template share it, so it is decoded once for all of them.
"""

from __future__ import annotations

import msgspec

from windlass.kube.models import core, meta
from windlass.kube.models.meta import Amounts, Condition, Model, Object, ObjectMeta

NO_SPEC = msgspec.Raw(b"{}")


class ContainerPort(Model, frozen=True):
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class RestartRule(Model, frozen=True):
    action: str | None = None


class VolumeMount(Model, frozen=True):
    name: str | None = None


class Container(Model, frozen=True):
    name: str | None = None
    resources: core.ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    volume_mounts: list[VolumeMount] | None = None

    @property
    def is_sidecar(self) -> bool:
        """An init container with restartPolicy Always."""
        return self.restart_policy == "Always"


class Toleration(Model, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeAffinity(Model, frozen=True):
    required_during_scheduling_ignored_during_execution: core.NodeSelector | None = None


class PodAffinityTerm(Model, frozen=True):
    topology_key: str | None = None
    label_selector: meta.LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: meta.LabelSelector | None = None


class WeightedPodAffinityTerm(Model, frozen=True):
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Model, frozen=True):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Model, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Model, frozen=True):
    topology_key: str | None = None
    max_skew: int | None = None
    min_domains: int | None = None
    when_unsatisfiable: str | None = None
    label_selector: meta.LabelSelector | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class ClaimVolume(Model, frozen=True):
    claim_name: str | None = None
    read_only: bool | None = None


class EmptyDir(Model, frozen=True):
    medium: str | None = None


class HostPath(Model, frozen=True):
    path: str | None = None


class ISCSI(Model, frozen=True):
    iqn: str | None = None
    read_only: bool | None = None


class RBD(Model, frozen=True):
    monitors: list[str] | None = None
    pool: str | None = None
    image: str | None = None
    read_only: bool | None = None


class CSIVolume(Model, frozen=True):
    driver: str | None = None
    read_only: bool | None = None


class Volume(Model, frozen=True):
    name: str | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Model | None = None
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    gce_persistent_disk: core.GCEPersistentDisk | None = None
    aws_elastic_block_store: core.AWSElasticBlockStore | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    azure_disk: core.AzureDisk | None = None
    cinder: core.Cinder | None = None
    portworx_volume: core.Portworx | None = None
    csi: CSIVolume | None = None


class PodResourceClaim(Model, frozen=True):
    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Model, frozen=True):
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Amounts | None = None
    resources: core.ResourceRequirements | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[dict[str, str]] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    resource_claims: list[PodResourceClaim] | None = None


class ContainerStatus(Model, frozen=True):
    name: str | None = None
    resources: core.ResourceRequirements | None = None
    allocated_resources: Amounts | None = None


class PodResourceClaimStatus(Model, frozen=True):
    name: str | None = None
    resource_claim_name: str | None = None


class ExtendedResourceClaimStatus(Model, frozen=True):
    resource_claim_name: str | None = None


class PodStatus(Model, frozen=True):
    phase: str | None = None
    nominated_node_name: str | None = None
    conditions: list[meta.Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: core.ResourceRequirements | None = None
    allocated_resources: Amounts | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(Object, frozen=True):
    spec: msgspec.Raw = NO_SPEC
    """JSON; see `decode_spec`."""
    status: PodStatus | None = None


class DecodedPod(Object, frozen=True):
    """A pod with decoded spec, for stores that keep pods without JSON."""

    spec: PodSpec | None = None
    status: PodStatus | None = None


class _Binding(Model, frozen=True):
    node_name: str | None = None


_BINDING = msgspec.json.Decoder(_Binding | None)

SPEC = msgspec.json.Decoder(PodSpec | None)


def decode_spec(raw: bytes | msgspec.Raw) -> PodSpec:
    """Decode a pod spec. msgspec.MsgspecError if it is malformed."""
    return SPEC.decode(raw) or PodSpec()


def decode_node_name(raw: bytes | msgspec.Raw) -> str:
    """The node name of a spec. Decodes nothing else, which is several times faster."""
    binding = _BINDING.decode(raw)
    return (binding.node_name if binding else None) or ""


class PodTemplateSpec(Model, frozen=True):
    metadata: ObjectMeta | None = None
    spec: msgspec.Raw = NO_SPEC
    """JSON, as of a pod; see `pods.decode_spec`."""


class PodTemplate(Object, frozen=True):
    template: PodTemplateSpec | None = None


class ReplicaSet(Object, frozen=True):
    spec: core.Scale | None = None
    status: core.Scale | None = None


class StatefulSetSpec(core.Scale, frozen=True):
    pod_management_policy: str | None = None


class StatefulSet(Object, frozen=True):
    spec: StatefulSetSpec | None = None
    status: core.Scale | None = None


class Deployment(Object, frozen=True):
    spec: core.Scale | None = None
    status: core.Scale | None = None


class DaemonSetSpec(Model, frozen=True):
    template: PodTemplateSpec | None = None


class DaemonSet(Object, frozen=True):
    spec: DaemonSetSpec | None = None


class JobSpec(Model, frozen=True):
    parallelism: int | None = None
    completions: int | None = None


class JobStatus(Model, frozen=True):
    active: int | None = None
    terminating: int | None = None
    succeeded: int | None = None
    conditions: list[Condition] | None = None


class Job(Object, frozen=True):
    spec: JobSpec | None = None
    status: JobStatus | None = None


class PodDisruptionBudgetSpec(Model, frozen=True):
    selector: meta.LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Model, frozen=True):
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    observed_generation: int | None = None


class PodDisruptionBudget(Object, frozen=True):
    spec: PodDisruptionBudgetSpec | None = None
    status: PodDisruptionBudgetStatus | None = None


class PriorityClass(Object, frozen=True):
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None
