import pytest

from tests.engine.drain import builders
from windlass.engine.drainability import pdb_rules
from windlass.engine.model import drainability, facts


@pytest.mark.parametrize(
    ("age_s", "action"),
    [(59, drainability.DrainAction.BLOCK), (60, drainability.DrainAction.BLOCK), (61, drainability.DrainAction.DRAIN)],
)
def test_system_pod_without_a_budget_stays_until_it_is_old(age_s: float, action: drainability.DrainAction) -> None:
    pod = builders.pod(namespace="kube-system", created_s=builders.NOW_S - age_s)
    found = pdb_rules.check_system(pod, builders.context(system_pod_timeout_s=60.0))
    assert found is not None
    assert found.action is action
    assert (found.reason == "UnmovableKubeSystemPod") is found.blocks


def test_system_pod_of_unknown_age_stays() -> None:
    found = pdb_rules.check_system(builders.pod(namespace="kube-system", created_s=0.0), builders.context())
    assert found is not None
    assert found.blocks


def test_a_budget_that_covers_the_pod_takes_over_even_when_it_is_exhausted() -> None:
    covered = builders.context(budgets=(builders.budget(0, "kube-system", app="web"),))
    assert pdb_rules.check_system(builders.pod(namespace="kube-system"), covered) is None


@pytest.mark.parametrize(
    "budget", [builders.budget(5, "kube-system", app="other"), builders.budget(5, "default", app="web")]
)
def test_budgets_of_other_pods_do_not_help(budget: facts.PodDisruptionBudget) -> None:
    found = pdb_rules.check_system(builders.pod(namespace="kube-system"), builders.context(budgets=(budget,)))
    assert found is not None
    assert found.blocks


def test_other_namespaces_and_the_option_switched_off_are_no_concern() -> None:
    assert pdb_rules.check_system(builders.pod(), builders.context()) is None
    assert (
        pdb_rules.check_system(builders.pod(namespace="kube-system"), builders.context(skip_system_pods=False)) is None
    )
