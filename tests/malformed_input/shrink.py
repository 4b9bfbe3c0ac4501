"""From a failing batch to the fewest objects that still fail: halves are replayed against a new autoscaler."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.malformed_input import harness
from tests.malformed_input.harness import Item


def shrink(directory: Path, items: Sequence[Item], seed: int, settings: harness.Settings) -> tuple[list[Item], str]:
    """The objects that are left, and what fails with them; nothing if the whole batch does not fail again."""
    left = list(items)
    failure = _check(directory, left, seed, settings)
    if not failure:
        return [], ""
    while len(left) > 1:
        middle = len(left) // 2
        for half in (left[:middle], left[middle:]):
            if found := _check(directory, half, seed, settings):
                left, failure = half, found
                break
        else:
            break  # it takes objects of both halves
    return left, failure


def _check(directory: Path, items: Sequence[Item], seed: int, settings: harness.Settings) -> str:
    return asyncio.run(harness.check(directory, items, seed, settings))
