"""What holds of every history of drains."""

import itertools
from collections import Counter
from dataclasses import replace

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.actuation.drain_cluster import START_S, Run
from tests.engine.actuation.drain_histories import NODES, History, histories
from windlass.engine import drain_loop, taints
from windlass.engine.loop_memory import LoopMemory
from windlass.engine.model import facts, plan, well_known
from windlass.engine.model.drains import ENDED_PHASES, DrainFailureReason
from windlass.engine.model.durable_memory import DurableMemory

MANY = settings(max_examples=60, deadline=None)

LONGEST_S = (
    30.0  # until marks are seen
    + 5.0  # until everyone has seen them
    + 2 * (120.0 + 10.0 + 600.0 + 30.0)  # two turns: refused, then not ending
    + 120.0  # held
    + 7.0  # gathered
    + 400.0  # the machine
    + 60.0  # marks that take several attempts to remove
)


def save_and_load(memory: LoopMemory) -> LoopMemory:
    """Only what is durable survives, and no order of keys does."""
    text = msgspec.json.encode(memory.durable, order="sorted")
    return LoopMemory(msgspec.json.decode(text, type=DurableMemory))


def run_watched(run: Run) -> Run:
    """Go on to the end, and look at every answer on the way."""
    ask = run.ask

    def watched() -> drain_loop.DrainLoopResult:
        observation, before, now_s = run.world.observe(run.failed), run.memory, run.world.now_s
        answer = ask()
        again = drain_loop.advance(observation, before, run.settings, now_s)
        assert again == answer, "the same question has the same answer"
        check_evictions(run, observation.budgets, answer)
        check_deletions(run, observation.snapshot.nodes.facts, answer)
        assert not any("budget" in said or "minimum" in said for said in run.failed.values())
        return answer

    run.ask = watched  # type: ignore[method-assign]
    return run.resume()


def check_evictions(
    run: Run, budgets: tuple[facts.PodDisruptionBudget, ...], answer: drain_loop.DrainLoopResult
) -> None:
    asked = [instruction.uid for instruction in answer.plan if isinstance(instruction, plan.Evict)]
    assert len(asked) == len(set(asked))
    apps = Counter(run.world.pods[uid].labels["app"] for uid in asked if uid in run.world.pods)
    for budget in budgets:
        assert apps[budget.name] <= max(budget.disruptions_allowed, 0)


def check_deletions(run: Run, nodes: list[facts.Node], answer: drain_loop.DrainLoopResult) -> None:
    """Nodes that are deleted carry the mark, and nobody is left on them who could be waited for."""
    marked = {node.name for node in nodes if taints.has_taint(node, taints.TO_BE_DELETED_KEY)}
    for instruction in answer.plan:
        if isinstance(instruction, plan.DeleteNode):
            assert instruction.node in marked
            left = [pod for pod in run.world.pods.values() if pod.node_name == instruction.node]
            assert all(well_known.is_daemonset(pod) or pod.is_terminating or pod.spec.tolerations for pod in left)


@MANY
@given(histories())
def test_every_drain_ends_in_a_deletion_or_is_taken_back_in_time(history: History) -> None:
    run = run_watched(history.start())
    assert run.world.now_s - START_S <= LONGEST_S
    assert not run.memory.durable.drains
    for name in {*history.empty, *history.drained}:
        assert name not in run.world.nodes or not run.is_marked(name)
        assert (
            run.phases(name)[-1] == "rolled back" if name in run.world.nodes else run.phases(name)[-1] in ENDED_PHASES
        )
        assert run.why(name) or name not in run.world.nodes
    for name in set(NODES) - {*history.empty, *history.drained}:
        assert not any(getattr(instruction, "node", "") == name for _, instruction in run.done)


@MANY
@given(histories(), st.data())
def test_saving_and_loading_memory_at_any_time_changes_no_plan(history: History, data: st.DataObject) -> None:
    plain, restarting = history.start().resume(), history.start()
    ask = restarting.ask

    def restart_sometimes() -> drain_loop.DrainLoopResult:
        if data.draw(st.booleans()):
            restarting.memory = save_and_load(restarting.memory)
        return ask()

    restarting.ask = restart_sometimes  # type: ignore[method-assign]
    restarting.resume()
    assert restarting.done == plain.done
    assert restarting.told == plain.told


@MANY
@given(histories(), st.lists(st.integers(0, 12), min_size=1, max_size=3), st.integers(0, 4))
def test_a_process_that_dies_before_it_remembers_still_brings_every_drain_to_an_end(
    history: History, deaths: list[int], lost: int
) -> None:
    """After some answers memory falls back to what it was a few answers before; what was done stays done."""
    run = history.start()
    ask, remembered, answers = run.ask, [run.memory], itertools.count(1)

    def die_sometimes() -> drain_loop.DrainLoopResult:
        answer = ask()
        remembered.append(run.memory)
        if next(answers) in deaths:
            del remembered[max(len(remembered) - lost, 1) :]
            run.memory, run.failed = remembered[-1], {}
            return replace(answer, next_s=run.world.now_s)  # the next process asks at once
        return answer

    run.ask = die_sometimes  # type: ignore[method-assign]
    run.resume()
    assert run.world.now_s - START_S <= LONGEST_S + 400  # a deletion that was forgotten may be asked for once more
    for name in {*history.empty, *history.drained}:
        assert name not in run.world.nodes or not run.is_marked(name)


@MANY
@given(histories(), st.integers(0, 15), st.floats(0.001, 0.999))
def test_asking_earlier_than_told_changes_nothing(history: History, answers: int, share: float) -> None:
    run = history.start()
    for _ in range(answers):
        answer = run.settle()
        next_s = min(answer.next_s, run.world.next_s)
        if next_s == float("inf"):
            return
        between_s = run.world.now_s + share * (next_s - run.world.now_s)
        if between_s < next_s:
            early = drain_loop.advance(run.world.observe(), run.memory, run.settings, between_s)
            assert (early.plan, early.memory) == ((), run.memory)
        run.world.move_to(next_s)


@MANY
@given(histories())
def test_without_a_cause_nothing_fails(history: History) -> None:
    """Where nothing goes wrong and pods end, nothing fails but what has no place."""
    quiet = replace(
        history, refusals=frozenset(), late=(), unmarked=(), vanishing=(), allowed={}, whole=False, empty=(),
        pods=tuple(replace(member, ends_after_s=1.0) for member in history.pods),
    )  # fmt: skip
    run = quiet.start().resume()
    reasons = {run.why(name) for name in quiet.drained} - {""}
    assert reasons <= {DrainFailureReason.NO_PLACE_TO_MOVE_PODS}
