"""Latecomers: pods that came to a node after it was checked must leave it with the others, if they may.

If one may not leave, the node is given back; and so is a node that goes because it was empty.
"""

from collections.abc import Sequence
from dataclasses import replace

from windlass.engine import facts
from windlass.engine.drain import rules
from windlass.engine.drain.outcome import Action, Reason
from windlass.engine.draining.case import Case, Situation
from windlass.engine.draining.progress import Evicting, Why
from windlass.engine.pods import identity
from windlass.engine.scale_down.scene import make_drain_context


def let_in(case: Case, late: Sequence[facts.Pod], evicting: Evicting, situation: Situation) -> Evicting:
    """Count them among those that must leave, or fail the case."""
    about = make_drain_context(situation.seen, situation.settings, situation.now_s)
    for pod in late:
        outcome = rules.judge(pod, about)
        if outcome is not None and outcome.action is Action.SKIP:
            continue
        may_leave = outcome is None or outcome.action is Action.DRAIN or outcome.reason is Reason.NOT_ENOUGH_PDB
        if outcome is not None and not may_leave:
            case.fail(Why.BLOCKED_BY_POD, outcome.text(pod))
        elif case.begun.is_empty:
            case.fail(Why.NOT_EMPTY, pod.key)
        else:
            evicting = replace(evicting, known=evicting.known | {identity(pod)})
            continue
        return evicting
    return evicting
