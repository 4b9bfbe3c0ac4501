"""Loop state: what one loop reads, and what each of its steps finds out.

`LoopInputs` is given and does not change. Every other field of `LoopState` is written by exactly one step, the one its
comment names, and read only by later steps: a field that is read before its step ran raises AttributeError. The order
of the steps is in `loop.STEPS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # values of steps; their modules read the state, so that they import this one
    from collections.abc import Mapping, Sequence

    import numpy as np

    from windlass.engine import taints, time_limits
    from windlass.engine.capacity_apis.provisioning_request_orchestrator import RequestTurn
    from windlass.engine.capacity_apis.provisioning_request_queue import RequestQueue
    from windlass.engine.cluster_state import upcoming_nodes
    from windlass.engine.loop_memory import LoopMemory
    from windlass.engine.model import decision_record, facts, node_groups, plan, scale_down_state
    from windlass.engine.model.cluster_health import ClusterHealth, HealthVerdict
    from windlass.engine.model.durable_memory import DurableMemory, StartedDrain
    from windlass.engine.model.scale_up_status import ScaleUpProposal
    from windlass.engine.model.settings import Settings
    from windlass.engine.observation import Observation
    from windlass.engine.placement.hinting import HintingState
    from windlass.engine.scale_down import removal_simulator
    from windlass.engine.scale_up.options import ScaleUpGroups
    from windlass.engine.scale_up.orchestrator import ScaleUpInputs, ScaleUpStatus
    from windlass.engine.scale_up.pending_pods import PendingPods
    from windlass.engine.scale_up.pod_list import PodList
    from windlass.engine.snapshot.cluster_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class LoopInputs:
    """What is decided on."""

    observation: Observation
    """Without excluded objects."""
    memory: LoopMemory
    """Of the loop before, with the timers of held groups moved on."""
    settings: Settings
    now_s: float
    nodes: Sequence[facts.Node]
    """The nodes as the loop takes them: unready while a resource or a startup taint is missing."""
    group_of: Mapping[str, node_groups.NodeGroup]
    """Node group by node name, with the observed target sizes."""
    transient_taints: taints.TransientTaints
    drains: Mapping[str, StartedDrain]
    """Drains in progress, by node name."""
    first_injected_row: int
    """Rows of the snapshot's pods from here on are injected: they exist only in the loop's fork."""

    @property
    def snapshot(self) -> Snapshot:
        return self.observation.snapshot


@dataclass(frozen=True, slots=True)
class PlacementSearches:
    """Where searches for nodes go on, and their placement hints: of this loop, handed to the next."""

    pending: HintingState
    """For pending pods."""
    removal: HintingState
    """For pods of nodes that might be removed."""
    booking: HintingState
    """For booked capacity."""


@dataclass(frozen=True, slots=True)
class StartupCleanup:
    """What a restart left behind."""

    plan: plan.Plan
    """Removes taints that a former process set, and uncordons."""
    durable: DurableMemory
    """With unneeded times restored from soft taints."""


@dataclass(frozen=True, slots=True)
class NodeGroupTemplates:
    """What new nodes of each group look like."""

    templates: upcoming_nodes.GroupTemplates
    remembered: upcoming_nodes.GroupTemplates
    """Learned from nodes, for the time when no node is a good example any more."""
    learned_s: Mapping[str, float]
    """When each of them was learned."""
    examples: frozenset[str]
    """Groups whose template was learned in this loop."""


@dataclass(frozen=True, slots=True)
class UpcomingState:
    """The groups after remediation, and the fork of the snapshot with upcoming nodes."""

    groups: ScaleUpGroups
    upcoming: upcoming_nodes.UpcomingByGroup
    verdicts: Mapping[str, HealthVerdict]
    group_of: Mapping[str, node_groups.NodeGroup]
    """Node group by node name, with the sizes after remediation."""


@dataclass(frozen=True, slots=True)
class ScaleUpContext:
    """What a scale-up is decided on. Valid until the fork of the snapshot ends.

    Upcoming nodes are in the snapshot; expendable pods are not. Pods that fit are bound to nodes that have room.
    """

    snapshot: Snapshot
    groups: ScaleUpGroups
    waiting: PendingPods
    """Pending pods by schedulability, with injected pods of buffers and controllers."""
    unschedulable: tuple[int, ...]
    """Rows of the pods that fit on no node, and that a new node could help now."""
    requested: tuple[int, ...]
    """Rows of the pods of the ProvisioningRequest that is due."""
    ready_nodes: int
    """Counted only where --max-nodes-total limits them."""
    obstacle: ScaleUpStatus | None
    """The precondition that keeps pods from a scale-up, if one does."""


@dataclass(frozen=True, slots=True)
class ScaleUpOutcome:
    """The scale-up as executed."""

    status: ScaleUpStatus
    """Without injected pods."""
    plan: plan.Plan
    durable: DurableMemory
    group_of: Mapping[str, node_groups.NodeGroup]
    """Node group by node name, with the sizes after the scale-up."""
    sizes: Mapping[str, node_groups.NodeGroup]
    """Node groups by id, with the sizes after the scale-up."""
    helped_requests: Mapping[str, int]
    """Pods that a scale-up was executed for, by key of their ProvisioningRequest; the others remain."""
    remaining_requests: Mapping[str, int]
    buffers: tuple[decision_record.BufferScaleUp, ...]


@dataclass(frozen=True, slots=True)
class UnneededNodes:
    """Candidates of scale-down, and whether they could be removed."""

    context: removal_simulator.ScaleDownContext
    candidates: Sequence[str]
    evaluation: scale_down_state.CandidateEvaluation


@dataclass(frozen=True, slots=True)
class ScaleDownOutcome:
    """The deletions that begin."""

    record: decision_record.ScaleDownRecord
    plan: plan.Plan
    durable: DurableMemory


@dataclass(frozen=True, slots=True)
class MinSizeOutcome:
    """The groups grown to their minimum size."""

    proposal: ScaleUpProposal | None
    """None where --enforce-node-group-min-size is off."""
    plan: plan.Plan
    durable: DurableMemory
    sizes: Mapping[str, node_groups.NodeGroup]


@dataclass(slots=True, eq=False, repr=False)
class LoopState:
    """One loop: its inputs, its tools, and the findings of its steps."""

    inputs: LoopInputs
    # Tools. They change while steps use them, each in its own way.
    timer: time_limits.DecisionTimer
    """Measures steps, and records where time limits ran out."""
    rng: np.random.Generator
    """Seeded by settings and loop number."""
    searches: PlacementSearches
    queue: RequestQueue
    """ProvisioningRequests with the conditions that steps set."""

    # Findings, in the order of the steps that write them.
    startup: StartupCleanup = field(init=False)
    """clean_up_at_start"""
    not_actionable: decision_record.LoopStop | None = field(init=False)
    """check_actionable: why a cluster without ready nodes is left alone."""
    health: ClusterHealth = field(init=False)
    """update_cluster_state"""
    templates: NodeGroupTemplates = field(init=False)
    """update_cluster_state"""
    remediation: decision_record.Remediation = field(init=False)
    """plan_remediation"""
    remediation_plan: plan.Plan = field(init=False)
    """plan_remediation"""
    upcoming: UpcomingState = field(init=False)
    """inject_upcoming_nodes"""
    node_count: int = field(init=False)
    """inject_upcoming_nodes: rows of nodes in the fork, before a scale-up adds new ones."""
    pods: PodList = field(init=False)
    """process_pod_list"""
    scale_up_context: ScaleUpContext = field(init=False)
    """check_preconditions"""
    scale_up_inputs: ScaleUpInputs = field(init=False)
    """check_preconditions"""
    turn: RequestTurn = field(init=False)
    """propose_scale_up"""
    scale_up: ScaleUpOutcome = field(init=False)
    """execute_scale_up"""
    unneeded: UnneededNodes | None = field(init=False)
    """find_unneeded_nodes: None where scale-down is off."""
    scale_down: ScaleDownOutcome = field(init=False)
    """start_deletion"""
    soft_taint_plan: plan.Plan = field(init=False)
    """update_soft_taints"""
    min_size: MinSizeOutcome = field(init=False)
    """enforce_min_size"""

    @property
    def assessed_durable(self) -> DurableMemory:
        """The memory with the loop counted, and the health that was found."""
        durable = self.startup.durable
        return replace(durable, loop=durable.loop + 1, health=self.health.memory)

    @property
    def has_ended_early(self) -> bool:
        """Has a step before the scale-up ended the loop?"""
        return self.remediation.stop is not None
