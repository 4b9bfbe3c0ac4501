"""A look: one moment of a cluster, what would be decided then, and the loop's own view of it to ask more of.

The decision is the engine's, and so is everything that it was made on: nothing of the loop is set up here.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from windlass.engine import time_limits
from windlass.engine.decide import UNTIMED, Decision, ScaleUpContext, decide, round_context, scale_up_context
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings
from windlass.engine.snapshot import Snapshot
from windlass.explain import choices


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen, remembered and chosen at one time, and what is decided on it. Nothing of it is changed."""

    seen: Observation
    """Without what cannot be evaluated."""
    memory: Memory
    """As it was before the decision."""
    settings: Settings
    now_s: float
    decision: Decision
    past: Mapping[str, choices.Past] = field(default_factory=dict)
    """Why groups grew the last time, where someone remembers."""

    @property
    def snapshot(self) -> Snapshot:
        return self.seen.snapshot

    def find_pod(self, namespace: str, name: str) -> int | None:
        """The row of a pod; None if there is none of that name."""
        table = self.snapshot.pods
        rows = (row for row, other in enumerate(table.names) if other == name)
        return next((row for row in rows if table.kind(row).namespace == namespace), None)

    def exists(self, row: int) -> bool:
        """Is it the row of a pod that exists? Those that the loop imagines come after them, and are gone."""
        return row < len(self.snapshot.pods.names)

    @contextlib.contextmanager
    def scale_up(self) -> Iterator[ScaleUpContext]:
        """What the loop decided its scale-up on, set up by the loop's own steps; gone when this ends."""
        with scale_up_context(self.seen, self.memory, self.settings, self.now_s) as context:
            yield context

    @contextlib.contextmanager
    def scale_up_round(self, number: int | None = None) -> Iterator[ScaleUpContext]:
        """What a round of the loop's scale-up was decided on, counted from 1; without a number the last round.

        What is said to a pod holds in the round that helped it, or in the last one if none did.
        """
        number = number or self._count_rounds()
        ran_out = self.decision.ran_out
        with round_context(self.seen, self.memory, self.settings, self.now_s, ran_out, number) as context:
            yield context

    def _count_rounds(self) -> int:
        """Rounds that were carried out. Those that were proposed after one that failed are not among them, nor is the
        proposal by which groups grow to their minimum, which comes last.
        """
        story = self.decision.story.scale_ups
        return max(len(story) - self.settings.scale_up.enforce_node_group_min_size, 1)


def take(
    seen: Observation, memory: Memory, settings: Settings, now_s: float, timer: time_limits.Timer = UNTIMED
) -> Look:
    """Look at a cluster: what would the loop do now? `timer`: of a loop that was recorded, where its time was up."""
    decision = decide(seen, memory, settings, now_s, timer)
    return Look(decision.evaluated, memory, settings, now_s, decision)
