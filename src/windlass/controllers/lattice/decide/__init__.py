"""decide: what becomes of a LatticeCluster's pools, and what is true of them. Pure."""

from dataclasses import dataclass

from windlass.controllers.lattice import facts, names
from windlass.controllers.lattice.decide import validation
from windlass.controllers.lattice.plan import Plan
from windlass.controllers.telling import Event
from windlass.controllers.worker_pools import applying, manifest
from windlass.controllers.worker_pools.machine_deployments import MachineDeployment


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one pool."""

    status: facts.PoolStatus
    step: applying.Apply | None = None
    event: Event | None = None
    is_usable: bool = True


def decide(seen: facts.Seen) -> Plan:
    """Every pool by itself: one that cannot be used stays as it was."""
    verdicts = {pool.id: judge(seen, pool) for pool in seen.cluster.pools}
    is_autoscaled = {pool.id: pool.size.is_autoscaled for pool in seen.cluster.pools}
    return Plan(
        facts.Status(seen.cluster.generation, {name: each.status for name, each in verdicts.items()}),
        tuple(each.step for each in verdicts.values() if each.step is not None),
        tuple(each.event for each in verdicts.values() if each.event is not None),
        any(each.is_usable and is_autoscaled[name] for name, each in verdicts.items()),
    )


def judge(seen: facts.Seen, pool: facts.Pool) -> Verdict:
    name = names.machine_deployment(seen.cluster.name, pool.id)
    live = seen.machine_deployments.get(name)
    before = seen.cluster.status.pools.get(pool.id)
    step = None
    trouble = validation.check_id(pool.id) or validation.check(pool)
    if live is not None and live.cluster not in ("", seen.cluster.name):
        # `a` with a pool `b-pool-c` makes the same name as `a-pool-b` with a pool `c`.
        trouble = f"MachineDeployment {name} belongs to Cluster {live.cluster}; choose another id"
        live = None
    if not trouble and (live is None or not live.is_deleting):
        wanted = manifest.Wanted(
            seen.api_version,
            seen.cluster.namespace,
            name,
            seen.cluster.name,
            pool.machine,
            pool.size.limits,
            pool.labels,
        )
        try:
            step = applying.plan(wanted, pool.size, initial_replicas(pool), live, names.MANAGER)
        except manifest.Incomplete as incomplete:
            trouble = str(incomplete)
    if trouble:
        message, event = f"pool '{pool.id}': {trouble}", names.POOL_INVALID
    else:
        message, event = warn(pool) or "", names.REPLICAS_IGNORED
    is_news = bool(message) and (before is None or before.message != message)
    told = Event("Warning", event, message, names.RECONCILING) if is_news else None
    return Verdict(describe(pool, live, message or None), step, told, not trouble)


def initial_replicas(pool: facts.Pool) -> int:
    """What a new pool begins with: an autoscaled one with its minimum at least."""
    limits = pool.size.limits
    return pool.size.replicas if limits is None else max(limits.min, pool.size.replicas)


def warn(pool: facts.Pool) -> str | None:
    """That replicas are ignored, if someone asks for replicas that the autoscaler would never make."""
    limits = pool.size.limits
    if limits is None or pool.replicas is None or limits.allow(pool.replicas):
        return None
    bounds = f"[{limits.min}, {limits.max}]"
    return f"pool '{pool.id}': replicas ({pool.replicas}) ignored, autoscaler will manage within {bounds}"


def describe(pool: facts.Pool, live: MachineDeployment | None, message: str | None) -> facts.PoolStatus:
    """Numbers always come from the MachineDeployment, whoever it is that scales it."""
    return facts.PoolStatus(
        desired_replicas=0 if live is None else live.replicas or 0,
        current_replicas=0 if live is None else live.current,
        ready_replicas=0 if live is None else live.ready,
        autoscaling_enabled=pool.size.is_autoscaled,
        autoscaling_min=pool.min,
        autoscaling_max=pool.max,
        message=message,
    )
