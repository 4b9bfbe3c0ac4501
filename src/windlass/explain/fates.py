"""Fates: what becomes of each pod of a node if the node goes, and where it would go."""

import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.engine import dtypes, facts, pod_traits, predicates
from windlass.engine.drain import budget, rules
from windlass.engine.drain.outcome import Action, Outcome
from windlass.engine.scale_down import scene as scenes
from windlass.explain import look


class Fate(enum.StrEnum):
    """What becomes of a pod if its node goes."""

    MOVES = "moves"
    """It is evicted; there must be room for it elsewhere."""
    GOES_WITH_IT = "goes with the node"
    """A DaemonSet's, a mirror, or one that should be gone already."""
    FINISHES = "is waited for"
    STAYS = "must stay"
    """And so must the node."""


@dataclass(frozen=True, slots=True)
class PodFate:
    """One pod of a node."""

    pod: str
    """namespace/name"""
    fate: Fate
    destination: str = ""
    """The node that was found to have room for it; empty where none was looked for, or none found."""
    why: str = ""
    """The rule that decided, in words; continues a sentence that begins with the pod's name."""


@dataclass(frozen=True, slots=True)
class Homeless:
    """The pod that finds no place elsewhere."""

    pod: str
    nodes: int
    """Other nodes that there are."""
    reasons: tuple[tuple[str, int], ...] = ()
    """In kube-scheduler's words, with the number of nodes; most nodes first."""
    alone_on: tuple[str, ...] = ()
    """Nodes that would take it alone: pods that go elsewhere with it take the room."""


def find(at: look.Look, rows: list[int], places: dict[str, str]) -> Iterator[PodFate]:
    """What becomes of these pods. `places` are destinations by uid."""
    table = at.snapshot.pods
    about = scenes.make_drain_context(at.seen, at.settings, at.now_s)
    for row in rows:
        pod = at.snapshot.pod(row)
        outcome = rules.judge(pod, about)
        fate = judge(pod, outcome)
        where = places.get(table.uids[row], "") if fate is Fate.MOVES else ""
        why = outcome.saying.format(*outcome.values) if outcome else budget.explain_spared(pod, about)
        yield PodFate(pod.key, fate, where, why)


def judge(pod: facts.Pod, outcome: Outcome | None) -> Fate:
    """What a rule's opinion comes to."""
    action = Action.DRAIN if outcome is None else outcome.action
    if action is Action.BLOCK:
        return Fate.STAYS
    if action is Action.WAIT:
        return Fate.FINISHES
    return Fate.GOES_WITH_IT if action is Action.SKIP or pod_traits.is_daemonset(pod) else Fate.MOVES


def find_homeless(at: look.Look, row: int, home: str) -> Homeless:
    """Why a pod finds no place elsewhere: every other node is asked for it alone, as the loop's scale-down sees them.

    Pending pods are where there is room for them, and a node that is only on its way is no place to move to.
    """
    with at.scale_up() as context:
        snapshot = context.snapshot
        if int(snapshot.pods.node_rows[row]) != dtypes.ABSENT:
            snapshot.lift(row)
        judged = predicates.judge(snapshot, snapshot.shape_of_row(row), at.settings.filters)
        passed_over = {home, *context.groups.upcoming}
        others = [one for one in judged.rows.tolist() if snapshot.nodes.names[one] not in passed_over]
        counted: Counter[str] = Counter()
        alone: list[str] = []
        for one in others:
            refusal = judged[one]
            if refusal is not None:
                counted.update(refusal.texts)
            elif not snapshot.nodes.unschedulable[one]:
                alone.append(snapshot.nodes.names[one])
        ordered = tuple(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))
        return Homeless(snapshot.pods.key(row), len(others), ordered, tuple(alone))
