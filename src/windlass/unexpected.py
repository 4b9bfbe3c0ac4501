"""Unexpected errors: exceptions that no code foresaw, counted by place and logged once for each object and version.

    except Exception as error:
        unexpected.report(unexpected.Place.INFORMER, "Pod default/web", version, error)

Such an exception is a bug. It costs the object it was met with, and never a process, a loop or another object.
"""

import enum
import logging
import threading
from collections import Counter
from collections.abc import Mapping

from windlass import errors

_MOST_REMEMBERED = 4096
"""Objects and versions that are remembered as logged; the oldest are forgotten first, and may be logged again."""

_log = logging.getLogger(__name__)


class Place(enum.StrEnum):
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


class Errors:
    """What was met so far. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Place] = Counter()
        self._logged: dict[tuple[Place, str, str], None] = {}

    def report(self, place: Place, subject: str, version: str, error: BaseException) -> None:
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
                place, subject, version, type(error).__name__, errors.describe(error), exc_info=error,
            )  # fmt: skip

    def counts(self) -> Mapping[Place, int]:
        """How many were met, by place; of every place, also where there were none."""
        with self._lock:
            return {place: self._counts[place] for place in Place}


ERRORS = Errors()
"""Of this process."""

report = ERRORS.report
describe = errors.describe
