"""Drain rules about PodDisruptionBudgets: pods under a budget, and pods of the system namespace."""

import pytest

from tests.engine.drainability import builders
from windlass.engine.drainability import pdb_rules
from windlass.engine.model import drainability, facts


@pytest.mark.parametrize(("allowed", "stays"), [(-1, True), (0, True), (1, False), (7, False)])
def test_pod_stays_while_its_budget_allows_no_disruption(allowed: int, stays: bool) -> None:
    status = pdb_rules.check_pdb(builders.pod(), builders.context(budgets=(builders.budget(allowed, app="web"),)))
    assert (status is not None) is stays
    if status is not None:
        assert status.reason is drainability.BlockingPodReason.NOT_ENOUGH_PDB
        assert status.values == ("covers",)


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


@pytest.mark.parametrize(
    ("age_s", "action"),
    [(59, drainability.DrainAction.BLOCK), (60, drainability.DrainAction.BLOCK), (61, drainability.DrainAction.DRAIN)],
)
def test_system_pod_without_a_budget_stays_until_it_is_old(age_s: float, action: drainability.DrainAction) -> None:
    pod = builders.pod(namespace="kube-system", created_s=builders.NOW_S - age_s)
    status = pdb_rules.check_system(pod, builders.context(system_pod_timeout_s=60.0))
    assert status is not None
    assert status.action is action
    assert (status.reason == "UnmovableKubeSystemPod") is status.blocks


def test_system_pod_of_unknown_age_stays() -> None:
    status = pdb_rules.check_system(builders.pod(namespace="kube-system", created_s=0.0), builders.context())
    assert status is not None
    assert status.blocks


def test_a_budget_that_covers_the_pod_takes_over_even_when_it_is_exhausted() -> None:
    covered = builders.context(budgets=(builders.budget(0, "kube-system", app="web"),))
    assert pdb_rules.check_system(builders.pod(namespace="kube-system"), covered) is None


@pytest.mark.parametrize(
    "budget", [builders.budget(5, "kube-system", app="other"), builders.budget(5, "default", app="web")]
)
def test_budgets_of_other_pods_do_not_help(budget: facts.PodDisruptionBudget) -> None:
    status = pdb_rules.check_system(builders.pod(namespace="kube-system"), builders.context(budgets=(budget,)))
    assert status is not None
    assert status.blocks


def test_other_namespaces_and_the_option_switched_off_are_no_concern() -> None:
    assert pdb_rules.check_system(builders.pod(), builders.context()) is None
    assert (
        pdb_rules.check_system(builders.pod(namespace="kube-system"), builders.context(skip_system_pods=False)) is None
    )
