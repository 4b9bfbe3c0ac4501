"""Which windlass this is: results of another one are not mixed with its own."""

import functools
import hashlib
import importlib.metadata
from pathlib import Path

import windlass

_ELSEWHERE = frozenset({"cli", "controllers", "tui", "web"})
"""Rooms that no simulation enters."""


@functools.cache
def find() -> str:
    """Version, and a digest of the source, for a version in the making changes without changing its name."""
    root = Path(windlass.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        if place.parts[0] not in _ELSEWHERE:
            digest.update(str(place).encode())
            digest.update(path.read_bytes())
    return f"{importlib.metadata.version('windlass')} ({digest.hexdigest()[:12]})"
