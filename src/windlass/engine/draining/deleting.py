"""Deleting: a node without pods is held back by annotations, gathered with others of its group, and deleted.

Annotations `delay-deletion.cluster-autoscaler.kubernetes.io/…` hold it for --node-deletion-delay-timeout at most, from
when it was empty. Nodes of a group are gathered for --node-deletion-batcher-interval, from the first on; those of a
group that is all or nothing until all of them are ready. No group is led below its minimum, and none shrinks while
others than the nodes meant might go.
"""

from collections.abc import Sequence

from windlass.engine import facts, plan, requests
from windlass.engine.draining.case import Case, Situation, find_open
from windlass.engine.draining.progress import Why
from windlass.engine.draining.story import Phase

DELAY_PREFIX = "delay-deletion.cluster-autoscaler.kubernetes.io/"


def hold(cases: Sequence[Case], situation: Situation) -> None:
    """Let those cases go on whose nodes nobody holds."""
    timeout_s = situation.settings.drain.node_deletion_delay_timeout_s
    for case, node in find_open(cases):
        emptied_s = case.progress.emptied_s
        if emptied_s is None:
            continue
        holds = sorted(key for key in node.annotations if key.startswith(DELAY_PREFIX))
        if holds and situation.now_s < emptied_s + timeout_s:
            case.wait(Phase.HELD, emptied_s + timeout_s, holds)
        elif case.progress.ready_s is None:
            case.note(ready_s=situation.now_s)


def delete(cases: Sequence[Case], situation: Situation) -> None:
    """Delete the nodes for which it is time, group by group."""
    ready: dict[str, list[Case]] = {}
    for case, _ in find_open(cases):
        ready.setdefault(case.begun.group, []).append(case)
    for id, together in ready.items():
        group = situation.groups.get(id)
        if group is None:
            for case in together:
                case.fail(Why.GROUP_MISSING)
        elif (why := _find_obstacle(group, together, situation)) is not None:
            for case in together:
                case.fail(why)
        elif not _gather(id, together, cases, situation):
            _delete_together(group, together, situation)


def _find_obstacle(group: facts.NodeGroup, ready: Sequence[Case], situation: Situation) -> Why | None:
    """Why others than these nodes might go if the group shrank now."""
    chosen = situation.settings.deviations
    if group.is_rolling_out and chosen.leave_rollouts_alone:
        return Why.GROUP_ROLLS_OUT
    if not group.can_choose and chosen.never_shrink_blindly and len(ready) < group.target_size:
        return Why.CANNOT_CHOOSE
    return None


def _gather(group: str, ready: Sequence[Case], cases: Sequence[Case], situation: Situation) -> bool:
    """Are others waited for?"""
    whole = situation.goes_whole(group)
    if whole and (others := _find_unready(group, ready, cases)):
        for case in ready:
            case.wait(Phase.GATHERING, waits_for=others)
        return True
    times = [case.progress.ready_s or 0.0 for case in ready]
    until_s = (max if whole else min)(times) + situation.settings.drain.node_deletion_batcher_interval_s
    if situation.now_s < until_s:
        for case in ready:
            case.wait(Phase.GATHERING, until_s)
        return True
    return False


def _find_unready(group: str, ready: Sequence[Case], cases: Sequence[Case]) -> list[str]:
    """Nodes of the group that are still on their way, or failed just now."""
    names = {case.name for case in ready}
    return [
        case.name
        for case in cases
        if case.begun.group == group
        and case.name not in names
        and not case.has_ended
        and (case.has_failed_now or (case.progress.failure is None and case.progress.deleting_s is None))
    ]


def _delete_together(group: facts.NodeGroup, ready: Sequence[Case], situation: Situation) -> None:
    room = max(group.target_size - group.min_size, 0)
    if situation.goes_whole(group.id) and room < len(ready):
        room = 0
    for case in ready[room:]:
        case.fail(Why.MIN_SIZE_REACHED, f"{group.id} keeps at least {group.min_size} of {group.target_size} nodes")
    for case in ready[:room]:
        case.instructions.append(plan.DeleteNode(case.name, group.id))
        case.note(deleting_s=situation.now_s)
        case.wait(Phase.DELETING, situation.now_s + requests.MAX_NODE_DELETION_S)
