"""What can go wrong on a day, as values."""

from dataclasses import dataclass
from typing import Literal

Weather = Literal[
    "refused",  # no connection: the server has not seen the request
    "unanswered",  # the server has acted, and nobody hears of it
    "overloaded",  # 429 with Retry-After
    "failing",  # 500, 503 or 504, acted upon or not
    "slow",  # answers come late
    "cut",  # watches break off in the middle of a line
    "expired",  # watches end with 410
    "lagging",  # watches tell of changes late
    "denied",  # a webhook denies writes
    "down",  # the server is gone, with every watch, and has forgotten what happened before when it is back
    "behind",  # a server that lags behind what we have seen already answers watches
]
MANAGEMENT = "cluster.x-k8s.io/"
"""In the path of whatever the management cluster serves; the workload cluster serves the rest."""
NOT = "!"


@dataclass(frozen=True, slots=True)
class Spell:
    """Bad weather for a while, on some of the requests."""

    at_s: float
    lasts_s: float
    kind: Weather
    share: float
    only: str = ""
    """Requests with this in their path; empty: all; after `!`: all but these."""

    def is_on(self, now_s: float) -> bool:
        return self.at_s <= now_s < self.at_s + self.lasts_s

    def concerns(self, path: str) -> bool:
        if self.only.startswith(NOT):
            return self.only[1:] not in path
        return self.only in path

    def __str__(self) -> str:
        where = f" on {self.only}" if self.only else ""
        return f"{self.at_s:g} s: {self.kind}{where} for {self.lasts_s:g} s, {self.share:.0%} of the requests"


@dataclass(frozen=True, slots=True)
class Kill:
    """The process is gone without a word, and a new one starts later."""

    at_s: float
    writes: int
    """Then at this write of its: 0 at once, 1 at the next."""
    has_acted: bool
    """The server sees that write."""
    down_s: float

    def __str__(self) -> str:
        when = (
            f"at write {self.writes} ({'acted upon' if self.has_acted else 'not sent'})" if self.writes else "at once"
        )
        return f"{self.at_s:g} s: killed {when}, back {self.down_s:g} s later"


@dataclass(frozen=True, slots=True)
class Pause:
    """Of two processes, the one that leads stands still, as by SIGSTOP, and goes on later."""

    at_s: float
    lasts_s: float

    def __str__(self) -> str:
        return f"{self.at_s:g} s: the one that leads stands still for {self.lasts_s:g} s"


@dataclass(frozen=True, slots=True)
class Jump:
    """The process's wall clock is set wrong, and back again."""

    at_s: float
    lasts_s: float
    by_s: float

    def __str__(self) -> str:
        return f"{self.at_s:g} s: the clock jumps by {self.by_s:g} s for {self.lasts_s:g} s"


@dataclass(frozen=True, slots=True)
class Edit:
    """Somebody writes nonsense into a group's annotation, and sees it later."""

    at_s: float
    lasts_s: float
    group: str
    annotation: str
    value: str

    def __str__(self) -> str:
        return f"{self.at_s:g} s: {self.group} has {self.annotation}={self.value!r} for {self.lasts_s:g} s"
