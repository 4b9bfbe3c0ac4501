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


YES = Answer(can=True, parallel=True)


class _Namespace:
    """The budgets of one namespace: positions by selector, and the answers given so far."""

    __slots__ = ("_anchored", "_answers", "_loose", "_selectors", "_visible")

    def __init__(self, selectors: Mapping[int, LabelSelector]) -> None:
        self._selectors = selectors
        self._visible = sorted({key for selector in selectors.values() for key in selector.keys})
        self._anchored: dict[tuple[str, str], list[int]] = {}
        self._loose: list[int] = []
        self._answers: dict[tuple[str | None, ...], tuple[int, ...]] = {}
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

    def matching(self, labels: Mapping[str, str]) -> tuple[int, ...]:
        seen = tuple([labels.get(key) for key in self._visible])
        answer = self._answers.get(seen)
        if answer is None:
            answer = self._answers[seen] = self._match(labels)
        return answer

    def _match(self, labels: Mapping[str, str]) -> tuple[int, ...]:
        candidates = list(self._loose)
        for key in self._visible:
            if key in labels:
                candidates += self._anchored.get((key, labels[key]), ())
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

    def matching(self, pod: facts.Pod) -> tuple[int, ...]:
        """Positions of the budgets that the pod counts against, ascending."""
        namespace = self._namespaces.get(pod.namespace)
        return () if namespace is None else namespace.matching(pod.labels)

    def exhausted(self, pod: facts.Pod) -> facts.PodDisruptionBudget | None:
        """The first of the pod's budgets that allows no disruption any more."""
        for position in self.matching(pod):
            if self._allowed[position] < 1:
                return self.budgets[position]
        return None

    def can_remove(self, pods: Sequence[facts.Pod]) -> Answer:
        """May these pods go? One by one needs something left in each of their budgets, at once enough for all."""
        claims: dict[int, list[facts.Pod]] = {}
        for pod in pods:
            for position in self.matching(pod):
                claims.setdefault(position, []).append(pod)
        answer = YES
        for position in sorted(claims):
            left, claimants = self._allowed[position], claims[position]
            if left < 1:
                return Answer(can=False, parallel=False, blocking=claimants[0], budget=self.budgets[position])
            if left < len(claimants):
                answer = Answer(can=True, parallel=False, blocking=claimants[-1], budget=self.budgets[position])
        return answer

    def remove(self, pods: Iterable[facts.Pod]) -> None:
        """Count these pods as gone."""
        for pod in pods:
            for position in self.matching(pod):
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
