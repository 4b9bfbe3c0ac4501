"""The phase: where a pool is on its way. Of those that fit, the last one in this file counts."""

from windlass.controllers.machine_pool import names
from windlass.controllers.machine_pool.facts import Pool


def judge(pool: Pool) -> str:
    """The phase of a pool whose status is otherwise complete."""
    status = pool.status
    if pool.is_deleting:
        return names.DELETING
    if status.is_failed:
        return names.FAILED
    if status.infrastructure_provisioned and pool.replicas is not None:
        return _compare(pool, pool.replicas, status.nodes.ready)
    if status.node_refs:
        return names.PROVISIONED
    if status.bootstrap_created and not status.infrastructure_provisioned:
        return names.PROVISIONING
    return status.phase or names.PENDING


def _compare(pool: Pool, wanted: int, ready: int) -> str:
    if wanted == ready:
        return names.RUNNING
    if is_managed_elsewhere(pool):
        return names.SCALING
    return names.SCALING_UP if wanted > ready else names.SCALING_DOWN


def is_managed_elsewhere(pool: Pool) -> bool:
    """Someone else decides on the number of replicas: the annotation is there, and is not `false`."""
    return pool.annotations.get(names.MANAGED_BY_ANNOTATION, "false") != "false"
