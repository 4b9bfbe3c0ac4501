"""The rooms whose rules are changed, and the tests that are to notice."""

from dataclasses import dataclass
from pathlib import Path

from tests.mutation import places


@dataclass(frozen=True, slots=True)
class Room:
    """Some modules, and the tests beside them."""

    name: str
    sources: Path
    tests: tuple[str, ...]

    def paths(self) -> list[Path]:
        return sorted(self.sources.glob("*.py"))


_ENGINE = places.ROOT / "src/windlass/engine"
_DEVICES = ("tests/engine/devices/test_deciding.py", "tests/engine/devices/test_placing.py")
_COMPARISONS = tuple(f"--ignore=tests/engine/predicates/test_{name}.py" for name in ("second_opinion", "volume_moves"))
"""Left out: random clusters against another implementation. They would notice more, and take most of the time."""

ROOMS = (
    Room("drain", _ENGINE / "drain", ("tests/engine/drain",)),
    Room("predicates", _ENGINE / "predicates", ("tests/engine/predicates", *_DEVICES, *_COMPARISONS)),
)
