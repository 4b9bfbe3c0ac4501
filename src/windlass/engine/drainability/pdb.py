"""PodDisruptionBudget tracker: disruptions left while node removals are simulated one after another.

Counts go down as removals are committed, so two nodes do not use the same disruption. Undo replays a log: its cost is
what was consumed, not the size of the cluster.

The budgets of a pod depend on its namespace and on the labels that selectors of that namespace use; the answer is
cached for each combination of these.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NewType

from windlass.engine.model import facts
from windlass.selectors import LabelSelector, Operator

PdbIndexes = tuple[int, ...]
"""Budgets by their place in `Remaining.budgets`."""

VisibleLabels = tuple[str | None, ...]
"""A pod's values of the labels that budgets of its namespace look at (`Remaining.visible`); None where it has none."""

Mark = NewType("Mark", int)
"""A place in the log of what was taken; `Remaining.undo` goes back to it."""


@dataclass(frozen=True, slots=True)
class DisruptionCheck:
    """May these pods go, all at once, and if not, which of them (`blocking`) met which exhausted budget (`position`)?

    Where `can` holds but `parallel` does not, the pods may go one after another, as budgets recover; `blocking` is
    then the last pod that did not fit into the last budget that was too small.
    """

    can: bool
    parallel: bool
    blocking: int | None = None
    position: int | None = None


DISRUPTIONS_ALLOWED = DisruptionCheck(can=True, parallel=True)


class _NamespaceBudgets:
    """The budgets of one namespace: positions by selector, and the answers given so far."""

    __slots__ = ("_anchored", "_answers", "_loose", "_selectors", "visible")

    def __init__(self, selectors: Mapping[int, LabelSelector]) -> None:
        self._selectors = selectors
        self.visible = tuple(sorted({key for selector in selectors.values() for key in selector.keys}))
        self._anchored: dict[tuple[str, str], list[int]] = {}
        self._loose: list[int] = []
        self._answers: dict[VisibleLabels, PdbIndexes] = {}
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

    def matching(self, visible_labels: VisibleLabels) -> PdbIndexes:
        answer = self._answers.get(visible_labels)
        if answer is None:
            labels = {key: value for key, value in zip(self.visible, visible_labels, strict=True) if value is not None}
            answer = self._answers[visible_labels] = self._match(labels)
        return answer

    def _match(self, labels: Mapping[str, str]) -> PdbIndexes:
        candidates = list(self._loose)
        for label in labels.items():
            candidates += self._anchored.get(label, ())
        return tuple(sorted(p for p in candidates if self._selectors[p].matches(labels)))


