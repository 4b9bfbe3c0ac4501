"""Flags and their effects: by flag, a test that fails while nothing heeds the flag.

    python -m tests.flag_effects                # run the test of every flag with its flag unheeded: each must fail
    python -m tests.flag_effects find FLAG…     # tests that mention the flag, and fail without it; default: every flag

`tests/docs/test_flag_effects.py` does the first in every run, and checks that no flag is missing. A run as if nothing
read a flag is one in which its field has its default, whatever it is set to.
"""

import ast
import contextlib
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest import runner

from windlass.autoscaler.options import flags, process_options
from windlass.engine.model import settings

HERE = Path(__file__).parent
TABLE = HERE / "flag_effects.tsv"
_PARSING = (
    "autoscaler/options/", "docs/", "e2e/", "install/", "testbed/", "chaos/", "controllers/", "cli/", "web/", "tui/",
    "sweep/",
)  # fmt: skip
"""Tests of how flags are read, described and passed on, and slow ones: they are not tried for a flag."""
_QUICK = ("engine/loop/", "engine/", "providers/", "runtime/", "autoscaler/", "explain/")
_MOST = 12
"""Tests that are tried for a flag."""

Pairs = frozenset[tuple[str, str]]
"""Flags and tests."""


@functools.cache
def read_table() -> Mapping[str, str]:
    """The test of each flag."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines)


@functools.cache
def find_flags() -> Mapping[str, flags.Flag]:
    return {**flags.DECISION_FLAGS, **flags.PROCESS_FLAGS}


# ── Running tests as if nothing read a flag ──────────────────────────────────────────────────────────────────────


class _Unheeded:
    """A field that reads as its default, whatever it is set to."""

    def __init__(self, default: object, field: Any) -> None:
        self._default, self._field = default, field

    def __get__(self, owner: object, kind: type | None = None) -> object:
        return self if owner is None else self._default

    def __set__(self, owner: object, value: object) -> None:
        if self._field is not None:
            self._field.__set__(owner, value)


@contextlib.contextmanager
def unheed(flag: flags.Flag) -> Iterator[None]:
    """Inside, nothing learns what the flag is set to."""
    whole = settings.Settings() if flag.name in flags.DECISION_FLAGS else process_options.ProcessOptions()
    kind: Any = type(getattr(whole, flag.group)) if flag.group else settings.Settings
    field = vars(kind)[flag.field]
    setattr(kind, flag.field, _Unheeded(flag.default, field))
    try:
        yield
    finally:
        setattr(kind, flag.field, field)


class _Unheeding:
    """A plugin of pytest that runs each test once for each of its flags, with the flag unheeded."""

    def __init__(self, flags_of: Mapping[str, Sequence[str]]) -> None:
        self._flags_of = flags_of
        self.failed = set[tuple[str, str]]()
        self.broken = set[str]()
        """Tests that fail although all flags are heeded."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        test = item.nodeid.partition("[")[0]
        untold = [name for name in self._flags_of.get(test, ()) if (name, test) not in self.failed]
        if untold and not _passes(item):
            self.broken.add(item.nodeid)
            return True
        for name in untold:
            with unheed(find_flags()[name]):
                if not _passes(item):
                    self.failed.add((name, test))
        return True


def _passes(item: pytest.Item) -> bool:
    item._initrequest()  # type: ignore[attr-defined]  # its fixtures anew, as plugins that repeat tests do
    reports = runner.runtestprotocol(item, log=False, nextitem=None)
    return not any(report.failed for report in reports)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--unheeded", type=Path, help="file of [flag, test] pairs, replaced by those whose test fails")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("unheeded"):
        flags_of = defaultdict[str, list[str]](list)
        for name, test in json.loads(path.read_text()):
            flags_of[test].append(name)
        config.pluginmanager.register(_Unheeding(flags_of), "unheeding")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("unheeded"):
        plugin: Any = session.config.pluginmanager.get_plugin("unheeding")
        path.write_text(json.dumps(sorted(plugin.failed)))
        if plugin.broken:
            print(*sorted(plugin.broken), sep="\n")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def find_failing(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """The pairs whose test fails with the flag unheeded."""
    asked = sorted(set(pairs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.json"
        path.write_text(json.dumps(asked))
        options = ["-n", "0", "-q", "-p", "no:cacheprovider", "--unheeded", str(path)]
        tests = dict.fromkeys(test for _, test in asked)
        command = [sys.executable, "-m", "pytest", *options, *tests]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        done = subprocess.run(command, cwd=HERE.parent, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
        return frozenset((name, test) for name, test in json.loads(path.read_text()))


# ── Finding tests ────────────────────────────────────────────────────────────────────────────────────────────────


def find_tests(flag: flags.Flag) -> Iterator[str]:
    """Ids of tests that mention a flag or its field, those first that do so in their own body."""
    inside, around = list[str](), list[str]()
    for path in sorted(HERE.rglob("test_*.py")):
        text, place = path.read_text(encoding="utf-8"), path.relative_to(HERE).as_posix()
        if place.startswith(_PARSING) or not mentions(text, flag):
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                body = ast.get_source_segment(text, node) or ""
                own = body + "".join(ast.get_source_segment(text, item) or "" for item in node.decorator_list)
                (inside if mentions(own, flag) else around).append(f"tests/{place}::{node.name}")
    yield from sorted(inside, key=_rank)
    yield from sorted(around, key=_rank)


def _rank(test: str) -> int:
    """Quick ones first."""
    return next((number for number, place in enumerate(_QUICK) if test.startswith(f"tests/{place}")), len(_QUICK))


def mentions(text: str, flag: flags.Flag) -> bool:
    """Is the flag named, or its field set?"""
    name, field = re.escape(flag.name), re.escape(flag.field)
    return re.search(rf"""\b{field}=|["']{field}["']|["']{name}["']|--{name}\b""", text) is not None


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["find"]:
        names = arguments[1:] or find_flags()
        tried = {name: list(find_tests(find_flags()[name]))[:_MOST] for name in names}
        failing = find_failing((name, test) for name, tests in tried.items() for test in tests)
        for name, tests in tried.items():
            print(name, *(test for test in tests if (name, test) in failing), sep="\t")
        return 0
    heeded_by_none = sorted(read_table().items() - find_failing(read_table().items()))
    print(*("\t".join(pair) for pair in heeded_by_none), sep="\n")
    return 1 if heeded_by_none else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
