"""Dependencies: what windlass runs with, by the pinned requirements, and what is asked for by each extra.

The pinned files say of each package who needs it, so that the answer is the same wherever it is asked; what a package
says of itself is read where it is installed.
"""

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tools import source_analysis
from windlass import product

RUNTIME = "runtime"
EXTRAS = ("dask", "grpc", "tui")
"""Those that people install; the others are for work on the project itself."""

_FOLDER = source_analysis.ROOT / "requirements"
_PINNED = re.compile(r"^([a-z0-9-]+)(?:\[[^]]*])?==([^\s;]+)")
_VIA = re.compile(r"^ +# +(?:via +)?(\S+)")
_NAME = re.compile(r"^[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Dependency:
    """One package at one version."""

    name: str
    version: str
    needs: tuple[str, ...]
    """The packages that it needs itself, by name."""
    parts: tuple[str, ...]
    """`RUNTIME`, or else the extras that bring it."""

    @property
    def is_optional(self) -> bool:
        return RUNTIME not in self.parts


@functools.cache
def find() -> tuple[Dependency, ...]:
    """Everything that an installation may hold, by name."""
    pinned, needs = _read_pinned("dev.txt")
    runtime = [*_read_pinned("runtime.txt")[0]]
    parts = {extra: reach(asked(extra), needs) for extra in EXTRAS}
    names = {*runtime}.union(*parts.values())
    return tuple(
        Dependency(
            name,
            pinned[name],
            tuple(sorted(needs.get(name, ()))),
            (RUNTIME,) if name in runtime else tuple(extra for extra in EXTRAS if name in parts[extra]),
        )
        for name in sorted(names)
    )


def asked(extra: str = "") -> list[str]:
    """The packages that the project itself asks for, or one of its extras."""
    listed = project()["optional-dependencies"][extra] if extra else project()["dependencies"]
    return [_normal(match[0]) for item in listed if (match := _NAME.match(item))]


def project() -> dict[str, Any]:
    """What pyproject.toml says of the project."""
    return tomllib.loads((source_analysis.ROOT / "pyproject.toml").read_text("utf-8"))["project"]  # type: ignore[no-any-return]


def reach(names: Iterable[str], needs: Mapping[str, Iterable[str]]) -> set[str]:
    """These, and all that they need."""
    found: set[str] = set()
    waiting = [*names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += needs.get(name, ())
    return found


def _read_pinned(file: str) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Versions by name, and by name what it needs: the lines below a package name those who need it."""
    versions: dict[str, str] = {}
    needs: dict[str, set[str]] = {}
    name = ""
    for line in (_FOLDER / file).read_text("utf-8").splitlines():
        if match := _PINNED.match(line):
            name = match[1]
            versions[name] = match[2]
        elif (match := _VIA.match(line)) and match[1] not in ("via", product.DISTRIBUTION):
            needs.setdefault(_normal(match[1]), set()).add(name)
    return versions, needs


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
