"""A container file, read as far as ours goes: instructions, their options, and what they copy."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of it, with the lines that go on where a backslash ends one."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """As an argument list; ValueError if it is for a shell."""
        found = json.loads(self.text)
        if not isinstance(found, list):
            raise ValueError(self.text)
        return [str(word) for word in found]

    @property
    def options(self) -> dict[str, str]:
        return dict(re.findall(r"^--(\S+?)=(\S+)", self.text, re.MULTILINE))

    @property
    def sources(self) -> list[str]:
        """What is copied."""
        return [word for word in self.text.split() if not word.startswith("--")][:-1]


def read(text: str) -> list[Instruction]:
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    parted = (line.partition(" ") for line in joined.split("\n"))
    return [Instruction(name.upper(), rest.strip()) for name, _, rest in parted]


def stages(instructions: list[Instruction]) -> list[list[Instruction]]:
    """From each FROM to the next."""
    found: list[list[Instruction]] = []
    for instruction in instructions:
        if instruction.name == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def find_context(ignoring: str) -> Iterator[Path]:
    """What is sent to the engine: all but what the ignore file names; of its lines the last that matches counts."""
    lines = [line for line in ignoring.splitlines() if line and not line.startswith("#")]
    for path in sorted(ROOT.rglob("*")):
        within = path.relative_to(ROOT)
        if (
            within.parts[0] not in {".git", ".venv"}
            and path.is_file()
            and not _is_ignored(PurePosixPath(within), lines)
        ):
            yield within


def _is_ignored(path: PurePosixPath, lines: list[str]) -> bool:
    """A line names a path and all below it; `*` is everything, and `**/name` that name anywhere."""
    upward = [path, *path.parents[:-1]]
    ignored = False
    for line in lines:
        pattern = line.removeprefix("!")
        anywhere = pattern.removeprefix("**/") if pattern.startswith("**/") else ""
        if pattern == "*" or any(item.name == anywhere or str(item) == pattern for item in upward):
            ignored = not line.startswith("!")
    return ignored
