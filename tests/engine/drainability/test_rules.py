from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.drainability import builders, oracle
from tests.engine.drainability.strategies import SCRATCH, SYSTEM, contexts, pods
from windlass.engine.drainability import rules
from windlass.engine.drainability.context import DrainContext
from windlass.engine.model import drainability, facts, well_known
from windlass.engine.model.drainability import BlockingPodReason, DrainAction


@given(pods, contexts)
def test_the_first_rule_with_an_opinion_decides(pod: facts.Pod, context: DrainContext) -> None:
    opinions = [rule(pod, context) for rule in rules.RULES]
    assert rules.check_pod(pod, context) == next((opinion for opinion in opinions if opinion is not None), None)


@given(pods, contexts)
def test_blocking_outcomes_and_no_others_have_a_reason_and_every_outcome_reads_as_a_sentence(
    pod: facts.Pod, context: DrainContext
) -> None:
    for rule in rules.RULES:
        status = rule(pod, context)
        if status is not None:
            assert status.blocks is (status.reason is not None)
            assert status.text(pod).startswith(pod.key + " ")
            assert "{" not in status.text(pod)


@given(st.lists(pods, max_size=6), contexts)
def test_moves_hold_every_pod_up_to_the_first_that_blocks(node: list[facts.Pod], context: DrainContext) -> None:
    moves = oracle.pods_to_move(node, context)
    outcomes = [rules.check_pod(pod, context) for pod in node]
    blocked = next((i for i, status in enumerate(outcomes) if status is not None and status.blocks), None)
    seen = list(zip(node[:blocked], outcomes[:blocked], strict=True))
    gone = [pod for pod, found in seen if found is None or found.action is DrainAction.DRAIN]
    assert list(moves.move) == [pod for pod in gone if not well_known.is_daemonset(pod)]
    assert list(moves.daemonset) == [pod for pod in gone if well_known.is_daemonset(pod)]
    assert list(moves.on_completion) == [
        pod for pod, found in seen if found is not None and found.action is DrainAction.WAIT
    ]
    assert (moves.blocking is None) is (blocked is None)
    if blocked is not None:
        found = outcomes[blocked]
        assert found is not None
        assert moves.blocking == drainability.BlockingPod(node[blocked], found)


@given(st.lists(pods, max_size=6), contexts)
def test_without_a_blocking_pod_the_order_of_pods_decides_nothing(node: list[facts.Pod], context: DrainContext) -> None:
    moves = oracle.pods_to_move(node, context)
    reversed_moves = oracle.pods_to_move(node[::-1], context)
    assert (moves.blocking is None) is (reversed_moves.blocking is None)
    if moves.blocking is None:
        assert moves.move == reversed_moves.move[::-1]
        assert moves.daemonset == reversed_moves.daemonset[::-1]
        assert moves.on_completion == reversed_moves.on_completion[::-1]


def evaluate(pod: facts.Pod, **options: Any) -> DrainAction | BlockingPodReason | None:
    status = rules.check_pod(pod, builders.context(listed=False, **options))
    return None if status is None else status.reason or status.action


def test_plain_replicated_pod_may_go_without_any_opinion() -> None:
    assert evaluate(builders.pod()) is None


def test_missing_controller_outweighs_the_annotation_that_it_is_safe() -> None:
    pod = builders.pod(annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "true"})
    status = rules.check_pod(pod, builders.context())
    assert status is not None
    assert status.reason is BlockingPodReason.CONTROLLER_NOT_FOUND


def test_safe_to_evict_outweighs_everything_that_follows() -> None:
    pod = builders.pod(
        annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "true"}, owner=None, namespace=SYSTEM, spec=SCRATCH
    )
    assert evaluate(pod, budgets=(builders.budget(0, SYSTEM, app="web"),)) is DrainAction.DRAIN


def test_ended_pod_may_go_although_it_asked_to_be_left_to_finish() -> None:
    pod = builders.pod(annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"}, phase="Failed")
    assert evaluate(pod) is DrainAction.DRAIN


def test_pod_left_to_finish_needs_no_controller() -> None:
    assert (
        evaluate(builders.pod(annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"}, owner=None))
        is DrainAction.WAIT
    )


def test_old_system_pod_may_go_although_marked_as_not_safe_and_storing_locally() -> None:
    old = builders.pod(
        namespace=SYSTEM,
        created_s=builders.NOW_S - 3601,
        annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "false"},
        spec=SCRATCH,
    )
    assert evaluate(old) is DrainAction.DRAIN
    assert evaluate(old, skip_system_pods=False) is BlockingPodReason.NOT_SAFE_TO_EVICT_ANNOTATION


def test_reasons_come_in_the_order_of_the_rules() -> None:
    exhausted = (builders.budget(0, app="web"),)
    worst = builders.pod(annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "false"}, owner=None, spec=SCRATCH)
    assert evaluate(worst, budgets=exhausted) is BlockingPodReason.NOT_REPLICATED
    marked = builders.pod(annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "false"}, spec=SCRATCH)
    assert evaluate(marked, budgets=exhausted) is BlockingPodReason.NOT_SAFE_TO_EVICT_ANNOTATION
    assert evaluate(builders.pod(spec=SCRATCH), budgets=exhausted) is BlockingPodReason.LOCAL_STORAGE_REQUESTED
    assert evaluate(builders.pod(), budgets=exhausted) is BlockingPodReason.NOT_ENOUGH_PDB


def test_every_pod_of_a_node_is_sorted_to_what_becomes_of_it() -> None:
    moving, waits = builders.pod(), builders.pod(annotations={well_known.SAFE_TO_EVICT_ANNOTATION: "on-completion"})
    agent, mirror = (
        builders.owned("apps/v1", "DaemonSet"),
        builders.pod(annotations={well_known.MIRROR_ANNOTATION: "m"}),
    )
    moves = oracle.pods_to_move([moving, waits, agent, mirror], builders.context(listed=False))
    assert moves == drainability.PodsToMove((moving,), (agent,), (waits,), None)
