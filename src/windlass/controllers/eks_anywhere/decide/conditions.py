"""Conditions: made, summed up, and put in the place of those that were there."""

import dataclasses
from collections.abc import Sequence

from windlass.controllers.eks_anywhere import facts, names
from windlass.kube import times

_OURS = (
    names.READY,
    names.CONTROL_PLANE_INITIALIZED,
    names.CONTROL_PLANE_READY,
    names.WORKERS_READY,
    names.DEFAULT_CNI_CONFIGURED,
)
_SEVERITIES = (names.ERROR, names.WARNING, names.INFO)


def true(kind: str) -> facts.Condition:
    return facts.Condition(kind, "True")


def false(kind: str, reason: str, severity: str = names.INFO, message: str = "") -> facts.Condition:
    return facts.Condition(kind, "False", reason, severity, message)


def sum_up(judged: Sequence[facts.Condition]) -> facts.Condition:
    """Ready: what is worst, and of several the first. A CNI that is not to be upgraded is no fault."""
    failed = [each for each in judged if each.status == "False" and not _is_wanted_so(each)]
    for severity in _SEVERITIES:
        for each in failed:
            if each.severity == severity:
                return false(names.READY, each.reason, each.severity, each.message)
    if failed:
        return false(names.READY, failed[0].reason, failed[0].severity, failed[0].message)
    return true(names.READY)


def _is_wanted_so(found: facts.Condition) -> bool:
    return found.type == names.DEFAULT_CNI_CONFIGURED and found.reason.startswith(names.SKIP_UPGRADES)


def merge(
    before: Sequence[facts.Condition], judged: Sequence[facts.Condition], now_s: float
) -> tuple[facts.Condition, ...]:
    """Ready first, the others by name. Conditions that someone else wrote stay; a time moves with its status alone."""
    old = {each.type: each for each in before}
    kept = [each for each in before if each.type not in _OURS]
    new = [dataclasses.replace(each, since=_since(each, old.get(each.type), now_s)) for each in judged]
    return tuple(sorted((*kept, *new), key=lambda each: (each.type != names.READY, each.type)))


def _since(found: facts.Condition, before: facts.Condition | None, now_s: float) -> str:
    if before is not None and before.status == found.status and before.since:
        return before.since
    return times.spell(now_s)
