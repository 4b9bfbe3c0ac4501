"""Budgets against the plain definition: every budget asked about every pod, nothing remembered."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.drainability import pdb
from windlass.engine.model import facts
from windlass.selectors import EVERYTHING, LabelSelector, Operator, Requirement

KEYS, VALUES = ["app", "tier", "zone"], ["", "a", "b"]

requirements = st.one_of(
    st.builds(
        Requirement,
        st.sampled_from(KEYS),
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(lambda values: tuple(sorted(values))),
    ),
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
)
selectors = st.none() | st.lists(requirements, max_size=3).map(lambda found: LabelSelector(tuple(found)))
budgets = st.lists(
    st.builds(
        facts.PodDisruptionBudget,
        st.sampled_from(["x", "y"]),
        st.text("bcd", max_size=3),
        selectors,
        st.integers(-1, 4),
    ),
    max_size=6,
)
pods = st.lists(
    st.builds(
        facts.Pod,
        st.sampled_from(["x", "y", "z"]),
        st.text("pqr", min_size=1, max_size=4),
        labels=st.dictionaries(st.sampled_from([*KEYS, "other"]), st.sampled_from(VALUES)),
    ),
    max_size=8,
)


def covers(budget: facts.PodDisruptionBudget, pod: facts.Pod) -> bool:
    return budget.namespace == pod.namespace and budget.selector is not None and budget.selector.matches(pod.labels)


def ask(remaining: pdb.RemainingPdbTracker, *pods: facts.Pod) -> pdb.DisruptionCheck:
    """May these pods go?"""
    return remaining.can_disrupt(remaining.matching(pod.namespace, pod.labels) for pod in pods)


@given(budgets, pods)
def test_a_pod_counts_against_the_budgets_of_its_namespace_that_select_it(
    listed: list[facts.PodDisruptionBudget], listed_pods: list[facts.Pod]
) -> None:
    remaining = pdb.RemainingPdbTracker(listed)
    for pod in listed_pods:
        expected = tuple(i for i, budget in enumerate(listed) if covers(budget, pod))
        assert remaining.matching(pod.namespace, pod.labels) == expected
        empty = [listed[i] for i in expected if listed[i].disruptions_allowed < 1]
        assert remaining.exhausted(expected) == (empty[0] if empty else None)


@given(budgets, pods)
def test_the_question_whether_pods_may_go_asks_each_budget_in_turn(
    listed: list[facts.PodDisruptionBudget], together: list[facts.Pod]
) -> None:
    expected = pdb.DISRUPTIONS_ALLOWED
    for position, budget in enumerate(listed):
        covered = [number for number, pod in enumerate(together) if covers(budget, pod)]
        if covered and budget.disruptions_allowed < 1:
            expected = pdb.DisruptionCheck(can=False, parallel=False, blocking=covered[0], position=position)
            break
        if covered and len(covered) > budget.disruptions_allowed:
            expected = pdb.DisruptionCheck(can=True, parallel=False, blocking=covered[-1], position=position)
    remaining = pdb.RemainingPdbTracker(listed)
    assert ask(remaining, *together) == expected
    assert remaining.allowed == tuple(budget.disruptions_allowed for budget in listed)


@given(budgets, pods)
def test_removing_takes_one_from_every_budget_of_every_pod(
    listed: list[facts.PodDisruptionBudget], gone: list[facts.Pod]
) -> None:
    remaining = pdb.RemainingPdbTracker(listed)
    remaining.consume_for_pods(gone)
    expected = [b.disruptions_allowed - sum(covers(b, pod) for pod in gone) for b in listed]
    assert remaining.allowed == tuple(expected)


@given(budgets, st.lists(st.tuples(pods, st.booleans()), max_size=5))
def test_undo_gives_back_exactly_what_the_failed_attempt_took(
    listed: list[facts.PodDisruptionBudget], attempts: list[tuple[list[facts.Pod], bool]]
) -> None:
    remaining, plain = pdb.RemainingPdbTracker(listed), pdb.RemainingPdbTracker(listed)
    for attempt, succeeds in attempts:
        mark, before = remaining.mark(), remaining.allowed
        remaining.consume_for_pods(attempt)
        if succeeds:
            plain.consume_for_pods(attempt)
        else:
            remaining.undo(mark)
            assert remaining.allowed == before
    assert remaining.allowed == plain.allowed


@given(budgets, pods, pods)
def test_marks_nest(listed: list[facts.PodDisruptionBudget], first: list[facts.Pod], second: list[facts.Pod]) -> None:
    remaining = pdb.RemainingPdbTracker(listed)
    outer, start = remaining.mark(), remaining.allowed
    remaining.consume_for_pods(first)
    inner, middle = remaining.mark(), remaining.allowed
    remaining.consume_for_pods(second)
    remaining.undo(inner)
    assert remaining.allowed == middle
    remaining.undo(outer)
    assert remaining.allowed == start


@given(budgets, pods, pods)
def test_forks_are_spent_independently(
    listed: list[facts.PodDisruptionBudget], ours: list[facts.Pod], theirs: list[facts.Pod]
) -> None:
    remaining = pdb.RemainingPdbTracker(listed)
    remaining.consume_for_pods(ours)
    at_fork = remaining.allowed
    other = remaining.fork()
    other.consume_for_pods(theirs)
    assert remaining.allowed == at_fork
    other.undo(pdb.Mark(0))
    assert other.allowed == at_fork


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    pod = facts.Pod("x", "p")
    none, every = facts.PodDisruptionBudget("x", "none", None, 0), facts.PodDisruptionBudget("x", "all", EVERYTHING, 0)
    assert ask(pdb.RemainingPdbTracker([none]), pod) == pdb.DISRUPTIONS_ALLOWED
    assert not ask(pdb.RemainingPdbTracker([every]), pod).can
