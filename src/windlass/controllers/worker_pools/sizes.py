"""Sizes: a pool is static, and its replicas are ours to write, or autoscaled, and they are not."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Between which sizes an autoscaler moves a pool, both included."""

    min: int
    max: int

    def allow(self, replicas: int) -> bool:
        return self.min <= replicas <= self.max

    def clamp(self, replicas: int) -> int:
        """The nearest size that is allowed. Of bounds in the wrong order the lower one counts, as in Cluster API."""
        return max(min(replicas, self.max), self.min)


@dataclass(frozen=True, slots=True)
class Size:
    """How many workers a pool has, and who says so."""

    replicas: int
    """What is asked for. An autoscaled pool begins with it at most."""
    limits: Limits | None = None

    @property
    def is_autoscaled(self) -> bool:
        """The one predicate: everything that differs between the two kinds of pool asks this."""
        return self.limits is not None
