"""Trying changes: each in a process of its own, forked from one in which everything is imported and collected.

A change of a function is put into the running process and judged by the tests that reach its lines, quickest first. A
change of what runs when a module is imported needs that done anew, and all of the room's tests. A process that uses up
its seconds of a core counts as noticed: a test would not have ended.
"""

import collections
import functools
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import pytest
from _pytest import runner

from tests.mutation import live_patching, mutation_sites

SLOWEST_S = 8.0
"""A test that takes longer with all of its lines traced is left out: what only it would notice counts as unnoticed."""
_LIMIT_S = 20
_MEMORY_BYTES = 6 * 2**30
_SURVIVED, _NOTICED = 0, 1


@dataclass(slots=True)
class Reached:
    """Which tests run which lines, as seen in one run in which nothing is changed."""

    took_s: dict[str, float] = field(default_factory=dict)
    """By the test's name."""
    tests: dict[tuple[str, int], set[str]] = field(default_factory=lambda: collections.defaultdict(set))
    """By path and line."""

    def does(self, change: mutation_sites.Change) -> bool:
        """Whether a test runs a change's lines; otherwise they are run when a module is imported, or never."""
        return any((str(change.path), line) in self.tests for line in range(change.first_line, change.last_line + 1))

    def quickly(self, change: mutation_sites.Change) -> list[str]:
        """The tests that reach a change's lines, quickest first, without those that are too slow."""
        lines = range(change.first_line, change.last_line + 1)
        names = set().union(*(self.tests.get((str(change.path), line), ()) for line in lines))
        return sorted(names & {*self.quick()}, key=lambda name: self.took_s[name])

    def quick(self) -> list[str]:
        return [name for name, took_s in self.took_s.items() if took_s <= SLOWEST_S]


class Trying:
    """A pytest plugin: instead of running the tests it tries changes with them."""

    def __init__(
        self, changes: list[mutation_sites.Change], told: Callable[[mutation_sites.Change, bool], None]
    ) -> None:
        self._changes, self._told = changes, told
        self._paths = {str(change.path) for change in changes}
        self.reached = Reached()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for name, item in items.items():
            self._trace(name, item)
        for change in self._changes:
            if change.function is not None and self.reached.does(change):
                chosen = [items[name] for name in self.reached.quickly(change)]
                self._told(change, _is_noticed(functools.partial(_evaluate, change, chosen)))
        return True

    def _trace(self, name: str, item: pytest.Item) -> None:
        """Run a test as it is; one that fails then can judge nothing."""
        began_s = time.process_time()
        with _Tracing(self._paths) as lines:
            if not _passes(item):
                raise pytest.UsageError(f"{name} fails although nothing is changed")
        self.reached.took_s[name] = time.process_time() - began_s
        for line in lines:
            self.reached.tests[line].add(name)


class _Tracing:
    """The lines of these files that are run meanwhile."""

    def __init__(self, paths: set[str]) -> None:
        self._paths, self._lines = paths, set[tuple[str, int]]()

    def __enter__(self) -> set[tuple[str, int]]:
        sys.settrace(self._enter)
        return self._lines

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: types.FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        return self._step if frame.f_code.co_filename in self._paths else None

    def _step(self, frame: types.FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._step


def try_importing(change: mutation_sites.Change, reached: Reached) -> bool:
    """Is a change of what runs when a module is imported noticed by a test that is quick enough?"""
    nearest = {name for (path, _), names in reached.tests.items() if path == str(change.path) for name in names}

    def passes() -> bool:
        live_patching.import_anew(change)
        nearest_first = sorted(reached.quick(), key=lambda name: (name not in nearest, reached.took_s[name]))
        return run_pytest([*nearest_first, "-x"], []) == 0

    return _is_noticed(passes)


def run_pytest(arguments: list[str], plugins: list[object]) -> int:
    """Run pytest in this process, at the project's root; without shrinking, which only explains a failure."""
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutation", hypothesis.settings(phases=phases))
    hypothesis.settings.load_profile("mutation")
    os.chdir(mutation_sites.ROOT)
    return int(
        pytest.main(["-q", "-n0", "-p", "no:cacheprovider", "--no-header", "--assert=plain", *arguments], plugins)
    )


def _is_noticed(passes: Callable[[], bool]) -> bool:
    """In a process of its own."""
    child = os.fork()
    if child == 0:
        _become_quiet()
        try:
            os._exit(_SURVIVED if passes() else _NOTICED)
        except BaseException:
            os._exit(_NOTICED)
    return os.waitpid(child, 0)[1] != _SURVIVED


def _become_quiet() -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, _LIMIT_S)  # seconds of a core: a busy machine notices nothing by itself
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _evaluate(change: mutation_sites.Change, items: list[pytest.Item]) -> bool:
    live_patching.put_in(change)
    return all(_passes(item) for item in items)


def _passes(item: pytest.Item) -> bool:
    return not any(report.failed for report in runner.runtestprotocol(item, log=False, nextitem=None))
