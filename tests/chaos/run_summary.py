"""What came of many days, a line each."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.chaos.invariants import Verdict


class Account:
    """Adds days up."""

    def __init__(self) -> None:
        self.seeds: set[int] = set()
        self.bad: list[int] = []
        self._hits: Counter[str] = Counter()
        self._totals: Counter[str] = Counter()
        self._cpu_s: list[float] = []

    def add(self, verdict: Verdict) -> None:
        self.seeds.add(verdict.seed)
        if verdict.complaints:
            self.bad.append(verdict.seed)
        self._hits += Counter(verdict.hits)
        self._cpu_s.append(verdict.cpu_s)
        self._totals["deaths"] += verdict.deaths
        self._totals["successions"] += verdict.successions
        for name in ("nodes_added", "nodes_removed", "pods", "evictions"):
            self._totals[name] += int(verdict.totals.get(name, 0))

    def tell(self) -> str:
        """All of it in a line."""
        took_s = sorted(self._cpu_s) or [0.0]
        struck = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self._hits.items()))
        bad = f" (not: {', '.join(map(str, sorted(self.bad)))})" if self.bad else ""
        return (
            f"{len(self.seeds) - len(self.bad):,} of {len(self.seeds):,} days well{bad}: "
            f"{self._totals['deaths']:,} deaths, {self._totals['successions']:,} successions, "
            f"{self._totals['nodes_added']:,} nodes came and {self._totals['nodes_removed']:,} went, "
            f"{self._totals['pods']:,} pods, {self._totals['evictions']:,} evictions; "
            f"requests and watches: {struck}; CPU of a day: {took_s[len(took_s) // 2]:.1f} s in the middle, "
            f"{sum(took_s) / len(took_s):.1f} s on average, {took_s[-1]:.1f} s at most"
        )


def read(path: Path | None) -> Iterator[Verdict]:
    """Days that were played before."""
    if path is not None and path.exists():
        for line in path.read_bytes().splitlines():
            yield msgspec.json.decode(line, type=Verdict)


def write(path: Path | None, verdict: Verdict) -> None:
    """At once: whoever ends us loses nothing."""
    if path is not None:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(verdict) + b"\n")
