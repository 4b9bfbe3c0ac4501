"""The image, as far as it can be tried without an engine: what its file says, and what its steps install here."""

import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.install import containerfile, distributions
from tests.install.containerfile import ROOT, Instruction
from windlass import product

pytestmark = pytest.mark.xdist_group("what is built")  # once, and not in every process

FILE = containerfile.read((ROOT / "Containerfile").read_text())
BUILD, IMAGE = containerfile.stages(FILE)


def of(stage: list[Instruction], name: str) -> list[str]:
    return [instruction.text for instruction in stage if instruction.name == name]


def test_the_base_is_named_by_a_whole_version() -> None:
    base = FILE[0]
    assert base.name == "ARG"
    assert re.fullmatch(r"BASE=python:\d+\.\d+\.\d+-slim-[a-z]+", base.text)
    assert of(BUILD, "FROM") == ["${BASE} AS build"]
    assert of(IMAGE, "FROM") == ["${BASE}"]


@pytest.mark.parametrize(
    ("release", "base", "is_refused"),
    [
        ("false", "python:3.11.14-slim-bookworm", False),
        ("true", "python:3.11.14-slim-bookworm", True),
        ("1", "python:3.11.14-slim-bookworm", True),
        ("true", "python@sha256:123", True),
        ("true", "python:3.11.14-slim-bookworm@sha256:" + 64 * "a", False),
        ("true", "mirror.example/python@sha256:" + 64 * "0", False),
    ],
)
def test_a_release_is_built_on_a_digest_alone(release: str, base: str, is_refused: bool) -> None:
    assert of(BUILD, "ARG") == ["BASE", "RELEASE=false"]
    first = next(instruction for instruction in BUILD if instruction.name == "RUN")
    command = [sys.executable, *first.words[1:]]
    ran = subprocess.run(command, env={"BASE": base, "RELEASE": release}, capture_output=True, text=True, check=False)
    assert (ran.returncode != 0, "expected a digest" in ran.stderr) == (is_refused, is_refused)


def test_nothing_needs_a_shell() -> None:
    for instruction in FILE:
        if instruction.name in {"RUN", "CMD", "ENTRYPOINT"}:
            assert instruction.words, "an argument list"
    assert of(IMAGE, "RUN") == []


def test_it_runs_as_nobody() -> None:
    (user,) = of(IMAGE, "USER")
    assert user == f"{distributions.NOBODY}:{distributions.NOBODY}"
    after = [instruction.name for instruction in IMAGE][[each.name for each in IMAGE].index("USER") :]
    assert "COPY" not in after, "what is copied belongs to root, and cannot be changed by the process"


def test_what_is_copied_is_there_and_is_sent_to_the_engine() -> None:
    sent = set(map(str, containerfile.find_context((ROOT / ".containerignore").read_text())))
    for instruction in BUILD:
        if instruction.name == "COPY":
            for source in instruction.sources:
                assert any(path == source or path.startswith(f"{source}/") for path in sent), source
    kept = {Path(path).parts[0] for path in sent}
    assert kept == {"LICENSE", "README.md", "pyproject.toml", "requirements", "scenarios", "src"}
    assert not any("__pycache__" in path for path in sent)


PINS = re.compile(r"^([a-z0-9-]+(?:\[[^]]*\])?==[^\s;]+)[^\\\n]*(.*)$", re.MULTILINE)
REQUIREMENTS = {path.stem: path.read_text() for path in sorted((ROOT / "requirements").glob("*.txt"))}


def test_versions_are_those_that_tests_run_with() -> None:
    dev = {pin for pin, _ in PINS.findall(REQUIREMENTS["dev"])}
    for name in ("runtime", "image", "build"):
        assert {pin for pin, _ in PINS.findall(REQUIREMENTS[name])} <= dev, name


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_pin_has_hashes_and_names_no_index(name: str) -> None:
    text = REQUIREMENTS[name]
    pins = PINS.findall(text)
    assert pins
    assert [pin for pin, rest in pins if rest != "\\"] == []
    assert len(re.findall(r"\\\n    --hash=sha256:[0-9a-f]{64}", text)) >= len(pins)
    assert "://" not in text


