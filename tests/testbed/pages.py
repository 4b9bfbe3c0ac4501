"""Documents that are followed step by step: their commands, run in their order as a user runs them."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed import cache, components
from testbed.bed import Bed
from tools import source_analysis

Run = Callable[..., str]

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_HERE = re.compile(r"<<'(\w+)'")


class Page:
    """The commands of a document that have not been run yet."""

    def __init__(self, commands: list[str]) -> None:
        self.left = commands

    def take(self, count: int) -> list[str]:
        """The next commands."""
        assert len(self.left) >= count, "the page has no further command"
        taken, self.left = self.left[:count], self.left[count:]
        return taken


def read(name: str, heading: str = "") -> Page:
    """The commands in the `sh` blocks of a document, or below one of its headings."""
    text = (source_analysis.ROOT / "docs" / name).read_text()
    if heading:
        parts = _HEADING.split(text)
        text = parts[parts.index(heading) + 1]
    return Page([command for block in _BLOCK.findall(text) for command in _split(block)])


def _split(block: str) -> list[str]:
    """Commands of a block: a line each, with those that it goes on in, and with what it hands to a command."""
    commands: list[str] = []
    is_open, end = False, ""
    for line in block.splitlines():
        if is_open:
            commands[-1] += f"\n{line}"
        elif line.strip() and not line.startswith("#"):
            commands.append(line)
        if end:
            is_open = line != end
            end = end if is_open else ""
        elif here := _HERE.search(line):
            is_open, end = True, here[1]
        else:
            is_open = line.endswith("\\")
    return commands


@contextlib.contextmanager
def shell(bed: Bed, directory: Path, *links: str, helm: bool = True) -> Iterator[Run]:
    """Runs commands in a directory beside the repository's own, with kubectl of the test bed, and Helm if used.

    As in the shell of a user, variables that are exported are there afterwards.
    """
    used = (components.KUBECTL, *([components.HELM] if helm else []))
    if cache.missing(used):
        pytest.skip("NOT FOLLOWED: kubectl or Helm is not built; `make testbed` builds it (needs Go)")
    programs, home = directory / "bin", directory / "page"
    programs.mkdir()
    home.mkdir()
    for component in used:
        (programs / component.name).symlink_to(cache.binary(component))
    for name in ("deploy", *links):
        (home / name).symlink_to(source_analysis.ROOT / name)
    environment = {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(bed.kubeconfig),
        "HOME": str(directory),
    }

    exports: list[str] = []

    def run(*commands: str) -> str:
        said = ""
        for command in commands:
            words = ["bash", "-euo", "pipefail", "-c", "\n".join([*exports, command])]
            done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=home, env=environment)
            assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
            said += done.stdout
            if command.startswith("export "):
                exports.append(command)
        return said

    yield run
