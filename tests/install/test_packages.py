"""Wheel and sdist: they install with pip, hold what they should, and are the same bytes whenever they are built."""

import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.install import distributions as install_distributions
from tests.install.containerfile import ROOT

pytestmark = pytest.mark.xdist_group("what is built")  # once, and not in every process

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_same_tree_gives_the_same_bytes(tree: Path, distributions: tuple[Path, Path], tmp_path: Path) -> None:
    for path in (tree / "src").rglob("*.py"):
        path.touch()  # when a file was written is not what it says
    again = install_distributions.build(tree, tmp_path, "wheel", "sdist")
    assert [path.name for path in again] == [path.name for path in distributions]
    for first, second in zip(distributions, again, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_the_sdist_gives_the_same_wheel(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = distributions
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    (again,) = install_distributions.build(unpacked, tmp_path / "dist", "wheel")
    assert again.read_bytes() == wheel.read_bytes()


def test_what_code_reads_is_in_the_wheel(tree: Path, distributions: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(distributions[0]) as packed:
        inside = set(packed.namelist())
    code = {path.relative_to(tree / "src").as_posix() for path in (tree / "src").rglob("*") if path.is_file()}
    stories = {f"windlass/{path.relative_to(tree).as_posix()}" for path in (tree / "scenarios").glob("*.yaml")}
    assert (code | stories) - inside == set()
    assert not any(name.startswith(("tests/", "testbed/", "windlass/tests")) for name in inside)


@pytest.mark.parametrize("extra", ["dask", "tui", "grpc"])
def test_extras_are_declared_and_pinned_for_those_who_develop(extra: str) -> None:
    pinned = {line.partition("==")[0] for line in (ROOT / "requirements" / "dev.txt").read_text().splitlines()}
    for requirement in PROJECT["optional-dependencies"][extra]:
        assert requirement.partition(">")[0].partition("=")[0] in pinned


def test_it_installs_with_pip_and_runs(installed: Path, tmp_path: Path) -> None:
    answer = install_distributions.run([str(installed / "bin" / "windlass"), "version"], tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.split()[:2] == ["windlass", PROJECT["version"]]
    told = install_distributions.run([str(installed / "bin" / "kubectl-windlass"), "--version"], tmp_path)
    assert told.stdout == f"windlass {PROJECT['version']}\n"


def test_what_is_installed_is_not_the_working_tree(installed: Path, tmp_path: Path) -> None:
    code = "import windlass; print(windlass.__file__)"
    answer = install_distributions.run([str(installed / "bin" / "python"), "-c", code], tmp_path)
    assert answer.stdout.startswith(str(installed)), answer


def test_stories_are_found_where_the_wheel_puts_them(installed: Path, tmp_path: Path) -> None:
    answer = install_distributions.run([str(installed / "bin" / "windlass"), "simulate"], tmp_path)
    assert "zone-outage" in answer.stdout + answer.stderr
