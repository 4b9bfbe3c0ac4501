"""The observation: all facts of a decision, consistent at one time.

The snapshot belongs to the caller: a decision forks it and leaves it unchanged. `Exclusions` names objects that are
excluded because they cannot be evaluated (`quarantine`).
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from windlass.engine.expanders import priority
from windlass.engine.model import facts, node_groups, plan, scale_up_status
from windlass.engine.model.drainability import ControllerKey
from windlass.engine.model.provisioning import BufferPods, ProvisioningRequest
from windlass.engine.model.scale_up_status import Quota
from windlass.engine.snapshot.pod_table import PodTemplateKey

if TYPE_CHECKING:
    from windlass.engine.snapshot.cluster_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """Times of the first and the last response to evictions of a pod, whatever the response."""

    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class EvictionState:
    """Evictions that are not sent or not answered yet, and those that are. Keys are pod identities."""

    unanswered: frozenset[str] = frozenset()
    answered: Mapping[str, EvictionAnswer] = field(default_factory=dict)


class DecisionPart(enum.StrEnum):
    """Parts of a decision that can be excluded."""

    SCALE_DOWN = "scale-down"
    SCALE_UP = "scale-up"


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Pods and nodes of the snapshot, and parts of the decision."""

    kinds: frozenset[object] = frozenset()
    """`PodTemplateKey`: equivalent pods."""
    namespaces: frozenset[str] = frozenset()
    """All pods of these namespaces."""
    pending: frozenset[str] = frozenset()
    """Pending pods of these namespaces."""
    nodes: frozenset[str] = frozenset()
    parts: frozenset[DecisionPart] = frozenset()

    def excludes(self, kind: PodTemplateKey) -> bool:
        return kind.namespace in self.namespaces or kind in self.kinds

    def excludes_pending(self, kind: PodTemplateKey) -> bool:
        """Are pending pods of this template excluded?"""
        return kind.namespace in self.pending or self.excludes(kind)


NO_EXCLUSIONS = Exclusions()


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster, its node groups, and the results of the last plan."""

    snapshot: "Snapshot"
    groups: tuple[node_groups.NodeGroup, ...] = ()
    daemon_sets: tuple[node_groups.DaemonSet, ...] = ()
    budgets: tuple[facts.PodDisruptionBudget, ...] = ()
    controllers: Mapping[ControllerKey, facts.Controller] | None = None
    priorities: tuple[priority.PriorityRule, ...] = ()
    """Rules of the priority expander's ConfigMap."""
    requests: tuple[ProvisioningRequest, ...] = ()
    """ProvisioningRequests, where they are enabled."""
    quotas: tuple[Quota, ...] = ()
    """Limits of CapacityQuotas, besides those of flags."""
    spares: tuple[BufferPods, ...] = ()
    """Pods of CapacityBuffers, to be injected."""
    opinions: tuple[scale_up_status.BestOptionsResponse, ...] = ()
    """Responses of the external gRPC expander to earlier decisions on this same observation. The caller sends
    `Decision.question`, and decides again with the response."""
    refused: Mapping[str, node_groups.InstanceError] = field(default_factory=dict)
    """Groups that refused a resize of an earlier decision on this same observation, and the error. The caller decides
    again with it, so that the refusal is a fact like any other."""
    failed: Mapping[plan.Instruction, str] = field(default_factory=dict)
    """Instructions executed since the last observation that failed, and the error message. The eviction of a pod that
    is gone is no failure; one that a budget forbids is."""
    left_out: Exclusions = NO_EXCLUSIONS
    """Objects that cannot be evaluated; see `quarantine`."""

    evictions: EvictionState = field(default_factory=EvictionState)
    """Evictions of the drains in progress. Of an eviction that is missing here, only `failed` and the pod's own status
    are known."""
    held: tuple[node_groups.HeldGroup, ...] = ()
    """Groups that are paused or unreadable; none of them is among `groups`."""
    machine_drain_rules: tuple[node_groups.MachineDrainRule, ...] = ()
    """Cluster API MachineDrainRules. `Instance` names those that select a node's Machine."""

    @property
    def nodes(self) -> list[facts.Node]:
        """The nodes that exist, in the snapshot's order."""
        table, reduced = self.snapshot.nodes, self.left_out.nodes
        nodes = [node for node, alive in zip(table.facts, table.alive.tolist(), strict=True) if alive]
        return [reduce_node(node) if node.name in reduced else node for node in nodes] if reduced else nodes

    def group_of_nodes(self) -> dict[str, node_groups.NodeGroup]:
        """Group by node name, for nodes that belong to one."""
        by_instance = {instance.provider_id: group for group in self.groups for instance in group.instances}
        return {
            node.name: by_instance[node.provider_id]
            for node in self.nodes
            if node.provider_id and node.provider_id in by_instance
        }


def reduce_node(node: facts.Node) -> facts.Node:
    """The node with identity and readiness only: registered, ready and in use."""
    return facts.Node(
        node.name,
        node.uid,
        provider_id=node.provider_id,
        created_s=node.created_s,
        conditions=(facts.Condition("Ready", "True", node.created_s),),
    )
