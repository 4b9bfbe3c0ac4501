"""decide: facts about one MachinePool in, a plan out. Pure: no clock, no I/O, no client.

    finalizer      first of all, alone: a pool that is deleted early must not leave anything behind
    paused         nothing else happens, and a deletion waits
    owner, label   the Cluster owns the pool
    bootstrap ─ infrastructure ─ machines ─ nodes      each judged even if the one before cannot be had
    counters, phase, conditions                        from all of these

A file for each. What stands in the way is a failure in the plan and not an exception: one bad object never stops the
others.
"""

import dataclasses

from windlass.controllers.machine_pool import contract, names
from windlass.controllers.machine_pool.decide import (
    bootstrap,
    conditions,
    deletion,
    infrastructure,
    machines,
    nodes,
    ownership,
    phases,
    troubles,
)
from windlass.controllers.machine_pool.facts import (
    Cluster,
    Condition,
    Counts,
    External,
    Machine,
    Pool,
    Seen,
    Unreachable,
)
from windlass.controllers.machine_pool.plan import Plan, Step
from windlass.controllers.machine_pool.settings import Settings
from windlass.controllers.telling import Event
from windlass.kube import times

_NOT_ALL_READY_S = 30.0
"""Nodes are watched; this is for one that goes unnoticed."""

NORMAL, WARNING = "Normal", "Warning"


def decide(seen: Seen, settings: Settings, now_s: float) -> Plan:
    """What is to be done about a pool at this moment."""
    pool = seen.pool
    if pool.is_deleting and names.FINALIZER not in pool.finalizers:
        return Plan(pool)
    if seen.cluster is None:
        return _decide_without_cluster(seen, now_s)
    if names.FINALIZER not in pool.finalizers:
        return Plan(dataclasses.replace(pool, finalizers=(*pool.finalizers, names.FINALIZER)))
    pool = _say_paused(pool, seen.cluster, now_s)
    if is_paused(pool, seen.cluster):
        return Plan(pool)
    seen = dataclasses.replace(seen, pool=ownership.join(pool, seen.cluster))
    return _delete(seen, now_s) if pool.is_deleting else _keep(seen, settings, now_s)


def is_paused(pool: Pool, cluster: Cluster) -> bool:
    """The annotation counts with any value, `false` as well."""
    return cluster.is_paused or names.PAUSED_ANNOTATION in pool.annotations


def _decide_without_cluster(seen: Seen, now_s: float) -> Plan:
    if seen.pool.is_deleting:
        return _delete(seen, now_s)
    missing = f"Cluster {seen.pool.namespace}/{seen.pool.cluster_name} not found"
    return Plan(seen.pool, events=(Event(WARNING, "ClusterMissing", missing),), failures=(missing,))


def _say_paused(pool: Pool, cluster: Cluster, now_s: float) -> Pool:
    reasons = ["Cluster spec.paused is set to true"] if cluster.is_paused else []
    if names.PAUSED_ANNOTATION in pool.annotations:
        reasons.append(f"MachinePool has the {names.PAUSED_ANNOTATION} annotation")
    word = "Paused" if reasons else "NotPaused"
    status = "True" if reasons else "False"
    condition = Condition(names.PAUSED, status, word, ", ".join(reasons), observed_generation=pool.generation)
    return _with(pool, conditions=conditions.put(pool.status.conditions, condition, times.spell(now_s)))


# A pool that goes


def _delete(seen: Seen, now_s: float) -> Plan:
    verdict = deletion.judge(seen, now_s)
    pool = _with(seen.pool, phase=names.DELETING)
    events: tuple[Event, ...] = ()
    if verdict.left:
        message = f"nodes are left behind: {', '.join(verdict.left)}"
        events = (Event(WARNING, "NodeDeletionGivenUp", message),)
    if verdict.is_done:
        left = tuple(each for each in pool.finalizers if each != names.FINALIZER)
        return Plan(dataclasses.replace(pool, finalizers=left), verdict.steps, events)
    failures = (verdict.problem,) if verdict.problem else ()
    return Plan(_observe(pool, failures), verdict.steps, events, failures, verdict.again_s)


# A pool that stays


