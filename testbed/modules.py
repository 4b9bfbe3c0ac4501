"""Modules: definitions that other projects release, as files of a Go module, from wherever GOPROXY says."""

import functools
import json
import subprocess
import tempfile
from pathlib import Path

_WITHIN_S = 300


class Missing(RuntimeError):
    """A module cannot be had here."""


@functools.cache
def download(module: str) -> Path:
    """Where the files of `path@version` are. `Missing` without Go, or without a proxy."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            command = ["go", "mod", "download", "-json", module]
            done = subprocess.run(command, cwd=directory, capture_output=True, timeout=_WITHIN_S, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"{module}: {error}") from error
    return Path(json.loads(done.stdout)["Dir"])
