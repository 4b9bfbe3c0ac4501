"""Flags and their effects: the test that fails if a flag is not heeded, by flag.

    pytest --deaf max-nodes-total TEST…         # as if nothing read the flag: its field always has its default
    python -m tests.flag_effects                # tests of flag_effects.tsv with their flags unheeded: each must fail
    python -m tests.flag_effects find FLAG…     # tests that mention the flag, and fail without it

`tests/docs/test_flag_effects.py` checks that no new flag is without such a test.
"""

import ast
import contextlib
import functools
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from windlass.autoscaler.options import flags, process_options
from windlass.engine.model import settings

HERE = Path(__file__).parent
SHOWN = "shown"
TABLE = HERE / "flag_effects.tsv"
_PARSING = ("autoscaler/options/", "docs/", "e2e/")
"""Tests of how flags are read and described: they do not show an effect."""
_QUICK = ("engine/loop/", "engine/", "providers/", "runtime/", "autoscaler/", "explain/")
_MOST = 2
_MOST_S = 60
"""Tests that are tried for a flag, and how long they may take together."""


class Effect(NamedTuple):
    """A test of a flag's effect."""

    flag: str
    how: str
    """`shown`: it fails while the flag is not heeded. `named`: it mentions the flag, and that was not tried yet."""
    test: str


@functools.cache
def read_table() -> Mapping[str, Effect]:
    """By flag."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {effect.flag: effect for effect in (Effect(*line.split("\t")) for line in lines)}


def find_flags() -> Mapping[str, flags.Flag]:
    return {**flags.DECISION_FLAGS, **flags.PROCESS_FLAGS}


class _Deaf:
    """A field that keeps its default, whatever it is set to."""

    def __init__(self, default: object) -> None:
        self._default = default

    def __get__(self, owner: object, kind: type | None = None) -> object:
        return self if owner is None else self._default

    def __set__(self, owner: object, value: object) -> None:
        """Not heard."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deaf", metavar="FLAG", help="run as if nothing read this flag")


def pytest_configure(config: pytest.Config) -> None:
    if name := config.getoption("deaf"):
        flag = find_flags()[name]
        whole = settings.Settings() if name in flags.DECISION_FLAGS else process_options.ProcessOptions()
        kind: Any = type(getattr(whole, flag.group)) if flag.group else settings.Settings
        setattr(kind, flag.field, _Deaf(flag.default))


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
    return flag.field in text or f'"{flag.name}"' in text or f"--{flag.name}" in text


def run_deaf(flag: str, tests: Sequence[str]) -> list[str]:
    """Those of the tests that fail while the flag is not heeded."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        failed: list[str] = []

        class Failures:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    failed.append(report.nodeid.partition("[")[0])

        signal.alarm(_MOST_S)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        with contextlib.suppress(BaseException):
            pytest.main(["-n", "0", "-q", "-p", "no:cacheprovider", "--deaf", flag, *tests], plugins=[Failures()])
        os.write(writing, "\n".join(dict.fromkeys(failed)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        found = told.read().split("\n")
    os.waitpid(child, 0)
    return [test for test in tests if test in found]


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["find"]:
        for name in arguments[1:] or [item for item in find_flags() if item not in read_table()]:
            tests = list(find_tests(find_flags()[name]))[:_MOST]
            found = run_deaf(name, tests) if tests else []
            print(name, *found[:3], sep="\t", flush=True)
        return 0
    known = read_table().values()
    unheeded = [
        f"{effect.flag}\t{effect.test}"
        for effect in known
        if effect.how == SHOWN and not run_deaf(effect.flag, [effect.test])
    ]
    print(*unheeded, sep="\n")
    return 1 if unheeded else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
