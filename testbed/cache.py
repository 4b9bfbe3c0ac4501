"""Where built things are kept: outside the tree, one directory for each component at each version.

    $XDG_CACHE_HOME/windlass/testbed/kube-apiserver-v1.36.3-0123456789ab/

A directory is complete or absent: it is filled under another name and then renamed.
"""

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed import components


def root() -> Path:
    """The directory of all versions. An XDG_CACHE_HOME that is not absolute counts as unset, as its standard says."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "windlass" / "testbed"


def place(component: components.Component) -> Path:
    return root() / component.slot


def binary(component: components.Component) -> str:
    """The first word of its command line."""
    return str(place(component) / component.name)


def missing(among: Sequence[components.Component] = components.EVERY) -> list[components.Component]:
    """What is not built: of what a bed is made of, unless told."""
    return [component for component in among if not place(component).is_dir()]


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Hold the right to build. A second builder waits, and then finds the work done."""
    root().mkdir(parents=True, exist_ok=True)
    with (root() / "building.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("testbed: someone else is building; waiting", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def filling(component: components.Component) -> Iterator[Path]:
    """An empty directory that becomes the component's place once it is filled."""
    work = root() / f".{component.slot}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        yield work
        work.rename(place(component))
    finally:
        shutil.rmtree(work, ignore_errors=True)
