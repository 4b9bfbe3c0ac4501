"""MachinePool reconcile: facts about one pool in, a plan out. Pure.

    finalizer      added first and alone, so that an early deletion leaves nothing behind
    paused         nothing else happens; a deletion waits, too
    owner, label   the Cluster owns the pool
    bootstrap, infrastructure, machines, nodes     each reconciled even if the one before failed
    counters, phase, conditions                    derived from these

Deletion removes the provider's objects first, then Nodes, then the finalizer. A failure is a value in the plan, not an
exception.
"""

import dataclasses
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
"""Nodes are watched; this is for one that goes unnoticed."""

NORMAL, WARNING = "Normal", "Warning"


def reconcile_machine_pool(seen: ObservedMachinePool, settings: MachinePoolSettings, now_s: float) -> MachinePoolPlan:
    """What is to be done about a pool at this moment."""
    pool = seen.pool
    if pool.is_deleting and model.FINALIZER not in pool.finalizers:
        return MachinePoolPlan(pool)
    if seen.cluster is None:
        return _reconcile_without_cluster(seen, now_s)
    if model.FINALIZER not in pool.finalizers:
        return MachinePoolPlan(dataclasses.replace(pool, finalizers=(*pool.finalizers, model.FINALIZER)))
    pool = _set_paused_condition(pool, seen.cluster, now_s)
    if is_paused(pool, seen.cluster):
        return MachinePoolPlan(pool)
    seen = dataclasses.replace(seen, pool=owned_objects.set_cluster_owner(pool, seen.cluster))
    return _reconcile_delete(seen, now_s) if pool.is_deleting else _reconcile_normal(seen, settings, now_s)


def is_paused(pool: MachinePool, cluster: Cluster) -> bool:
    """The annotation counts with any value, `false` as well."""
    return cluster.is_paused or model.PAUSED_ANNOTATION in pool.annotations


def _reconcile_without_cluster(seen: ObservedMachinePool, now_s: float) -> MachinePoolPlan:
    if seen.pool.is_deleting:
        return _reconcile_delete(seen, now_s)
    missing = f"Cluster {seen.pool.namespace}/{seen.pool.cluster_name} not found"
    return MachinePoolPlan(seen.pool, events=(Event(WARNING, "ClusterMissing", missing),), failures=(missing,))


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


# A pool that goes


def _reconcile_delete(seen: ObservedMachinePool, now_s: float) -> MachinePoolPlan:
    verdict = reconcile_deletion(seen, now_s)
    pool = _with_status(seen.pool, phase=model.DELETING)
    events: tuple[Event, ...] = ()
    if verdict.abandoned_nodes:
        message = f"nodes are left behind: {', '.join(verdict.abandoned_nodes)}"
        events = (Event(WARNING, "NodeDeletionGivenUp", message),)
    if verdict.is_done:
        left = tuple(each for each in pool.finalizers if each != model.FINALIZER)
        return MachinePoolPlan(dataclasses.replace(pool, finalizers=left), verdict.steps, events)
    failures = (verdict.problem,) if verdict.problem else ()
    return MachinePoolPlan(
        _set_observed_generation(pool, failures), verdict.steps, events, failures, verdict.requeue_after_s
    )


# A pool that stays


def _reconcile_normal(seen: ObservedMachinePool, settings: MachinePoolSettings, now_s: float) -> MachinePoolPlan:
    now = time_formats.format_time(now_s)
    before = seen.pool
    boot = conditions.reconcile_bootstrap(before, seen.bootstrap, rotate=settings.rotate_bootstrap_secret)
    infra = _reconcile_infrastructure_ref(seen)
    pool = _copy_provider_status(before, boot, infra, now)
    pool = _set_failure(pool, seen, infra)
    counted, machine_steps, node_steps = _reconcile_machines_and_nodes(dataclasses.replace(seen, pool=pool), now_s)
    pool = _set_node_counts(pool, before, counted, now)
    pool = _set_replica_counters(pool, seen)
    found = conditions.find_input_problems(seen, infra)
    pool, complaint = _set_inputs_valid_condition(pool, found, now)
    failures = tuple(filter(None, (boot.problem, infra.problem, _unreachable_message(seen))))
    pool = _set_observed_generation(_set_phase_and_ready(pool, now), failures)
    steps: tuple[MachinePoolStep, ...] = (*_plan_adoptions(seen, pool), *machine_steps, *node_steps)
    events = (*_node_refs_events(before, pool), *complaint, *_failure_events(before, pool))
    return MachinePoolPlan(pool, steps, events, failures, _requeue_after_s(pool, counted, now_s))


