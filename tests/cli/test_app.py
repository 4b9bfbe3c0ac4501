"""The command as a whole: help, version, and how it starts."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import DATA, EXAMPLE, ROOT, windlass
from windlass.cli import app


def test_without_arguments_the_commands_are_listed() -> None:
    outcome = windlass()

    assert outcome.code == 0
    assert "windlass COMMAND" in outcome.out
    assert "Print for each pending pod on which nodes it fits" in outcome.out


def test_help_says_that_pods_are_judged_alone() -> None:
    outcome = windlass("fit", "--help")

    assert outcome.code == 0
    assert "Every pending pod is checked alone" in outcome.out
    for option in ("--output", "-o", "--explain", "--verbose", "-v", "--check", "--scheduler-config-file"):
        assert option in outcome.out


def test_the_version_is_told() -> None:
    outcome = windlass("--version")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("windlass 0.")


def test_the_version_is_told_with_what_it_runs_on() -> None:
    lines = dict(line.split() for line in windlass("version").out.splitlines())
    assert lines == json.loads(windlass("version", "-o", "json").out)
    assert lines["windlass"] == windlass("--version").out.split()[1]
    assert lines["python"] == platform.python_version()


def test_what_is_no_command_and_no_option_is_refused() -> None:
    assert windlass("fitt").code == 2
    assert windlass("fit").code == 2
    assert windlass("fit", EXAMPLE, "-o", "xml").code == 2
    assert windlass("fit", "--nonsense", EXAMPLE).err == (
        "windlass: fit: no such option: --nonsense; see windlass fit --help\n"
    )


def test_what_openshift_tells_its_operator_by_the_environment_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_AUTOSCALER_VERBOSITY", "4")
    monkeypatch.setenv("CLUSTER_AUTOSCALER_EXTRA_ARGS", "--scan-interval=2s")
    heard = app.parse_args(["operator"])[1].arguments
    assert heard["openshift_autoscaler_verbosity"] == 4
    assert heard["openshift_autoscaler_extra_args"] == "--scan-interval=2s"
    said = app.parse_args(["operator", "--openshift-autoscaler-extra-args=--v=1"])[1].arguments
    assert said["openshift_autoscaler_extra_args"] == "--v=1", "what is said on the command line counts"


def test_help_does_not_wait_for_the_engine() -> None:
    code = "import sys, windlass.cli; sys.exit(any(name in sys.modules for name in ('numpy', 'msgspec', 'yaml')))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_it_runs_as_a_program() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "windlass", "fit", "examples/cluster.yaml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0
    assert run.stdout == (DATA / "cluster.txt").read_text()
    assert run.stderr == (DATA / "cluster.err.txt").read_text()


def test_whoever_reads_the_output_may_stop_at_any_time() -> None:
    command = f"{sys.executable} -m windlass fit examples/cluster.yaml -v | head -1"
    run = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.stdout.startswith("shop/web-5d8-2 and 1 more")
    assert "Traceback" not in run.stderr
    assert "BrokenPipe" not in run.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("output", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")])
@pytest.mark.parametrize("words", ["version", "fit examples/cluster.yaml", "--help", "autoscaler --help"])
def test_an_output_that_cannot_be_written_to_is_one_sentence(
    words: str, output: str, why: str, unbuffered: str
) -> None:
    command = f"exec {sys.executable} -m windlass {words} {output}"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    run = subprocess.run(command, shell=True, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert run.returncode == 2
    assert run.stderr == f"windlass: cannot write to standard output: {why}\n"


def test_the_package_runs_as_a_module() -> None:
    run = subprocess.run([sys.executable, "-m", "windlass", "--version"], capture_output=True, text=True, check=True)

    assert run.stdout == windlass("--version").out
