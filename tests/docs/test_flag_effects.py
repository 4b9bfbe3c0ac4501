"""Every flag changes something in a test that fails while nothing heeds the flag, or has no effect and a reason."""

import ast
import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import flag_effects
from windlass.autoscaler.options import flags
from windlass.observability import options

ROOT = Path(__file__).parents[2]

UNREAD: Mapping[str, str] = {"cloud-provider": "one value is accepted, and all others end the start"}
"""Flags that change nothing once they are accepted, beside `flags.IGNORED_FLAGS`, and why."""

_PARTS = 6
"""The tests of all flags are run in so many parts, which several processes may share."""


def test_every_flag_has_a_test_or_a_reason_to_have_none() -> None:
    table = flag_effects.read_table()
    assert sorted(flag_effects.find_flags().keys() - table.keys() - UNREAD.keys()) == [], (
        "add a test, and the line that `python -m tests.flag_effects find FLAG` finds to tests/flag_effects.tsv"
    )
    assert sorted((table.keys() | UNREAD.keys()) - flag_effects.find_flags().keys()) == []
    assert table.keys() & UNREAD.keys() == set()
    assert all(entry.why for entry in flags.IGNORED_FLAGS.values())
    assert all(UNREAD.values())


def test_the_table_is_sorted_and_names_tests_that_exist() -> None:
    table = flag_effects.read_table()
    assert list(table) == sorted(table)
    for test in table.values():
        path, _, function = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {getattr(node, "name", "") for node in tree.body} or function in _assigned(tree), test


def _assigned(tree: ast.Module) -> set[str]:
    return {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
            if isinstance(target, ast.Name)}  # fmt: skip


@pytest.mark.parametrize("part", range(_PARTS))
def test_the_test_of_each_flag_fails_while_nothing_heeds_the_flag(part: int) -> None:
    by_test = sorted(flag_effects.read_table().items(), key=lambda pair: pair[1])
    pairs = set(itertools.islice(by_test, part, None, _PARTS))
    assert sorted(pairs - flag_effects.find_failing(pairs)) == []


def test_a_flag_that_is_not_heeded_has_its_default_until_it_is_heeded_again() -> None:
    flag = flag_effects.find_flags()["v"]
    given = options.LoggingOptions(v=3)
    with flag_effects.unheed(flag):
        assert (given.v, options.LoggingOptions(v=4).v) == (0, 0)
        made = options.LoggingOptions(v=5)
    assert (given.v, made.v) == (3, 5)


def test_a_test_that_does_not_depend_on_a_flag_shows_nothing() -> None:
    """A part of this module, run as if nothing read a flag: it passes."""
    name = "test_a_flag_that_is_not_heeded_has_its_default_until_it_is_heeded_again"
    assert flag_effects.find_failing([("seed", f"tests/docs/test_flag_effects.py::{name}")]) == frozenset()
