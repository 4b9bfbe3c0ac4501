"""The image that `make image` builds: what is in it, that it starts without any right, and that it is reproducible."""

import io
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.install import built_image, containerfile
from tests.install.containerfile import ROOT
from tools import dependencies, sbom
from tools.image import build, debian, oci

pytestmark = pytest.mark.xdist_group("image")  # it is built once, and not in every process

IMAGE = containerfile.stages(containerfile.read((ROOT / "Containerfile").read_text()))[1]
EPOCH_S = 1577836800


def of(name: str) -> list[str]:
    return [instruction.text for instruction in IMAGE if instruction.name == name]


def test_it_is_run_as_the_containerfile_says() -> None:
    told = build.configuration()
    assert told["User"] == of("USER")[0]
    assert told["WorkingDir"] == of("WORKDIR")[0]
    assert told["Entrypoint"] == json.loads(of("ENTRYPOINT")[0])
    assert told["StopSignal"] == of("STOPSIGNAL")[0]
    assert list(told["ExposedPorts"]) == [f"{port}/tcp" for port in of("EXPOSE")]
    assert told["Env"] == re.findall(r"\S+=\S+", of("ENV")[0])
    labels = dict(re.findall(r'(\S+)="([^"]*)"', of("LABEL")[0]))
    assert labels.items() <= told["Labels"].items()
    assert told["Labels"]["org.opencontainers.image.version"] == dependencies.project()["version"]


def test_an_archive_does_not_depend_on_when_and_by_whom_files_were_written(tmp_path: Path) -> None:
    packed = []
    for name, order, umask in (("first", ("b", "a"), 0o022), ("second", ("a", "b"), 0o077)):
        old = os.umask(umask)
        try:
            (tmp_path / name / "bin").mkdir(parents=True)
            for file in order:
                (tmp_path / name / file).write_text(file)
                os.utime(tmp_path / name / file, (umask, umask))
            (tmp_path / name / "bin" / "program").write_text("program")
            (tmp_path / name / "bin" / "program").chmod(0o4700)
            os.link(tmp_path / name / "a", tmp_path / name / "bin" / "same")
            (tmp_path / name / "link").symlink_to("/somewhere")
        finally:
            os.umask(old)
        packed.append(oci.pack(tmp_path / name, EPOCH_S))
    assert packed[0] == packed[1]
    with tarfile.open(fileobj=io.BytesIO(packed[0])) as read:
        entries = {entry.name: entry for entry in read}
        assert read.extractfile("bin/same").read() == b"a"  # type: ignore[union-attr]
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, EPOCH_S)}
    assert [entries[name].mode for name in ("a", "bin", "bin/program")] == [0o644, 0o755, 0o755]
    assert entries["link"].linkname == "/somewhere"


@pytest.fixture(scope="module")
def entries() -> dict[str, tarfile.TarInfo]:
    """Of all layers, by path."""
    found: dict[str, tarfile.TarInfo] = {}
    for layer in oci.read_layers(built_image.archive()):
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            found |= {entry.name: entry for entry in archive}
    return found


def test_it_is_small_and_everything_in_it_belongs_to_root(entries: dict[str, tarfile.TarInfo]) -> None:
    manifest, config = oci.read_manifest(built_image.archive())
    assert sum(layer["size"] for layer in manifest["layers"]) < built_image.SIZE_LIMIT_BYTES
    assert (config["os"], config["architecture"]) == ("linux", debian.read_architecture())
    assert len(entries) > 1000
    assert {(entry.uid, entry.gid) for entry in entries.values()} == {(0, 0)}
    assert {entry.mode for entry in entries.values() if entry.isreg()} == {0o644, 0o755}
    assert len({entry.mtime for entry in entries.values()}) == 1


def test_it_has_no_shell_no_compiler_and_no_package_manager(entries: dict[str, tarfile.TarInfo]) -> None:
    programs = {name for name, entry in entries.items() if re.search(r"(^|/)s?bin/", name) and not entry.isdir()}
    place = "opt/windlass/bin"
    ours = {f"{place}/{name}" for name in ("python", *dependencies.project()["scripts"])}
    assert programs == ours | {f"usr/bin/python{debian.PYTHON}"}
    assert "cluster-autoscaler" in entries
    assert entries["var/run"].linkname == "/run", "tokens of ServiceAccounts are mounted there"
    tools = {"pip", "setuptools", "ensurepip", "hatchling", "pytest"}
    assert not {Path(name).name for name in entries if "python3" in name} & tools


