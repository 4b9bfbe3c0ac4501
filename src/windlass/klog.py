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
    """The logging level of `-v`."""
    return max(logging.INFO - verbosity, 1)


_MOST_REMEMBERED = 4096
"""Maximum remembered objects and versions; older ones may be logged again."""

_log = logging.getLogger(__name__)


class ErrorPlace(enum.StrEnum):
    """Where an exception was caught; values of the label `place`."""

    INFORMER = "informer"
    """Decoding or storing an object that the API server sent."""
    REPORTER = "reporter"
    """Metrics, events, status and status API; the task is restarted."""
    WEBHOOK = "webhook"
    """Admission of an object."""
    DECISION = "decision"
    """Evaluation of an object in a loop; the decision is made without it."""
    DRAIN = "drain"
    """The next step of a node's drain; it waits, others continue."""
    PROVIDER = "provider"
    """Reading a node group or one of its Machines; the group is held."""
    RECORDER = "recorder"
    """Recording a decision; a new recording starts with a later one."""
    EXPLAIN = "explain"
    """Answering an explain request."""
    WORKLOAD_CLUSTER = "workload_cluster"
    """Reading a workload cluster's kubeconfig, or connecting to it."""


class UnexpectedErrors:
    """Counts of unexpected errors. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[ErrorPlace] = Counter()
        self._logged: dict[tuple[ErrorPlace, str, str], None] = {}

    def report(self, place: ErrorPlace, subject: str, version: str, error: BaseException) -> None:
        """Count an error; log it with traceback once per subject and version."""
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
        """Counts by place; every place is included."""
        with self._lock:
            return {place: self._counts[place] for place in ErrorPlace}


UNEXPECTED_ERRORS = UnexpectedErrors()
"""The counter of this process."""

report_error = UNEXPECTED_ERRORS.report

describe_error = errors.describe_error
