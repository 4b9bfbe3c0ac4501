import subprocess
from pathlib import Path

import pytest

from tests import flaky_rerun


def test_a_few_on_the_real_control_plane_are_run_again_by_their_own_names() -> None:
    failed = ["tests/e2e/test_a.py::test_x[1]@live autoscaler", "tests/testbed/test_b.py::test_y"]
    assert flaky_rerun.choose(failed) == ["tests/e2e/test_a.py::test_x[1]", "tests/testbed/test_b.py::test_y"]


def test_nothing_is_run_again_if_anything_else_failed() -> None:
    assert flaky_rerun.choose(["tests/e2e/test_a.py::test_x", "tests/engine/test_b.py::test_y"]) == []


def test_many_failures_are_no_accident() -> None:
    assert flaky_rerun.choose([f"tests/e2e/test_a.py::test_{number}" for number in range(flaky_rerun.MOST + 1)]) == []


def test_a_test_that_passes_alone_has_failed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = tmp_path / "lastfailed"
    failed.write_text('{"tests/e2e/test_a.py::test_x": true}')
    monkeypatch.setattr(flaky_rerun, "_FAILED", failed)
    monkeypatch.setattr(subprocess, "run", lambda command, check: subprocess.CompletedProcess(command, 0))
    assert flaky_rerun.main() == 1
    assert "FAILED beside other tests, passed alone: tests/e2e/test_a.py::test_x" in capsys.readouterr().out
