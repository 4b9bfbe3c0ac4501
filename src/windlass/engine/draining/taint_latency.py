"""Taint latency: the time from the request of the deletion taint for a batch of nodes until all are seen with it.

One round trip to the API server. Schedulers that are as far away from it as the autoscaler see the taint within twice
the slowest round trip.
"""

from collections.abc import Iterable
from dataclasses import dataclass

EXPIRES_AFTER_S = 3600.0
"""The age at which a measurement does not count any more."""


@dataclass(frozen=True, slots=True)
class TaintLatency:
    """One measurement, of one batch."""

    at_s: float
    """When the last node of the batch was seen with the taint."""
    duration_s: float


def find_delay_s(measured: Iterable[TaintLatency], at_s: float) -> float | None:
    """Twice the longest of the measurements that count at this time; None if there is none."""
    longest_s = max((one.duration_s for one in measured if _counts(one, at_s)), default=None)
    return None if longest_s is None else 2 * longest_s


def drop_expired(measured: Iterable[TaintLatency], now_s: float) -> tuple[TaintLatency, ...]:
    return tuple(one for one in measured if _counts(one, now_s))


def _counts(one: TaintLatency, at_s: float) -> bool:
    return at_s - EXPIRES_AFTER_S < one.at_s <= at_s
