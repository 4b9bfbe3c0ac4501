"""What if: the same observations, decided with other settings.

The world goes on as it was recorded, whatever is decided here. So memory is kept as a shadow keeps it: what was done
then is awaited and counted as if it had been done here; what is wanted here and was not done is forgotten. Then each
decision answers: what would have been done at that moment, in the place of the one that ran?
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from windlass.autoscaler.recording import reading, recorder, replay
from windlass.autoscaler.shadow import deeds, following
from windlass.engine import plan
from windlass.engine.decide import Decision, decide
from windlass.engine.memory import Memory
from windlass.engine.settings import Settings
from windlass.explain import look, steps


@dataclass(frozen=True, slots=True)
class Comparison:
    """One decision, as it was and as it would have been."""

    turn: replay.Turn
    wanted: tuple[steps.Step, ...]
    """What would have been done and was not, unless the decision before says the same."""
    left: tuple[steps.Step, ...]
    """What was done and would not have been."""
    is_different: bool
    """Is anything else decided, new or not?"""


def compare(recording: reading.Recording, settings: Settings) -> Iterator[Comparison]:
    """Every decision, one after the other."""
    chooser = _Chooser(recording.memory, settings)
    missing: frozenset[Hashable] = frozenset()
    for turn in replay.turns(recording):
        if turn.step.of != recorder.DECIDE or not isinstance(turn.done, Decision):
            continue
        was = look.Look(turn.step.seen, turn.memory, recording.settings, turn.step.now_s, turn.done)
        would = chooser.choose(turn.step)
        if turn.done.question is not None:
            continue  # nobody did that: it was decided again with the answer
        done, wanted = _by_subject(was), _by_subject(would)
        more, less = wanted.keys() - done.keys(), done.keys() - wanted.keys()
        yield Comparison(
            turn,
            tuple(step for subject, step in wanted.items() if subject in more - missing),
            tuple(step for subject, step in done.items() if subject in less),
            bool(more or less),
        )
        missing = frozenset(more)


class _Chooser:
    """Decides with other settings, and remembers as a shadow does."""

    def __init__(self, memory: Memory, settings: Settings) -> None:
        self._settings = settings
        self._before = self._after = memory
        self._sight: deeds.Sight | None = None

    def choose(self, step: reading.Step) -> look.Look:
        seen, now_s, chosen = step.seen, step.now_s, self._settings
        memory = self._before if step.given.again else self._take_over(step)
        decision = decide(seen, memory, chosen, now_s)
        self._before, self._after = memory, following.follow(memory, decision)
        return look.Look(decision.evaluated, memory, chosen, now_s, decision)

    def _take_over(self, step: reading.Step) -> Memory:
        found = deeds.find_deeds(self._sight, step.seen, step.now_s) if self._sight is not None else ()
        self._sight = deeds.look(step.seen)
        return following.take_over(self._after, found, step.seen, self._settings, step.now_s)


def _by_subject(at: look.Look) -> dict[Hashable, steps.Step]:
    return dict(zip(map(_subject, at.decision.plan), steps.describe(at), strict=True))


def _subject(one: plan.Instruction) -> Hashable:
    """What makes two instructions the same, though one may come earlier or move other pods."""
    match one:
        case plan.Resize():
            return "Resize", one.group, one.to_size
        case plan.ReduceTarget():
            return "ReduceTarget", one.group, one.by
        case plan.SetTaint() | plan.RemoveTaint():
            return type(one).__name__, one.node, one.key
        case plan.Drain() | plan.DeleteNode():
            return type(one).__name__, one.node
    return one