class RemainingPdbTracker:
    """Remaining disruptions of each budget. Counts may fall below zero: callers check `exhausted` first."""

    __slots__ = ("_allowed", "_log", "_namespaces", "budgets", "foresees_refusals", "spares_unhealthy")

    def __init__(
        self,
        budgets: Iterable[facts.PodDisruptionBudget] = (),
        foresees_refusals: bool = False,
        spares_unhealthy: bool = False,
    ) -> None:
        self.budgets = tuple(budgets)
        self.foresees_refusals = foresees_refusals
        """What the API refuses whatever a budget allows cannot go: a pod that several budgets cover, or a stale one."""
        self.spares_unhealthy = spares_unhealthy
        """Budgets are charged for the pods that the API charges them for (`charged`), not for all that they cover."""
        self._allowed = [0 if self.is_refusing(budget) else budget.disruptions_allowed for budget in self.budgets]
        self._log: list[int] = []
        by_namespace: dict[str, dict[int, LabelSelector]] = {}
        for position, budget in enumerate(self.budgets):
            if budget.selector is not None:  # none selects no pod; an empty one would select them all
                by_namespace.setdefault(budget.namespace, {})[position] = budget.selector
        self._namespaces = {name: _NamespaceBudgets(selectors) for name, selectors in by_namespace.items()}

    @property
    def allowed(self) -> tuple[int, ...]:
        """Disruptions left, in the order of `budgets`."""
        return tuple(self._allowed)

    def visible(self, namespace: str) -> tuple[str, ...] | None:
        """The labels that budgets of the namespace look at; None where no budget of it selects any pod."""
        namespace_budgets = self._namespaces.get(namespace)
        return None if namespace_budgets is None else namespace_budgets.visible

    def matching(self, namespace: str, labels: Mapping[str, str]) -> PdbIndexes:
        """The budgets that a pod with these labels counts against, ascending."""
        namespace_budgets = self._namespaces.get(namespace)
        return (
            ()
            if namespace_budgets is None
            else namespace_budgets.matching(tuple([labels.get(key) for key in namespace_budgets.visible]))
        )

    def matching_visible(self, namespace: str, visible_labels: VisibleLabels) -> PdbIndexes:
        """The same of a pod of which only the visible labels are known."""
        return self._namespaces[namespace].matching(visible_labels)

    def charged(self, positions: PdbIndexes, health: facts.PodHealth, is_terminating: bool = False) -> PdbIndexes:
        """Those of the budgets covering a pod that apply to its eviction, and are charged for it.

        As the eviction API has it: none for a pod that is terminating or has not started. One that runs and is not
        Ready is not charged to a budget that lets such pods go; where several cover it, the API refuses before.
        """
        if not positions or not self.spares_unhealthy:
            return positions
        if is_terminating or health is facts.PodHealth.NOT_STARTED:
            return ()
        is_spared = health is facts.PodHealth.UNREADY and len(positions) == 1
        return () if is_spared and self.budgets[positions[0]].allows_unhealthy else positions

    def charged_for(self, pod: facts.Pod) -> PdbIndexes:
        """The same, of all budgets that cover the pod."""
        return self.charged(self.matching(pod.namespace, pod.labels), pod.health, pod.is_terminating)

    def exhausted(self, positions: PdbIndexes) -> facts.PodDisruptionBudget | None:
        """The first of these budgets that allows no disruption any more; the last, where there are too many."""
        for position in positions:
            if self._allowed[position] < 1:
                return self.budgets[position]
        return self.budgets[positions[-1]] if self.are_too_many(positions) else None

    def is_refusing(self, budget: facts.PodDisruptionBudget) -> bool:
        """Does the API refuse evictions that are charged to the budget, because its status is older than its spec?"""
        return self.foresees_refusals and budget.is_stale

    def are_too_many(self, positions: PdbIndexes) -> bool:
        """Does the API refuse to evict a pod that these budgets cover, however much they allow?"""
        return self.foresees_refusals and len(positions) > 1

    def can_disrupt(self, claims: Iterable[PdbIndexes]) -> DisruptionCheck:
        """May pods go that count against these budgets? One by one needs something left in each, at once enough."""
        claimants: dict[int, list[int]] = {}
        for number, positions in enumerate(claims):
            for position in positions:
                claimants.setdefault(position, []).append(number)
        answer = DISRUPTIONS_ALLOWED
        for position in sorted(claimants):
            remaining, numbers = self._allowed[position], claimants[position]
            if remaining < 1:
                return DisruptionCheck(False, False, numbers[0], position)
            if remaining < len(numbers):
                answer = DisruptionCheck(True, False, numbers[-1], position)
        return answer

    def consume_for_pods(self, pods: Iterable[facts.Pod]) -> None:
        """Count these pods as gone."""
        self.consume(map(self.charged_for, pods))

    def consume(self, claims: Iterable[PdbIndexes]) -> None:
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

    def fork(self) -> "RemainingPdbTracker":
        """The same counts, to be spent on their own. Costs a list of numbers; matching is shared."""
        other = RemainingPdbTracker.__new__(RemainingPdbTracker)
        other.budgets, other._namespaces, other.foresees_refusals = (
            self.budgets,
            self._namespaces,
            self.foresees_refusals,
        )
        other.spares_unhealthy = self.spares_unhealthy
        other._allowed, other._log = list(self._allowed), []
        return other
