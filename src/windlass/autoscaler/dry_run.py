"""A dry run: decide and report, and change nothing. What was decided is remembered as far as it was found out."""

from windlass.autoscaler.shadow import following
from windlass.engine.decide import Decision
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings


class DryRun:
    """A bystander who compares with nobody."""

    def look(self, seen: Observation, memory: Memory, settings: Settings, now_s: float) -> Memory:
        """What to decide with: nobody acted meanwhile."""
        return memory

    def compare(self, seen: Observation, before: Memory, decision: Decision, now_s: float) -> Memory:
        """What to remember: what was seen, and nothing that was wanted."""
        return following.follow(before, decision)
