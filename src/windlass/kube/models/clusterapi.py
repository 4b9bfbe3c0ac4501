"""cluster.x-k8s.io: clusters and the machines they are made of, v1beta2 and v1beta1.

One model serves both versions: what moved between them is read from either place. References say `apiGroup` in v1beta2
and `apiVersion` in v1beta1; `Reference.group` is the same for both.
"""

from __future__ import annotations

import msgspec

from windlass.kube.models import core, meta
from windlass.kube.models.meta import Model, Object


class Reference(Model, frozen=True):
    api_group: str | None = None
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None

    @property
    def group(self) -> str:
        if self.api_group is not None:
            return self.api_group
        group, slash, _ = (self.api_version or "").partition("/")
        return group if slash else ""


class ClusterSpec(Model, frozen=True):
    paused: bool | None = None
    infrastructure_ref: Reference | None = None
    control_plane_ref: Reference | None = None


class ClusterStatus(Model, frozen=True):
    phase: str | None = None
    conditions: list[meta.Condition] | None = None


class Cluster(Object, frozen=True):
    spec: ClusterSpec | None = None
    status: ClusterStatus | None = None


class MachineSpec(Model, frozen=True):
    cluster_name: str | None = None
    infrastructure_ref: Reference | None = None
    version: str | None = None
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    failure_domain: str | None = None
    taints: list[core.Taint] | None = None


class Condition(meta.Condition, frozen=True):
    message: str | None = None
    severity: str | None = None
    """v1beta1 only: `Error`, `Warning` or `Info`."""


class Failure(Model, frozen=True):
    failure_reason: str | None = None
    failure_message: str | None = None
    conditions: list[Condition] | None = None


class Deprecated(Model, frozen=True):
    v1beta1: Failure | None = None


class NewConditions(Model, frozen=True):
    """`status.v1beta2` of a v1beta1 object: its conditions in v1beta2 form."""

    conditions: list[Condition] | None = None


class MachineStatus(Model, frozen=True):
    phase: str | None = None
    node_ref: Reference | None = None
    conditions: list[Condition] | None = None
    failure_reason: str | None = None
    failure_message: str | None = None
    deprecated: Deprecated | None = None
    v1beta2: NewConditions | None = None

    @property
    def failure(self) -> str | None:
        """The message of a terminal failure, in either version."""
        old = self.deprecated.v1beta1 if self.deprecated else None
        return self.failure_message or (old.failure_message if old else None)


class Machine(Object, frozen=True):
    spec: MachineSpec | None = None
    status: MachineStatus | None = None


class MachineTemplate(Model, frozen=True):
    metadata: meta.ObjectMeta | None = None
    spec: MachineSpec | None = None


class MachineGroupSpec(Model, frozen=True):
    """Common spec of MachineDeployments, MachineSets and MachinePools."""

    cluster_name: str | None = None
    replicas: int | None = None
    selector: meta.LabelSelector | None = None
    template: MachineTemplate | None = None


class MachineGroupStatus(Model, frozen=True):
    replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    up_to_date_replicas: int | None = None
    observed_generation: int | None = None
    phase: str | None = None
    selector: str | None = None
    conditions: list[Condition] | None = None
    v1beta2: NewConditions | None = None
    authoritative_api: str | None = msgspec.field(default=None, name="authoritativeAPI")
    """Of a MachineSet of machine.openshift.io: the authoritative API."""


class SpecFields(Model, frozen=True):
    """`f:spec` of managedFields."""

    replicas: dict[str, object] | None = msgspec.field(default=None, name="f:replicas")
    """Set, if empty, when the manager owns the field."""


class OwnedFields(Model, frozen=True):
    """`fieldsV1` of managedFields, down to spec.replicas."""

    spec: SpecFields | None = msgspec.field(default=None, name="f:spec")


class ManagedFields(Model, frozen=True):
    manager: str | None = None
    operation: str | None = None
    subresource: str | None = None
    fields_v1: OwnedFields | None = msgspec.field(default=None, name="fieldsV1")

    @property
    def has_replicas(self) -> bool:
        return (
            self.fields_v1 is not None and self.fields_v1.spec is not None and self.fields_v1.spec.replicas is not None
        )


class MachineGroupMeta(meta.ObjectMeta, frozen=True):
    managed_fields: list[ManagedFields] | None = None

    def applies_replicas(self, manager: str) -> bool:
        """True if a manager owns spec.replicas by server-side apply. Writes to the scale subresource are updates."""
        return any(
            entry.manager == manager and entry.operation == "Apply" and not entry.subresource and entry.has_replicas
            for entry in self.managed_fields or ()
        )


class MachineDeployment(Object, frozen=True):
    metadata: MachineGroupMeta | None = None
    spec: MachineGroupSpec | None = None
    status: MachineGroupStatus | None = None


class MachineSet(Object, frozen=True):
    spec: MachineGroupSpec | None = None
    status: MachineGroupStatus | None = None


class MachinePoolSpec(MachineGroupSpec, frozen=True):
    provider_id_list: list[str] | None = msgspec.field(default=None, name="providerIDList")


class MachinePoolStatus(MachineGroupStatus, frozen=True):
    node_refs: list[Reference] | None = None
    infrastructure_machine_kind: str | None = None


class MachinePool(Object, frozen=True):
    metadata: MachineGroupMeta | None = None
    spec: MachinePoolSpec | None = None
    status: MachinePoolStatus | None = None


class MachineDrainRuleDrain(Model, frozen=True):
    behavior: str | None = None
    order: int | None = None


class MachineDrainRuleMachines(Model, frozen=True):
    selector: meta.LabelSelector | None = None
    cluster_selector: meta.LabelSelector | None = None


class MachineDrainRulePods(Model, frozen=True):
    selector: meta.LabelSelector | None = None
    namespace_selector: meta.LabelSelector | None = None


class MachineDrainRuleSpec(Model, frozen=True):
    drain: MachineDrainRuleDrain | None = None
    machines: list[MachineDrainRuleMachines] | None = None
    pods: list[MachineDrainRulePods] | None = None


class MachineDrainRule(Object, frozen=True):
    spec: MachineDrainRuleSpec | None = None


class NodeInfo(Model, frozen=True):
    architecture: str | None = None
    operating_system: str | None = None


class InfrastructureTemplateStatus(Model, frozen=True):
    capacity: meta.Amounts | None = None
    node_info: NodeInfo | None = None


class InfrastructureTemplate(Object, frozen=True):
    """Fields of infrastructure machine templates that describe nodes, for all providers."""

    status: InfrastructureTemplateStatus | None = None


class MirroredMachineSetStatus(Model, frozen=True):
    authoritative_api: str | None = msgspec.field(default=None, name="authoritativeAPI")


class MirroredMachineSet(Object, frozen=True):
    """machine.openshift.io/v1beta1: the counterpart of a MachineSet, with its authority."""

    status: MirroredMachineSetStatus | None = None
