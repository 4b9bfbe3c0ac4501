"""MachinePool reconcile: facts about one pool in, a plan out. Pure.

    finalizer      added first and alone, so that an early deletion leaves nothing behind
    paused         nothing else happens; a deletion waits, too
    owner, label   the Cluster owns the pool
    bootstrap, infrastructure, machines, nodes     each reconciled even if the one before failed
    counters, phase, conditions                    derived from these

Deletion removes the provider's objects first, then Nodes, then the finalizer. A failure is a value in the plan, not an
exception. A Cluster that is deleted takes its pools along, and stays until they are gone.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.controllers.controller_interface import Event
from windlass.controllers.machine_pool import api_types, conditions, model, owned_objects
from windlass.controllers.machine_pool.conditions import describe_missing
from windlass.controllers.machine_pool.model import (
    Cluster,
    Condition,
    DeleteNode,
    DeleteProviderObject,
    Machine,
    MachinePool,
    MachinePoolPlan,
    MachinePoolSettings,
    MachinePoolStep,
    MissingObject,
    NodeCounts,
    ObservedMachinePool,
    ProviderObject,
    UnreachableCluster,
)
from windlass.kube import time_formats

_NOT_ALL_READY_REQUEUE_S = 30.0
"""Requeue while Nodes are not ready. Nodes are watched; this covers a missed update."""

NORMAL, WARNING = "Normal", "Warning"


def reconcile_machine_pool(
    observed: ObservedMachinePool, settings: MachinePoolSettings, now_s: float
) -> MachinePoolPlan:
    """The plan for a pool at this moment."""
    pool = observed.pool
    if pool.is_deleting and model.FINALIZER not in pool.finalizers:
        return MachinePoolPlan(pool)
    if observed.cluster is None:
        return _reconcile_without_cluster(observed, now_s)
    if model.FINALIZER not in pool.finalizers:
        return MachinePoolPlan(dataclasses.replace(pool, finalizers=(*pool.finalizers, model.FINALIZER)))
    pool = _set_paused_condition(pool, observed.cluster, now_s)
    if is_paused(pool, observed.cluster):
        return MachinePoolPlan(pool)
    observed = dataclasses.replace(observed, pool=owned_objects.set_cluster_owner(pool, observed.cluster))
    return _reconcile_delete(observed, now_s) if pool.is_deleting else _reconcile_normal(observed, settings, now_s)


def reconcile_cluster(cluster: Cluster, pools: Sequence[model.ClusterPool]) -> model.ClusterPlan:
    """Hold a Cluster while it has pools, and delete them with it.

    Cluster API's Cluster controller does both where its gate MachinePool is on; a second request changes nothing. A
    pool is deleted once it has its finalizer: before that its provider's objects would be left behind.
    """
    if cluster.is_paused:
        return model.ClusterPlan()
    others = tuple(item for item in cluster.finalizers if item != model.CLUSTER_FINALIZER)
    is_held = len(others) < len(cluster.finalizers)
    if not pools:
        return model.ClusterPlan(others if is_held else None)
    if not cluster.is_deleting:
        return model.ClusterPlan(None if is_held else (*others, model.CLUSTER_FINALIZER))
    if not cluster.may_delete_workers:
        return model.ClusterPlan()
    return model.ClusterPlan(None, tuple(pool for pool in pools if pool.has_finalizer and not pool.is_deleting))


def is_paused(pool: MachinePool, cluster: Cluster) -> bool:
    """True if the Cluster is paused, or if the pool has the paused annotation, with any value."""
    return cluster.is_paused or model.PAUSED_ANNOTATION in pool.annotations


def _reconcile_without_cluster(observed: ObservedMachinePool, now_s: float) -> MachinePoolPlan:
    if observed.pool.is_deleting:
        return _reconcile_delete(observed, now_s)
    missing = f"Cluster {observed.pool.namespace}/{observed.pool.cluster_name} not found"
    return MachinePoolPlan(observed.pool, events=(Event(WARNING, "ClusterMissing", missing),), failures=(missing,))


def _set_paused_condition(pool: MachinePool, cluster: Cluster, now_s: float) -> MachinePool:
    reasons = ["Cluster spec.paused is set to true"] if cluster.is_paused else []
    if model.PAUSED_ANNOTATION in pool.annotations:
        reasons.append(f"MachinePool has the {model.PAUSED_ANNOTATION} annotation")
    word = "Paused" if reasons else "NotPaused"
    status = "True" if reasons else "False"
    condition = Condition(model.PAUSED, status, word, ", ".join(reasons), observed_generation=pool.generation)
    return _with_status(
        pool, conditions=conditions.set_condition(pool.status.conditions, condition, time_formats.format_time(now_s))
    )


# Deletion


def _reconcile_delete(observed: ObservedMachinePool, now_s: float) -> MachinePoolPlan:
    verdict = reconcile_deletion(observed, now_s)
    pool = _with_status(observed.pool, phase=model.DELETING)
    events: tuple[Event, ...] = ()
    if verdict.abandoned_nodes:
        message = f"nodes are left behind: {', '.join(verdict.abandoned_nodes)}"
        events = (Event(WARNING, "NodeDeletionGivenUp", message),)
    if verdict.is_done:
        left = tuple(item for item in pool.finalizers if item != model.FINALIZER)
        return MachinePoolPlan(dataclasses.replace(pool, finalizers=left), verdict.steps, events)
    failures = (verdict.problem,) if verdict.problem else ()
    return MachinePoolPlan(
        _set_observed_generation(pool, failures), verdict.steps, events, failures, verdict.requeue_after_s
    )


# Normal reconcile


def _reconcile_normal(observed: ObservedMachinePool, settings: MachinePoolSettings, now_s: float) -> MachinePoolPlan:
    now = time_formats.format_time(now_s)
    before = observed.pool
    boot = conditions.reconcile_bootstrap(before, observed.bootstrap, rotate=settings.rotate_bootstrap_secret)
    infra = _reconcile_infrastructure_ref(observed)
    pool = _copy_provider_status(before, boot, infra, now)
    pool = _set_failure(pool, observed, infra)
    counted, machine_steps, node_steps = _reconcile_machines_and_nodes(dataclasses.replace(observed, pool=pool), now_s)
    pool = _set_node_counts(pool, before, counted, now)
    pool = _set_replica_counters(pool, observed)
    input_problems = conditions.find_input_problems(observed, infra)
    pool, complaint = _set_inputs_valid_condition(pool, input_problems, now)
    failures = tuple(filter(None, (boot.problem, infra.problem, _unreachable_message(observed))))
    pool = _set_observed_generation(_set_phase_and_ready(pool, now), failures)
    steps: tuple[MachinePoolStep, ...] = (*_plan_adoptions(observed, pool), *machine_steps, *node_steps)
    events = (*_node_refs_events(before, pool), *complaint, *_failure_events(before, pool))
    return MachinePoolPlan(pool, steps, events, failures, _requeue_after_s(pool, counted, now_s))


def _reconcile_infrastructure_ref(observed: ObservedMachinePool) -> conditions.InfrastructureResult:
    if observed.infrastructure is None:
        status = observed.pool.status
        problem = "infrastructure: spec.template.spec.infrastructureRef is not set"
        verdict = conditions.InfrastructureResult(
            status.infrastructure_provisioned, observed.pool.provider_ids, status.replicas
        )
        return dataclasses.replace(verdict, problem=problem)
    return conditions.reconcile_infrastructure(observed.pool, observed.infrastructure)


def _copy_provider_status(
    pool: MachinePool, boot: conditions.BootstrapResult, infra: conditions.InfrastructureResult, now: str
) -> MachinePool:
    old = pool.status.old_conditions
    for condition in (boot.condition, infra.condition):
        old = old if condition is None else conditions.set_v1beta1_condition(old, condition, now)
    pool = _with_status(
        pool,
        bootstrap_created=boot.created,
        infrastructure_provisioned=infra.provisioned,
        replicas=infra.replicas,
        old_conditions=old,
    )
    return dataclasses.replace(pool, data_secret_name=boot.data_secret_name, provider_ids=infra.provider_ids)


def _set_failure(
    pool: MachinePool, observed: ObservedMachinePool, infra: conditions.InfrastructureResult
) -> MachinePool:
    """Copy a provider's terminal failure. It is never cleared: the pool must be recreated."""
    reason, message = infra.failure
    for external in (observed.bootstrap, observed.infrastructure):
        if isinstance(external, ProviderObject) and not (reason or message):
            reason, message = api_types.read_failure(external.status)
            where = f"{external.reference.kind} {pool.namespace}/{external.reference.name}"
            message = f"{where} failed: {message}" if message else ""
    return _with_status(
        pool,
        failure_reason=pool.status.failure_reason or reason,
        failure_message=pool.status.failure_message or message,
    )