def read_bill() -> dict[str, Any]:
    """The one that is attached to the image."""
    with tarfile.open(built_image.archive()) as archive:

        def read(name: str) -> Any:
            return json.load(archive.extractfile(name))  # type: ignore[arg-type]

        def blob(digest: str) -> Any:
            return read(f"blobs/{digest.replace(':', '/')}")

        image, referrer = read("index.json")["manifests"]
        assert referrer["artifactType"] == oci.CYCLONEDX
        manifest = blob(referrer["digest"])
        assert manifest["subject"]["digest"] == image["digest"]
        (layer,) = manifest["layers"]
        assert layer["mediaType"] == oci.CYCLONEDX
        bill: dict[str, Any] = blob(layer["digest"])
        return bill


def test_the_attached_bill_lists_what_is_in_the_image(entries: dict[str, tarfile.TarInfo]) -> None:
    listed = {item["purl"].partition("?")[0]: item for item in read_bill()["components"]}
    debs = {name.rpartition("/")[2] for name in entries if name.startswith("var/lib/dpkg/status.d/")}
    assert debs == set(debian.PACKAGES)
    assert {item["name"] for purl, item in listed.items() if purl.startswith("pkg:deb/")} == debs
    wheels = re.findall(r"site-packages/([^/]+)-([^-/]+)\.dist-info\n", "\n".join(entries) + "\n")
    assert {purl for purl in listed if purl.startswith("pkg:pypi/")} == {
        f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}" for name, version in wheels
    }


def test_the_bill_is_the_same_for_the_same_packages() -> None:
    package = debian.Package("libc6", "2.36-9+deb12u14", "amd64", 64 * "a", Path("/nowhere"))
    assert sbom.make_image([package]) == sbom.make_image([package])
    assert "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64" in sbom.make_image([package])


def test_the_drop_in_program_answers_as_an_unprivileged_user_on_a_read_only_root() -> None:
    shown = built_image.run(["./cluster-autoscaler", "--help"])
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "--behavior  name (default cluster-autoscaler)" in shown.stdout
    version = built_image.run(["/opt/windlass/bin/windlass", "version"])
    assert version.stdout.split()[1] == dependencies.project()["version"]
    assert f"python    {debian.PYTHON}." in version.stdout


INSIDE = """
import ctypes, pathlib, ssl, sys, zoneinfo
status = pathlib.Path("/proc/self/status").read_text()
print("user", [line.split()[1] for line in status.splitlines() if line.startswith(("Uid", "Gid"))])
print("capabilities", {line.split()[1] for line in status.splitlines() if line.startswith("Cap")})
for place in ("/", "/tmp", "/run", "/etc", "/opt/windlass"):
    try:
        (pathlib.Path(place) / "written").write_text("")
        print("writable", place)
    except OSError as error:
        assert "Read-only" in str(error), error
places = [pathlib.Path("/usr/lib/python3.11/lib-dynload"), pathlib.Path("/opt/windlass/lib")]
libraries = [path for place in places for path in place.rglob("*.so*")]
for path in libraries:
    ctypes.CDLL(str(path))
print("libraries", len(libraries) > 30)
print("certificates", len(ssl.create_default_context().get_ca_certs()) > 100)
print(zoneinfo.ZoneInfo("Europe/Berlin"))
import google.protobuf, grpc, windlass.cli.autoscaler
print("compiled", all(module.__cached__ and pathlib.Path(module.__cached__).exists() for module in
    list(sys.modules.values()) if getattr(module, "__cached__", None)))
"""


def test_it_has_what_it_needs_and_can_write_nothing() -> None:
    told = built_image.run(["/opt/windlass/bin/python", "-c", INSIDE])
    assert told.stderr == ""
    assert told.stdout.splitlines() == [
        "user ['65532', '65532']",
        "capabilities {'0000000000000000'}",
        "libraries True",
        "certificates True",
        "Europe/Berlin",
        "compiled True",
    ]


@pytest.mark.skipif("WINDLASS_IMAGE_TWICE" not in os.environ, reason="`make long KIND=image` builds it twice")
def test_the_same_tree_and_date_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archives = []
    for name, umask in (("first", 0o022), ("second", 0o077)):
        monkeypatch.setattr(build, "CACHE", tmp_path / name / "cache")
        monkeypatch.setenv("TZ", "Asia/Tokyo" if umask else "UTC")
        old = os.umask(umask)
        try:
            built = build.build(tmp_path / name, EPOCH_S)
        finally:
            os.umask(old)
        archives.append(built.archive.read_bytes())
    assert archives[0] == archives[1]
