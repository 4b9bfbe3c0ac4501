"""The chronicle: every decision that did something or left pods waiting, with its reason, as it was made."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from windlass.engine import plan
from windlass.engine.advance import Advanced
from windlass.engine.decide import Decision
from windlass.engine.draining.story import Phase
from windlass.engine.repairs import NOT_ACTIONABLE, Stop
from windlass.engine.scale_up.proposing import Proposal
from windlass.explain.telling import words

Kind = Literal["up", "down", "trouble", "wait"]

_NAMED = 6
"""Nodes that are named before the rest is counted."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was decided."""

    at_s: float
    """By the clock that the chronicle was given."""
    kind: Kind
    said: str
    why: str
    groups: tuple[str, ...] = ()
    """Ids of those that it is about."""
    nodes: tuple[str, ...] = ()
    """The first of those that it is about."""


class Chronicle:
    """Hears decisions, and keeps what is worth telling: all of it, or the last `most` entries."""

    def __init__(self, now_s: Callable[[], float], most: int | None = None) -> None:
        self.entries: deque[Entry] = deque(maxlen=most)
        self.count = 0
        """Entries so far, those included that are not kept any more."""
        self._now_s = now_s
        self._last: Decision | None = None
        self._waiting: Entry | None = None

    def hear(self, decision: Decision) -> None:
        """A decision that merely stands is told once."""
        if self._last is not None and decision.story is self._last.story:
            return
        self._last = decision
        at_s = round(self._now_s(), 3)
        for told in (*_troubles(decision), *_ups(decision), *_downs(decision)):
            self._note(Entry(at_s, *told))
        self._hear_waiting(at_s, decision)

    def hear_drains(self, advanced: Advanced) -> None:
        """Only of those that are given up: how a drain goes is to be seen at its node."""
        at_s = round(self._now_s(), 3)
        for one in advanced.story:
            if one.phase is Phase.ROLLED_BACK:
                why = str(one.failure.why) if one.failure is not None else "it is needed again"
                told = f"{short(one.group)}: {one.node} stays after all"
                self._note(Entry(at_s, "trouble", told, why, (one.group,), (one.node,)))

    def _note(self, entry: Entry) -> None:
        # Whoever decides again because something was refused says most of it a second time.
        if entry not in list(self.entries)[-_NAMED:]:
            self.entries.append(entry)
            self.count += 1

    def _hear_waiting(self, at_s: float, decision: Decision) -> None:
        left = [alike for proposal in decision.story.scale_ups[-1:] for alike in proposal.remaining if alike.rows]
        count = sum(len(alike.rows) for alike in left)
        if not count:
            self._waiting = None
            return
        reasons = sorted({f"{short(group)}: {', '.join(why)}" for group, why in left[0].rejected.items() if why})
        told = Entry(at_s, "wait", f"{words.count(count, 'pod')} left that no group helps", "; ".join(reasons))
        if self._waiting is None or (told.said, told.why) != (self._waiting.said, self._waiting.why):
            self._waiting = told
            self._note(told)


def short(group: str) -> str:
    """A group's name without its kind and namespace."""
    return group.rpartition("/")[2]


_Told = tuple[Kind, str, str, tuple[str, ...], tuple[str, ...]]


def _troubles(decision: Decision) -> Iterator[_Told]:
    story = decision.story
    for failure in story.health.failures:
        said = f"{short(failure.group)}: {words.count(failure.nodes, 'node')} did not come"
        yield "trouble", said, f"{failure.error.code}; the group backs off", (failure.group,), ()
    for one in decision.plan:
        match one:
            case plan.ReduceTarget(group, by, why):
                yield "trouble", f"{short(group)}: size lowered by {by}", why, (group,), ()
            case plan.DeleteInstances(group, instances, why):
                said = f"{short(group)}: {words.count(len(instances), 'instance')} removed"
                yield "trouble", said, why, (group,), ()
    if story.repairs.stop is Stop.UNHEALTHY:
        found = story.health.verdict
        yield "trouble", "nothing is done", f"{found.lacking} of {found.nodes} nodes are unready", (), ()
    elif story.repairs.stop in NOT_ACTIONABLE:
        yield "trouble", "nothing is done", f"{story.repairs.stop}, and --scale-up-from-zero is off", (), ()


def _ups(decision: Decision) -> Iterator[_Told]:
    for proposal in decision.story.scale_ups:
        grown = [f"{short(one.group.id)} {one.group.size}→{one.new_size}" for one in proposal.increases]
        if grown:
            groups = tuple(one.group.id for one in proposal.increases)
            yield "up", f"scale up {', '.join(grown)}", "; ".join(_why(proposal)), groups, ()


def _why(proposal: Proposal) -> Iterator[str]:
    if not proposal.helped:
        yield "below its least size"
        return
    helped = frozenset(proposal.helped)
    kinds = [alike for alike in proposal.considered if not helped.isdisjoint(alike.rows)]
    example = f" like {kinds[0].pod.namespace}/{kinds[0].pod.name}" if kinds else ""
    yield f"{words.count(len(helped), 'pod')}{example} had no room"
    choice = proposal.choice
    if choice is not None and choice.winner is not None:
        options = len(choice.options)
        decisive = choice.steps[-1][0] if choice.steps else ""
        yield f"{decisive} chose it among {options} groups" if options > 1 and decisive else "the only group that helps"
    for group, reasons in sorted(proposal.skipped.items()):
        yield f"{short(group)} was left out: {', '.join(reasons)}"


def _downs(decision: Decision) -> Iterator[_Told]:
    drains = [one for one in decision.plan if isinstance(one, plan.Drain)]
    for group in dict.fromkeys(one.group for one in drains):
        going = [one for one in drains if one.group == group]
        moved = sum(len(one.evict) for one in going)
        said = f"scale down {short(group)} by {len(going)}"
        if moved:
            said += f", {words.count(moved, 'pod')} to be moved"
        told = [_reason(decision, one) for one in going[:_NAMED]]
        if len(going) > _NAMED:
            told.append(f"and {len(going) - _NAMED} more")
        yield "down", said, "; ".join(told), (group,), tuple(one.node for one in going[:_NAMED])


def _reason(decision: Decision, drain: plan.Drain) -> str:
    look, parts = decision.story.scale_down.look, list[str]()
    if look is not None:
        used = look.eligibility.utilization_of(drain.node)
        if used is not None:
            parts.append(f"{used.utilization:.0%} of {used.resource} used" if used.utilization else "empty")
        since_s = look.state.since.get(drain.node)
        if since_s is not None:
            parts.append(f"unneeded for {words.lasting(decision.story.at_s - since_s)}")
    return f"{drain.node}: {', '.join(parts)}" if parts else drain.node
