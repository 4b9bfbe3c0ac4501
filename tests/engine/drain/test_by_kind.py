from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.drain import builders
from tests.engine.drain.strategies import contexts, pods
from windlass.engine import facts
from windlass.engine.drain import by_kind, rules
from windlass.engine.drain.context import Context
from windlass.engine.pods import PodTable

labels = st.sampled_from([{}, {"app": "web"}, {"app": "web", "pod": "p7"}, {"app": "other"}])
labelled = st.lists(st.tuples(pods, labels), max_size=12).map(
    lambda drawn: [replace(pod, name=f"p{i}", uid="", labels=found) for i, (pod, found) in enumerate(drawn)]
)


def in_rows(node: list[facts.Pod]) -> PodTable:
    table = PodTable()
    for pod in node:
        table.add(pod)
    return table


@given(labelled, contexts)
def test_rows_are_judged_as_their_pods_are(node: list[facts.Pod], context: Context) -> None:
    judge = by_kind.Judge(in_rows(node), context)
    for row, pod in enumerate(node):
        assert judge.judge(row) == rules.judge(pod, context)
        assert judge.budgets(row) == context.budgets.matching(pod.namespace, pod.labels)


@given(labelled, contexts)
def test_moves_name_the_rows_of_the_pods_that_move(node: list[facts.Pod], context: Context) -> None:
    found = by_kind.Judge(in_rows(node), context).pods_to_move(range(len(node)))
    expected = rules.pods_to_move(node, context)
    assert tuple(node[row] for row in found.move) == expected.move
    assert tuple(node[row] for row in found.daemonset) == expected.daemonset
    assert tuple(node[row] for row in found.on_completion) == expected.on_completion
    assert (found.blocking is None) is (expected.blocking is None)
    if found.blocking is not None and expected.blocking is not None:
        assert node[found.blocking.pod] == expected.blocking.pod
        assert found.blocking.outcome == expected.blocking.outcome


def test_what_is_spent_of_a_budget_counts_at_once() -> None:
    context = builders.context(budgets=(builders.budget(1, app="web"),), listed=False)
    judge = by_kind.Judge(in_rows([builders.pod()]), context)
    assert judge.judge(0) is None
    mark = context.budgets.mark()
    context.budgets.spend([judge.budgets(0)])
    found = judge.judge(0)
    assert found is not None
    assert found.blocks
    context.budgets.undo(mark)
    assert judge.judge(0) is None
