"""Tests that are told at the same time: each has groups and pods of its own, and most of its time is waiting.

Those marked `together` take nothing but a scene, and leave the autoscaler alone. All of them begin with the first one,
a few at a time; in its turn, each only tells what became of it. Whoever is not marked has the autoscaler to itself.
"""

from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import pytest

from tests.e2e.scale_scenario import Scene

MARK = "together"
_AT_ONCE = 4

_SCENE = pytest.StashKey[Scene]()
_TOLD = pytest.StashKey["futures.Future[None]"]()


class Company:
    """The tests of a run that are told together."""

    def __init__(self) -> None:
        self._pool = futures.ThreadPoolExecutor(_AT_ONCE)
        self._begun: list[futures.Future[None]] = []

    def begin(self, items: Sequence[pytest.Item], stage: Callable[[pytest.Item], Scene]) -> None:
        """Begin with all of them, if nobody has."""
        for item in items:
            if is_member(item) and item.stash.get(_TOLD, None) is None:
                item.stash[_SCENE] = stage(item)
                item.stash[_TOLD] = self._pool.submit(_report, getattr(item, "function"), item.stash[_SCENE])  # noqa: B009
                self._begun.append(item.stash[_TOLD])

    def wait(self) -> None:
        """Until none of them is under way."""
        futures.wait(self._begun)

    def end(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def is_member(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARK) is not None


def scene_of(item: pytest.Item) -> Scene:
    return item.stash[_SCENE]


def on_event(item: pytest.Item) -> bool:
    """What became of a test that was begun with others; it fails as if it had just been told. False for others."""
    told = item.stash.get(_TOLD, None)
    if told is None:
        return False
    told.result()
    return True


def _report(test: Callable[..., Any], scene: Scene) -> None:
    scene.begin()
    try:
        test(scene=scene)
    finally:
        scene.end()