def _reconcile_infrastructure_ref(seen: ObservedMachinePool) -> conditions.InfrastructureResult:
    if seen.infrastructure is None:
        status = seen.pool.status
        problem = "infrastructure: spec.template.spec.infrastructureRef is not set"
        verdict = conditions.InfrastructureResult(
            status.infrastructure_provisioned, seen.pool.provider_ids, status.replicas
        )
        return dataclasses.replace(verdict, problem=problem)
    return conditions.reconcile_infrastructure(seen.pool, seen.infrastructure)


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


def _set_failure(pool: MachinePool, seen: ObservedMachinePool, infra: conditions.InfrastructureResult) -> MachinePool:
    """A failure that a provider reports is the pool's own, and stays: nobody takes it back but who makes it anew."""
    reason, message = infra.failure
    for external in (seen.bootstrap, seen.infrastructure):
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
    seen: ObservedMachinePool, now_s: float
) -> tuple[owned_objects.NodeSummary | None, list[MachinePoolStep], list[MachinePoolStep]]:
    """What was counted (None: nobody could be asked), and what is to be done about Machines and about Nodes."""
    pool = seen.pool
    reachable = () if isinstance(seen.nodes, UnreachableCluster) else seen.nodes
    known = owned_objects.index_by_provider_id(reachable)
    own = [machine for machine in seen.machines if owned_objects.is_machine_of(pool, machine)]
    steps: list[MachinePoolStep] = [
        *owned_objects.plan_machines(pool, seen.infra_machines, own, known),
        *owned_objects.plan_up_to_date_conditions(own),
    ]
    if isinstance(seen.nodes, UnreachableCluster):
        return None, steps, []
    listed = [each for each in pool.provider_ids if each not in seen.older_pools]
    counted = owned_objects.summarize_nodes(listed, known, pool.min_ready_s, now_s)
    return (
        counted,
        steps,
        [
            *owned_objects.plan_node_retirements(seen, reachable, pool.provider_ids),
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
    """While there is nothing yet that could be ready, what was said before stays."""
    status = pool.status
    if (status.replicas or 0) == status.nodes.ready == len(status.node_refs):
        condition = conditions.true_condition(model.REPLICAS_READY)
    elif not status.node_refs and not before.status.node_refs:
        return pool
    else:
        condition = conditions.false_condition(model.REPLICAS_READY, "WaitingForReplicasReady", conditions.INFO)
    return _with_status(pool, old_conditions=conditions.set_v1beta1_condition(status.old_conditions, condition, now))


def _set_replica_counters(pool: MachinePool, seen: ObservedMachinePool) -> MachinePool:
    """The counters of v1beta2: of the Machines, where there are some, otherwise what the infrastructure says."""
    if not isinstance(seen.infrastructure, ProviderObject):
        return pool
    if api_types.read_machine_kind(seen.infrastructure.status):
        own = owned_objects.with_up_to_date_conditions(
            machine for machine in seen.machines if owned_objects.is_machine_of(pool, machine)
        )
        return set_counters_from_machines(pool, own)
    versions: tuple[tuple[str, int], ...] = ()
    if not isinstance(seen.nodes, UnreachableCluster):
        by_name = {node.name: node.kubelet_version for node in seen.nodes}
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
    pool: MachinePool, found: list[conditions.InputProblem], now: str
) -> tuple[MachinePool, list[Event]]:
    """A condition that says what is wrong, as long as something is; and an event for each trouble that is new."""
    before = conditions.find_condition(pool.status.conditions, model.INPUTS_VALID)
    if not found:
        return _with_status(pool, conditions=conditions.drop_condition(pool.status.conditions, model.INPUTS_VALID)), []
    message = "; ".join(trouble.message for trouble in found)
    condition = Condition(model.INPUTS_VALID, "False", found[0].reason, message, observed_generation=pool.generation)
    said = before.message if before else ""
    events = [Event(WARNING, each.reason, each.message) for each in found if each.message not in said]
    return _with_status(pool, conditions=conditions.set_condition(pool.status.conditions, condition, now)), events


def _set_phase_and_ready(pool: MachinePool, now: str) -> MachinePool:
    pool = _with_status(pool, phase=conditions.compute_phase(pool))
    ready = conditions.summarize_ready(pool.status.old_conditions)
    if ready is None:
        return pool
    return _with_status(pool, old_conditions=conditions.set_v1beta1_condition(pool.status.old_conditions, ready, now))


def _plan_adoptions(seen: ObservedMachinePool, pool: MachinePool) -> list[MachinePoolStep]:
    """What someone else controls is left alone."""
    return [
        step
        for external in (seen.bootstrap, seen.infrastructure)
        if isinstance(external, ProviderObject) and owned_objects.find_other_controller(pool, external) is None
        if (step := owned_objects.plan_adoption(pool, external)) is not None
    ]


def _unreachable_message(seen: ObservedMachinePool) -> str:
    return f"nodes: {seen.nodes.message}" if isinstance(seen.nodes, UnreachableCluster) else ""


def _node_refs_events(before: MachinePool, pool: MachinePool) -> list[Event]:
    refs = pool.status.node_refs
    if refs == before.status.node_refs:
        return []
    # Cluster API's own controller prints its objects like this, and people search for it.
    told = " ".join(
        f"{{Kind:Node Namespace: Name:{ref.name} UID:{ref.uid} APIVersion:v1 ResourceVersion: FieldPath:}}"
        for ref in refs
    )
    return [Event(NORMAL, "SuccessfulSetNodeRefs", f"[{told}]")]


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
"""Deletions are watched; this is for one that goes unnoticed."""


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """How far a deletion is."""

    steps: tuple[DeleteProviderObject | DeleteNode, ...] = ()
    is_done: bool = False
    """Nothing is left that would have to go before the pool."""
    problem: str = ""
    abandoned_nodes: tuple[str, ...] = ()
    """Nodes that are given up, because their time is over."""
    requeue_after_s: float | None = None


def reconcile_deletion(seen: ObservedMachinePool, now_s: float) -> DeletionResult:
    externals = [each for each in (seen.bootstrap, seen.infrastructure) if isinstance(each, ProviderObject)]
    unknown = [
        each for each in (seen.bootstrap, seen.infrastructure) if isinstance(each, MissingObject) and each.unlabelled
    ]
    if unknown:
        return DeletionResult(problem=describe_missing(unknown[0], seen.pool))
    if externals:
        return DeletionResult(tuple(DeleteProviderObject(each) for each in externals if not each.is_deleting))
    return _reconcile_node_deletion(seen, now_s)


def _reconcile_node_deletion(seen: ObservedMachinePool, now_s: float) -> DeletionResult:
    pool = seen.pool
    if not (pool.status.node_refs or pool.provider_ids) or seen.cluster is None:
        return DeletionResult(is_done=True)
    if isinstance(seen.nodes, UnreachableCluster):
        return _reconcile_unreachable_cluster(seen, seen.nodes, now_s)
    steps = owned_objects.plan_node_deletions(seen, seen.nodes)
    if not steps:
        return DeletionResult(is_done=True)
    if is_node_deletion_timed_out(pool, now_s):
        return DeletionResult(is_done=True, abandoned_nodes=tuple(step.name for step in steps))
    return DeletionResult(tuple(steps), requeue_after_s=_deletion_requeue_after_s(pool, now_s))


def _reconcile_unreachable_cluster(
    seen: ObservedMachinePool, unreachable: UnreachableCluster, now_s: float
) -> DeletionResult:
    pool = seen.pool
    known = tuple(ref.name for ref in pool.status.node_refs)
    # Without Nodes that it knows of a pool waits for nobody, and nobody is left to ask in a cluster that goes as well.
    if not known or is_node_deletion_timed_out(pool, now_s) or (seen.cluster is not None and seen.cluster.is_deleting):
        return DeletionResult(is_done=True, abandoned_nodes=known)
    return DeletionResult(
        problem=f"nodes: {unreachable.message}", requeue_after_s=_deletion_requeue_after_s(pool, now_s)
    )


def is_node_deletion_timed_out(pool: MachinePool, now_s: float) -> bool:
    """Whether the time for deleting Nodes has passed. Zero, or none, never passes."""
    ends_s = _node_deletion_deadline_s(pool)
    return ends_s is not None and ends_s < now_s


def _node_deletion_deadline_s(pool: MachinePool) -> float | None:
    if pool.deleted_s is None or not pool.node_deletion_timeout_s:
        return None
    return pool.deleted_s + pool.node_deletion_timeout_s


def _deletion_requeue_after_s(pool: MachinePool, now_s: float) -> float:
    ends_s = _node_deletion_deadline_s(pool)
    return _DELETION_REQUEUE_S if ends_s is None else max(0.1, min(_DELETION_REQUEUE_S, ends_s - now_s + 0.1))
