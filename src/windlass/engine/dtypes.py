"""The dtypes of every column, in one place, with their reasons.

RESOURCE  int64: bytes of memory overflow anything smaller, and sums must be exact (no floats for resources).
COUNT     int32: pods per node or domain; a cluster has well under 2^31 pods.
ID        int32: positions in an `interning.Index`; -1 means absent.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

RESOURCE = np.int64
COUNT = np.int32
ID = np.int32
ABSENT = -1

Mask: TypeAlias = npt.NDArray[np.bool_]
Amounts: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = npt.NDArray[np.int32]
Ids: TypeAlias = npt.NDArray[np.int32]
Rows: TypeAlias = npt.NDArray[np.intp]
