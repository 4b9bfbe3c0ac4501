"""What `make release` gathers: all artifacts of a version, held by their checksums, and usable."""

import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.install import built_image, rendered_manifests
from tests.install.containerfile import ROOT
from tools import dependencies
from tools.image import build, debian, oci, release

pytestmark = pytest.mark.xdist_group("image")  # it is built once, and not in every process

EPOCH_S = 1577836800
VERSION = dependencies.project()["version"]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    archive, bill = (Path(shutil.copy(path, directory)) for path in (built_image.archive(), built_image.find_bill()))
    release.add_to_image(build.Image(archive, bill, "", 0), directory, EPOCH_S)
    return directory


def test_everything_is_there_with_its_checksum(dist: Path) -> None:
    architecture = debian.read_architecture()
    wanted = {
        f"windlass_autoscaler-{VERSION}-py3-none-any.whl",
        f"windlass_autoscaler-{VERSION}.tar.gz",
        f"windlass-{VERSION}-{architecture}.oci.tar",
        f"windlass-{VERSION}-{architecture}.image.cdx.json",
        f"windlass-{VERSION}.tgz",
        f"kubectl-windlass-{VERSION}-linux-{architecture}.tar.gz",
        "windlass.krew.yaml",
        "windlass.cdx.json",
    }
    assert {path.name for path in dist.iterdir()} == wanted | {"SHA256SUMS"}
    sums = dict(line.split()[::-1] for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in wanted}


def test_the_plugin_that_krew_installs_answers(dist: Path, tmp_path: Path) -> None:
    manifest = yaml.safe_load((dist / "windlass.krew.yaml").read_text())
    assert (manifest["metadata"]["name"], manifest["spec"]["version"]) == ("windlass", f"v{VERSION}")
    (platform,) = manifest["spec"]["platforms"]
    archive = dist / platform["uri"].rpartition("/")[2]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "store", filter="data")
    program = tmp_path / "bin" / "kubectl-windlass"
    program.parent.mkdir()
    program.symlink_to(tmp_path / "store" / platform["bin"])  # as krew does
    if f"{sys.version_info.major}.{sys.version_info.minor}" != debian.PYTHON:
        pytest.skip(f"NOT RUN: the plugin needs Python {debian.PYTHON}")
    command = [sys.executable, "-I", str(program), "version"]
    answer = subprocess.run(command, cwd="/", env={}, capture_output=True, text=True, check=False, timeout=120)
    assert (answer.returncode, answer.stdout.split()[:2]) == (0, ["windlass", VERSION]), answer.stderr


def test_the_chart_package_renders_what_the_chart_renders(dist: Path) -> None:
    package, chart = (
        rendered_manifests.helm("template", "windlass", str(path), "--namespace", rendered_manifests.NAMESPACE)
        for path in (dist / f"windlass-{VERSION}.tgz", release.CHART)
    )
    assert (package.returncode, package.stderr) == (0, "")
    assert package.stdout == chart.stdout


def test_the_chart_package_is_the_same_whenever_it_is_made() -> None:
    packed = oci.pack(release.CHART, EPOCH_S, "windlass/")
    assert oci.compress(packed) == oci.compress(oci.pack(release.CHART, EPOCH_S, "windlass/"))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    assert files == {path.relative_to(release.CHART).as_posix() for path in release.CHART.rglob("*") if path.is_file()}


def test_a_release_says_where_it_is_served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = tmp_path / "plugin.tar.gz"
    archive.write_bytes(b"")
    monkeypatch.setenv("RELEASE_URL", "https://releases.example/windlass/")
    manifest = yaml.safe_load(release.describe_plugin(archive, "1.0.0", "arm64"))
    assert manifest["spec"]["platforms"][0]["uri"] == "https://releases.example/windlass/plugin.tar.gz"
    monkeypatch.delenv("RELEASE_URL")
    assert "https://example.com/" in release.describe_plugin(archive, "1.0.0", "arm64")


def test_make_has_at_most_fourteen_targets_and_lists_each() -> None:
    text = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    listed = re.findall(r"^([a-z]+):.*## ", text, re.MULTILINE)
    assert sorted(phony.split()) == sorted(listed)
    assert len(listed) <= 14
