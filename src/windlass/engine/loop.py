"""The loop: one decision of the autoscaler as a pure function, as one ordered tuple of steps (`STEPS`).

    observation -> cluster state and remediation -> pod list -> scale-up -> unneeded nodes -> scale-down
                   (may end the loop)               (in a fork of the snapshot with upcoming nodes)

The same inputs give the same decision: the time is an argument, and ties are drawn from a generator seeded by settings
and loop number. The snapshot is forked and left unchanged. Objects that raise an unforeseen exception are excluded, and
the rest is decided (`quarantine`).
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from windlass.engine import fault_isolation, loop_memory, quarantine, taints, time_limits
from windlass.engine.actuation import deletion_taint
from windlass.engine.capacity_apis.provisioning_request_queue import RequestQueue
from windlass.engine.cluster_state import upcoming_nodes
from windlass.engine.expanders import grpc
from windlass.engine.loop_memory import CachedDecision, LoopMemory
from windlass.engine.loop_state import LoopInputs, LoopState, PlacementSearches, ScaleUpContext
from windlass.engine.model import plan
from windlass.engine.model.decision_record import DecisionRecord, LoopStop
from windlass.engine.model.dynamic_resources import SelectorError
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.scale_up import orchestrator
from windlass.engine.steps import cluster_state, conclusion, scale_down, scale_up

LoopStep = Callable[[LoopState], LoopStop | None]
"""Reads earlier findings, and writes its own fields of the state. A step that returns a LoopStop ends the loop."""

# Cluster Autoscaler's functions in parentheses: RunOnce in core/static_autoscaler.go calls them in this order.
STEPS: tuple[LoopStep, ...] = (
    cluster_state.clean_up_at_start,  # first loop: taints of a former process (cleanUpIfRequired)
    cluster_state.check_actionable,  # a cluster without ready nodes is left alone (ActionableClusterProcessor)
    cluster_state.intern_injected_pods,  # expired ProvisioningRequests end (provreq Refresh)
    cluster_state.update_cluster_state,  # health, scale requests, backoffs, templates (updateClusterState)
    cluster_state.plan_remediation,  # wrong sizes, unregistered and failed instances; may end the loop
    # ── In a fork of the snapshot ──
    cluster_state.inject_upcoming_nodes,  # as if they had registered (addUpcomingNodesToClusterSnapshot)
    scale_up.process_pod_list,  # which pods ask for nodes (PodListProcessor; `pod_list.POD_LIST_PROCESSORS`)
    scale_up.check_preconditions,  # needed, below --max-nodes-total, no more pods coming (shouldScaleUp)
    scale_up.propose_scale_up,  # options, expander, balancing (ScaleUpOrchestrator.ScaleUp)
    scale_up.execute_scale_up,  # resizes and scale-up requests (executeScaleUps)
    scale_down.find_unneeded_nodes,  # also after a scale-up (planner.UpdateClusterState)
    scale_down.start_deletion,  # unless in cooldown (planner.NodesToDelete, actuator.StartDeletion)
    scale_down.update_soft_taints,  # DeletionCandidate taints (UpdateSoftDeletionTaints)
    scale_up.enforce_min_size,  # after scale-down (ScaleUpToNodeGroupMinSize)
    # ── On the snapshot as observed ──
    cluster_state.discard_fork,
)

UNTIMED = time_limits.UnlimitedTimer()


@dataclass(frozen=True, slots=True)
class Decision:
    """The plan, the memory for the next loop, and the record of why."""

    plan: plan.Plan
    memory: LoopMemory
    story: DecisionRecord
    quiet_until_s: float
    """Before this time the same observation is decided alike: nothing is ordered, and nothing new is remembered. The
    time of the decision itself, if it may be decided otherwise at once."""
    evaluated: Observation = field(repr=False, compare=False)
    """The observation without excluded objects."""
    ran_out: time_limits.RanOut = field(default_factory=dict)
    """Where time limits ran out: `time_limits.ReplayedTimer` replays it."""
    question: grpc.BestOptionsRequest | None = None
    """The request to the external gRPC expander, to be sent before anything is executed; the answer is decided on in
    another call. Without an answer this decision holds."""

    @property
    def faults(self) -> quarantine.Faults:
        """Objects that cannot be evaluated, and were excluded."""
        return self.memory.volatile.faults

    @property
    def selector_errors(self) -> tuple[SelectorError, ...]:
        """Device selectors that cannot be evaluated: pods that need them fit nowhere.

        Valid until the snapshot changes.
        """
        return self.evaluated.snapshot.devices.selector_errors()


def decide(
    observation: Observation, memory: LoopMemory, settings: Settings, now_s: float, timer: time_limits.Timer = UNTIMED
) -> Decision:
    """One loop. The last decision is returned again while it holds and nothing has changed."""
    observation.snapshot.now_s = now_s
    known, stale = quarantine.find_current(memory.volatile.faults, observation, now_s)
    evaluated = quarantine.exclude(observation, [fault.suspect for fault in known])
    resumed = loop_memory.resume_memory(memory, evaluated, now_s)
    last = memory.volatile.standing
    if last is not None and last.holds(evaluated, resumed.durable, settings, now_s):
        if settings.templates.expires:
            resumed = _refresh_learned_times(resumed, last, now_s)
        return Decision(last.plan, resumed, last.story, last.until_s, last.seen)
    observation.snapshot.guarded = frozenset(budget.namespace for budget in observation.budgets)

    def run(evaluated: Observation) -> Decision:
        with quarantine.hide_excluded_pods(evaluated):
            return _run_steps(make_loop_state(evaluated, memory, settings, now_s, timer))

    def find_faulty_objects() -> list[tuple[quarantine.Suspect, Exception]]:
        return fault_isolation.find_faulty_objects(evaluated, settings, now_s)

    try:
        return _remember_faults(run(evaluated), known)
    except Exception as raised:  # of any kind: it must cost no more than the object that causes it
        error = raised
    isolation_timer = time_limits.DecisionTimer(timer)
    time = isolation_timer.begin("isolation", quarantine.MOST_S)
    decision, faults = fault_isolation.isolate(run, find_faulty_objects, observation, known, stale, error, now_s, time)
    return _remember_faults(replace(decision, ran_out={**decision.ran_out, **isolation_timer.ran_out}), faults)


def make_loop_state(
    evaluated: Observation, memory: LoopMemory, settings: Settings, now_s: float, timer: time_limits.Timer
) -> LoopState:
    """The state before the first step."""
    memory = loop_memory.resume_memory(memory, evaluated, now_s)
    durable, volatile = memory.durable, memory.volatile
    transient_taints = taints.make_transient_taints(settings.templates, settings.deviations.readiness_taints)
    group_of = evaluated.group_of_nodes()
    nodes = upcoming_nodes.list_effective_nodes(evaluated, group_of, volatile.templates, settings, transient_taints)
    rng = np.random.default_rng((settings.seed, durable.loop))
    scatter = None if settings.deviations.tight_packing else rng
    drains = {
        node.name: durable.drains[node.name]
        for node in nodes
        if node.name in durable.drains and deletion_taint.is_in_progress(durable.drains[node.name], node, now_s)
    }
    return LoopState(
        LoopInputs(
            evaluated,
            memory,
            settings,
            now_s,
            nodes,
            group_of,
            transient_taints,
            drains,
            first_injected_row=len(evaluated.snapshot.pods.names),
        ),
        time_limits.DecisionTimer(timer, evaluated.opinions),
        rng,
        PlacementSearches(
            volatile.pending.next_loop(scatter),
            volatile.removal.next_loop(scatter),
            volatile.booking.next_loop(scatter),
        ),
        RequestQueue(evaluated.requests, durable.requests, settings, now_s),
    )


def _run_steps(state: LoopState) -> Decision:
    """Run the steps up to the first that ends the loop, and conclude."""
    for step in STEPS:
        if step(state) is not None:
            break
    end = conclusion.conclude(state)
    return Decision(
        end.plan,
        end.memory,
        end.record,
        end.quiet_until_s,
        state.inputs.observation,
        state.timer.ran_out,
        state.timer.inquiry.question,
    )


def _refresh_learned_times(memory: LoopMemory, last: CachedDecision, now_s: float) -> LoopMemory:
    """The memory; templates learned from nodes are learned again as long as the nodes exist."""
    learned_s = {**memory.volatile.learned_s, **dict.fromkeys(last.examples, now_s)}
    return replace(memory, volatile=replace(memory.volatile, learned_s=learned_s))


def _remember_faults(decision: Decision, faults: quarantine.Faults) -> Decision:
    """The decision, which holds until excluded objects are tried again."""
    if not faults:
        return decision
    retry_s = min(fault.since_s for fault in faults) + quarantine.RETRY_S
    until_s, volatile = min(decision.quiet_until_s, retry_s), decision.memory.volatile
    standing = None if volatile.standing is None else replace(volatile.standing, until_s=until_s)
    volatile = replace(volatile, standing=standing, faults=faults)
    return replace(decision, memory=replace(decision.memory, volatile=volatile), quiet_until_s=until_s)


# ── For explain ──────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def scale_up_context(
    evaluated: Observation, memory: LoopMemory, settings: Settings, now_s: float
) -> Iterator[ScaleUpContext]:
    """The context that a loop with these arguments decides its scale-up on, made by the loop's own steps.

    `evaluated` is the decision's, without excluded objects. A loop that ends early has no scale-up; the context is the
    one it would have had.
    """
    with _run_until(scale_up.check_preconditions, evaluated, memory, settings, now_s, UNTIMED) as state:
        yield state.scale_up_context


@contextlib.contextmanager
def round_context(
    evaluated: Observation,
    memory: LoopMemory,
    settings: Settings,
    now_s: float,
    ran_out: time_limits.RanOut,
    number: int | None = None,
) -> Iterator[ScaleUpContext]:
    """The context of one round of the loop's scale-up: with what the rounds before it ordered.

    `ran_out` is the decision's. `number` counts from 1; None is the last round.
    """
    if number is not None:
        ran_out = {**ran_out, orchestrator.ROUNDS: number}
    timer = time_limits.ReplayedTimer(ran_out)
    with _run_until(scale_up.propose_scale_up, evaluated, memory, settings, now_s, timer) as state:
        context = state.scale_up_context
        yield replace(context, groups=state.turn.status.groups or context.groups)


@contextlib.contextmanager
def _run_until(
    last: LoopStep,
    evaluated: Observation,
    memory: LoopMemory,
    settings: Settings,
    now_s: float,
    timer: time_limits.Timer,
) -> Iterator[LoopState]:
    """The state after this step, even where an earlier step ends the loop; the fork is reverted at the end."""
    with quarantine.hide_excluded_pods(evaluated):
        state = make_loop_state(evaluated, memory, settings, now_s, timer)
        for step in STEPS[: STEPS.index(last) + 1]:
            step(state)
        yield state
