"""The rooms whose rules are changed, and the tests that are to notice."""

from dataclasses import dataclass
from pathlib import Path

from tests.mutation import mutation_sites


@dataclass(frozen=True, slots=True)
class Room:
    """Some modules, and the tests beside them."""

    name: str
    sources: Path
    tests: tuple[str, ...]

    def paths(self) -> list[Path]:
        return sorted(self.sources.glob("*.py"))


_ENGINE = mutation_sites.ROOT / "src/windlass/engine"
_DEVICES = ("tests/engine/loop/test_dra.py", "tests/engine/placement/test_dra_placement.py")
_SECOND_OPINION = "--ignore=tests/engine/predicates/test_registry_reference_scheduler.py"
"""Left out: random clusters against another implementation. It would notice more, and take most of the time."""

ROOMS = (
    Room("drainability", _ENGINE / "drainability", ("tests/engine/drainability",)),
    Room("predicates", _ENGINE / "predicates", ("tests/engine/predicates", *_DEVICES, _SECOND_OPINION)),
)
