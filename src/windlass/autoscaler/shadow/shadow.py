"""The shadow: what a process in shadow mode keeps from loop to loop.

    memory = shadow.look(seen, memory, settings, now_s)       # before deciding
    decision = decide(seen, memory, settings, now_s)
    memory = shadow.compare(seen, memory, decision, now_s)    # instead of acting

`advance` is not asked in shadow mode: the drains are the other's.
"""

import logging
from collections import deque

import prometheus_client

from windlass.autoscaler import logs
from windlass.autoscaler.shadow import deeds, following, matching, summary, verdicts, wishes
from windlass.autoscaler.shadow.metrics import Metrics
from windlass.engine.decide import Decision
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings

_SAYINGS = 10_000
_DIFFERENCES = 1000
"""What is kept of sayings and differences: the last ones."""

_log = logging.getLogger(__name__)


class Shadow:
    """Compares, loop by loop."""

    def __init__(self, window_s: float, registry: prometheus_client.CollectorRegistry) -> None:
        self.totals = verdicts.Totals()
        self.differences: deque[verdicts.Verdict] = deque(maxlen=_DIFFERENCES)
        self._window_s = window_s
        self._metrics = Metrics(registry)
        self._sight: deeds.Sight | None = None
        self._began_s = self._now_s = 0.0
        self._deeds: tuple[deeds.Deed, ...] = ()
        self._reluctance = wishes.Reluctance()
        self._book = matching.Book()
        self._theirs: dict[str, str] = {}
        self._silence: dict[str, str] = {}

    def hear(self, said: deeds.Said) -> None:
        """An event of the other autoscaler's: a reason for what it does, or does not do."""
        if said.reason == "NotTriggerScaleUp":
            _note(self._silence, said.about, said.message)
        elif said.reason == "TriggeredScaleUp":
            for group in said.steps:
                _note(self._theirs, group, f"{said.about}: {said.message}")
        elif said.reason in ("ScaleDown", "ScaleDownEmpty"):
            _note(self._theirs, said.about, said.message)

    def look(self, seen: Observation, memory: Memory, settings: Settings, now_s: float) -> Memory:
        """What to decide with. See what the other did since the last look, as if it had been ours."""
        if self._sight is None:
            self._began_s = now_s
            memory = following.begin(seen, settings, now_s)
        else:
            self._deeds = deeds.find_deeds(self._sight, seen, now_s)
        self._sight, self._now_s = deeds.look(seen), now_s
        return following.take_over(memory, self._deeds, seen, settings, now_s)

    def compare(self, seen: Observation, before: Memory, decision: Decision, now_s: float) -> Memory:
        """What to remember. Hold what was decided against what the other did; `before` is what `look` gave."""
        wished = wishes.find_wishes(seen, decision, now_s)
        turn = matching.Turn(self._deeds, wished, self._reluctance, self._theirs, self._silence, now_s)
        self._book, found = matching.settle(self._book, turn, self._window_s)
        self._tell(found)
        self._reluctance = wishes.find_reluctance(decision)
        return following.follow(before, decision)

    def end(self) -> str:
        """Answer what is open, and sum up."""
        self._tell(matching.close(self._book, self._now_s))
        self._book = matching.Book()
        return summary.write(self.totals, list(self.differences), self._now_s - self._began_s)

    def _tell(self, found: tuple[verdicts.Verdict, ...]) -> None:
        for verdict in found:
            self.totals = self.totals.add(verdict)
            self._metrics.count(verdict)
            if not verdict.kind.is_agreement:
                self.differences.append(verdict)
            pairs = logs.values(direction=verdict.direction, verdict=verdict.kind, subject=verdict.subject)
            _log.info("Shadow: %s", verdict, extra=pairs)


def _note(sayings: dict[str, str], about: str, message: str) -> None:
    """Remember what was last said; of things not mentioned for the longest time, nothing."""
    sayings.pop(about, None)
    sayings[about] = message
    if len(sayings) > _SAYINGS:
        del sayings[next(iter(sayings))]
