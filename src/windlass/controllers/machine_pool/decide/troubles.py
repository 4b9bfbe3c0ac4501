"""Troubles: what a pool was given and cannot use. Each is a reason, in a word, and a message, in a sentence."""

from dataclasses import dataclass

from windlass.controllers.machine_pool.decide import infrastructure, nodes, ownership
from windlass.controllers.machine_pool.decide.bootstrap import describe_missing
from windlass.controllers.machine_pool.facts import External, Missing, Pool, Seen, Unreachable

_MOST = 10
"""Provider IDs that a message names; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong."""

    reason: str
    message: str


def find(seen: Seen, verdict: infrastructure.Verdict) -> list[Trouble]:
    """All that is wrong with what the pool refers to, lists and is listed with."""
    found = [trouble for external in (seen.bootstrap, seen.infrastructure) for trouble in _judge(seen.pool, external)]
    if isinstance(seen.nodes, Unreachable):
        found.append(Trouble(seen.nodes.reason, seen.nodes.message))
    else:
        for provider_id, sharing in sorted(nodes.shared_ids(seen.nodes).items()):
            message = f"Nodes {', '.join(sharing)} have one spec.providerID: {provider_id}"
            found.append(Trouble("DuplicateNodes", message))
    if verdict.repeated:
        message = f"spec.providerIDList names more than once: {_name(verdict.repeated)}; each counts once"
        found.append(Trouble("DuplicateProviderIDs", message))
    if verdict.has_empty:
        found.append(Trouble("EmptyProviderID", "spec.providerIDList has an empty entry, which counts for nothing"))
    return found + _judge_rivals(seen)


def _judge(pool: Pool, external: External | Missing | None) -> list[Trouble]:
    if isinstance(external, Missing) and external.definition:
        reason = "ContractUnknown" if external.unlabelled else "DefinitionMissing"
        return [Trouble(reason, describe_missing(external, pool))]
    if isinstance(external, External) and (rival := ownership.find_rival(pool, external)):
        what = f"{external.reference.kind} {pool.namespace}/{external.reference.name}"
        return [Trouble("AlreadyOwned", f"{what} is controlled by {rival.kind} {rival.name}, and left to it")]
    return []


def _judge_rivals(seen: Seen) -> list[Trouble]:
    found = []
    for key in sorted({*seen.rivals.values(), *seen.claimed.values()}):
        lost = [each for each, owner in seen.rivals.items() if owner == key]
        kept = [each for each, owner in seen.claimed.items() if owner == key]
        if lost:
            message = f"MachinePool {key} names the same instances and is older: {_name(lost)} count there"
            found.append(Trouble("ProviderIDClaimedTwice", message))
        if kept:
            message = f"MachinePool {key} names the same instances and is younger: {_name(kept)} count here"
            found.append(Trouble("ProviderIDClaimedTwice", message))
    return found


def _name(ids: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(ids) - _MOST} more" if len(ids) > _MOST else ""
    return ", ".join(sorted(ids)[:_MOST]) + more
