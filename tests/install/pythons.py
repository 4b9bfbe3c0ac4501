"""The wheel on every Python that it supports: `python -m tests.install.pythons [INTERPRETER …]`.

Without interpreters those of the `PATH` and of pyenv are taken, one of each version. Each gets an environment of its
own with the wheel and what it needs from the package index, plays a scenario, and runs the tests of the decision engine
on what is installed.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.install import distributions
from tests.install.containerfile import ROOT

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_TESTS = ("tests/cel", "tests/regexp", "tests/engine", "tests/test_quantity.py", "tests/test_selectors.py")
_NEEDED = re.compile(r"pytest|hypothesis|trustme|textual")
"""Of what developers install: what these tests import."""


def find_interpreters() -> Iterator[Path]:
    """One of each version; those that are not found are named."""
    for version in VERSIONS:
        places = [Path(place) / f"python{version}" for place in os.environ.get("PATH", "").split(os.pathsep)]
        places += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
        found = next((place for place in places if _says(place) == version), None)
        if found is None:
            print(f"{version}: NOT FOUND HERE")
        else:
            yield found


def _says(interpreter: Path) -> str:
    """Its version; nothing if it does not run, as one that only stands for others."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    if not interpreter.is_file():
        return ""
    return subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=False).stdout.strip()


def check(interpreter: Path, wheel: Path, place: Path) -> list[str]:
    """What does not work with it."""
    python = place / "bin" / "python"
    commands: dict[str, list[str | Path]] = {
        "venv": [interpreter, "-m", "venv", "--without-pip", place],
        "pip install": [*_pip(python), wheel],
        "windlass simulate burst": [place / "bin" / "windlass", "simulate", "burst", "--report", place / "report.html"],
        "pip install of what tests need": [*_pip(python), f"{wheel}[grpc]", *_find_needed()],
        "tests": [python, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", *_TESTS],
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    for name, command in commands.items():
        is_ours = name == "windlass simulate burst"
        directory = place if is_ours else ROOT
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [*done.stdout.splitlines()[-20:], *done.stderr.splitlines()[-5:]]
            return [f"{name}: exit code {done.returncode}", *said]
    return []


def _pip(python: Path) -> list[str | Path]:
    """Of this environment: the other one has none."""
    quiet = ("--quiet", "--disable-pip-version-check")
    return [sys.executable, "-m", "pip", "--python", python, "install", *quiet, "--only-binary=:all:"]


def _find_needed() -> list[str]:
    """With the versions that are pinned."""
    lines = (ROOT / "requirements" / "dev.txt").read_text().splitlines()
    return [line.partition(" ")[0] for line in lines if _NEEDED.match(line)]


def main(interpreters: Sequence[str]) -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="windlass-pythons-") as directory:
        (wheel,) = distributions.build(ROOT, Path(directory) / "dist", "wheel")
        for interpreter in map(Path, interpreters) if interpreters else find_interpreters():
            version = _says(interpreter)
            wrong = check(interpreter, wheel, Path(directory) / version)
            print(f"{version}:", *(wrong or ["it simulates, and the tests pass"]), sep="\n  " if wrong else " ")
            failed += bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
