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
_SECOND_OPINION = "--ignore=tests/engine/predicates/test_second_opinion.py"
"""Left out: random clusters against another implementation. It would notice more, and take most of the time."""

ROOMS = (
    Room("drain", _ENGINE / "drain", ("tests/engine/drain",)),
    Room("predicates", _ENGINE / "predicates", ("tests/engine/predicates", *_DEVICES, _SECOND_OPINION)),
)
