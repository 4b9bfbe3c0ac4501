from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.drainability import builders, oracle
from tests.engine.drainability.strategies import contexts, pods
from windlass.engine.drainability import rules
from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import facts, well_known
from windlass.engine.snapshot.pod_table import PodTable

labels = st.sampled_from([{}, {"app": "web"}, {"app": "web", "pod": "p7"}, {"app": "other"}])
labelled = st.lists(st.tuples(pods, labels), max_size=12).map(
    lambda drawn: [replace(pod, name=f"p{i}", uid="", labels=found) for i, (pod, found) in enumerate(drawn)]
)


def in_rows(node: list[facts.Pod]) -> PodTable:
    table = PodTable()
    for pod in node:
        row = table.add(pod)
        table.node_rows[row] = 0
    return table


@given(labelled, contexts)
def test_rows_are_judged_as_their_pods_are(node: list[facts.Pod], context: DrainContext) -> None:
    judge = rules.PodDrainability(in_rows(node), context)
    for row, pod in enumerate(node):
        assert judge.check(row) == rules.check_pod(pod, context)
        assert judge.budgets(row) == context.budgets.charged_for(pod)


@given(labelled, contexts)
def test_moves_name_the_rows_of_the_pods_that_move(node: list[facts.Pod], context: DrainContext) -> None:
    pods_to_move = rules.PodDrainability(in_rows(node), context).pods_to_move(range(len(node)))
    expected = oracle.pods_to_move(node, context)
    assert tuple(node[row] for row in pods_to_move.move) == expected.move
    assert tuple(node[row] for row in pods_to_move.daemonset) == expected.daemonset
    assert tuple(node[row] for row in pods_to_move.on_completion) == expected.on_completion
    assert (pods_to_move.blocking is None) is (expected.blocking is None)
    if pods_to_move.blocking is not None and expected.blocking is not None:
        assert node[pods_to_move.blocking.pod] == expected.blocking.pod
        assert pods_to_move.blocking.outcome == expected.blocking.outcome


def test_what_is_spent_of_a_budget_counts_at_once() -> None:
    context = builders.context(budgets=(builders.budget(1, app="web"),), listed=False)
    judge = rules.PodDrainability(in_rows([builders.pod()]), context)
    assert judge.check(0) is None
    mark = context.budgets.mark()
    context.budgets.consume([judge.budgets(0)])
    status = judge.check(0)
    assert status is not None
    assert status.blocks
    context.budgets.undo(mark)
    assert judge.check(0) is None


DAEMON = builders.owned("apps/v1", "DaemonSet")
LEAVING = builders.pod(name="leaving", deleted_s=builders.NOW_S)


def are_free(node: list[facts.Pod], *rows: int, budgets: tuple[facts.PodDisruptionBudget, ...] = ()) -> list[bool]:
    """Asked twice: of kinds that are known by then, the answer is at hand."""
    judge = rules.PodDrainability(in_rows(node), builders.context(listed=False, budgets=budgets))
    return [judge.are_all_drainable(np.array(rows, np.intp)) for _ in range(2)]


def test_only_pods_that_nothing_can_mind_are_free() -> None:
    node = [builders.pod(), builders.pod(name="p1"), DAEMON, builders.pod(name="alone", owner=None)]
    assert are_free(node, 0, 1) == [True, True]
    assert are_free(node, 0, 2) == [False, False]
    assert are_free(node, 3) == [False, False]
    assert are_free(node, 0, budgets=(builders.budget(5, app="other"),)) == [False, False]


def test_a_pod_that_leaves_is_not_free_but_those_beside_it_are() -> None:
    node = [builders.pod(), LEAVING]
    assert are_free(node, 0, 1) == [False, False]
    assert are_free(node, 1) == [False, False]
    assert are_free(node, 0) == [True, True]


def test_kinds_that_were_asked_about_are_remembered_each_for_itself() -> None:
    judge = rules.PodDrainability(in_rows([builders.pod(), DAEMON]), builders.context(listed=False))
    assert [judge.are_all_drainable(np.array([row], np.intp)) for row in (0, 1, 0)] == [True, False, True]


def check_moves(node: list[facts.Pod], context: DrainContext) -> None:
    pods_to_move = rules.PodDrainability(in_rows(node), context).pods_to_move(range(len(node)))
    expected = oracle.pods_to_move(node, context)
    assert [
        [node[row].name for row in rows]
        for rows in (pods_to_move.move, pods_to_move.daemonset, pods_to_move.on_completion)
    ] == [[pod.name for pod in pods] for pods in (expected.move, expected.daemonset, expected.on_completion)]
    assert (pods_to_move.blocking is None) == (expected.blocking is None)


@pytest.mark.parametrize("allowed", [0, 1])
@pytest.mark.parametrize(
    "names", ["web", "web other", "web agent", "agent", "web old", "old", "leaving web", "late web", "waits web"]
)
def test_nodes_of_usual_pods_are_sorted_out_as_the_rules_do(names: str, allowed: int) -> None:
    pods = {
        "web": builders.pod(name="web"),
        "other": builders.pod(name="other", labels={}),
        "agent": replace(DAEMON, name="agent"),
        "old": builders.pod(name="old", namespace="kube-system", created_s=1.0),
        "leaving": LEAVING,
        "late": builders.pod(name="late", deleted_s=builders.NOW_S - 1000),
        "waits": builders.pod(name="waits", annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"}),
    }
    budgets = (builders.budget(allowed, app="web"),)
    check_moves([pods[name] for name in names.split()], builders.context(listed=False, budgets=budgets))


def test_claims_are_those_of_pods_that_a_budget_covers() -> None:
    node = [
        builders.pod(),
        builders.pod(name="p1", labels={}),
        builders.pod(name="p2", labels={"tier": "a", "app": "web"}),
    ]
    budgets = (builders.budget(3, app="web"), builders.budget(3, tier="a"))
    judge = rules.PodDrainability(in_rows(node), builders.context(listed=False, budgets=budgets))
    assert [set(positions) for positions in judge.charged_budgets(range(3))] == [{0}, {0, 1}]
    assert rules.PodDrainability(in_rows(node), builders.context(listed=False)).charged_budgets(range(3)) == []


def test_of_system_pods_of_one_kind_each_is_as_old_as_it_is() -> None:
    node = [
        builders.pod(name=f"p{n}", namespace="kube-system", created_s=born_s) for n, born_s in enumerate((1.0, 1e6))
    ]
    judge = rules.PodDrainability(in_rows(node), builders.context(listed=False))
    old, young = judge.check(0), judge.check(1)
    assert old is not None
    assert young is not None
    assert (old.blocks, young.blocks) == (False, True)


def test_a_daemonset_pod_that_a_rule_holds_is_not_taken_for_one_that_ends_with_its_node() -> None:
    check_moves([replace(DAEMON, name="agent")], builders.context())
    check_moves(
        [replace(DAEMON, name="agent", annotations={well_known.MIRROR_ANNOTATION: "m"})], builders.context(listed=False)
    )
    pods_to_move = rules.PodDrainability(in_rows([DAEMON]), builders.context()).pods_to_move([0])
    assert pods_to_move.blocking is not None
