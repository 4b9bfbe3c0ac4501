"""What an autoscaler recorded is decided again as it was: by whoever reads it, whenever the file began."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.autoscaler.in_process_cluster import NOW_S, Cluster, play
from tests.autoscaler.record_replay import recorded_clusters
from tests.engine.dra.builders import device, pool
from windlass import errors, klog
from windlass.autoscaler.record_replay import recorder, recording_file, replay, snapshot_journal
from windlass.autoscaler.shadow_mode import DryRun
from windlass.engine import loop_memory
from windlass.engine.loop import Decision, decide
from windlass.engine.model import durable_memory, facts, plan
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.snapshot import cluster_snapshot
from windlass.kube import request_builders, resources
from windlass.selectors import LabelSelector, Operator, Requirement


def record(path: Path, limit_bytes: int = recorded_clusters.PLENTY) -> None:
    async def scenario(cluster: Cluster) -> None:
        async with recorded_clusters.recording(cluster, path, limit_bytes) as running:
            await recorded_clusters.live(cluster, running)

    play(scenario, recorded_clusters.quick())


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "file"
    record(path)
    return path


def test_every_step_is_decided_again_as_it_was(file: Path) -> None:
    assert recorded_clusters.differences(file) == []
    plans = [turn.step.recorded.plan for turn in replay.replay_steps(replay.Recording(file))]
    kinds = {type(instruction) for ordered in plans for instruction in ordered}
    assert {plan.Resize, plan.Drain, plan.SetTaint, plan.DeleteNode} <= kinds
    assert recorded_clusters.count(file, lambda turn: bool(turn.step.seen.refused)) > 0
    assert recorded_clusters.count(file, lambda turn: turn.step.given.again) > 0


def test_every_step_of_a_drain_is_recorded_and_none_where_nothing_drains(file: Path) -> None:
    first, *moved = [turn for turn in replay.replay_steps(replay.Recording(file)) if turn.step.of == recorder.ADVANCE]
    assert first.step.number == 1
    assert all(turn.memory.durable.drains for turn in moved)
    ordered = [turn.step.recorded.plan for turn in moved if turn.step.recorded.plan]
    assert [{type(instruction) for instruction in orders} for orders in ordered] == [
        {plan.SetTaint, plan.Cordon},
        {plan.DeleteNode},
    ]
    nodes = [{one.node for one in orders if isinstance(one, plan.SetTaint | plan.DeleteNode)} for orders in ordered]
    assert nodes == [{"a-1", "a-2", "a-3"}] * 2


def test_another_process_decides_alike_though_it_hashes_otherwise(file: Path) -> None:
    command = [sys.executable, "-m", "windlass", "replay", str(file)]
    for seed in ("1", "2"):
        ran = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "replayed, every result is equal" in ran.stdout


def test_files_that_begin_in_the_middle_are_decided_again_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "file"
    record(path, limit_bytes=0)
    assert recording_file.rotated_path(path).exists()
    for part in (recording_file.rotated_path(path), path):
        assert recorded_clusters.differences(part) == []
        assert recorded_clusters.count(part) > 1
    assert replay.Recording(path).memory.durable.loop > 1


def test_a_file_begins_without_a_standing_decision_and_nothing_else_is_lost(tmp_path: Path) -> None:
    begun: list[loop_memory.LoopMemory] = []

    async def scenario(cluster: Cluster) -> None:
        async with recorded_clusters.recording(cluster, tmp_path / "file", 0) as running:
            await recorded_clusters.live(cluster, running)
            begun.append(running.memory)

    play(scenario, recorded_clusters.quick())
    at_beginning = replay.Recording(tmp_path / "file").memory.volatile
    assert at_beginning.standing is None
    assert at_beginning.templates.keys() == begun[0].volatile.templates.keys() == {"a"}


def test_a_recorded_autoscaler_does_what_one_that_is_not_recorded_does(tmp_path: Path) -> None:
    def run(more: bool) -> tuple[durable_memory.DurableMemory, list[str]]:
        ended: list[tuple[durable_memory.DurableMemory, list[str]]] = []

        async def scenario(cluster: Cluster) -> None:
            running_one = recorded_clusters.recording(cluster, tmp_path / "file") if more else cluster.autoscaling()
            async with running_one as running:
                await recorded_clusters.live(cluster, running)
                ended.append((running.memory.durable, list(cluster.carrier.calls)))

        play(scenario, recorded_clusters.quick())
        return ended[0]

    assert run(True) == run(False)


def test_questions_that_others_ask_of_the_snapshot_change_no_replay(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        snapshot = snapshot_journal.JournaledSnapshot()
        kept = recorder.DecisionRecorder(snapshot, tmp_path / "file", recorded_clusters.PLENTY)
        cluster.add_group("a", 1)
        cluster.register_nodes()
        async with cluster.autoscaling(snapshot, recorder=kept):
            await cluster.clock.sleep(1.0)
            for number in range(3):
                term = facts.PodAffinityTerm(
                    facts.HOSTNAME, LabelSelector((Requirement(f"k{number}", Operator.EXISTS),))
                )
                snapshot.shape_of(facts.Pod("default", "imagined", spec=facts.PodSpec(anti_affinity=(term,))))
                cluster.add_pod(f"p{number}", "3", labels={f"k{number}": "v", f"k{number + 1}": "w"})
                await cluster.clock.sleep(15.0)
        kept.close()

    play(scenario)
    assert recorded_clusters.differences(tmp_path / "file") == []
    assert recorded_clusters.count(tmp_path / "file", lambda turn: bool(turn.step.recorded.plan)) > 1


def test_a_dry_run_is_decided_again_as_it_was(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 0)
        cluster.add_pod("p", "2")
        async with recorded_clusters.recording(cluster, tmp_path / "file", observer=DryRun()):
            await cluster.clock.sleep(65.0)

    play(scenario)
    assert recorded_clusters.differences(tmp_path / "file") == []
    assert recorded_clusters.count(tmp_path / "file", lambda turn: bool(turn.step.recorded.plan)) > 3


def test_a_decision_that_fails_is_recorded_and_fails_again(tmp_path: Path) -> None:
    snapshot = snapshot_journal.JournaledSnapshot()
    kept = recorder.DecisionRecorder(snapshot, tmp_path / "file", recorded_clusters.PLENTY)
    broken = replace(Settings(), seed=-1)
    with pytest.raises(ValueError, match="negative"):
        kept.decide(Observation(snapshot), loop_memory.LoopMemory(), broken, NOW_S)
    kept.close()
    (turn,) = replay.replay_steps(replay.Recording(tmp_path / "file"))
    assert turn.differences == ()
    assert turn.error == turn.step.recorded.error
    assert "ValueError" in turn.error


def test_an_error_that_cannot_be_printed_is_recorded_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Decision:
        raise ValueError(10**5000)

    for module in (recorder, replay):
        monkeypatch.setattr(module, "decide", fail)
    snapshot = snapshot_journal.JournaledSnapshot()
    kept = recorder.DecisionRecorder(snapshot, tmp_path / "file", recorded_clusters.PLENTY)
    with pytest.raises(ValueError) as raised:  # noqa: PT011, no message can be made of it
        kept.decide(Observation(snapshot), loop_memory.LoopMemory(), Settings(), NOW_S)
    assert raised.value.args == (10**5000,), "the error itself, not one about its message"
    kept.close()
    (turn,) = replay.replay_steps(replay.Recording(tmp_path / "file"))
    assert (turn.error, turn.differences) == ("ValueError", ())


def test_decisions_go_on_where_no_recording_can_be_written(tmp_path: Path) -> None:
    snapshot = snapshot_journal.JournaledSnapshot()
    kept = recorder.DecisionRecorder(snapshot, tmp_path / "nowhere" / "file", recorded_clusters.PLENTY)
    observation = Observation(snapshot)
    decided = kept.decide(observation, loop_memory.LoopMemory(), Settings(), NOW_S)
    assert decided.memory.durable == decide(observation, loop_memory.LoopMemory(), Settings(), NOW_S).memory.durable
    snapshot.add_node(facts.Node("n"))
    assert snapshot.change_log.take() == [], "nothing piles up meanwhile"


def test_a_recording_goes_on_in_a_new_file_after_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.RECORDER]
    fail_at = iter([False] * 5 + [True, True] + [False] * 1000)
    spell = snapshot_journal.encode_change

    def fail_sometimes(change: snapshot_journal.SnapshotChange) -> object:
        if next(fail_at):
            raise RuntimeError("an odd object")
        return spell(change)

    monkeypatch.setattr(snapshot_journal, "encode_change", fail_sometimes)
    path = tmp_path / "file"
    record(path)
    for part in (recording_file.rotated_path(path), path):
        assert recorded_clusters.differences(part) == []
    assert recorded_clusters.count(path) > 3
    retries = [record.args[1] for record in caplog.records if "recording interrupted" in record.msg]  # type: ignore[index]
    assert retries == [1, 2], "less and less often"
    assert klog.UNEXPECTED_ERRORS.counts()[klog.ErrorPlace.RECORDER] == before + 2


def test_a_second_process_waits_until_the_first_has_ended_its_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    observation, settings = Observation(snapshot_journal.JournaledSnapshot()), Settings()
    first, second = (
        recorder.DecisionRecorder(snapshot_journal.JournaledSnapshot(), tmp_path / "file", recorded_clusters.PLENTY)
        for _ in range(2)
    )
    for kept in (first, second, first):
        kept.decide(observation, loop_memory.LoopMemory(), settings, NOW_S)
    assert "another process writes it; expected a file of its own" in caplog.text
    first.close()
    second.decide(observation, loop_memory.LoopMemory(), settings, NOW_S)
    second.close()
    assert (
        recorded_clusters.count(recording_file.rotated_path(tmp_path / "file")),
        recorded_clusters.count(tmp_path / "file"),
    ) == (2, 1)


def test_amounts_beyond_64_bits_are_recorded_as_they_are(tmp_path: Path) -> None:
    snapshot = snapshot_journal.JournaledSnapshot()
    huge = device("a", memory=10**10_009)
    snapshot.devices.inventory.put(pool("n", huge))
    kept = recorder.DecisionRecorder(snapshot, tmp_path / "file", recorded_clusters.PLENTY)
    for _ in range(2):
        kept.decide(Observation(snapshot), loop_memory.LoopMemory(), Settings(), NOW_S)
        snapshot.devices.inventory.put(pool("n", huge, device("b")))
    kept.close()
    *_, last = replay.replay_steps(replay.Recording(tmp_path / "file"))
    assert last.differences == ()
    assert last.step.seen.snapshot.devices.inventory.slices == snapshot.devices.inventory.slices


def test_a_snapshot_that_is_cleared_of_what_is_unused_begins_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_snapshot, "_CLUTTER_SLACK", 20)
    kinds: list[int] = []

    async def scenario(cluster: Cluster) -> None:
        cluster.add_group("a", 1)
        cluster.register_nodes()
        snapshot = snapshot_journal.JournaledSnapshot()
        kept = recorder.DecisionRecorder(snapshot, tmp_path / "file", recorded_clusters.PLENTY)
        async with cluster.autoscaling(snapshot, recorder=kept):
            for number in range(60):
                cluster.add_pod(f"p{number}", f"{number + 1}m", labels={"app": f"a{number}"})
                await cluster.clock.sleep(11.0)
                assert (
                    cluster.server.handle(request_builders.build_delete(resources.PODS, f"p{number}", "default")).status
                    == 200
                )
                kinds.append(len(snapshot.pods.template_keys))
        kept.close()

    play(scenario)
    assert max(kinds) < 40
    for part in (recording_file.rotated_path(tmp_path / "file"), tmp_path / "file"):
        assert recorded_clusters.differences(part) == []
        assert recorded_clusters.count(part) > 3


def test_what_was_tampered_with_is_found(file: Path, tmp_path: Path) -> None:
    writer = recording_file.RecordingWriter(tmp_path / "other", recorded_clusters.PLENTY)
    head, *steps = recording_file.read_frames(file)
    writer.begin(head)
    target = next(place for place, step in enumerate(steps) if step.get("plan"))
    for place, step in enumerate(steps):
        writer.append({**step, "plan": []} if place == target else step)
    writer.close()
    assert recorded_clusters.differences(tmp_path / "other") == [(target + 1, ("plan",))]


def test_loading_until_a_time_gives_what_the_last_decision_began_with(file: Path) -> None:
    turns = [turn for turn in replay.replay_steps(replay.Recording(file)) if turn.step.of == recorder.DECIDE]
    replayed_step = turns[len(turns) // 2]
    moment = replay.load_inputs_at(file, replayed_step.step.now_s + 0.001)
    assert moment.now_s == replayed_step.step.now_s
    assert moment.memory.durable == replayed_step.memory.durable
    assert moment.settings == recorded_clusters.quick()
    again = decide(*moment)
    assert isinstance(replayed_step.done, Decision)
    assert again.plan == replayed_step.done.plan
    with pytest.raises(errors.InvalidInput, match="found no decision then"):
        replay.load_inputs_at(file, NOW_S - 1.0)


def test_a_time_beyond_the_end_is_not_answered_for_the_end(file: Path) -> None:
    end_s = max(step.now_s for step in replay.Recording(file))
    assert replay.load_inputs_at(file, end_s).now_s <= end_s
    with pytest.raises(errors.InvalidInput, match="its decisions are from 20"):
        replay.load_inputs_at(file, end_s + 1.0)
