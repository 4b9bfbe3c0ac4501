"""klog conventions: `-v` levels as logging levels, and reports of unexpected errors.

`-v=0` is INFO and each further step is one lower, so `-v=9` (every API call) is one above DEBUG.
An unexpected error is a bug: `report_error` counts it by place and logs it with its traceback once for each object and
version. It costs that object, never a process, a loop or another object.
"""

import enum
import logging
import threading
from collections import Counter
from collections.abc import Mapping

from windlass import errors


def verbosity_level(verbosity: int) -> int:
    """The logging level at which `-v=verbosity` speaks."""
    return max(logging.INFO - verbosity, 1)


_MOST_REMEMBERED = 4096
"""Objects and versions that are remembered as logged; the oldest are forgotten first, and may be logged again."""

_log = logging.getLogger(__name__)


class ErrorPlace(enum.StrEnum):
    """Where an exception was met; the values of the label `place`."""

    INFORMER = "informer"
    """Decoding or storing an object that the API server sent."""
    REPORTER = "reporter"
    """Metrics, events, the status, and what is published. What ended is begun again."""
    WEBHOOK = "webhook"
    """Judging an object before it is stored."""
    DECISION = "decision"
    """Evaluating an object in a loop; the rest is decided without it."""
    DRAIN = "drain"
    """The next step of a node on its way out; it waits, the others go on."""
    PROVIDER = "provider"
    """Reading a node group, or a Machine of it; the group is left alone."""
    RECORDER = "recorder"
    """Writing down a decision; a new recording begins with one of the next."""
    EXPLAIN = "explain"
    """An answer to somebody who asked."""
    WORKLOAD_CLUSTER = "workload_cluster"
    """Reading the kubeconfig of a workload cluster, or connecting to it."""


class UnexpectedErrors:
    """What was met so far. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[ErrorPlace] = Counter()
        self._logged: dict[tuple[ErrorPlace, str, str], None] = {}

    def report(self, place: ErrorPlace, subject: str, version: str, error: BaseException) -> None:
        """Count it; log it with its traceback if that was not done yet for this subject and version of it."""
        key = (place, subject, version)
        with self._lock:
            self._counts[place] += 1
            is_known = key in self._logged
            self._logged.pop(key, None)
            self._logged[key] = None
            if len(self._logged) > _MOST_REMEMBERED:
                del self._logged[next(iter(self._logged))]
        if not is_known:
            _log.error(
                "unexpected error: place=%s object=%r version=%r: %s: %s",
                place, subject, version, type(error).__name__, errors.describe_error(error), exc_info=error,
            )  # fmt: skip

    def counts(self) -> Mapping[ErrorPlace, int]:
        """How many were met, by place; of every place, also where there were none."""
        with self._lock:
            return {place: self._counts[place] for place in ErrorPlace}


UNEXPECTED_ERRORS = UnexpectedErrors()
"""Of this process."""

report_error = UNEXPECTED_ERRORS.report

describe_error = errors.describe_error
