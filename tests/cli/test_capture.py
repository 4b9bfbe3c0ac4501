"""`windlass capture` and `windlass simulate --from`."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.run import Outcome, windlass


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capture") / "sold-out.rec"
    assert windlass("simulate", "stock-out", "--record", path, "--report", "").code == 0
    return path


def test_a_recording_becomes_a_scenario_that_is_played_with_other_flags(recording: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    written = windlass("capture", "--recording", recording, "--out", file)
    assert (written.code, written.err) == (0, "")
    assert written.out == f"scenario: {file}, 2 groups, 1 workloads, 2 steps; windlass simulate --from {file}\n"
    played = windlass(
        "simulate", "--from", file, "--report", "", "-o", "json", "--compare", "--max-node-provision-time=2m"
    )
    assert played.code == 0
    as_captured, with_other_flags = json.loads(played.out)
    assert as_captured["scenario"] == "sold-out"
    assert as_captured["totals"]["pending_max_s"] > with_other_flags["totals"]["pending_max_s"]
    assert windlass("capture", "--recording", recording, "--out", file).code == 0, "a scenario may be replaced"
    printed = windlass("capture", "--recording", recording)
    assert printed.out == file.read_text()


def test_a_recording_is_played_in_one_step(recording: Path) -> None:
    played = windlass("simulate", "--from", recording, "--report", "", "--seed", "3", "--set", "groups.dear.max=9")
    assert played.code == 0
    assert "✓ pods_never_placed" in played.out


def test_a_part_of_a_recording(recording: Path) -> None:
    part = yaml.safe_load(windlass("capture", "--recording", recording, "--since", "40m", "--until", "1h").out)
    assert part["duration"] <= 20 * 60
    assert [(step["do"], step["at"]) for step in part["timeline"]] == [("stock-out", 299.2), ("scale", 300.0)]


def test_a_key_that_is_kept_gives_the_same_names(recording: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    first, again = (
        windlass("capture", "--recording", recording, "--anonymise", "--key-file", key).out for _ in range(2)
    )
    assert first == again
    assert key.stat().st_mode & 0o77 == 0
    assert "cheap" not in first
    assert windlass("capture", "--recording", recording, "--anonymise").out != first


def refusals(recording: Path, folder: Path) -> dict[tuple[str | Path, ...], str]:
    foreign = folder / "notes.txt"
    foreign.write_text("mine")
    (folder / "empty").touch()
    return {
        ("--recording", folder / "none"): "none: No such file or directory",
        ("--recording", foreign): "expected a file that --record wrote",
        ("--recording", recording, "--out", foreign): "it exists and windlass did not write it",
        ("--recording", recording, "--out", folder / "no" / "file"): "there is no directory",
        ("--recording", recording, "--since", "9h"): "found no node group in the recorded time",
        ("--recording", recording, "--since", "soon"): "--since: found 'soon'",
        ("--recording", recording, "--since", "2h", "--until", "1h"): "expected a time before --until",
        ("--recording", recording, "--key-file", folder / "key"): "--key-file: found without --anonymise",
        ("--recording", recording, "--anonymise", "--key-file", folder / "empty"): "found nothing, expected a key",
        ("--recording", recording, "--anonymise", "--key-file", folder): "cannot be used",
        ("--recording", recording, "--for", "1h"): "--for: found another source",
        ("--recording", recording, "--expander=price"): "expected no flags",
        ("--since", "1h"): "found no --recording",
        ("--for", "soon"): "--for: found 'soon'",
        ("--for", "0s"): "--for: found '0s'",
        ("--address", "127.0.0.1:1"): "no autoscaler answers there",
        ("--kubeconfig", folder / "none"): "none",
    }


def test_each_refusal_is_one_line(recording: Path, tmp_path: Path) -> None:
    for words, said in refusals(recording, tmp_path).items():
        outcome: Outcome = windlass("capture", *words)
        assert outcome.code == 2, (words, outcome)
        assert outcome.err.count("\n") == 1, outcome.err
        assert said in outcome.err, outcome.err
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert "No such file" in windlass("simulate", "--from", tmp_path / "none").err
