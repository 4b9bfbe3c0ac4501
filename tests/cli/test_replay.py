"""`windlass replay`: says that all is as it was, what would have been otherwise, and how things stood."""

from pathlib import Path

import pytest

from tests.autoscaler.in_process_cluster import Cluster, play
from tests.autoscaler.record_replay import recorded_clusters
from tests.cli.run import windlass
from windlass.autoscaler.record_replay import recording_file


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "file"

    async def scenario(cluster: Cluster) -> None:
        async with recorded_clusters.recording(cluster, path) as running:
            await recorded_clusters.live(cluster, running)

    play(scenario, recorded_clusters.quick())
    return path


def test_a_recording_is_decided_again(file: Path) -> None:
    ran = windlass("replay", file)
    assert (ran.code, ran.err) == (0, "")
    assert "from 2023-11-14T22:13:20Z" in ran.out
    assert "replayed, every result is equal" in ran.out


def test_a_recording_that_was_cut_off_is_decided_again_up_to_there(file: Path, tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(file.read_bytes()[:-1000])
    ran = windlass("replay", tmp_path / "cut")
    assert ran.code == 0
    assert "replayed, every result is equal" in ran.out


def test_the_first_step_that_is_decided_otherwise_is_shown(file: Path, tmp_path: Path) -> None:
    writer = recording_file.RecordingWriter(tmp_path / "other", recorded_clusters.PLENTY)
    head, *steps = recording_file.read_frames(file)
    writer.begin(head)
    place = next(place for place, step in enumerate(steps) if step.get("plan"))
    for number, step in enumerate(steps):
        writer.append({**step, "plan": []} if number >= place else step)
    writer.close()
    ran = windlass("replay", tmp_path / "other")
    assert ran.code == 1
    assert ran.out.startswith(f"Step {place + 1} (decide, 2023-11-14T22:13:")
    assert "recorded: nothing else" in ran.out
    assert "Resize(group=" in ran.out


def test_other_settings_show_what_would_have_been_done(file: Path) -> None:
    ran = windlass("replay", file, "--with", "max-nodes-total=2")
    assert (ran.code, ran.err) == (0, "")
    assert "+ grow a from 1 to 2 nodes" in ran.out
    assert "- grow a from 1 to 3 nodes" in ran.out
    assert "decisions would differ; + only with these settings" in ran.out


def test_nodes_that_would_have_gone_earlier_are_told_once(file: Path) -> None:
    ran = windlass("replay", file, "--with", "scale-down-unneeded-time=5s")
    wanted = [line for line in ran.out.splitlines() if line.lstrip().startswith("+ remove a-1")]
    assert len(wanted) == 1


def test_settings_that_change_nothing_are_told_so(file: Path) -> None:
    ran = windlass("replay", file, "--with", "scale-down-unneeded-time=30s", "--with", "expander=least-nodes")
    assert ran.code == 0
    assert "no difference: with these settings" in ran.out


def test_the_cluster_is_shown_as_it_stood(file: Path) -> None:
    early = windlass("replay", file, "--at", "1s")
    assert early.code == 0
    assert "2023-11-14T22:13:2" in early.out
    absolute = windlass("replay", file, "--at", "2023-11-14T22:13:21Z")
    assert absolute.out == early.out
    assert early.err == (
        f"windlass: {file}: the decision of 2023-11-14T22:13:20Z, 0s after its beginning, "
        "the last at or before 2023-11-14T22:13:21Z\n"
    )
    late = windlass("replay", file, "--at", "1m")
    assert late.out != early.out


def test_a_recording_that_was_cut_says_so(file: Path, tmp_path: Path) -> None:
    whole = windlass("replay", file)
    assert (whole.code, whole.err) == (0, "")
    cut = tmp_path / "cut"
    cut.write_bytes(file.read_bytes()[:-7])
    for words in ((), ("--with", "expander=price")):
        ran = windlass("replay", cut, *words)
        assert ran.code == 0
        assert ran.err == f"windlass: {cut}: ends within a step: it was cut, or is being written; read up to there\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--with", "expander"], "--with: found 'expander', expected FLAG=VALUE"),
        (["--with", "expandr=random"], "--expandr: unknown flag; did you mean --expander?"),
        (["--with", "address=:1"], "--address: found a flag of the process"),
        (["--at", "noon"], "--at: found 'noon', expected"),
        (["--at", "2001-01-01T00:00:00Z"], "--at: found no decision then; its decisions are from 2023-11-14T22:13:20Z"),
        (
            ["--at", "10h"],
            "--at: found no decision then; its decisions are from 2023-11-14T22:13:20Z to 2023-11-14T22:14:",
        ),
        (["--at", "99999999h"], "--at: "),
    ],
)
def test_what_cannot_be_used_is_refused(file: Path, arguments: list[str], said: str) -> None:
    ran = windlass("replay", file, *arguments)
    assert ran.code == 2
    assert said in ran.err


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello\n")
    ran = windlass("replay", tmp_path / "file")
    assert (ran.code, ran.out) == (2, "")
    assert "expected a file that --record wrote" in ran.err
