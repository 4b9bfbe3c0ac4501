"""Namespace ResourceQuotas: buffers take no more than pods of their namespace could have.

Buffers are served in order, and each reserves what it gets: what one takes the next cannot.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.engine.buffers.buffer import Sample
from windlass.quantity import Quantity
from windlass.selectors import Operator

REQUESTS = "requests."
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pods a quota counts."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """A ResourceQuota, as its status has it."""

    name: str
    hard: Mapping[str, Quantity]
    used: Mapping[str, Quantity]
    scopes: tuple[Scope, ...] = ()


class Unusable(ValueError):
    """A quota whose scopes cannot be read."""


@dataclass(slots=True)
class Allowance:
    """What quotas of one namespace leave, while buffers take from it."""

    quotas: Sequence[ResourceQuota]
    faults: list[str] = field(default_factory=list)
    _reserved: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def take(self, sample: Sample, wanted: int) -> tuple[int, list[str]]:
        """(how many pods may be kept room for, the quotas that are in the way of more). They are reserved."""
        asked = _name_requests(sample)
        matching = [quota for quota in self.quotas if self._counts(quota, sample)]
        rooms = {quota.name: self._find_room(quota, asked) for quota in matching}
        allowed = min((wanted, *rooms.values()))
        if allowed > 0:
            for quota in matching:
                for name in asked.keys() & quota.hard.keys():
                    self._reserved[quota.name, name] += asked[name].nano * allowed
        return allowed, [name for name, room in rooms.items() if room < wanted]

    def _counts(self, quota: ResourceQuota, sample: Sample) -> bool:
        try:
            return all(_matches(sample, scope) for scope in quota.scopes)
        except Unusable as error:
            self.faults.append(f"quota {quota.name}: {error}")
            return False

    def _find_room(self, quota: ResourceQuota, asked: Mapping[str, Quantity]) -> int:
        most = _MOST
        for name, hard in quota.hard.items():
            if name not in asked or not asked[name].nano:
                continue
            used = quota.used[name].nano if name in quota.used else 0
            left = hard.nano - used - self._reserved[quota.name, name]
            if left < 0:
                return 0
            most = min(most, left // asked[name].nano)
        return most


def _name_requests(sample: Sample) -> dict[str, Quantity]:
    """Quotas may call a request by its resource, or say that they mean requests."""
    return {**sample.requests, **{f"{REQUESTS}{name}": amount for name, amount in sample.requests.items()}}


def _matches(sample: Sample, scope: Scope) -> bool:
    is_best_effort = "cpu" not in sample.requests and "memory" not in sample.requests
    match scope.name:
        case "NotTerminating":
            return True
        case "BestEffort":
            return is_best_effort
        case "NotBestEffort":
            return not is_best_effort
        case "PriorityClass":
            return _matches_priority(sample.priority_class, scope)
        case "CrossNamespacePodAffinity":
            return sample.crosses_namespaces
    return False


def _matches_priority(found: str, scope: Scope) -> bool:
    match scope.operator:
        case Operator.EXISTS:
            return bool(found)
        case Operator.DOES_NOT_EXIST if not scope.values:
            return not found
        case Operator.IN if scope.values:
            return found in scope.values
        case Operator.NOT_IN if scope.values:
            return not found or found not in scope.values
    raise Unusable(f"scope {scope.name}: found {scope.operator} {list(scope.values)}, expected In or NotIn with values")
