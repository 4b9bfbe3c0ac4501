"""A process for which nothing can be written: every file system is read-only, as in a pod without writable volumes."""

import functools
import subprocess
import warnings
from collections.abc import Sequence

import pytest

_REMOUNT = (
    "for at in $(cut -d' ' -f5 /proc/self/mountinfo | sort -u); do "
    'case "$at" in /proc|/proc/*|/sys|/sys/*) ;; '
    '*) mount -o remount,bind,ro "$(printf %b "$at")" 2>/dev/null;; esac; done; '
    "for at in /tmp /var/tmp /dev/shm /; do touch $at/windlass-probe 2>/dev/null && exit 99; done; "
    'cd /proc && exec "$@"'
)
"""/proc stays, as in a pod: a process reads its own there. A path that is still writable afterwards is exit code 99."""


def wrap(words: Sequence[str]) -> list[str]:
    """The command that runs these words in such a process; skips the test where that is not permitted."""
    if reason := _why_not():
        pytest.skip(reason)
    return _command(words)


def wrap_if_possible(words: Sequence[str]) -> list[str]:
    """As `wrap`, for tests that are about something else: the words as they are where that is not permitted."""
    if reason := _why_not():
        warnings.warn(reason, stacklevel=2)
        return list(words)
    return _command(words)


def _command(words: Sequence[str]) -> list[str]:
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _REMOUNT, "read-only", *words]


@functools.cache
def _why_not() -> str:
    try:
        ran = subprocess.run(_command(["true"]), capture_output=True, text=True, check=False, timeout=30)
    except OSError as error:
        return f"no read-only process: unshare: {error.strerror}"
    return f"no read-only process: {ran.stderr.strip() or ran.returncode}" if ran.returncode else ""
