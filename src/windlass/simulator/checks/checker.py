"""All rules together: they hear of every change, and speak up after every step."""

from collections.abc import Iterable, Iterator, Set
from typing import Protocol

from windlass.simulator.checks.bounds import Bounds
from windlass.simulator.checks.budgets import Budgets
from windlass.simulator.checks.capacity import Capacity
from windlass.simulator.checks.losses import Losses
from windlass.simulator.checks.seats import Seats
from windlass.simulator.checks.violation import Finding, Violation
from windlass.simulator.world import kinds
from windlass.simulator.world.api import Change
from windlass.simulator.world.pulse import Pulse


class Rule(Protocol):
    """Something that must hold."""

    rule: str

    def hear(self, change: Change) -> Iterator[Finding]:
        """Keep books, and say at once what can be said at once."""

    def rest(self) -> Iterator[Finding]:
        """The world has come to rest: what is wrong with it?"""


class Checker:
    """A part that only watches."""

    hears = kinds.WATCHED

    def __init__(self, pulse: Pulse, excused: Set[tuple[str, int]]) -> None:
        self._pulse = pulse
        self._rules: tuple[Rule, ...] = (Seats(), Capacity(), Bounds(excused), Budgets(), Losses())
        self.violations: list[Violation] = []
        self.steps = 0
        """How often all rules were asked."""
        pulse.after_each_step(self._rest)

    def react(self, change: Change) -> None:
        for rule in self._rules:
            self._note(rule, rule.hear(change))

    def act(self) -> bool:
        return False

    def _rest(self) -> None:
        self.steps += 1
        for rule in self._rules:
            self._note(rule, rule.rest())

    def _note(self, rule: Rule, found: Iterable[Finding]) -> None:
        for name, said in found:
            self.violations.append(Violation(round(self._pulse.now_s(), 3), rule.rule, name, said))
