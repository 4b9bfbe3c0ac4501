"""The oracle: kube-scheduler's own filters as a program that reads cases and writes verdicts.

Its source lies beside the project, in `../shared/oracle/scheduler`. It is built with Go once for each release of
kube-scheduler and version of that source, and kept in the user's cache directory.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

SOURCE = Path(__file__).parents[3] / "shared" / "oracle" / "scheduler"
TRACES = Path(__file__).parents[3] / "shared" / "traces" / "openb-2023"
"""A recorded workload, from which the topic `wide` draws."""


@dataclass(frozen=True, slots=True)
class Build:
    """How the oracle is built for a release."""

    modules: str
    """The stem of its go.mod and go.sum."""
    version: str
    tags: str
    source: str

    @property
    def files(self) -> tuple[str, ...]:
        return "main.go", self.source, f"{self.modules}.mod", f"{self.modules}.sum"


BUILDS = {
    "1.36": Build("go", "v1.36.3", "", "release_136.go"),
    "1.37": Build("go-1.37", "v1.37.1", "k137", "release_137.go"),
}
"""By release."""


class OracleFailed(Exception):
    """The oracle could not be built, or gave up on its input. Holds what it said."""


def find(release: str) -> Path | None:
    """The oracle, built if it was not yet; None where its source or Go is absent (`why_absent` says which)."""
    if not SOURCE.is_dir():
        return None
    build = BUILDS[release]
    binary = cache_folder() / f"oracle-{release}-{_fingerprint(build)}"
    if binary.exists():
        return binary
    go = shutil.which("go")
    return None if go is None else _build(go, build, binary)


def why_absent() -> str:
    """Why `find` found nothing."""
    if not SOURCE.is_dir():
        return "the oracle's source is not at ../shared/oracle/scheduler"
    return "Go is not installed, and the oracle must be built with it"


def draw(topic: str, seed: int, cases: int, release: str) -> list[Json]:
    """Random cases of a topic, without verdicts, of objects that an API server of the release serves."""
    numbers = ["--seed", str(seed), "--cases", str(cases), "--release", release]
    traces = ["--traces", str(TRACES)] if topic == "wide" else []
    return _read(_run([sys.executable, str(SOURCE / "gen.py"), "--topic", topic, *numbers, *traces], ""))


def evaluate(binary: Path, cases: Iterable[Json], stored: bool = False, workers: int = 2) -> list[Json]:
    """The cases with defaults filled in and with verdicts, in order.

    With `stored`, objects are taken as an API server hands them out: neither validated nor changed.
    """
    command = [str(binary), "-full", "-workers", str(workers), *(["-stored"] if stored else [])]
    return _read(_run(command, "".join(json.dumps(case) + "\n" for case in cases)))


def cache_folder() -> Path:
    """Where built oracles and found disagreements are kept."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _fingerprint(build: Build) -> str:
    digest = hashlib.sha256()
    for name in build.files:
        digest.update((SOURCE / name).read_bytes())
    return digest.hexdigest()[:16]


def _build(go: str, build: Build, binary: Path) -> Path:
    print(
        f"building the oracle of {build.version} (once; minutes if Go has never compiled Kubernetes here) ...",
        file=sys.stderr,
    )
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        fresh = Path(folder) / binary.name
        stamp = f"-s -w -X k8s.io/component-base/version.gitVersion={build.version}"
        which = [f"-modfile={build.modules}.mod", "-tags", build.tags, "-ldflags", stamp]
        _run([go, "build", "-buildvcs=false", *which, "-o", str(fresh), "."], "", SOURCE)
        fresh.replace(binary)  # at once: another process never sees half a binary
    return binary


def _run(command: list[str], given: str, folder: Path | None = None) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode != 0:
        raise OracleFailed(f"{command[0]} exited with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _read(text: str) -> list[Json]:
    return [json.loads(line) for line in text.split("\n") if line]
