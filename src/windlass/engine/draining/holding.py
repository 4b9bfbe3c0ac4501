"""Holding: the drains of a group that must be left alone rest, because the group is paused or cannot be read.

Nobody is evicted meanwhile. A node that the provider was told to delete is waited for, however long it takes: it goes
when the group is back. Any other is given back after five minutes: no machine takes its place while its group is held,
and pods may need the room.
"""

from collections.abc import Sequence

from windlass.engine import held_groups, replicas_owners
from windlass.engine.draining.case import Case, Situation, find_open
from windlass.engine.draining.ending import is_another
from windlass.engine.draining.progress import Why
from windlass.engine.draining.story import Phase

MAX_HOLD_S = 300.0
"""How long a drain rests before its node is given back."""


def hold(cases: Sequence[Case], situation: Situation) -> None:
    """Settle the cases whose groups are held."""
    if not situation.seen.held:
        return
    for case, node in find_open(cases):
        held = held_groups.find(case.begun.group, situation.seen.held)
        if held is None or is_another(case, node):
            continue
        until_s = situation.held_since.get(held.id, situation.now_s) + MAX_HOLD_S
        if case.progress.deleting_s is not None:
            case.wait(Phase.DELETING, waits_for=(held.why,))
        elif situation.now_s < until_s:
            case.wait(Phase.HELD, until_s, (held.why,))
        else:
            case.fail(Why.GROUP_HELD, held.why)


def give_back_owned(cases: Sequence[Case], situation: Situation) -> None:
    """Fail the cases whose machines another controller would replace. A machine that was told to go is waited for."""
    for case, _ in find_open(cases):
        group = situation.groups.get(case.begun.group)
        if group is None or group.replicas_owner is None or case.progress.deleting_s is not None:
            continue
        if replicas_owners.is_left_alone(group, situation.settings.deviations):
            case.fail(Why.REPLICAS_OWNED, group.replicas_owner.message)
