"""What tests reach: coverage.py's figures, summed up by package."""

import collections
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class Share:
    """Lines and branches, and how many of them were run."""

    covered: int = 0
    everything: int = 0

    def __add__(self, other: "Share") -> "Share":
        return Share(self.covered + other.covered, self.everything + other.everything)

    @property
    def percent(self) -> float:
        return 100 * self.covered / self.everything if self.everything else 100.0


def sum_up(report: str) -> dict[str, Share]:
    """By package: lines and branches of all of its modules, from `coverage json`."""
    shares: dict[str, Share] = collections.defaultdict(Share)
    for path, told in json.loads(report)["files"].items():
        summary = told["summary"]
        shares[_package(path)] += Share(
            summary["covered_lines"] + summary["covered_branches"],
            summary["num_statements"] + summary["num_branches"],
        )
    return dict(sorted(shares.items()))


def tell(report: str) -> Iterator[str]:
    """A line for each package that tests reach and one for those together; then the others, which mean nothing here."""
    shares = {name: share for name, share in sum_up(report).items() if share.everything}
    reached = {name: share for name, share in shares.items() if share.covered}
    for name, share in (*reached.items(), ("all of these", sum(reached.values(), Share()))):
        yield f"{share.percent:5.1f} %  {share.everything:6,} lines and branches  {name}"
    if others := shares.keys() - reached.keys():
        yield f"No test that was run is for: {', '.join(sorted(others))}"


def _package(path: str) -> str:
    """Of `src/windlass/engine/drainability/rules.py`, `engine.drainability`; of a module at the top, its own name."""
    parts = PurePath(path).with_suffix("").parts
    inner = parts[parts.index("windlass") + 1 :]
    return ".".join(inner[:2] if len(inner) > 2 else inner[:1])
