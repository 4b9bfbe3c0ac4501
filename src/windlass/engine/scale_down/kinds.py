"""Pods of one kind, asked once: what rules see of a pod, but for its own times, is the same for all of its kind.

Half a million pods are a few thousand kinds; the answers come back as a column over pods.
"""

from collections.abc import Callable, Hashable, Iterator

import numpy as np
import numpy.typing as npt

from windlass.engine import dtypes, facts, left_out, pod_traits
from windlass.engine.drain import system
from windlass.engine.pods import PodTable

Codes = npt.NDArray[np.int8]
"""Small numbers whose meaning is the asker's."""

Terminating = tuple[int, float]
"""A pod's row, and when it counts as gone although it is still there."""


def ask(table: PodTable, question: Callable[[facts.Pod], int], name: Hashable) -> Codes:
    """Int8 (n_pods): the answer for each pod that is on a node, 0 for others. No pod is asked of as terminating.

    A question of the same name always has the same answers, but for pods of kube-system that no DaemonSet has: their
    age counts. Kinds that are left out are not asked of.
    """
    bound = np.flatnonzero(table.node_rows != dtypes.ABSENT)
    kind_ids = table.kind_ids
    example = np.full(len(table.kinds), dtypes.ABSENT, np.intp)
    example[kind_ids[bound]] = bound  # any pod of a kind stands for all
    answers = np.zeros(len(table.kinds), np.int8)
    known = table.answers.setdefault(name, {})
    for kind_id in left_out.without(np.flatnonzero(example != dtypes.ABSENT).tolist(), table.left_out):
        answer = known.get(kind_id)
        if answer is None:
            pod = table.fact(int(example[kind_id]), "", timeless=True)
            answer = question(pod)
            if pod.namespace != system.NAMESPACE or pod_traits.is_daemonset(pod):
                known[kind_id] = answer
        answers[kind_id] = answer
    codes = np.zeros(len(kind_ids), np.int8)
    codes[bound] = answers[kind_ids[bound]]
    return codes


def terminating(table: PodTable) -> Iterator[Terminating]:
    """The pods on nodes that are terminating."""
    node_rows = table.node_rows
    for row, (deleted_s, _) in table.times.items():
        if deleted_s is not None and node_rows[row] != dtypes.ABSENT:
            yield row, pod_traits.gone_at_s(deleted_s, table.kind(row).grace_s)
