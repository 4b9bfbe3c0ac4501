"""kubectl's manners: how the plugin calls itself, what it completes, and the formats and options of kubectl."""

import importlib
import json
from pathlib import Path

import pytest
import yaml

from tests.cli.run import EXAMPLE, windlass
from windlass import cli
from windlass.cli import answer_output
from windlass.explain import cluster

completion = importlib.import_module("windlass.cli.completion")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "run.rec"
    assert windlass("simulate", "stock-out", "--record", path, "--report", "").code == 0
    return path


@pytest.mark.parametrize(
    ("path", "program"),
    [
        ("/usr/local/bin/kubectl-windlass", "kubectl windlass"),
        ("kubectl_windlass", "kubectl windlass"),
        ("/usr/bin/windlass", "windlass"),
        ("pytest", "windlass"),
    ],
)
def test_the_plugin_speaks_of_itself(path: str, program: str) -> None:
    assert cli.find_program(path) == program


def candidates(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    completion.kubectl_complete(words)
    *lines, directive = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in lines], directive


def test_kubectl_completes_commands_options_flags_and_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert candidates(capsys, "st") == (["status"], ":4")
    assert candidates(capsys, "help", "pl") == (["plan"], ":4")
    assert candidates(capsys, "explain", "") == (["pod", "node", "group"], ":4")
    assert candidates(capsys, "status", "--all") == (["--all-namespaces", "--allowed-scheduler-names"], ":4")
    assert candidates(capsys, "plan", "--cont") == (["--context"], ":4")
    assert candidates(capsys, "simulate", "bur") == (["burst"], ":0")
    assert candidates(capsys, "nonsense", "") == ([], ":4")
    assert candidates(capsys, "autoscaler", "--expan") == (["--expander"], ":4")


def test_a_status_in_each_format(recording: Path) -> None:
    def show(output: str) -> str:
        ran = windlass("status", "--recording", recording, "--at", "46m", "-o", output)
        assert ran.code == 0
        return ran.out

    plain = json.loads(show("json"))
    assert yaml.safe_load(show("yaml")) == plain
    names = show("name").splitlines()
    assert names[:2] == ["machinedeployment.cluster.x-k8s.io/cheap", "machinedeployment.cluster.x-k8s.io/dear"]
    assert len(names) == 2 + len(plain["waiting"])
    assert all(name.startswith("pod/web-") for name in names[2:])
    assert "PER NODE" in show("wide")
    assert "PER NODE" not in show("text")


def test_a_subject_in_each_format(recording: Path) -> None:
    ran = windlass("explain", "group", "dear", "--recording", recording, "-o", "name")
    assert ran.out == "machinedeployment.cluster.x-k8s.io/dear\n"
    ran = windlass("explain", "group", "dear", "--recording", recording, "-o", "yaml")
    assert yaml.safe_load(ran.out)["id"] == "MachineDeployment/default/dear"


def test_pending_pods_of_one_namespace(recording: Path) -> None:
    words = ("status", "--recording", recording, "--at", "46m", "-o", "json")
    everything = json.loads(windlass(*words).out)
    assert everything["pending"] > 0
    assert json.loads(windlass(*words, "-n", "default").out) == everything
    assert json.loads(windlass(*words, "-n", "other", "-A").out) == everything
    other = json.loads(windlass(*words, "-n", "other").out)
    assert (other["pending"], other["waiting"]) == (0, [])


def test_fit_in_each_format() -> None:
    plain = json.loads(windlass("fit", EXAMPLE, "-o", "json").out)
    assert yaml.safe_load(windlass("fit", EXAMPLE, "-o", "yaml").out) == plain
    names = windlass("fit", EXAMPLE, "-o", "name").out.split()
    misfits = [pod for finding in plain["pending"] if not finding["fits"] for pod in finding["pods"]]
    assert names == [f"pod/{pod.rpartition('/')[2]}" for pod in misfits]
    assert windlass("fit", EXAMPLE, "-o", "wide").out == windlass("fit", EXAMPLE, "--verbose").out
    namespace = plain["pending"][0]["pod"].partition("/")[0]
    chosen = json.loads(windlass("fit", EXAMPLE, "-o", "json", "-n", namespace).out)["pending"]
    assert chosen == [finding for finding in plain["pending"] if finding["pod"].startswith(f"{namespace}/")]
    assert json.loads(windlass("fit", EXAMPLE, "-o", "json", "-n", "none").out)["pending"] == []


def test_what_is_watched_is_printed_when_it_changed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([1, 1, 2, 2, 3])
    monkeypatch.setattr(answer_output, "WATCH_PERIOD_S", 0.0)

    def ask() -> int:
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt):
        answer_output.repeat(ask, print, lambda found: found, "yaml", is_watched=True)
    assert capsys.readouterr().out == "1\n---\n2\n---\n3\n"


def test_a_recording_cannot_be_watched(recording: Path) -> None:
    ran = windlass("status", "--recording", recording, "--watch")
    assert (ran.code, ran.err) == (
        2,
        "windlass: --watch: found with --recording, which does not change; expected one of them\n",
    )


def test_a_plan_names_what_it_would_change() -> None:
    steps = [step("MachineDeployment/default/a"), step("node-1"), step("node-1")]
    assert answer_output.step_names(steps) == ["machinedeployment.cluster.x-k8s.io/a", "node/node-1"]


def step(target: str) -> cluster.PlanStep:
    return cluster.PlanStep("Resize", target, "")
