"""Forks: what was done since one began can be undone.

Every step is written to a log with its inverse, so that `revert` costs what was touched, not what the cluster holds,
and `commit` costs nothing. Where a great deal is tried, steps that are undone one by one take as long as they took:
`scratch` copies the columns first, and puts them back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from windlass import releases
from windlass.engine.snapshot import columns, copies

NEVER = 1 << 62
"""Beyond every row."""

Undo = Callable[..., None]


class Forking(columns.Columns):
    """Columns that can be brought back to where they were."""

    def __init__(self, release: releases.Release = releases.DEFAULT) -> None:
        super().__init__(release)
        self._log: list[tuple[Undo, tuple[Any, ...]]] = []
        self._forks: list[tuple[int, int]] = []
        """How long the logs of steps and of tallies were when each began."""
        self._scratch = 0
        """How many forks there are where everything is a scratch; 0 where nothing is."""
        self._copied: frozenset[Undo] = frozenset()
        """Steps that need no undoing where columns are put back."""
        self._doomed = NEVER
        self._changes = 0

    @property
    def generation(self) -> int:
        """Rises with every change that no fork will undo: while it stays the same, so does everything in here."""
        return self._changes + self.storage.version + self.devices.stock.version

    @property
    def forks(self) -> int:
        """How many forks are open."""
        return len(self._forks)

    def fork(self) -> None:
        if not self._forks and not self.devices.is_idle:
            self.devices.sync()
        self._forks.append((len(self._log), self.tallies.mark()))

    def commit(self) -> None:
        """Keep what was done since the last fork. With no fork left there is nothing to undo any more."""
        mark, _ = self._forks.pop()
        if not self._forks:
            self._changes += bool(self._log)
            self._log.clear()
        elif len(self._forks) == self._scratch:
            self._log[mark:] = self._find_uncopied(mark)

    def revert(self) -> None:
        """Undo what was done since the last fork, last step first."""
        mark, counted = self._forks.pop()
        # Rows that are about to be cut off need no counting down first.
        cuts = [arguments[0] for undo, arguments in self._log[mark:] if undo == self._cut]
        self._doomed = min(cuts, default=NEVER)
        while len(self._log) > mark:
            undo, arguments = self._log.pop()
            undo(*arguments)
        self._doomed = NEVER
        self.tallies.forget_since(counted)

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Until this ends everything may be tried; then it is as it was, at about the same cost however much was done.

        A scratch within a scratch is a fork like any other.
        """
        self.fork()
        if self._scratch:
            try:
                yield
            finally:
                self.revert()
            return
        before, self._scratch = copies.take(self.nodes, self.pods, self._pods_on, self._imagined), len(self._forks)
        self.tallies.begin_log()
        try:
            yield
        finally:
            self.tallies.undo_log()  # first: rows that are cut off leave nothing behind
            mark, _ = self._forks[self._scratch - 1]
            del self._forks[self._scratch - 1 :]
            for undo, arguments in reversed(self._find_uncopied(mark)):
                undo(*arguments)
            del self._log[mark:]
            before.put_back(self.nodes, self.pods, self._pods_on, self._imagined)
            self._scratch = 0

    def _find_uncopied(self, mark: int) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """The steps since the mark that putting copies back does not undo."""
        return [step for step in self._log[mark:] if step[0] not in self._copied]

    def _remember(self, undo: Callable[..., None], *arguments: object) -> None:
        if not self._forks:
            self._changes += 1
        elif len(self._forks) != self._scratch or undo not in self._copied:
            self._log.append((undo, arguments))

    def _cut(self, count: int) -> None:
        self.tallies.clear_rows(slice(count, self.nodes.count))
        self.nodes.truncate(count)
        del self._pods_on[count:]

    def show_labels(self, keys: set[str]) -> None:
        if self._forks and not keys <= self.shapes.visible:
            raise RuntimeError("a selector with new label keys appeared inside a fork: facts change between decisions")
        super().show_labels(keys)
