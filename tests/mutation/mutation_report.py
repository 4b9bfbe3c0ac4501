"""The account of a room: how many changes a test noticed, which ones none did, and which ones change nothing."""

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.mutation import mutation_sites

_EQUIVALENT = Path(__file__).parent / "equivalent.yaml"


def read_equivalent() -> dict[str, str]:
    """By the change's name: why nobody could notice it."""
    return yaml.safe_load(_EQUIVALENT.read_text("utf-8")) or {}


@dataclass(slots=True)
class Account:
    """What became of the changes of one room."""

    room: str
    equivalent: dict[str, str]
    noticed: list[str] = field(default_factory=list)
    argued: list[str] = field(default_factory=list)
    """Unnoticed, and listed as changes that change nothing."""
    survivors: list[str] = field(default_factory=list)
    """Unnoticed, for want of a test."""
    took_s: float = 0.0

    def note(self, change: mutation_sites.Change, is_noticed: bool) -> None:
        if is_noticed:
            self.noticed.append(change.name)
        elif change.name in self.equivalent:
            self.argued.append(change.name)
        else:
            self.survivors.append(change.name)
            print(
                f"  unnoticed: {change.path.relative_to(mutation_sites.ROOT)}:{change.first_line} {change.name}",
                flush=True,
            )

    @property
    def score_percent(self) -> float:
        """Of the changes that could be noticed."""
        could_be = len(self.noticed) + len(self.survivors)
        return 100 * len(self.noticed) / could_be if could_be else 100.0

    def outdated(self) -> list[str]:
        """Argued to change nothing, but a test noticed, or there is no such change."""
        there = {*self.argued}
        return [
            name
            for name in self.equivalent
            if name.startswith((f"{self.room}.", f"{self.room}:")) and name not in there
        ]

    def is_well(self, least_percent: float, is_whole: bool) -> bool:
        return self.score_percent > least_percent and not (is_whole and self.outdated())

    def lines(self, is_whole: bool) -> list[str]:
        everything = len(self.noticed) + len(self.argued) + len(self.survivors)
        told = [f"  OUT OF DATE in equivalent.yaml: {name}" for name in self.outdated()] if is_whole else []
        told.append(
            f"{self.room}: {self.score_percent:.1f} % noticed: {len(self.noticed)} of {everything} changes, "
            f"{len(self.argued)} change nothing, {len(self.survivors)} unnoticed; {self.took_s:.0f} s"
        )
        return told
