"""The rules over a snapshot's rows: pods of one kind are judged once.

All rules but three look only at what pods of one kind share (`pods.Kind`). What differs from pod to pod is whether it
is terminating, the age of a system pod, and which budgets cover its labels. So the shared opinion is kept by kind, the
budget rule, which comes last, is asked pod by pod, and the few pods that are terminating or whose age decides are put
together and judged one by one. A node of which all pods may go, no budget covering them, is judged by the kinds that
it runs. The outcomes are those of `rules.judge`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine import disruption, dtypes, facts, pod_traits
from windlass.engine.drain import budget, rules, system
from windlass.engine.drain.context import Context
from windlass.engine.drain.outcome import Outcome
from windlass.engine.pods import PodTable


@dataclass(frozen=True, slots=True)
class _Shared:
    """What holds for every pod of a kind."""

    outcome: Outcome | None
    """Of all rules but the budget's; means nothing for pods that are terminating."""
    is_settled: bool
    """The outcome does not depend on how old the pod is."""
    is_daemonset: bool
    namespace: str
    visible: tuple[str, ...] | None
    """The labels that budgets look at; None where no budget selects pods of the namespace."""

    @property
    def is_ordinary(self) -> bool:
        """Nothing but its budgets can ever have an opinion on such a pod, unless it is terminating."""
        return self.outcome is None and self.is_settled and not self.is_daemonset


class Judge:
    """Opinions on the rows of one pod table in one context; to be made anew when either changes.

    Budgets are an exception: what is spent of them, or given back, counts at once.
    """

    def __init__(self, table: PodTable, context: Context) -> None:
        self._table = table
        self._context = context
        self._without_budgets = replace(context, budgets=disruption.Remaining())
        self._kind_ids = table.kind_ids.tolist()
        self._terminating = {row for row, (deleted_s, _) in table.times.items() if deleted_s is not None}
        self._kinds: dict[int, _Shared] = {}
        self._budgets: dict[int, disruption.Positions] = {}
        self._ordinary: dict[int, disruption.Positions | None] = {}
        self._is_free = np.zeros(len(table.kinds), bool)
        """Bool (n_kinds): nothing at all can have an opinion on pods of the kind, as is known, unless terminating."""

    def pods_to_move(self, rows: Sequence[int]) -> rules.Moves[int]:
        """What becomes of the pods in these rows, in their order, up to the first that blocks."""
        if self.are_free(np.array(rows, np.intp)):
            return rules.Moves(tuple(rows))
        exhausted: dict[disruption.Positions, Outcome | None] = {}  # nothing is spent while one node is looked at
        move: list[int] = []
        for row in rows:
            positions = self._ordinary.get(row) if row in self._ordinary else self._learn(row)
            if positions is None:
                break  # something else than a budget may have a say: the rules decide, from the first pod on
            if positions and positions not in exhausted:
                exhausted[positions] = budget.judge(positions, self._context)
            if positions and exhausted[positions] is not None:
                break
            move.append(row)
        else:
            return rules.Moves(tuple(move))
        return rules.sort_out(rows, self.judge, self.is_daemonset)

    def are_free(self, rows: dtypes.Rows) -> bool:
        """Can nothing at all have an opinion on these pods? Asked of their kinds."""
        if self._terminating and not self._terminating.isdisjoint(rows.tolist()):
            return False
        kind_ids = self._table.kind_ids[rows]
        if self._is_free[kind_ids].all():
            return True
        for row in dict(zip(kind_ids.tolist(), rows.tolist(), strict=True)).values():
            self._share(row)
        return bool(self._is_free[kind_ids].all())

    def _learn(self, row: int) -> disruption.Positions | None:
        """The budgets of an ordinary pod; None for others."""
        is_ordinary = self._share(row).is_ordinary and row not in self._terminating
        self._ordinary[row] = self.budgets(row) if is_ordinary else None
        return self._ordinary[row]

    def judge(self, row: int) -> Outcome | None:
        """The first opinion on the pod in a row. None where no rule has one: the pod may go."""
        shared = self._share(row)
        if not shared.is_settled or row in self._terminating:
            return rules.judge(self._table.fact(row, ""), self._context)
        if shared.outcome is not None or shared.visible is None:
            return shared.outcome
        return budget.judge(self.budgets(row), self._context)

    def is_daemonset(self, row: int) -> bool:
        return self._share(row).is_daemonset

    def claims(self, rows: Sequence[int]) -> list[disruption.Positions]:
        """What these pods claim of budgets, pods that no budget covers left out."""
        if not self._context.budgets.budgets:
            return []
        return [positions for row in rows if (positions := self.budgets(row))]

    def budgets(self, row: int) -> disruption.Positions:
        """The budgets that the pod counts against, for `Remaining.can_spend` and `Remaining.spend`."""
        found = self._budgets.get(row)
        if found is None:
            found = self._budgets[row] = self._find_budgets(row)
        return found

    def _find_budgets(self, row: int) -> disruption.Positions:
        shared = self._share(row)
        if shared.visible is None:
            return ()
        flat = self._table.labels[row]
        keys = flat[::2]
        seen = tuple([flat[2 * keys.index(key) + 1] if key in keys else None for key in shared.visible])
        return self._context.budgets.matching_seen(shared.namespace, seen)

    def _share(self, row: int) -> _Shared:
        kind = self._kind_ids[row]
        shared = self._kinds.get(kind)
        if shared is None:
            shared = self._kinds[kind] = self._judge_kind(self._table.fact(row, ""))
            self._is_free[kind] = shared.is_ordinary and shared.visible is None
        return shared

    def _judge_kind(self, pod: facts.Pod) -> _Shared:
        outcome = rules.judge(replace(pod, deleted_s=None), self._without_budgets)
        return _Shared(
            outcome,
            outcome is None or outcome.rule != system.RULE,
            pod_traits.is_daemonset(pod),
            pod.namespace,
            self._context.budgets.visible(pod.namespace),
        )