def _keep(seen: Seen, settings: Settings, now_s: float) -> Plan:
    now = times.spell(now_s)
    before = seen.pool
    boot = bootstrap.judge(before, seen.bootstrap, rotate=settings.rotate_bootstrap_secret)
    infra = _judge_infrastructure(seen)
    pool = _copy(before, boot, infra, now)
    pool = _fail(pool, seen, infra)
    counted, machine_steps, node_steps = _look_at_machines(dataclasses.replace(seen, pool=pool), now_s)
    pool = _count(pool, before, counted, now)
    pool = _sum_up(pool, seen)
    found = troubles.find(seen, infra)
    pool, complaint = _complain(pool, found, now)
    failures = tuple(filter(None, (boot.problem, infra.problem, _unreachable(seen))))
    pool = _observe(_finish(pool, now), failures)
    steps: tuple[Step, ...] = (*_adopt(seen, pool), *machine_steps, *node_steps)
    events = (*_tell_refs(before, pool), *complaint, *_tell_failure(before, pool))
    return Plan(pool, steps, events, failures, _again_s(pool, counted, now_s))


def _judge_infrastructure(seen: Seen) -> infrastructure.Verdict:
    if seen.infrastructure is None:
        status = seen.pool.status
        problem = "infrastructure: spec.template.spec.infrastructureRef is not set"
        verdict = infrastructure.Verdict(status.infrastructure_provisioned, seen.pool.provider_ids, status.replicas)
        return dataclasses.replace(verdict, problem=problem)
    return infrastructure.judge(seen.pool, seen.infrastructure)


def _copy(pool: Pool, boot: bootstrap.Verdict, infra: infrastructure.Verdict, now: str) -> Pool:
    old = pool.status.old_conditions
    for condition in (boot.condition, infra.condition):
        old = old if condition is None else conditions.put_old(old, condition, now)
    pool = _with(
        pool,
        bootstrap_created=boot.created,
        infrastructure_provisioned=infra.provisioned,
        replicas=infra.replicas,
        old_conditions=old,
    )
    return dataclasses.replace(pool, data_secret_name=boot.data_secret_name, provider_ids=infra.provider_ids)


def _fail(pool: Pool, seen: Seen, infra: infrastructure.Verdict) -> Pool:
    """A failure that a provider reports is the pool's own, and stays: nobody takes it back but who makes it anew."""
    reason, message = infra.failure
    for external in (seen.bootstrap, seen.infrastructure):
        if isinstance(external, External) and not (reason or message):
            reason, message = contract.failure(external.status)
            where = f"{external.reference.kind} {pool.namespace}/{external.reference.name}"
            message = f"{where} failed: {message}" if message else ""
    return _with(
        pool,
        failure_reason=pool.status.failure_reason or reason,
        failure_message=pool.status.failure_message or message,
    )


def _look_at_machines(seen: Seen, now_s: float) -> tuple[nodes.Counted | None, list[Step], list[Step]]:
    """What was counted (None: nobody could be asked), and what is to be done about Machines and about Nodes."""
    pool = seen.pool
    reachable = () if isinstance(seen.nodes, Unreachable) else seen.nodes
    known = nodes.by_provider_id(reachable)
    own = [machine for machine in seen.machines if machines.is_of(pool, machine)]
    steps: list[Step] = [*machines.align(pool, seen.infra_machines, own, known), *machines.mark(own)]
    if isinstance(seen.nodes, Unreachable):
        return None, steps, []
    listed = [each for each in pool.provider_ids if each not in seen.rivals]
    counted = nodes.count(listed, known, pool.min_ready_s, now_s)
    return counted, steps, [*nodes.retire(seen, reachable, pool.provider_ids), *nodes.mark(pool, counted.found)]


def _count(pool: Pool, before: Pool, counted: nodes.Counted | None, now: str) -> Pool:
    if counted is None or not (pool.provider_ids or before.status.node_refs or before.provider_ids):
        return _say_replicas_ready(pool, before, now) if counted is not None else pool
    unavailable = (pool.status.replicas or 0) - counted.available
    counts = Counts(counted.ready, counted.available, unavailable)
    return _say_replicas_ready(_with(pool, node_refs=counted.refs, nodes=counts), before, now)


def _say_replicas_ready(pool: Pool, before: Pool, now: str) -> Pool:
    """While there is nothing yet that could be ready, what was said before stays."""
    status = pool.status
    if (status.replicas or 0) == status.nodes.ready == len(status.node_refs):
        condition = conditions.true(names.REPLICAS_READY)
    elif not status.node_refs and not before.status.node_refs:
        return pool
    else:
        condition = conditions.false(names.REPLICAS_READY, "WaitingForReplicasReady", conditions.INFO)
    return _with(pool, old_conditions=conditions.put_old(status.old_conditions, condition, now))


