"""Deletion: provider's objects first, then the Nodes, then the pool itself."""

from dataclasses import dataclass

from windlass.controllers.machine_pool.decide import nodes
from windlass.controllers.machine_pool.decide.bootstrap import describe_missing
from windlass.controllers.machine_pool.facts import External, Missing, Pool, Seen, Unreachable
from windlass.controllers.machine_pool.plan import DeleteExternal, DeleteNode

_LOOK_AGAIN_S = 5.0
"""Deletions are watched; this is for one that goes unnoticed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far a deletion is."""

    steps: tuple[DeleteExternal | DeleteNode, ...] = ()
    is_done: bool = False
    """Nothing is left that would have to go before the pool."""
    problem: str = ""
    left: tuple[str, ...] = ()
    """Nodes that are given up, because their time is over."""
    again_s: float | None = None


def judge(seen: Seen, now_s: float) -> Verdict:
    externals = [each for each in (seen.bootstrap, seen.infrastructure) if isinstance(each, External)]
    unknown = [each for each in (seen.bootstrap, seen.infrastructure) if isinstance(each, Missing) and each.unlabelled]
    if unknown:
        return Verdict(problem=describe_missing(unknown[0], seen.pool))
    if externals:
        return Verdict(tuple(DeleteExternal(each) for each in externals if not each.is_deleting))
    return _judge_nodes(seen, now_s)


def _judge_nodes(seen: Seen, now_s: float) -> Verdict:
    pool = seen.pool
    if not (pool.status.node_refs or pool.provider_ids) or seen.cluster is None:
        return Verdict(is_done=True)
    if isinstance(seen.nodes, Unreachable):
        return _judge_unreachable(seen, seen.nodes, now_s)
    steps = nodes.abandon(seen, seen.nodes)
    if not steps:
        return Verdict(is_done=True)
    if is_over(pool, now_s):
        return Verdict(is_done=True, left=tuple(step.name for step in steps))
    return Verdict(tuple(steps), again_s=_again_s(pool, now_s))


def _judge_unreachable(seen: Seen, unreachable: Unreachable, now_s: float) -> Verdict:
    pool = seen.pool
    known = tuple(ref.name for ref in pool.status.node_refs)
    # Without Nodes that it knows of a pool waits for nobody, and nobody is left to ask in a cluster that goes as well.
    if not known or is_over(pool, now_s) or (seen.cluster is not None and seen.cluster.is_deleting):
        return Verdict(is_done=True, left=known)
    return Verdict(problem=f"nodes: {unreachable.message}", again_s=_again_s(pool, now_s))


def is_over(pool: Pool, now_s: float) -> bool:
    """Whether the time for deleting Nodes has passed. Zero, or none, never passes."""
    ends_s = _ends_s(pool)
    return ends_s is not None and ends_s < now_s


def _ends_s(pool: Pool) -> float | None:
    if pool.deleted_s is None or not pool.node_deletion_timeout_s:
        return None
    return pool.deleted_s + pool.node_deletion_timeout_s


def _again_s(pool: Pool, now_s: float) -> float:
    ends_s = _ends_s(pool)
    return _LOOK_AGAIN_S if ends_s is None else max(0.1, min(_LOOK_AGAIN_S, ends_s - now_s + 0.1))
