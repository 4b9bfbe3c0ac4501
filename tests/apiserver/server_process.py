"""`windlass apiserver` as a process."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Served:
    """A server that listens."""

    process: subprocess.Popen[str]
    url: str
    kubeconfig: Path


@contextlib.contextmanager
def serve(directory: Path, *arguments: str | Path) -> Iterator[Served]:
    """Started, and stopped at the end unless that has happened already."""
    kubeconfig = directory / "kubeconfig"
    command = [sys.executable, "-m", "windlass", "apiserver", "--kubeconfig", str(kubeconfig)]
    with (directory / "apiserver.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    try:
        while line := process.stdout.readline():
            if line.startswith("kubeconfig: "):
                break
        else:
            raise AssertionError(f"it ended: {(directory / 'apiserver.log').read_text()}")
        yield Served(process, read_server(kubeconfig), kubeconfig)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        process.stdout.close()


def read_server(kubeconfig: Path) -> str:
    config: dict[str, Any] = json.loads(kubeconfig.read_text())
    url: str = config["clusters"][0]["cluster"]["server"]
    return url
