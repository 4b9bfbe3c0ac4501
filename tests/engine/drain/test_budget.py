import pytest

from tests.engine.drain import builders
from windlass.engine.drainability import pdb_rules
from windlass.engine.model import drainability


@pytest.mark.parametrize(("allowed", "stays"), [(-1, True), (0, True), (1, False), (7, False)])
def test_pod_stays_while_its_budget_allows_no_disruption(allowed: int, stays: bool) -> None:
    found = pdb_rules.check_pdb(builders.pod(), builders.context(budgets=(builders.budget(allowed, app="web"),)))
    assert (found is not None) is stays
    if found is not None:
        assert found.reason is drainability.BlockingPodReason.NOT_ENOUGH_PDB
        assert found.values == ("covers",)


def test_one_exhausted_budget_among_several_is_enough() -> None:
    budgets = (builders.budget(3, app="web"), builders.budget(0))
    assert pdb_rules.check_pdb(builders.pod(), builders.context(budgets=budgets)) is not None


def test_budgets_of_other_pods_are_no_concern() -> None:
    budgets = (builders.budget(0, app="other"), builders.budget(0, "elsewhere", app="web"))
    assert pdb_rules.check_pdb(builders.pod(), builders.context(budgets=budgets)) is None


def test_what_a_simulated_removal_has_spent_counts() -> None:
    context = builders.context(budgets=(builders.budget(1, app="web"),))
    mark = context.budgets.mark()
    context.budgets.consume_for_pods([builders.pod()])
    assert pdb_rules.check_pdb(builders.pod(), context) is not None
    context.budgets.undo(mark)
    assert pdb_rules.check_pdb(builders.pod(), context) is None
