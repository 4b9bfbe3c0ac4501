"""Pod classification: functions of pods evaluated once per pod template key, and node occupancy from it.

Half a million pods have a few thousand templates; the answers come back as a column over pods.
"""

from collections.abc import Callable, Hashable, Iterator

import numpy as np
import numpy.typing as npt

from windlass.engine import quarantine
from windlass.engine.drainability import context, pdb_rules, rules
from windlass.engine.model import arrays, facts, well_known
from windlass.engine.model.drainability import DrainAction
from windlass.engine.snapshot.pod_table import PodTable
from windlass.engine.snapshot.snapshot import Snapshot

EMPTY, WAITING, OCCUPIED = 0, 1, 2
"""EMPTY: no pods to move; WAITING: only pods to wait for; OCCUPIED: pods to move, or a blocking one."""

Occupancy = npt.NDArray[np.int8]
"""Int8 (n_nodes): one of the three above."""

# ── Order ────────────────────────────────────────────────────────────────────────────────────────────────────────


def find_occupancy(snapshot: Snapshot, options: context.NodeDeleteOptions, now_s: float) -> Occupancy:
    """The occupancy of each node by drain rules, without budgets and controllers."""
    about = context.DrainContext(now_s, options)
    codes = evaluate_per_template(snapshot.pods, lambda pod: _classify(pod, about), ("occupied", options))
    for row, gone_at_s in find_terminating(snapshot.pods):
        if gone_at_s < now_s:
            codes[row] = EMPTY
    occupancy = np.zeros(snapshot.nodes.count, np.int8)
    for code in (WAITING, OCCUPIED):
        occupancy[snapshot.pods.node_rows[codes == code]] = code
    return occupancy


def _classify(pod: facts.Pod, about: context.DrainContext) -> int:
    outcome = rules.check_pod(pod, about)
    action = DrainAction.DRAIN if outcome is None else outcome.action
    if action is DrainAction.WAIT:
        return WAITING
    if action is DrainAction.SKIP or (action is DrainAction.DRAIN and well_known.is_daemonset(pod)):
        return EMPTY
    return OCCUPIED


PodCodes = npt.NDArray[np.int8]
"""int8 codes; each question defines their meaning."""

TerminatingPod = tuple[int, float]
"""A pod's row, and when it counts as gone although it is still there."""


def evaluate_per_template(table: PodTable, question: Callable[[facts.Pod], int], name: Hashable) -> PodCodes:
    """Int8 (n_pods): the answer for each pod that is on a node, 0 for others. No pod is asked of as terminating.

    A question of the same name always has the same answers, but for pods of kube-system that no DaemonSet has: their
    age counts. Kinds that are left out are not asked of.
    """
    bound = np.flatnonzero(table.node_rows != arrays.ABSENT)
    template_ids = table.template_ids
    example = np.full(len(table.template_keys), arrays.ABSENT, np.intp)
    example[template_ids[bound]] = bound  # one pod represents its template
    answers = np.zeros(len(table.template_keys), np.int8)
    known = table.answers.setdefault(name, {})
    for kind_id in quarantine.drop_hidden(np.flatnonzero(example != arrays.ABSENT).tolist(), table.left_out):
        answer = known.get(kind_id)
        if answer is None:
            pod = table.fact(int(example[kind_id]), "", timeless=True)
            answer = question(pod)
            if pod.namespace != pdb_rules.SYSTEM_NAMESPACE or well_known.is_daemonset(pod):
                known[kind_id] = answer
        answers[kind_id] = answer
    codes = np.zeros(len(template_ids), np.int8)
    codes[bound] = answers[template_ids[bound]]
    return codes


def find_terminating(table: PodTable) -> Iterator[TerminatingPod]:
    """The pods on nodes that are terminating."""
    node_rows = table.node_rows
    for row, (deleted_s, _) in table.times.items():
        if deleted_s is not None and node_rows[row] != arrays.ABSENT:
            yield row, well_known.gone_at_s(deleted_s, table.template_key(row).grace_s)
