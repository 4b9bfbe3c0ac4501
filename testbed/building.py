"""Building: the Go tool compiles each component from its pinned modules, once for each version.

Modules come from wherever GOPROXY says. Interrupted, it goes on where it stopped: finished components are kept, and
what the Go tool compiled so far is in its own cache.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from testbed import cache, components, manifests

_REPORT_EVERY_S = 15.0
_NICE = ("nice", "-n", "19")
_LAST_WORDS = 30


class BuildFailed(Exception):
    """The Go tool said no; the message holds its last words."""


def has_go() -> bool:
    return shutil.which("go") is not None


def build(jobs: int = 0) -> None:
    """Build whatever the cache lacks. `jobs` limits how many packages are compiled at once; 0 leaves that to Go."""
    if not cache.missing():
        return
    if not has_go():
        raise BuildFailed("there is no `go` on the PATH; building the test bed takes Go 1.26 or newer")
    with cache.building():
        for component in cache.missing():
            _build(component, jobs)


def build_tool(component: components.Component, jobs: int = 0) -> None:
    """Build something that no bed needs, unless it is there."""
    if cache.place(component).is_dir():
        return
    if not has_go():
        raise BuildFailed(f"there is no `go` on the PATH; building {component.name} takes Go 1.26 or newer")
    with cache.building():
        if not cache.place(component).is_dir():
            _build(component, jobs)


def _build(component: components.Component, jobs: int) -> None:
    since_s = time.monotonic()
    _print_line(f"{component.name} {component.version}: building")
    with cache.filling(component) as place:
        parallel = [f"-p={jobs}"] if jobs else []
        flags = ["-v", "-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags={component.ldflags}", *parallel]
        _run(component, ["go", "build", *flags, "-o", str(place / component.name), component.package])
        if component is components.KWOK:
            manifests.save_stages(_source(component), place)
        if component is components.CLUSTER_API:
            manifests.save_cluster_api(_source(component), place)
    _print_line(f"{component.name} {component.version}: built in {time.monotonic() - since_s:.0f} s")


def _source(component: components.Component) -> Path:
    command = ["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", component.module]
    found = subprocess.run(command, cwd=component.directory, env=_environment(), check=True, stdout=subprocess.PIPE)
    return Path(found.stdout.decode().strip())


def _run(component: components.Component, command: list[str]) -> None:
    """Run the Go tool, counting the lines it prints: one for each module it fetches and each package it compiles."""
    lines: list[str] = []
    with subprocess.Popen(
        [*_NICE, *command],
        cwd=component.directory,
        env=_environment(),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as go:
        assert go.stderr is not None
        with _ended(go), _reporting(component, lines):
            for line in go.stderr:
                lines.append(line.rstrip())  # noqa: PERF401 - the reporter reads it meanwhile
    if go.returncode:
        raise BuildFailed("\n".join([f"{component.name}: `go build` failed:", *lines[-_LAST_WORDS:]]))


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Whoever interrupts the build interrupts the compiler too."""
    try:
        yield
    except BaseException:
        process.terminate()
        raise


@contextlib.contextmanager
def _reporting(component: components.Component, lines: list[str]) -> Iterator[None]:
    """Say every few seconds how far it is; the Go tool itself says nothing that a person could follow."""
    over = threading.Event()
    since_s = time.monotonic()

    def report() -> None:
        while not over.wait(_REPORT_EVERY_S):
            fetched = sum(line.startswith("go: downloading") for line in lines)
            done = f"{fetched} modules fetched, {len(lines) - fetched} packages compiled"
            _print_line(f"{component.name}: {done}, {time.monotonic() - since_s:.0f} s")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _environment() -> dict[str, str]:
    """The caller's, so that GOPROXY and its kin apply; no cgo, so that a C compiler is not needed."""
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


def _print_line(text: str) -> None:
    print(f"testbed: {text}", file=sys.stderr, flush=True)