def _reconcile_machines_and_nodes(
    observed: ObservedMachinePool, now_s: float
) -> tuple[owned_objects.NodeSummary | None, list[MachinePoolStep], list[MachinePoolStep]]:
    """Node counts (None if the workload cluster is unreachable), and steps for Machines and Nodes."""
    pool = observed.pool
    reachable = () if isinstance(observed.nodes, UnreachableCluster) else observed.nodes
    known = owned_objects.index_by_provider_id(reachable)
    own = [machine for machine in observed.machines if owned_objects.is_machine_of(pool, machine)]
    steps: list[MachinePoolStep] = [
        *owned_objects.plan_machines(pool, observed.infra_machines, own, known),
        *owned_objects.plan_up_to_date_conditions(own),
    ]
    if isinstance(observed.nodes, UnreachableCluster):
        return None, steps, []
    listed = [item for item in pool.provider_ids if item not in observed.older_pools]
    counted = owned_objects.summarize_nodes(listed, known, pool.min_ready_s, now_s)
    return (
        counted,
        steps,
        [
            *owned_objects.plan_node_retirements(observed, reachable, pool.provider_ids),
            *owned_objects.plan_node_patches(pool, counted.found),
        ],
    )


def _set_node_counts(
    pool: MachinePool, before: MachinePool, counted: owned_objects.NodeSummary | None, now: str
) -> MachinePool:
    if counted is None or not (pool.provider_ids or before.status.node_refs or before.provider_ids):
        return _set_replicas_ready_condition(pool, before, now) if counted is not None else pool
    unavailable = (pool.status.replicas or 0) - counted.available
    counts = NodeCounts(counted.ready, counted.available, unavailable)
    return _set_replicas_ready_condition(_with_status(pool, node_refs=counted.refs, nodes=counts), before, now)


