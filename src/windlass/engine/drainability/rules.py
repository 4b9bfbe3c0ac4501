"""Drain rules in order, for one pod and for the pod rows of a snapshot. The first rule that returns a status counts.

Over a snapshot, rules are evaluated once per pod template key. What differs between pods of one template is evaluated
per pod: termination, the age of system pods, the budgets charged (labels and health), and MachineDrainRules of the
node.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windlass.engine.drainability import (
    local_storage,
    machine_drain,
    pdb,
    pdb_rules,
    pod_status,
    replicated,
    safe_to_evict,
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
    pod_status.check_unreadable,  # runs, but its requirements could not be read
    replicated.check_replica_count,  # its controller does not exist, or has too few replicas
    safe_to_evict.check_do_not_disrupt,  # Karpenter's annotation
    # Allow, or wait: rules below are not evaluated.
    pod_status.check_daemonset,  # ends with the node
    machine_drain.check_drain_label,  # Cluster API's label: skip, or wait for completion
    machine_drain.check_machine_drain_rule,  # the same from MachineDrainRules of the management cluster
    safe_to_evict.check_safe_to_evict,  # annotation safe-to-evict=true
    pod_status.check_terminal,  # has ended already
    safe_to_evict.check_on_completion,  # annotation safe-to-evict=on-completion
    # Block.
    replicated.check_replicated,  # nothing would start it again
    pdb_rules.check_system,  # kube-system without a budget, and young; an old one may go, past the rules below
    safe_to_evict.check_not_safe_to_evict,  # annotation safe-to-evict=false
    local_storage.check_local_storage,  # data would be lost
    pdb_rules.check_pdb,  # no disruption is allowed now
)


def check_pod(pod: facts.Pod, context: DrainContext) -> DrainabilityStatus | None:
    """The first status that a rule returns for the pod. None if no rule does: the pod may be evicted."""
    for check in RULES:
        status = check(pod, context)
        if status is not None:
            return status
    return None


def classify_pods(
    items: Iterable[drainability.Item],
    check: Callable[[drainability.Item], DrainabilityStatus | None],
    is_daemonset: Callable[[drainability.Item], bool],
) -> drainability.PodsToMove[drainability.Item]:
    """Sort pods by the action of their status, up to the first that blocks."""
    move: list[drainability.Item] = []
    daemonset_pods: list[drainability.Item] = []
    on_completion_pods: list[drainability.Item] = []
    blocking = None
    for item in items:
        outcome = check(item)
        if outcome is None or outcome.action is DrainAction.DRAIN:
            (daemonset_pods if is_daemonset(item) else move).append(item)
        elif outcome.action is DrainAction.WAIT:
            on_completion_pods.append(item)
        elif outcome.blocks:
            blocking = drainability.BlockingPod(item, outcome)
            break
    return drainability.PodsToMove(tuple(move), tuple(daemonset_pods), tuple(on_completion_pods), blocking)


@dataclass(frozen=True, slots=True)
class _TemplateStatus:
    """The status shared by all pods of one template."""

    outcome: DrainabilityStatus | None
    """Of all rules except budgets; not valid for terminating pods."""
    is_settled: bool
    """The status does not depend on the pod's age."""
    is_daemonset: bool
    namespace: str
    visible: tuple[str, ...] | None
    """Label keys that budgets select on; None if no budget selects pods of the namespace."""

    is_ordinary: bool
    """Only budgets can block such a pod, unless it is terminating."""
    ends_with_node: bool
    """A DaemonSet pod that no rule blocks, unless it is terminating."""


