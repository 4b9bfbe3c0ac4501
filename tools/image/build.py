"""`python -m tools image [DIRECTORY]`: build the image into an archive in a directory, `dist` unless told.

SOURCE_DATE_EPOCH is the time of everything in it; without it the time of the commit is taken.
"""

import datetime
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import dependencies, sbom, source_analysis
from tools.image import debian, oci, root
from windlass import errors

NAME = "windlass"
CACHE = source_analysis.ROOT / "build" / "image"
"""Of lists and packages of Debian."""
_EPOCH_S = 1577836800
"""2020, where there is neither SOURCE_DATE_EPOCH nor a commit."""


@dataclass(frozen=True, slots=True)
class Image:
    """What was built."""

    archive: Path
    bill: Path
    digest: str
    size_bytes: int
    """Of the compressed layers."""


def main(directory: str = "dist") -> int:
    """Build, and say how the image is loaded and pushed."""
    if missing := debian.find_missing():
        print(f"make image needs Debian's packages {', '.join(missing)}: sudo apt-get install {' '.join(missing)}")
        return 2
    try:
        built = build(Path(directory), source_date_epoch_s())
    except errors.WindlassError as error:
        print(error, file=sys.stderr)
        return 1
    version = dependencies.project()["version"]
    print(f"written: {built.archive} ({built.size_bytes / 1e6:.0f} MB compressed)\nwritten: {built.bill}")
    print(f"{NAME}@{built.digest}")
    print(f"podman load -i {built.archive}")
    print(f"skopeo copy oci-archive:{built.archive}:{version} docker://REGISTRY/{NAME}:{version}")
    return 0


def source_date_epoch_s() -> int:
    told = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or str(_EPOCH_S)
    if not told.isdecimal():
        raise errors.InvalidInput(f"SOURCE_DATE_EPOCH: found {told!r}, expected seconds since 1970")
    return int(told)


def build(directory: Path, epoch_s: int) -> Image:
    """The archive of the image, and beside it the bill of materials that is also attached to the image."""
    architecture = debian.read_architecture()
    packages = debian.download(CACHE)
    with tempfile.TemporaryDirectory(prefix="windlass-image-") as place:
        layers = list(_make_layers(Path(place), packages, architecture, epoch_s))
    version = dependencies.project()["version"]
    created = datetime.datetime.fromtimestamp(epoch_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    manifest, config = oci.make_image(layers, configuration(), architecture, created)
    bill = sbom.make_image(packages)
    directory.mkdir(parents=True, exist_ok=True)
    archive, bill_path = (directory / f"{NAME}-{version}-{architecture}.{end}" for end in ("oci.tar", "image.cdx.json"))
    oci.write_archive(archive, NAME, version, layers, manifest, config, bill)
    bill_path.write_text(bill)
    return Image(archive, bill_path, manifest.digest, sum(len(layer.blob.data) for layer in layers))


def _make_layers(place: Path, packages: list[debian.Package], architecture: str, epoch_s: int) -> Iterator[oci.Layer]:
    """Those that change least first: a new version of windlass is a new last layer."""
    roots = system, libraries, program = [place / name for name in ("debian", "dependencies", "windlass")]
    for path in roots:
        path.mkdir()
    root.add_debian(system, packages)
    root.add_dependencies(libraries, architecture)
    root.add_program(program, epoch_s, place / "wheel")
    for path, said in zip(roots, ("Debian with Python", "requirements/image.txt", "windlass"), strict=True):
        root.compile_bytecode(system, path, architecture)
        yield oci.make_layer(path, epoch_s, said)


def configuration() -> dict[str, Any]:
    """How the image is run: as the last stage of the Containerfile says."""
    project = dependencies.project()
    labels = {
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.description": project["description"],
        "org.opencontainers.image.licenses": project["license"],
        "org.opencontainers.image.version": project["version"],
    }
    if revision := _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"):
        labels["org.opencontainers.image.revision"] = revision
    return {
        "User": f"{root.USER}:{root.USER}",
        "Env": [
            f"PATH=/{root.PLACE}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME=/nonexistent",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
        ],
        "Entrypoint": [f"/{root.PLACE}/bin/windlass"],
        "ExposedPorts": {"8085/tcp": {}},
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
        "Labels": labels,
    }


def _git(*words: str) -> str:
    """What git says of the working tree; nothing where there is none, as in an sdist."""
    if not shutil.which("git") or not (source_analysis.ROOT / ".git").exists():
        return ""
    done = subprocess.run(["git", *words], cwd=source_analysis.ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