def _set_replicas_ready_condition(pool: MachinePool, before: MachinePool, now: str) -> MachinePool:
    """Set ReplicasReady; unchanged while the pool has no Nodes."""
    status = pool.status
    if (status.replicas or 0) == status.nodes.ready == len(status.node_refs):
        condition = conditions.true_condition(model.REPLICAS_READY)
    elif not status.node_refs and not before.status.node_refs:
        return pool
    else:
        condition = conditions.false_condition(model.REPLICAS_READY, "WaitingForReplicasReady", conditions.INFO)
    return _with_status(pool, old_conditions=conditions.set_v1beta1_condition(status.old_conditions, condition, now))


def _set_replica_counters(pool: MachinePool, observed: ObservedMachinePool) -> MachinePool:
    """v1beta2 counters: from Machines if the pool has them, otherwise from the infrastructure."""
    if not isinstance(observed.infrastructure, ProviderObject):
        return pool
    if api_types.read_machine_kind(observed.infrastructure.status):
        own = owned_objects.with_up_to_date_conditions(
            machine for machine in observed.machines if owned_objects.is_machine_of(pool, machine)
        )
        return set_counters_from_machines(pool, own)
    versions: tuple[tuple[str, int], ...] = ()
    if not isinstance(observed.nodes, UnreachableCluster):
        by_name = {node.name: node.kubelet_version for node in observed.nodes}
        versions = owned_objects.count_versions(by_name.get(ref.name, "") for ref in pool.status.node_refs)
    return set_counters_from_infrastructure(pool, versions)