class PodDrainability:
    """Drainability of the rows of one pod table in one context; to be rebuilt when either changes.

    Budgets are read on every check, so charges and releases take effect at once.
    """

    def __init__(self, table: PodTable, context: DrainContext) -> None:
        self._table = table
        self._context = context
        self._without_budgets = replace(context, budgets=pdb.RemainingPdbTracker())
        self._template_ids = table.template_ids
        self._terminating = {row for row, (deleted_s, _) in table.times.items() if deleted_s is not None}
        self._statuses: dict[int, _TemplateStatus] = {}
        self._ruled: dict[tuple[int, int, tuple[str, ...]], _TemplateStatus] = {}
        """Of pods on nodes that have MachineDrainRules: by identity of the rules, template and labels."""
        self._ruled_nodes = context.drain_rules.names
        self._budgets: dict[int, pdb.PdbIndexes] = {}
        self._is_known = np.zeros(len(table.template_keys), bool)
        """Bool (n_templates): the status of the template was computed."""
        self._is_free = np.zeros(len(table.template_keys), bool)
        """Bool (n_templates): computed, and no rule or budget can block a pod of it unless it is terminating."""

    def pods_to_move(self, rows: Sequence[int]) -> drainability.PodsToMove[int]:
        """Sort the pods in these rows by action, in their order, up to the first that blocks."""
        return (
            drainability.PodsToMove(tuple(rows))
            if self.are_all_drainable(np.array(rows, np.intp))
            else self.classify(rows)
        )

    def classify(self, rows: Sequence[int]) -> drainability.PodsToMove[int]:
        """The same for pods that a rule or budget may block."""
        if not self._terminating or self._terminating.isdisjoint(rows):
            moves = self._classify_ordinary(rows)
            if moves is not None:
                return moves
        return classify_pods(rows, self.check, self.is_daemonset)

    def _classify_ordinary(self, rows: Sequence[int]) -> drainability.PodsToMove[int] | None:
        """Fast path: ordinary and DaemonSet pods only. None if another pod is among them, and rules must decide."""
        move: list[int] = []
        daemonset_pods: list[int] = []
        exhausted = self._context.budgets.exhausted
        for row in rows:
            shared = self._read_status(row)
            if shared.is_ordinary and exhausted(self.budgets(row)) is None:
                move.append(row)
            elif shared.ends_with_node:
                daemonset_pods.append(row)
            else:
                return None
        return drainability.PodsToMove(tuple(move), tuple(daemonset_pods))

    def are_all_drainable(self, rows: arrays.Rows) -> bool:
        """Whether no rule or budget can block any of these pods, evaluated per template."""
        if self._terminating and not self._terminating.isdisjoint(rows.tolist()):
            return False
        if self._ruled_nodes and not self._ruled_nodes.keys().isdisjoint(self._table.node_rows[rows].tolist()):
            return False
        template_ids = self._table.template_ids[rows]
        if self._is_free[template_ids].all():
            return True
        if self._is_known[template_ids].all():
            return False
        for row in dict(zip(template_ids.tolist(), rows.tolist(), strict=True)).values():
            self._read_status(row)
        return bool(self._is_free[template_ids].all())

    def check(self, row: int) -> DrainabilityStatus | None:
        """The first status that a rule returns for the pod in a row. None if no rule does: the pod may be evicted."""
        shared = self._read_status(row)
        if not shared.is_settled or row in self._terminating:
            return check_pod(self._table.fact(row, self._find_ruled_node(row)), self._context)
        if shared.outcome is not None or shared.visible is None:
            return shared.outcome
        health = self._table.health.get(row, facts.PodHealth.READY)
        return pdb_rules.check_pdb_indexes(self.budgets(row), self._context, health)

    def is_daemonset(self, row: int) -> bool:
        return self._read_status(row).is_daemonset

    def charged_budgets(self, rows: Sequence[int]) -> list[pdb.PdbIndexes]:
        """The budgets charged for each of these pods; pods without a budget are omitted."""
        if not self._context.budgets.budgets:
            return []
        return [positions for row in rows if (positions := self.budgets(row))]

    def budgets(self, row: int) -> pdb.PdbIndexes:
        """The budgets charged if the pod is evicted, as positions in `RemainingPdbTracker.budgets`."""
        indexes = self._budgets.get(row)
        if indexes is None:
            indexes = self._budgets[row] = self._find_budgets(row)
        return indexes

    def _find_budgets(self, row: int) -> pdb.PdbIndexes:
        shared = self._read_status(row)
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

    def _read_status(self, row: int) -> _TemplateStatus:
        if node := self._find_ruled_node(row):
            return self._read_ruled_status(row, node)
        template_id = int(self._template_ids[row])
        shared = self._statuses.get(template_id)
        if shared is None:
            shared = self._statuses[template_id] = self._evaluate_template(self._table.fact(row, ""))
            self._is_known[template_id] = True
            self._is_free[template_id] = shared.is_ordinary and shared.visible is None
        return shared

    def _read_ruled_status(self, row: int, node: str) -> _TemplateStatus:
        key = id(self._context.drain_rules.on_node(node)), int(self._template_ids[row]), self._table.labels[row]
        shared = self._ruled.get(key)
        if shared is None:
            shared = self._ruled[key] = self._evaluate_template(self._table.fact(row, node))
        return shared

    def _evaluate_template(self, pod: facts.Pod) -> _TemplateStatus:
        outcome = check_pod(replace(pod, deleted_s=None), self._without_budgets)
        is_settled = outcome is None or outcome.rule != pdb_rules.SYSTEM_RULE
        is_daemonset = well_known.is_daemonset(pod)
        return _TemplateStatus(
            outcome,
            is_settled,
            is_daemonset,
            pod.namespace,
            self._context.budgets.visible(pod.namespace),
            is_ordinary=outcome is None and is_settled and not is_daemonset,
            ends_with_node=outcome is not None and outcome.action is DrainAction.DRAIN and is_settled and is_daemonset,
        )
