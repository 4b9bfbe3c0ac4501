"""The order of packing: large pods first.

    score = cpu request / allocatable cpu + memory request / allocatable memory

Groups of pods are packed by falling score, equal ones in the order given. A resource that the template has none of adds
nothing to any score.
"""

import numpy as np
import numpy.typing as npt

from windlass.engine.dtypes import Amounts, Rows


def sort_decreasing(
    millicpu: Amounts, memory_bytes: Amounts, allocatable_millicpu: int, allocatable_memory_bytes: int
) -> Rows:
    """Positions of n groups in the order of packing, intp (n,), from int64 (n,) requests of one pod of each."""
    scores = score(millicpu, memory_bytes, allocatable_millicpu, allocatable_memory_bytes)
    return np.argsort(-scores, kind="stable")


def score(
    millicpu: Amounts, memory_bytes: Amounts, allocatable_millicpu: int, allocatable_memory_bytes: int
) -> npt.NDArray[np.float64]:
    """float64 (n,): how much of an empty node a pod of each group takes."""
    total = np.zeros(len(millicpu))
    if allocatable_millicpu > 0:
        total += millicpu / allocatable_millicpu
    if allocatable_memory_bytes > 0:
        total += memory_bytes / allocatable_memory_bytes
    return total