def set_counters_from_infrastructure(pool: MachinePool, versions: tuple[tuple[str, int], ...]) -> MachinePool:
    """Counters of a pool without Machines."""
    replicas = pool.status.replicas
    return _with_status(
        pool,
        ready_replicas=replicas,
        available_replicas=replicas,
        up_to_date_replicas=pool.replicas,
        versions=versions,
    )


def set_counters_from_machines(pool: MachinePool, own: list[Machine]) -> MachinePool:
    """Counters of a pool with Machines."""
    return _with_status(
        pool,
        ready_replicas=sum(machine.is_ready for machine in own),
        available_replicas=sum(machine.is_available for machine in own),
        up_to_date_replicas=sum(bool(machine.up_to_date and machine.up_to_date.status == "True") for machine in own),
        versions=owned_objects.count_versions(machine.version for machine in own),
    )


def _set_inputs_valid_condition(
    pool: MachinePool, input_problems: list[conditions.InputProblem], now: str
) -> tuple[MachinePool, list[Event]]:
    """Set InputsValid while there are problems, with an event for each new one."""
    before = conditions.find_condition(pool.status.conditions, model.INPUTS_VALID)
    if not input_problems:
        return _with_status(pool, conditions=conditions.drop_condition(pool.status.conditions, model.INPUTS_VALID)), []
    message = "; ".join(trouble.message for trouble in input_problems)
    condition = Condition(
        model.INPUTS_VALID, "False", input_problems[0].reason, message, observed_generation=pool.generation
    )
    old_message = before.message if before else ""
    events = [
        Event(WARNING, input_problem.reason, input_problem.message)
        for input_problem in input_problems
        if input_problem.message not in old_message
    ]
    return _with_status(pool, conditions=conditions.set_condition(pool.status.conditions, condition, now)), events


def _set_phase_and_ready(pool: MachinePool, now: str) -> MachinePool:
    pool = _with_status(pool, phase=conditions.compute_phase(pool))
    ready = conditions.summarize_ready(pool.status.old_conditions)
    if ready is None:
        return pool
    return _with_status(pool, old_conditions=conditions.set_v1beta1_condition(pool.status.old_conditions, ready, now))


def _plan_adoptions(observed: ObservedMachinePool, pool: MachinePool) -> list[MachinePoolStep]:
    """Plan adoption of provider objects. Objects controlled by another owner are skipped."""
    return [
        step
        for external in (observed.bootstrap, observed.infrastructure)
        if isinstance(external, ProviderObject) and owned_objects.find_other_controller(pool, external) is None
        if (step := owned_objects.plan_adoption(pool, external)) is not None
    ]


def _unreachable_message(observed: ObservedMachinePool) -> str:
    return f"nodes: {observed.nodes.message}" if isinstance(observed.nodes, UnreachableCluster) else ""


def _node_refs_events(before: MachinePool, pool: MachinePool) -> list[Event]:
    refs = pool.status.node_refs
    if refs == before.status.node_refs:
        return []
    # The object format of Cluster API's own controller.
    names = " ".join(
        f"{{Kind:Node Namespace: Name:{ref.name} UID:{ref.uid} APIVersion:v1 ResourceVersion: FieldPath:}}"
        for ref in refs
    )
    return [Event(NORMAL, "SuccessfulSetNodeRefs", f"[{names}]")]


def _failure_events(before: MachinePool, pool: MachinePool) -> list[Event]:
    if before.status.is_failed or not pool.status.is_failed:
        return []
    return [Event(WARNING, pool.status.failure_reason or "Failed", pool.status.failure_message)]


def _set_observed_generation(pool: MachinePool, failures: tuple[str, ...]) -> MachinePool:
    return pool if failures else _with_status(pool, observed_generation=pool.generation)


