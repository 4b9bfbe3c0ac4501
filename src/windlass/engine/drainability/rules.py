"""Drain rules in order, for one pod and for the pod rows of a snapshot. The first rule that returns a status counts.

Over a snapshot, rules are evaluated once per pod template key. What differs between pods of one template is evaluated
per pod: termination, the age of system pods, the budgets charged (labels and health), and MachineDrainRules of the
node.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine.drainability import (
    eviction_annotations,
    local_storage,
    machine_drain,
    pdb,
    pdb_rules,
    pod_status,
    replicated,
)
from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import arrays, drainability, facts, well_known
from windlass.engine.model.drainability import DrainabilityStatus, DrainAction
from windlass.engine.snapshot.pod_table import PodTable

DrainabilityRule = Callable[[facts.Pod, DrainContext], DrainabilityStatus | None]

RULES: tuple[DrainabilityRule, ...] = (
    # Blocks a node with any pod at all, as Cluster API's drain of it fails.
    machine_drain.check_unreadable_drain_rules,  # which MachineDrainRules hold for the node is not known
    # Not there to be drained.
    pod_status.check_mirror,  # the kubelet's own copy of a static pod: skipped
    pod_status.check_long_terminating,  # should long be gone: skipped
    # Blocks before anything may allow: a pod that nothing recreates is not moved even if it is marked as safe.
    pod_status.check_unreadable,  # runs, and nobody knows what it needs
    replicated.check_replica_count,  # its controller is gone, or wants too few replicas
    eviction_annotations.check_do_not_disrupt,  # the user says so, in Karpenter's words
    # Allow, or wait: the pod may go whatever the rules below would say.
    pod_status.check_daemonset,  # ends with the node
    machine_drain.check_drain_label,  # the user says so, in Cluster API's words: ends with the node, or is waited for
    machine_drain.check_machine_drain_rule,  # the same, said of Machines and pods in the management cluster
    eviction_annotations.check_safe_to_evict,  # the user says so
    pod_status.check_terminal,  # has ended already
    eviction_annotations.check_on_completion,  # the user asks to let it finish
    # Block.
    replicated.check_replicated,  # nothing would start it again
    pdb_rules.check_system,  # kube-system without a budget, and young; an old one may go, past the rules below
    eviction_annotations.check_not_safe_to_evict,  # the user says so
    local_storage.check_local_storage,  # data would be lost
    pdb_rules.check_pdb,  # no disruption is allowed now
)


def check_pod(pod: facts.Pod, context: DrainContext) -> DrainabilityStatus | None:
    """The first opinion on a pod. None where no rule has one: the pod may go."""
    for decide in RULES:
        outcome = decide(pod, context)
        if outcome is not None:
            return outcome
    return None


def classify_pods(
    items: Iterable[drainability.Item],
    opinion: Callable[[drainability.Item], DrainabilityStatus | None],
    is_daemonset: Callable[[drainability.Item], bool],
) -> drainability.PodsToMove[drainability.Item]:
    """What becomes of these, given the first opinion on each."""
    move: list[drainability.Item] = []
    daemonset_pods: list[drainability.Item] = []
    on_completion_pods: list[drainability.Item] = []
    blocking = None
    for item in items:
        outcome = opinion(item)
        if outcome is None or outcome.action is DrainAction.DRAIN:
            (daemonset_pods if is_daemonset(item) else move).append(item)
        elif outcome.action is DrainAction.WAIT:
            on_completion_pods.append(item)
        elif outcome.action is DrainAction.BLOCK:
            blocking = drainability.BlockingPod(item, outcome)
            break
    return drainability.PodsToMove(tuple(move), tuple(daemonset_pods), tuple(on_completion_pods), blocking)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What holds for every pod of a kind."""

    outcome: DrainabilityStatus | None
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