def _sum_up(pool: Pool, seen: Seen) -> Pool:
    """The counters of v1beta2: of the Machines, where there are some, otherwise what the infrastructure says."""
    if not isinstance(seen.infrastructure, External):
        return pool
    if contract.machine_kind(seen.infrastructure.status):
        own = machines.as_marked(machine for machine in seen.machines if machines.is_of(pool, machine))
        return count_machines(pool, own)
    versions: tuple[tuple[str, int], ...] = ()
    if not isinstance(seen.nodes, Unreachable):
        by_name = {node.name: node.kubelet_version for node in seen.nodes}
        versions = machines.versions(by_name.get(ref.name, "") for ref in pool.status.node_refs)
    return count_replicas(pool, versions)


def count_replicas(pool: Pool, versions: tuple[tuple[str, int], ...]) -> Pool:
    """Counters of a pool without Machines."""
    replicas = pool.status.replicas
    return _with(
        pool,
        ready_replicas=replicas,
        available_replicas=replicas,
        up_to_date_replicas=pool.replicas,
        versions=versions,
    )


def count_machines(pool: Pool, own: list[Machine]) -> Pool:
    """Counters of a pool with Machines."""
    return _with(
        pool,
        ready_replicas=sum(machine.is_ready for machine in own),
        available_replicas=sum(machine.is_available for machine in own),
        up_to_date_replicas=sum(bool(machine.up_to_date and machine.up_to_date.status == "True") for machine in own),
        versions=machines.versions(machine.version for machine in own),
    )


def _complain(pool: Pool, found: list[troubles.Trouble], now: str) -> tuple[Pool, list[Event]]:
    """A condition that says what is wrong, as long as something is; and an event for each trouble that is new."""
    before = conditions.find(pool.status.conditions, names.INPUTS_VALID)
    if not found:
        return _with(pool, conditions=conditions.drop(pool.status.conditions, names.INPUTS_VALID)), []
    message = "; ".join(trouble.message for trouble in found)
    condition = Condition(names.INPUTS_VALID, "False", found[0].reason, message, observed_generation=pool.generation)
    said = before.message if before else ""
    events = [Event(WARNING, each.reason, each.message) for each in found if each.message not in said]
    return _with(pool, conditions=conditions.put(pool.status.conditions, condition, now)), events


def _finish(pool: Pool, now: str) -> Pool:
    pool = _with(pool, phase=phases.judge(pool))
    ready = conditions.summarize(pool.status.old_conditions)
    if ready is None:
        return pool
    return _with(pool, old_conditions=conditions.put_old(pool.status.old_conditions, ready, now))


def _adopt(seen: Seen, pool: Pool) -> list[Step]:
    """What someone else controls is left alone."""
    return [
        step
        for external in (seen.bootstrap, seen.infrastructure)
        if isinstance(external, External) and ownership.find_rival(pool, external) is None
        if (step := ownership.adopt(pool, external)) is not None
    ]


def _unreachable(seen: Seen) -> str:
    return f"nodes: {seen.nodes.message}" if isinstance(seen.nodes, Unreachable) else ""


def _tell_refs(before: Pool, pool: Pool) -> list[Event]:
    refs = pool.status.node_refs
    if refs == before.status.node_refs:
        return []
    # Cluster API's own controller prints its objects like this, and people search for it.
    told = " ".join(
        f"{{Kind:Node Namespace: Name:{ref.name} UID:{ref.uid} APIVersion:v1 ResourceVersion: FieldPath:}}"
        for ref in refs
    )
    return [Event(NORMAL, "SuccessfulSetNodeRefs", f"[{told}]")]


def _tell_failure(before: Pool, pool: Pool) -> list[Event]:
    if before.status.is_failed or not pool.status.is_failed:
        return []
    return [Event(WARNING, pool.status.failure_reason or "Failed", pool.status.failure_message)]


def _observe(pool: Pool, failures: tuple[str, ...]) -> Pool:
    return pool if failures else _with(pool, observed_generation=pool.generation)


def _again_s(pool: Pool, counted: nodes.Counted | None, now_s: float) -> float | None:
    if counted is None:
        return None
    later_s = [] if counted.next_available_s is None else [counted.next_available_s - now_s]
    if counted.found and not (pool.status.replicas or 0) == counted.ready == len(counted.found):
        later_s.append(_NOT_ALL_READY_S)
    return min(later_s, default=None)


def _with(pool: Pool, **changes: object) -> Pool:
    return dataclasses.replace(pool, status=dataclasses.replace(pool.status, **changes))  # type: ignore[arg-type]
