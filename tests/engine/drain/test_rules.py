from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.drain import builders, plainly
from tests.engine.drain.strategies import SCRATCH, SYSTEM, contexts, pods
from windlass.engine import facts, pod_traits
from windlass.engine.drain import rules
from windlass.engine.drain.context import Context
from windlass.engine.drain.outcome import Action, Reason


@given(pods, contexts)
def test_the_first_rule_with_an_opinion_decides(pod: facts.Pod, context: Context) -> None:
    opinions = [rule(pod, context) for rule in rules.RULES]
    assert rules.judge(pod, context) == next((opinion for opinion in opinions if opinion is not None), None)


@given(pods, contexts)
def test_blocking_outcomes_and_no_others_have_a_reason_and_every_outcome_reads_as_a_sentence(
    pod: facts.Pod, context: Context
) -> None:
    for rule in rules.RULES:
        found = rule(pod, context)
        if found is not None:
            assert found.blocks is (found.reason is not None)
            assert found.text(pod).startswith(pod.key + " ")
            assert "{" not in found.text(pod)


@given(st.lists(pods, max_size=6), contexts)
def test_moves_hold_every_pod_up_to_the_first_that_blocks(node: list[facts.Pod], context: Context) -> None:
    moves = plainly.pods_to_move(node, context)
    outcomes = [rules.judge(pod, context) for pod in node]
    blocked = next((i for i, found in enumerate(outcomes) if found is not None and found.blocks), None)
    seen = list(zip(node[:blocked], outcomes[:blocked], strict=True))
    gone = [pod for pod, found in seen if found is None or found.action is Action.DRAIN]
    assert list(moves.move) == [pod for pod in gone if not pod_traits.is_daemonset(pod)]
    assert list(moves.daemonset) == [pod for pod in gone if pod_traits.is_daemonset(pod)]
    assert list(moves.on_completion) == [
        pod for pod, found in seen if found is not None and found.action is Action.WAIT
    ]
    assert (moves.blocking is None) is (blocked is None)
    if blocked is not None:
        found = outcomes[blocked]
        assert found is not None
        assert moves.blocking == rules.Blocking(node[blocked], found)


@given(st.lists(pods, max_size=6), contexts)
def test_without_a_blocking_pod_the_order_of_pods_decides_nothing(node: list[facts.Pod], context: Context) -> None:
    moves = plainly.pods_to_move(node, context)
    reversed_moves = plainly.pods_to_move(node[::-1], context)
    assert (moves.blocking is None) is (reversed_moves.blocking is None)
    if moves.blocking is None:
        assert moves.move == reversed_moves.move[::-1]
        assert moves.daemonset == reversed_moves.daemonset[::-1]
        assert moves.on_completion == reversed_moves.on_completion[::-1]


def judge(pod: facts.Pod, **options: Any) -> Action | Reason | None:
    found = rules.judge(pod, builders.context(listed=False, **options))
    return None if found is None else found.reason or found.action


def test_plain_replicated_pod_may_go_without_any_opinion() -> None:
    assert judge(builders.pod()) is None


def test_missing_controller_outweighs_the_annotation_that_it_is_safe() -> None:
    pod = builders.pod(annotations={pod_traits.SAFE_TO_EVICT: "true"})
    found = rules.judge(pod, builders.context())
    assert found is not None
    assert found.reason is Reason.CONTROLLER_NOT_FOUND


def test_safe_to_evict_outweighs_everything_that_follows() -> None:
    pod = builders.pod(annotations={pod_traits.SAFE_TO_EVICT: "true"}, owner=None, namespace=SYSTEM, spec=SCRATCH)
    assert judge(pod, budgets=(builders.budget(0, SYSTEM, app="web"),)) is Action.DRAIN


def test_ended_pod_may_go_although_it_asked_to_be_left_to_finish() -> None:
    pod = builders.pod(annotations={pod_traits.SAFE_TO_EVICT: "on-completion"}, phase="Failed")
    assert judge(pod) is Action.DRAIN


def test_pod_left_to_finish_needs_no_controller() -> None:
    assert judge(builders.pod(annotations={pod_traits.SAFE_TO_EVICT: "on-completion"}, owner=None)) is Action.WAIT


def test_old_system_pod_may_go_although_marked_as_not_safe_and_storing_locally() -> None:
    old = builders.pod(
        namespace=SYSTEM,
        created_s=builders.NOW_S - 3601,
        annotations={pod_traits.SAFE_TO_EVICT: "false"},
        spec=SCRATCH,
    )
    assert judge(old) is Action.DRAIN
    assert judge(old, skip_system_pods=False) is Reason.NOT_SAFE_TO_EVICT_ANNOTATION


def test_reasons_come_in_the_order_of_the_rules() -> None:
    exhausted = (builders.budget(0, app="web"),)
    worst = builders.pod(annotations={pod_traits.SAFE_TO_EVICT: "false"}, owner=None, spec=SCRATCH)
    assert judge(worst, budgets=exhausted) is Reason.NOT_REPLICATED
    marked = builders.pod(annotations={pod_traits.SAFE_TO_EVICT: "false"}, spec=SCRATCH)
    assert judge(marked, budgets=exhausted) is Reason.NOT_SAFE_TO_EVICT_ANNOTATION
    assert judge(builders.pod(spec=SCRATCH), budgets=exhausted) is Reason.LOCAL_STORAGE_REQUESTED
    assert judge(builders.pod(), budgets=exhausted) is Reason.NOT_ENOUGH_PDB


def test_every_pod_of_a_node_is_sorted_to_what_becomes_of_it() -> None:
    moving, waits = builders.pod(), builders.pod(annotations={pod_traits.SAFE_TO_EVICT: "on-completion"})
    agent, mirror = builders.owned("apps/v1", "DaemonSet"), builders.pod(annotations={pod_traits.MIRROR: "m"})
    moves = plainly.pods_to_move([moving, waits, agent, mirror], builders.context(listed=False))
    assert moves == rules.Moves((moving,), (agent,), (waits,), None)