class PodDrainability:
    """Opinions on the rows of one pod table in one context; to be made anew when either changes.

    Budgets are an exception: what is spent of them, or given back, counts at once.
    """

    def __init__(self, table: PodTable, context: DrainContext) -> None:
        self._table = table
        self._context = context
        self._without_budgets = replace(context, budgets=pdb.RemainingPdbTracker())
        self._kind_ids = table.template_ids
        self._terminating = {row for row, (deleted_s, _) in table.times.items() if deleted_s is not None}
        self._kinds: dict[int, _Shared] = {}
        self._ruled: dict[tuple[int, int, tuple[str, ...]], _Shared] = {}
        """Of pods on nodes that have MachineDrainRules: by the identity of these, kind and labels."""
        self._ruled_nodes = context.drain_rules.names
        self._budgets: dict[int, pdb.PdbIndexes] = {}
        self._is_known = np.zeros(len(table.template_keys), bool)
        """Bool (n_kinds): pods of the kind were asked about."""
        self._is_free = np.zeros(len(table.template_keys), bool)
        """Bool (n_kinds): nothing at all can have an opinion on pods of the kind, as is known, unless terminating."""

    def pods_to_move(self, rows: Sequence[int]) -> drainability.PodsToMove[int]:
        """What becomes of the pods in these rows, in their order, up to the first that blocks."""
        return (
            drainability.PodsToMove(tuple(rows))
            if self.are_all_drainable(np.array(rows, np.intp))
            else self.classify(rows)
        )

    def classify(self, rows: Sequence[int]) -> drainability.PodsToMove[int]:
        """The same of pods on which something may have an opinion."""
        if not self._terminating or self._terminating.isdisjoint(rows):
            moves = self._sort_out_usual(rows)
            if moves is not None:
                return moves
        return classify_pods(rows, self.check, self.is_daemonset)

    def _sort_out_usual(self, rows: Sequence[int]) -> drainability.PodsToMove[int] | None:
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
        return drainability.PodsToMove(tuple(move), tuple(daemonset_pods))

    def are_all_drainable(self, rows: arrays.Rows) -> bool:
        """Can nothing at all have an opinion on these pods? Asked of their kinds."""
        if self._terminating and not self._terminating.isdisjoint(rows.tolist()):
            return False
        if self._ruled_nodes and not self._ruled_nodes.keys().isdisjoint(self._table.node_rows[rows].tolist()):
            return False
        kind_ids = self._table.template_ids[rows]
        if self._is_free[kind_ids].all():
            return True
        if self._is_known[kind_ids].all():
            return False
        for row in dict(zip(kind_ids.tolist(), rows.tolist(), strict=True)).values():
            self._share(row)
        return bool(self._is_free[kind_ids].all())

    def check(self, row: int) -> DrainabilityStatus | None:
        """The first opinion on the pod in a row. None where no rule has one: the pod may go."""
        shared = self._share(row)
        if not shared.is_settled or row in self._terminating:
            return check_pod(self._table.fact(row, self._find_ruled_node(row)), self._context)
        if shared.outcome is not None or shared.visible is None:
            return shared.outcome
        health = self._table.health.get(row, facts.PodHealth.READY)
        return pdb_rules.check_pdb_indexes(self.budgets(row), self._context, health)

    def is_daemonset(self, row: int) -> bool:
        return self._share(row).is_daemonset

    def charged_budgets(self, rows: Sequence[int]) -> list[pdb.PdbIndexes]:
        """What these pods claim of budgets, pods that no budget covers left out."""
        if not self._context.budgets.budgets:
            return []
        return [positions for row in rows if (positions := self.budgets(row))]

    def budgets(self, row: int) -> pdb.PdbIndexes:
        """The budgets that are charged if the pod is evicted, for `Remaining.can_spend` and `Remaining.spend`."""
        found = self._budgets.get(row)
        if found is None:
            found = self._budgets[row] = self._find_budgets(row)
        return found

    def _find_budgets(self, row: int) -> pdb.PdbIndexes:
        shared = self._share(row)
        if shared.visible is None:
            return ()
        flat = self._table.labels[row]
        keys = flat[::2]
        seen = tuple([flat[2 * keys.index(key) + 1] if key in keys else None for key in shared.visible])
        covering = self._context.budgets.matching_visible(shared.namespace, seen)
        health = self._table.health.get(row, facts.PodHealth.READY)
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
        outcome = check_pod(replace(pod, deleted_s=None), self._without_budgets)
        is_settled = outcome is None or outcome.rule != pdb_rules.SYSTEM_RULE
        is_daemonset = well_known.is_daemonset(pod)
        return _Shared(
            outcome,
            is_settled,
            is_daemonset,
            pod.namespace,
            self._context.budgets.visible(pod.namespace),
            is_ordinary=outcome is None and is_settled and not is_daemonset,
            ends_with_node=outcome is not None and outcome.action is DrainAction.DRAIN and is_settled and is_daemonset,
        )
