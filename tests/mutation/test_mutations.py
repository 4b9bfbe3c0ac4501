"""Changes are those that someone might have made by mistake, and one at a time."""

import ast
from pathlib import Path

import pytest

from tests.mutation import live_patching, mutation_report, mutation_sites, operators, targets
from windlass.engine.drainability import replicated
from windlass.engine.model import facts


def to_text(code: str) -> list[str]:
    """What may stand in the place of an expression."""
    (statement,) = ast.parse(code).body
    assert isinstance(statement, ast.Expr)
    return [ast.unparse(ast.fix_missing_locations(item)) for item in operators.replacements(statement.value, statement)]


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("a < b", ["a <= b", "a >= b"]),
        ("a == b", ["a != b"]),
        ("a is not b", ["a is b"]),
        ("a and b", ["a or b"]),
        ("not a", ["a"]),
        ("~a", ["a"]),
        ("a & b", ["a | b"]),
        ("a + b", ["a - b"]),
        ("7", ["8"]),
        ("True", ["False"]),
        ("'x'", ["'xXX'"]),
        ("None", []),
        ("a", []),
    ],
)
def test_an_expression_is_changed_into_what_might_have_been_meant(code: str, changed: list[str]) -> None:
    assert to_text(code) == changed


BUDGET = mutation_sites.ROOT / "src/windlass/engine/drainability/pdb_rules.py"
STATUSES = mutation_sites.ROOT / "src/windlass/engine/model/drainability.py"


def test_a_module_is_changed_in_one_place_at_a_time_and_is_itself_again_behind_it() -> None:
    changes = mutation_sites.changes(BUDGET)
    before = ast.unparse(changes[0].tree)
    assert len({change.name for change in changes}) == len(changes) > 1
    compiled = {change.name: change.compile() for change in changes}
    assert ast.unparse(changes[0].tree) == before
    assert len(compiled) == len(changes)
    assert "drainability.pdb_rules.check_pdb_indexes: exhausted is None → exhausted is not None" in compiled


def test_docstrings_decorators_and_annotations_are_left_alone() -> None:
    names = [change.name for change in mutation_sites.changes(STATUSES)]
    assert not any("frozen" in name or "One rule" in name or "The pod is evicted" in name for name in names)
    assert any("'drain' → 'drainXX'" in name for name in names)


def test_whoever_holds_a_function_runs_the_change_that_was_put_in() -> None:
    changes = mutation_sites.changes(Path(replicated.__file__))
    (change,) = [
        each
        for each in changes
        if each.name == "drainability.replicated._group: return group if slash else '' → return None"
    ]
    held, code = replicated._group, replicated._group.__code__
    owner = facts.Owner("apps/v1", "ReplicaSet", "web", "")
    try:
        live_patching.put_in(change)
        assert held(owner) is None
    finally:
        held.__code__ = code
    assert held(owner) == "apps"


def test_every_room_has_rules_and_every_argument_is_about_one_of_them() -> None:
    every = {change.name for room in targets.ROOMS for path in room.paths() for change in mutation_sites.changes(path)}
    assert len(every) > 1000
    assert sorted(set(mutation_report.read_equivalent()) - every) == []


def test_the_score_is_of_changes_that_could_be_noticed_and_arguments_go_out_of_date(
    capsys: pytest.CaptureFixture[str],
) -> None:
    noticed, argued, survivor, *_ = mutation_sites.changes(BUDGET)
    account = mutation_report.Account("drainability", {argued.name: "same", "drainability.gone: x": "why"})
    for change, is_noticed in ((noticed, True), (argued, False), (survivor, False)):
        account.note(change, is_noticed)
    assert (account.noticed, account.argued, account.survivors) == ([noticed.name], [argued.name], [survivor.name])
    assert account.score_percent == 50.0
    assert account.outdated() == ["drainability.gone: x"]
    assert survivor.name in capsys.readouterr().out
    assert account.is_well(49.0, is_whole=False)
    assert not account.is_well(50.0, is_whole=False)
    assert not account.is_well(49.0, is_whole=True)
