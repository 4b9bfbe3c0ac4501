"""Disruption budgets: how many pods may still go, while removals are tried one after another.

`Remaining` counts down as nodes are given up in thought, so that two nodes do not spend the same budget twice. What
a failed attempt took is given back from a log: undo costs what was taken, not what the cluster holds.

A pod's budgets depend on its namespace and on the labels that budgets of that namespace look at. Pods alike in both
share one answer, which keeps matching at a dictionary look-up per pod.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NewType

from windlass.engine import facts
from windlass.selectors import LabelSelector, Operator

Positions = tuple[int, ...]
"""Budgets by their place in `Remaining.budgets`."""

Seen = tuple[str | None, ...]
"""A pod's values of the labels that budgets of its namespace look at (`Remaining.visible`); None where it has none."""

Mark = NewType("Mark", int)
"""A place in the log of what was taken; `Remaining.undo` goes back to it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """May these pods go, all at once, and if not, which pod met which exhausted budget?

    Where `can` holds but `parallel` does not, the pods may go one after another, as budgets recover; `blocking` is
    then the last pod that did not fit into the last budget that was too small.
    """

    can: bool
    parallel: bool
    blocking: facts.Pod | None = None
    budget: facts.PodDisruptionBudget | None = None


@dataclass(frozen=True, slots=True)
class Spending:
    """An `Answer` in numbers: which of the claims met which budget."""

    can: bool
    parallel: bool
    blocking: int | None = None
    position: int | None = None


YES = Answer(can=True, parallel=True)
AFFORDABLE = Spending(can=True, parallel=True)


class _Namespace:
    """The budgets of one namespace: positions by selector, and the answers given so far."""

    __slots__ = ("_anchored", "_answers", "_loose", "_selectors", "visible")

    def __init__(self, selectors: Mapping[int, LabelSelector]) -> None:
        self._selectors = selectors
        self.visible = tuple(sorted({key for selector in selectors.values() for key in selector.keys}))
        self._anchored: dict[tuple[str, str], list[int]] = {}
        self._loose: list[int] = []
        self._answers: dict[Seen, Positions] = {}
        for position, selector in selectors.items():
            self._file(position, selector)

    def _file(self, position: int, selector: LabelSelector) -> None:
        """Under the labels that its first `In` asks for, so that a pod meets only budgets that may be its own."""
        for requirement in selector.requirements:
            if requirement.operator is Operator.IN:
                for value in set(requirement.values):
                    self._anchored.setdefault((requirement.key, value), []).append(position)
                return
        self._loose.append(position)

    def matching(self, seen: Seen) -> Positions:
        answer = self._answers.get(seen)
        if answer is None:
            labels = {key: value for key, value in zip(self.visible, seen, strict=True) if value is not None}
            answer = self._answers[seen] = self._match(labels)
        return answer

    def _match(self, labels: Mapping[str, str]) -> Positions:
        candidates = list(self._loose)
        for label in labels.items():
            candidates += self._anchored.get(label, ())
        return tuple(sorted(p for p in candidates if self._selectors[p].matches(labels)))


class Remaining:
    """What is left of each budget. Counts may fall below zero: whoever removes has asked `can_remove` before."""

    __slots__ = ("_allowed", "_log", "_namespaces", "budgets")

    def __init__(self, budgets: Iterable[facts.PodDisruptionBudget] = ()) -> None:
        self.budgets = tuple(budgets)
        self._allowed = [budget.disruptions_allowed for budget in self.budgets]
        self._log: list[int] = []
        by_namespace: dict[str, dict[int, LabelSelector]] = {}
        for position, budget in enumerate(self.budgets):
            if budget.selector is not None:  # none selects no pod; an empty one would select them all
                by_namespace.setdefault(budget.namespace, {})[position] = budget.selector
        self._namespaces = {name: _Namespace(selectors) for name, selectors in by_namespace.items()}

    @property
    def allowed(self) -> tuple[int, ...]:
        """Disruptions left, in the order of `budgets`."""
        return tuple(self._allowed)

    def visible(self, namespace: str) -> tuple[str, ...] | None:
        """The labels that budgets of the namespace look at; None where no budget of it selects any pod."""
        found = self._namespaces.get(namespace)
        return None if found is None else found.visible

    def matching(self, namespace: str, labels: Mapping[str, str]) -> Positions:
        """The budgets that a pod with these labels counts against, ascending."""
        found = self._namespaces.get(namespace)
        return () if found is None else found.matching(tuple([labels.get(key) for key in found.visible]))

    def matching_seen(self, namespace: str, seen: Seen) -> Positions:
        """The same of a pod of which only the visible labels are known."""
        return self._namespaces[namespace].matching(seen)

    def exhausted(self, positions: Positions) -> facts.PodDisruptionBudget | None:
        """The first of these budgets that allows no disruption any more."""
        for position in positions:
            if self._allowed[position] < 1:
                return self.budgets[position]
        return None

    def can_remove(self, pods: Sequence[facts.Pod]) -> Answer:
        """May these pods go? One by one needs something left in each of their budgets, at once enough for all."""
        found = self.can_spend([self.matching(pod.namespace, pod.labels) for pod in pods])
        return Answer(
            found.can,
            found.parallel,
            None if found.blocking is None else pods[found.blocking],
            None if found.position is None else self.budgets[found.position],
        )

    def can_spend(self, claims: Iterable[Positions]) -> Spending:
        """The same question about pods of which only their budgets are known."""
        claimants: dict[int, list[int]] = {}
        for number, positions in enumerate(claims):
            for position in positions:
                claimants.setdefault(position, []).append(number)
        answer = AFFORDABLE
        for position in sorted(claimants):
            left, numbers = self._allowed[position], claimants[position]
            if left < 1:
                return Spending(False, False, numbers[0], position)
            if left < len(numbers):
                answer = Spending(True, False, numbers[-1], position)
        return answer

    def remove(self, pods: Iterable[facts.Pod]) -> None:
        """Count these pods as gone."""
        self.spend(self.matching(pod.namespace, pod.labels) for pod in pods)

    def spend(self, claims: Iterable[Positions]) -> None:
        """Count pods as gone of which only their budgets are known."""
        for positions in claims:
            for position in positions:
                self._allowed[position] -= 1
                self._log.append(position)

    def mark(self) -> Mark:
        return Mark(len(self._log))

    def undo(self, mark: Mark) -> None:
        """Give back all that was taken since the mark."""
        while len(self._log) > mark:
            self._allowed[self._log.pop()] += 1

    def fork(self) -> "Remaining":
        """The same counts, to be spent on their own. Costs a list of numbers; matching is shared."""
        other = Remaining.__new__(Remaining)
        other.budgets, other._namespaces = self.budgets, self._namespaces
        other._allowed, other._log = list(self._allowed), []
        return other
