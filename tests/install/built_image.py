"""The image of `make image`: built once for each state of the tree, and unpacked where a sandbox can run it."""

import contextlib
import fcntl
import functools
import hashlib
import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.install.containerfile import ROOT
from tools import dependencies
from tools.image import build, debian, oci

PLACE = ROOT / "build" / "image"
_INPUTS = ("src", "scenarios", "tools", "requirements/image.txt", "pyproject.toml", "README.md", "LICENSE")
SIZE_LIMIT_BYTES = 200_000_000
USER = 65532
"""Of the image; a pod may name another."""


@functools.cache
def find_reason() -> str:
    """Why no image can be run here; empty if one can."""
    if missing := debian.find_missing():
        return f"NOT BUILT: the image needs Debian's packages {', '.join(missing)} (sudo apt-get install)"
    if not shutil.which("bwrap"):
        return "NOT RUN: the image needs bubblewrap (sudo apt-get install bubblewrap)"
    tried = subprocess.run(["bwrap", "--ro-bind", "/", "/", *_ISOLATION, "true"], capture_output=True, check=False)
    if tried.returncode:
        return f"NOT RUN: bubblewrap may not make namespaces here: {tried.stderr.decode().strip()}"
    return ""


def archive() -> Path:
    """The image as an archive. Skips the test where it cannot be built; a build that fails fails the test."""
    return _built() / f"windlass-{_version()}-{debian.read_architecture()}.oci.tar"


def entry_point() -> list[str]:
    """What the image runs where nobody says."""
    words: list[str] = oci.read_manifest(archive())[1]["config"]["Entrypoint"]
    return words


def find_bill() -> Path:
    """The bill of materials beside the archive."""
    return archive().with_name(archive().name.replace(".oci.tar", ".image.cdx.json"))


def root() -> Path:
    """The image's root filesystem as a directory."""
    return _built() / "root"


@functools.cache
def _built() -> Path:
    if reason := find_reason():
        pytest.skip(reason)
    PLACE.mkdir(parents=True, exist_ok=True)
    place = PLACE / f"tested-{_hash_inputs()}"
    with _locked(PLACE / "lock"):
        if not (place / "root").is_dir():
            for old in PLACE.glob("tested-*"):
                shutil.rmtree(old)
            try:
                made = build.build(place, build.source_date_epoch_s())
            except debian.DownloadFailed as failed:
                pytest.skip(f"NOT BUILT: Debian's packages cannot be downloaded: {failed}")
            unpack(made.archive, place / "unpacking")
            (place / "unpacking").rename(place / "root")
    return place


def unpack(image: Path, directory: Path) -> None:
    """As a container engine does, one layer over the other."""
    directory.mkdir(parents=True)
    for layer in oci.read_layers(image):
        with tarfile.open(fileobj=io.BytesIO(layer)) as packed:
            packed.extractall(directory, filter="tar")


def _hash_inputs() -> str:
    digest = hashlib.sha256()
    for name in _INPUTS:
        path = ROOT / name
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _version() -> str:
    return str(dependencies.project()["version"])


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time, of all that test this tree."""
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


_ISOLATION = (
    "--unshare-user",
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-uts",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
)


def sandbox(
    words: Sequence[str],
    *,
    user: int = USER,
    environment: Mapping[str, str] | None = None,
    mounts: Iterable[tuple[Path, str]] = (),
) -> list[str]:
    """A command as a container of the image: a read-only root, no capability, that user, and the environment.

    Mounts are read-only, below /run or /etc.
    """
    _, config = oci.read_manifest(archive())
    told = dict(item.partition("=")[::2] for item in config["config"]["Env"]) | dict(environment or {})
    command = ["bwrap", "--ro-bind", str(root()), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run"]
    command += [*_ISOLATION, "--as-pid-1", "--uid", str(user), "--gid", str(user), "--clearenv", "--chdir", "/"]
    places = list(mounts)
    if any(target.startswith("/etc/") for _, target in places):
        # A directory that the image does not have is made by the runtime, as a mount point.
        command += ["--tmpfs", "/etc"]
        places = [(path, f"/etc/{path.name}") for path in sorted((root() / "etc").iterdir())] + places
    for source, target in places:
        command += ["--ro-bind", str(source), target]
    if any(target.startswith("/etc/") for _, target in places):
        command += ["--remount-ro", "/etc"]
    for name, value in told.items():
        command += ["--setenv", name, value]
    return [*command, "--remount-ro", "/run", "--", *words]


def run(words: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    command = sandbox(words, **options)  # type: ignore[arg-type]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