def _requeue_after_s(pool: MachinePool, counted: owned_objects.NodeSummary | None, now_s: float) -> float | None:
    if counted is None:
        return None
    later_s = [] if counted.next_available_s is None else [counted.next_available_s - now_s]
    if counted.found and not (pool.status.replicas or 0) == counted.ready == len(counted.found):
        later_s.append(_NOT_ALL_READY_REQUEUE_S)
    return min(later_s, default=None)


def _with_status(pool: MachinePool, **changes: object) -> MachinePool:
    return dataclasses.replace(pool, status=dataclasses.replace(pool.status, **changes))  # type: ignore[arg-type]


_DELETION_REQUEUE_S = 5.0
"""Requeue while objects are being deleted. Deletions are watched; this covers a missed update."""


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """Progress of a deletion."""

    steps: tuple[DeleteProviderObject | DeleteNode, ...] = ()
    is_done: bool = False
    """True if no dependent object is left."""
    problem: str = ""
    abandoned_nodes: tuple[str, ...] = ()
    """Nodes that are not deleted because nodeDeletionTimeout has passed."""
    requeue_after_s: float | None = None


def reconcile_deletion(observed: ObservedMachinePool, now_s: float) -> DeletionResult:
    externals = [item for item in (observed.bootstrap, observed.infrastructure) if isinstance(item, ProviderObject)]
    unknown = [
        entry
        for entry in (observed.bootstrap, observed.infrastructure)
        if isinstance(entry, MissingObject) and entry.unlabelled
    ]
    if unknown:
        return DeletionResult(problem=describe_missing(unknown[0], observed.pool))
    if externals:
        return DeletionResult(
            tuple(
                DeleteProviderObject(provider_object)
                for provider_object in externals
                if not provider_object.is_deleting
            )
        )
    return _reconcile_node_deletion(observed, now_s)


def _reconcile_node_deletion(observed: ObservedMachinePool, now_s: float) -> DeletionResult:
    pool = observed.pool
    if not (pool.status.node_refs or pool.provider_ids) or observed.cluster is None:
        return DeletionResult(is_done=True)
    if isinstance(observed.nodes, UnreachableCluster):
        return _reconcile_unreachable_cluster(observed, observed.nodes, now_s)
    steps = owned_objects.plan_node_deletions(observed, observed.nodes)
    if not steps:
        return DeletionResult(is_done=True)
    if is_node_deletion_timed_out(pool, now_s):
        return DeletionResult(is_done=True, abandoned_nodes=tuple(step.name for step in steps))
    return DeletionResult(tuple(steps), requeue_after_s=_deletion_requeue_after_s(pool, now_s))


def _reconcile_unreachable_cluster(
    observed: ObservedMachinePool, unreachable: UnreachableCluster, now_s: float
) -> DeletionResult:
    pool = observed.pool
    known = tuple(ref.name for ref in pool.status.node_refs)
    # Without known Nodes there is nothing to wait for; a workload cluster that is deleted as well is not asked.
    if (
        not known
        or is_node_deletion_timed_out(pool, now_s)
        or (observed.cluster is not None and observed.cluster.is_deleting)
    ):
        return DeletionResult(is_done=True, abandoned_nodes=known)
    return DeletionResult(
        problem=f"nodes: {unreachable.message}", requeue_after_s=_deletion_requeue_after_s(pool, now_s)
    )


def is_node_deletion_timed_out(pool: MachinePool, now_s: float) -> bool:
    """True if nodeDeletionTimeout has passed. 0 or None means no timeout."""
    ends_s = _node_deletion_deadline_s(pool)
    return ends_s is not None and ends_s < now_s


def _node_deletion_deadline_s(pool: MachinePool) -> float | None:
    if pool.deleted_s is None or not pool.node_deletion_timeout_s:
        return None
    return pool.deleted_s + pool.node_deletion_timeout_s


def _deletion_requeue_after_s(pool: MachinePool, now_s: float) -> float:
    ends_s = _node_deletion_deadline_s(pool)
    return _DELETION_REQUEUE_S if ends_s is None else max(0.1, min(_DELETION_REQUEUE_S, ends_s - now_s + 0.1))
