"""The rules over a snapshot's rows: pods of one kind are judged once.

All rules but three look only at what pods of one kind share (`pods.Kind`). What differs from pod to pod is whether it
is terminating, the age of a system pod, and which budgets are charged for it, by its labels and its health. So the
shared opinion is kept by kind, the budget rule, which comes last, is asked pod by pod, and the few pods that are
terminating or whose age decides are put together and judged one by one. A node of which all pods may go, no budget
covering them, is judged by the kinds that it runs. On nodes whose Machines MachineDrainRules select, pods of one kind
share an opinion if they have the same labels and their nodes the same rules. The outcomes are those of `rules.judge`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine import disruption, dtypes, facts, pod_traits
from windlass.engine.drain import budget, rules, system
from windlass.engine.drain.context import Context
from windlass.engine.drain.outcome import Action, Outcome
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

    is_ordinary: bool
    """Nothing but its budgets can ever have an opinion on such a pod, unless it is terminating."""
    ends_with_node: bool
    """A DaemonSet's, and nothing holds it, unless it is terminating."""


class Judge:
    """Opinions on the rows of one pod table in one context; to be made anew when either changes.

    Budgets are an exception: what is spent of them, or given back, counts at once.
    """

    def __init__(self, table: PodTable, context: Context) -> None:
        self._table = table
        self._context = context
        self._without_budgets = replace(context, budgets=disruption.Remaining())
        self._kind_ids = table.kind_ids
        self._terminating = {row for row, (deleted_s, _) in table.times.items() if deleted_s is not None}
        self._kinds: dict[int, _Shared] = {}
        self._ruled: dict[tuple[int, int, tuple[str, ...]], _Shared] = {}
        """Of pods on nodes that have MachineDrainRules: by the identity of these, kind and labels."""
        self._ruled_nodes = context.drain_rules.names
        self._budgets: dict[int, disruption.Positions] = {}
        self._is_known = np.zeros(len(table.kinds), bool)
        """Bool (n_kinds): pods of the kind were asked about."""
        self._is_free = np.zeros(len(table.kinds), bool)
        """Bool (n_kinds): nothing at all can have an opinion on pods of the kind, as is known, unless terminating."""

    def pods_to_move(self, rows: Sequence[int]) -> rules.Moves[int]:
        """What becomes of the pods in these rows, in their order, up to the first that blocks."""
        return rules.Moves(tuple(rows)) if self.are_free(np.array(rows, np.intp)) else self.sort_out(rows)

    def sort_out(self, rows: Sequence[int]) -> rules.Moves[int]:
        """The same of pods on which something may have an opinion."""
        if not self._terminating or self._terminating.isdisjoint(rows):
            moves = self._sort_out_usual(rows)
            if moves is not None:
                return moves
        return rules.sort_out(rows, self.judge, self.is_daemonset)

    def _sort_out_usual(self, rows: Sequence[int]) -> rules.Moves[int] | None:
        """None where rules must decide: there is more than pods that nothing holds and those of DaemonSets."""
        move: list[int] = []
        daemonset_pods: list[int] = []
        exhausted = self._context.budgets.exhausted
        for row in rows:
            shared = self._share(row)
            if shared.is_ordinary and exhausted(self.budgets(row)) is None:
                move.append(row)
            elif shared.ends_with_node:
                daemonset_pods.append(row)
            else:
                return None
        return rules.Moves(tuple(move), tuple(daemonset_pods))

    def are_free(self, rows: dtypes.Rows) -> bool:
        """Can nothing at all have an opinion on these pods? Asked of their kinds."""
        if self._terminating and not self._terminating.isdisjoint(rows.tolist()):
            return False
        if self._ruled_nodes and not self._ruled_nodes.keys().isdisjoint(self._table.node_rows[rows].tolist()):
            return False
        kind_ids = self._table.kind_ids[rows]
        if self._is_free[kind_ids].all():
            return True
        if self._is_known[kind_ids].all():
            return False
        for row in dict(zip(kind_ids.tolist(), rows.tolist(), strict=True)).values():
            self._share(row)
        return bool(self._is_free[kind_ids].all())

    def judge(self, row: int) -> Outcome | None:
        """The first opinion on the pod in a row. None where no rule has one: the pod may go."""
        shared = self._share(row)
        if not shared.is_settled or row in self._terminating:
            return rules.judge(self._table.fact(row, self._find_ruled_node(row)), self._context)
        if shared.outcome is not None or shared.visible is None:
            return shared.outcome
        health = self._table.health.get(row, facts.Health.READY)
        return budget.judge(self.budgets(row), self._context, health)

    def is_daemonset(self, row: int) -> bool:
        return self._share(row).is_daemonset

    def claims(self, rows: Sequence[int]) -> list[disruption.Positions]:
        """What these pods claim of budgets, pods that no budget covers left out."""
        if not self._context.budgets.budgets:
            return []
        return [positions for row in rows if (positions := self.budgets(row))]

    def budgets(self, row: int) -> disruption.Positions:
        """The budgets that are charged if the pod is evicted, for `Remaining.can_spend` and `Remaining.spend`."""
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
        covering = self._context.budgets.matching_seen(shared.namespace, seen)
        health = self._table.health.get(row, facts.Health.READY)
        return self._context.budgets.charged(covering, health, row in self._terminating)

    def _find_ruled_node(self, row: int) -> str:
        """The pod's node, if it has MachineDrainRules; empty otherwise."""
        return self._ruled_nodes.get(int(self._table.node_rows[row]), "") if self._ruled_nodes else ""

    def _share(self, row: int) -> _Shared:
        if node := self._find_ruled_node(row):
            return self._share_ruled(row, node)
        kind = int(self._kind_ids[row])
        shared = self._kinds.get(kind)
        if shared is None:
            shared = self._kinds[kind] = self._judge_kind(self._table.fact(row, ""))
            self._is_known[kind] = True
            self._is_free[kind] = shared.is_ordinary and shared.visible is None
        return shared

    def _share_ruled(self, row: int, node: str) -> _Shared:
        about = id(self._context.drain_rules.on_node(node)), int(self._kind_ids[row]), self._table.labels[row]
        shared = self._ruled.get(about)
        if shared is None:
            shared = self._ruled[about] = self._judge_kind(self._table.fact(row, node))
        return shared

    def _judge_kind(self, pod: facts.Pod) -> _Shared:
        outcome = rules.judge(replace(pod, deleted_s=None), self._without_budgets)
        is_settled = outcome is None or outcome.rule != system.RULE
        is_daemonset = pod_traits.is_daemonset(pod)
        return _Shared(
            outcome,
            is_settled,
            is_daemonset,
            pod.namespace,
            self._context.budgets.visible(pod.namespace),
            is_ordinary=outcome is None and is_settled and not is_daemonset,
            ends_with_node=outcome is not None and outcome.action is Action.DRAIN and is_settled and is_daemonset,
        )
