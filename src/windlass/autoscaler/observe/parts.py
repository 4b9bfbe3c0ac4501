"""Parts: of an object that cannot be read in full, each part that can be."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any


def read(readers: Mapping[str, Callable[[], object]]) -> dict[str, Any]:
    """By name, what the readers that succeed make of it. What is wrong with the others is told already."""
    found: dict[str, Any] = {}
    for name, read_part in readers.items():
        with contextlib.suppress(Exception):
            found[name] = read_part()
    return found
