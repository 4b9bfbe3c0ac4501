"""The outcome: what became of a plan, as facts for the next observation and for whoever reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.engine import facts, plan


@dataclass(frozen=True, slots=True)
class Outcome:
    """Every instruction of the plan is in exactly one of the first two."""

    done: tuple[plan.Instruction, ...] = ()
    """In the order in which they were completed. What was so already counts as done."""
    failed: Mapping[plan.Instruction, str] = field(default_factory=dict)
    """And what was said."""
    refused: Mapping[str, facts.InstanceError] = field(default_factory=dict)
    """Groups that could not be raised, among those that failed: why."""
