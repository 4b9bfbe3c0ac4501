"""An observation: everything a decision may look at, as it was at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine import facts, plan
from windlass.engine.buffers.injecting import Spare
from windlass.engine.drain.context import ControllerKey
from windlass.engine.expanders import outside, priority
from windlass.engine.left_out import NOTHING, LeftOut, reduce_node
from windlass.engine.provisioning.request import Request
from windlass.engine.scale_up.quotas import Quota
from windlass.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Answer:
    """When the eviction of a pod was answered, whatever the answer: for the first time, and for the last."""

    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class Evictions:
    """Evictions that were ordered and take their time to be sent, and those that were answered. Pods go by identity."""

    unanswered: frozenset[str] = frozenset()
    answered: Mapping[str, Answer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster, its groups, and what became of the last plan.

    The snapshot is the caller's: a decision forks it and leaves it as it was found.
    """

    snapshot: Snapshot
    groups: tuple[facts.NodeGroup, ...] = ()
    daemon_sets: tuple[facts.DaemonSet, ...] = ()
    budgets: tuple[facts.PodDisruptionBudget, ...] = ()
    controllers: Mapping[ControllerKey, facts.Controller] | None = None
    priorities: tuple[priority.Rule, ...] = ()
    """The priority expander's rules, where the user has any."""
    requests: tuple[Request, ...] = ()
    """ProvisioningRequests, where they are served."""
    quotas: tuple[Quota, ...] = ()
    """What users limit by CapacityQuotas, beside the flags."""
    spares: tuple[Spare, ...] = ()
    """Pods that CapacityBuffers keep room for."""
    opinions: tuple[outside.Opinion, ...] = ()
    """What the user's own expander said about options when this very observation was decided on before. Whoever can ask
    it what a decision would need to know does, and decides again with the answer."""
    refused: Mapping[str, facts.InstanceError] = field(default_factory=dict)
    """Groups that could not be raised when this very observation was decided on before: why. Whoever carries out a plan
    and meets a refusal decides again with it, so that it is known like any other fact."""
    failed: Mapping[plan.Instruction, str] = field(default_factory=dict)
    """Instructions carried out since the last observation that failed, and what was said. Evicting a pod that is gone
    is no failure; one that a budget forbids for now is."""
    left_out: LeftOut = NOTHING
    """What a decision is made without because it cannot be evaluated; see `quarantine`."""

    evictions: Evictions = field(default_factory=Evictions)
    """What is known of evictions of the drains that are under way; of one that is not told of here, nothing is known
    but what `failed` and the pod itself say."""
    held: tuple[facts.HeldGroup, ...] = ()
    """Groups that must be left alone for now; none of them is among `groups`."""
    machine_drain_rules: tuple[facts.MachineDrainRule, ...] = ()
    """Cluster API's, where they are served. Which of them select a node's Machine, its instance says."""

    @property
    def nodes(self) -> list[facts.Node]:
        """The nodes that exist, in the snapshot's order."""
        table, reduced = self.snapshot.nodes, self.left_out.nodes
        nodes = [node for node, alive in zip(table.facts, table.alive.tolist(), strict=True) if alive]
        return [reduce_node(one) if one.name in reduced else one for one in nodes] if reduced else nodes

    def group_of_nodes(self) -> dict[str, facts.NodeGroup]:
        """Group by node name, for nodes that belong to one."""
        by_instance = {instance.provider_id: group for group in self.groups for instance in group.instances}
        return {
            node.name: by_instance[node.provider_id]
            for node in self.nodes
            if node.provider_id and node.provider_id in by_instance
        }