def test_what_is_installed_is_held_to_its_hash_and_is_not_built() -> None:
    held = {"--require-hashes", "--only-binary=:all:"}
    for instruction in BUILD:
        if instruction.name == "RUN" and "pip" in instruction.words and "--no-index" not in instruction.words:
            assert held <= set(instruction.words), instruction.text
    makefile = (ROOT / "Makefile").read_text()
    (pinned,) = re.findall(r"^PINNED := (.*)$", makefile, re.MULTILINE)
    assert held <= set(pinned.split())
    files = re.findall(r"\$\(BIN\)/python ([^&;\n]*?) -r requirements/", makefile)
    assert set(files) == {"$(PINNED)"}


@pytest.fixture(scope="module")
def root(installed: Path) -> Path:
    """What the image's last stage has: the environment, and the program where a Deployment looks for it."""
    copied = [instruction for instruction in IMAGE if instruction.name == "COPY"]
    assert [(each.options["from"], each.sources) for each in copied] == [
        ("build", ["/opt/windlass"]),
        ("build", ["/opt/windlass/bin/cluster-autoscaler"]),
    ]
    program = installed / "cluster-autoscaler"
    program.write_bytes((installed / "bin" / "cluster-autoscaler").read_bytes())
    program.chmod(0o755)
    return installed


def test_a_read_only_root_is_tried() -> None:
    name, prefix = distributions.confinement()
    if not prefix:
        pytest.skip(f"NOT TRIED: a read-only root takes root and a namespace of mounts; here there is {name}")
    code = "open('/written-by-a-test', 'w')"
    assert "Read-only file system" in distributions.run([sys.executable, "-c", code], Path("/nonexistent")).stderr


def test_the_entry_point_answers_on_a_filesystem_that_it_cannot_write(root: Path) -> None:
    (entry,) = [instruction.words for instruction in IMAGE if instruction.name == "ENTRYPOINT"]
    assert entry == ["/opt/windlass/bin/windlass"]
    before = sorted(root.rglob("*"))
    program = str(root / "bin" / "windlass")
    answer = distributions.run([program, "version"], Path("/nonexistent"))
    assert (answer.returncode, answer.stderr) == (0, "")
    fitting = distributions.run(
        [program, "fit", str(ROOT / "examples" / "cluster.yaml"), "-o", "json"], Path("/nonexistent")
    )
    assert fitting.returncode == 0, fitting.stderr
    assert sorted(root.rglob("*")) == before, "nothing was written"


def test_cluster_autoscaler_takes_the_same_flags_and_decides_as_cluster_autoscaler(root: Path) -> None:
    home, program = Path("/nonexistent"), str(root / "cluster-autoscaler")
    ours = [str(root / "bin" / "windlass"), "autoscaler"]
    flags = ["--v=4", "--expander=nonsense"]
    drop_in, own = distributions.run([program, *flags], home), distributions.run([*ours, *flags], home)
    assert (drop_in.returncode, drop_in.stdout) == (own.returncode, own.stdout) == (2, "")
    assert drop_in.stderr.partition(": ")[2] == own.stderr.partition(": ")[2]
    assert "--expander" in own.stderr
    for command, behavior in (([program], "cluster-autoscaler"), (ours, "windlass")):
        shown = distributions.run([*command, "--help"], home)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert f"  --behavior  name (default {behavior})\n" in shown.stdout


DEPLOYED = [
    "--cloud-provider=clusterapi",
    "--namespace=kube-system",
    "--v=4",
    "--stderrthreshold=info",
    "--logtostderr=true",
    "--skip-nodes-with-local-storage=false",
    "--expander=least-waste,random",
    "--node-group-auto-discovery=clusterapi:namespace=default,clusterName=work",
    "--balance-similar-node-groups",
    "--scale-down-unneeded-time=10m",
]
"""As a Deployment of cluster-autoscaler has them."""


def test_the_command_of_a_deployment_begins_as_it_is_and_ends_when_asked(root: Path, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],"
        " clusters: [{name: a, cluster: {server: 'https://127.0.0.1:9'}}]}"
    )
    command = [str(root / "cluster-autoscaler"), *DEPLOYED, f"--kubeconfig={kubeconfig}", "--address=127.0.0.1:0"]
    environment = {"HOME": "/nonexistent", "PATH": os.defpath}
    process = subprocess.Popen(command, cwd="/", stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    said = list(itertools.takewhile(lambda line: "serving health and metrics" not in line, process.stderr))
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=60)[1]
    assert said[0].endswith(f"windlass {product.version()}\n")
    assert said[1].endswith("decisions follow behavior=cluster-autoscaler changed_by=none\n")
    assert "Traceback" not in rest
    assert process.returncode == 0, "".join(said) + rest
