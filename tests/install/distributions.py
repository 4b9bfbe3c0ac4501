"""What is built from the tree: distributions, and a place in which one is installed as the image has it."""

import contextlib
import functools
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

EPOCH = "1577836800"
NOBODY = 65532
"""The user of the image."""


def build(tree: Path, directory: Path, *targets: str) -> list[Path]:
    """Distributions of a tree, by the build backend that pyproject.toml names."""
    wanted = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory), *wanted]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    return sorted(directory.iterdir())


def install(place: Path, wheel: Path) -> Path:
    """An environment with that wheel and no other package, as the image has it; what it depends on is ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    pip = [sys.executable, "-m", "pip", f"--python={place / 'bin' / 'python'}", "install", "--quiet"]
    quiet = ["--disable-pip-version-check", "--no-index", "--no-deps", "--no-cache-dir"]
    subprocess.run([*pip, *quiet, str(wheel)], check=True, cwd=place)
    (packages,) = (place / "lib").glob("python3*/site-packages")
    # As a path and not as a site: windlass itself, which is there in its editable form, is not found by it.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return place


_READ_ONLY = (
    "unshare",
    "--mount",
    "--propagation=private",
    "sh",
    "-c",
    'mount -o remount,ro,bind / && exec "$@"',
    "sh",
)
_AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all")
_CONFINED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("a read-only root, as nobody", (*_READ_ONLY, *_AS_NOBODY)),
    ("a read-only root", _READ_ONLY),
    ("nothing but the environment", ()),
)


@functools.cache
def confinement() -> tuple[str, tuple[str, ...]]:
    """As much of a container as can be had here: it takes root, and for nobody a Python that others may read."""
    for name, prefix in _CONFINED:
        with contextlib.suppress(OSError):
            if subprocess.run([*prefix, sys.executable, "-c", ""], check=False, capture_output=True).returncode == 0:
                return name, prefix
    raise AssertionError("Python does not run")


def run(command: list[str], home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run as the container would be run, as far as can be, and with an environment of its own."""
    found = {"HOME": str(home), "PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    told = [*confinement()[1], *command]
    return subprocess.run(told, cwd="/", env=found, capture_output=True, text=True, check=False, timeout=120)
