"""The observation: everything that a decision may look at, as it was at one moment.

The snapshot belongs to the caller: a decision forks it and leaves it unchanged. `Exclusions` names what is left out
because it cannot be evaluated (`quarantine`).
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine.expanders import priority
from windlass.engine.model import facts, node_groups, plan, scale_up_status
from windlass.engine.model.drainability import ControllerKey
from windlass.engine.model.provisioning import BufferPods, ProvisioningRequest
from windlass.engine.model.scale_up_status import Quota
from windlass.engine.snapshot.pod_table import PodTemplateKey
from windlass.engine.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """When the eviction of a pod was answered, whatever the answer: for the first time, and for the last."""

    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class EvictionState:
    """Evictions that were ordered and take their time to be sent, and those that were answered. Pods go by identity."""

    unanswered: frozenset[str] = frozenset()
    answered: Mapping[str, EvictionAnswer] = field(default_factory=dict)


class DecisionPart(enum.StrEnum):
    """Parts of a decision that can be left out."""

    SCALE_DOWN = "scale-down"
    SCALE_UP = "scale-up"


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Pods and nodes of the snapshot, and parts of the decision."""

    kinds: frozenset[object] = frozenset()
    """`pods.Kind`: pods alike."""
    namespaces: frozenset[str] = frozenset()
    """All pods of these."""
    pending: frozenset[str] = frozenset()
    """Pending pods of these namespaces."""
    nodes: frozenset[str] = frozenset()
    parts: frozenset[DecisionPart] = frozenset()

    def excludes(self, kind: PodTemplateKey) -> bool:
        return kind.namespace in self.namespaces or kind in self.kinds

    def excludes_pending(self, kind: PodTemplateKey) -> bool:
        """Are pending pods of the kind left out?"""
        return kind.namespace in self.pending or self.excludes(kind)


NO_EXCLUSIONS = Exclusions()


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster, its groups, and what became of the last plan.

    The snapshot is the caller's: a decision forks it and leaves it as it was found.
    """

    snapshot: Snapshot
    groups: tuple[node_groups.NodeGroup, ...] = ()
    daemon_sets: tuple[node_groups.DaemonSet, ...] = ()
    budgets: tuple[facts.PodDisruptionBudget, ...] = ()
    controllers: Mapping[ControllerKey, facts.Controller] | None = None
    priorities: tuple[priority.PriorityRule, ...] = ()
    """The priority expander's rules, where the user has any."""
    requests: tuple[ProvisioningRequest, ...] = ()
    """ProvisioningRequests, where they are served."""
    quotas: tuple[Quota, ...] = ()
    """What users limit by CapacityQuotas, beside the flags."""
    spares: tuple[BufferPods, ...] = ()
    """Pods that CapacityBuffers keep room for."""
    opinions: tuple[scale_up_status.BestOptionsResponse, ...] = ()
    """What the user's own expander said about options when this very observation was decided on before. Whoever can ask
    it what a decision would need to know does, and decides again with the answer."""
    refused: Mapping[str, node_groups.InstanceError] = field(default_factory=dict)
    """Groups that could not be raised when this very observation was decided on before: why. Whoever carries out a plan
    and meets a refusal decides again with it, so that it is known like any other fact."""
    failed: Mapping[plan.Instruction, str] = field(default_factory=dict)
    """Instructions carried out since the last observation that failed, and what was said. Evicting a pod that is gone
    is no failure; one that a budget forbids for now is."""
    left_out: Exclusions = NO_EXCLUSIONS
    """What a decision is made without because it cannot be evaluated; see `quarantine`."""

    evictions: EvictionState = field(default_factory=EvictionState)
    """What is known of evictions of the drains that are under way; of one that is not told of here, nothing is known
    but what `failed` and the pod itself say."""
    held: tuple[node_groups.HeldGroup, ...] = ()
    """Groups that must be left alone for now; none of them is among `groups`."""
    machine_drain_rules: tuple[node_groups.MachineDrainRule, ...] = ()
    """Cluster API's, where they are served. Which of them select a node's Machine, its instance says."""

    @property
    def nodes(self) -> list[facts.Node]:
        """The nodes that exist, in the snapshot's order."""
        table, reduced = self.snapshot.nodes, self.left_out.nodes
        nodes = [node for node, alive in zip(table.facts, table.alive.tolist(), strict=True) if alive]
        return [reduce_node(one) if one.name in reduced else one for one in nodes] if reduced else nodes

    def group_of_nodes(self) -> dict[str, node_groups.NodeGroup]:
        """Group by node name, for nodes that belong to one."""
        by_instance = {instance.provider_id: group for group in self.groups for instance in group.instances}
        return {
            node.name: by_instance[node.provider_id]
            for node in self.nodes
            if node.provider_id and node.provider_id in by_instance
        }


def reduce_node(node: facts.Node) -> facts.Node:
    """A node of which nothing can be said but that it is there, and in use."""
    return facts.Node(
        node.name,
        node.uid,
        provider_id=node.provider_id,
        created_s=node.created_s,
        conditions=(facts.Condition("Ready", "True", node.created_s),),
    )
