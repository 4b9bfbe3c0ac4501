"""`python -m tools release [DIRECTORY]`: all artifacts of a version in one directory, `dist` unless told.

Wheel and sdist, the image with its bill of materials, the chart as Helm's package, the kubectl plugin with its manifest
for krew, the bill of materials of an installation, and SHA256SUMS of them all. Nothing is signed or published.
"""

import hashlib
import io
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools import dependencies, sbom, source_analysis
from tools.image import build, debian, oci, root
from windlass import errors

CHART = source_analysis.ROOT / "deploy" / "helm" / "windlass"
_URL = "https://example.com/windlass"
"""Where nobody serves anything: whoever publishes a release sets RELEASE_URL."""
_LAUNCHER = f'''#!/usr/bin/env python3
import os
import sys

WANTED = "{debian.PYTHON}"
if "%d.%d" % sys.version_info[:2] != WANTED:
    try:
        os.execvp("python" + WANTED, ["python" + WANTED, *sys.argv])
    except OSError:
        sys.exit("kubectl windlass needs Python " + WANTED + "; for others: pip install windlass-autoscaler")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))

from windlass.cli import main

sys.exit(main())
'''


def main(directory: str = "dist") -> int:
    if missing := debian.find_missing():
        print(f"make release needs Debian's packages {', '.join(missing)}: sudo apt-get install {' '.join(missing)}")
        return 2
    try:
        written = gather(Path(directory), build.source_date_epoch_s())
    except errors.WindlassError as error:
        print(error, file=sys.stderr)
        return 1
    for path in written:
        print(f"written: {path}")
    if "RELEASE_URL" not in os.environ:
        print(f"RELEASE_URL is not set: the krew manifest says that the plugin is at {_URL}")
    return 0


def gather(directory: Path, epoch_s: int) -> list[Path]:
    """Write all artifacts; the checksums are the last of them."""
    return add_to_image(build.build(directory, epoch_s), directory, epoch_s)


def add_to_image(image: build.Image, directory: Path, epoch_s: int) -> list[Path]:
    """Write the artifacts beside those of the image, which is in the directory."""
    for old in (*directory.glob("*.whl"), *directory.glob("*.tar.gz")):
        old.unlink()
    distributions = root.build_distributions(directory, epoch_s, "wheel", "sdist")
    version, architecture = dependencies.project()["version"], debian.read_architecture()
    chart = directory / f"windlass-{version}.tgz"
    chart.write_bytes(oci.compress(oci.pack(CHART, epoch_s, "windlass/")))
    plugin = directory / f"kubectl-windlass-{version}-linux-{architecture}.tar.gz"
    plugin.write_bytes(oci.compress(_pack_plugin(image.archive, epoch_s)))
    manifest = directory / "windlass.krew.yaml"
    manifest.write_text(describe_plugin(plugin, version, architecture))
    bill = directory / "windlass.cdx.json"
    bill.write_text(sbom.make(), "utf-8")
    written = [*distributions, image.archive, image.bill, chart, plugin, manifest, bill]
    sums = directory / "SHA256SUMS"
    sums.write_text("".join(f"{_hash(path)}  {path.name}\n" for path in sorted(written)))
    return [*written, sums]


def _pack_plugin(image: Path, epoch_s: int) -> bytes:
    """The wheels and windlass as the image has them, below `lib`, and a program that finds them beside itself."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data, mode in (
            ("LICENSE", (source_analysis.ROOT / "LICENSE").read_bytes(), 0o644),
            ("kubectl-windlass", _LAUNCHER.encode(), 0o755),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), mode, epoch_s
            archive.addfile(entry, io.BytesIO(data))
        for entry, content in _read_site_packages(image):
            archive.addfile(entry, content)
    return buffer.getvalue()


def _read_site_packages(image: Path) -> Iterator[tuple[tarfile.TarInfo, io.BufferedReader | None]]:
    for layer in oci.read_layers(image):
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            for entry in archive:
                if entry.name.startswith(f"{root.PACKAGES}/") and not entry.isdir():
                    content = archive.extractfile(entry)
                    entry.name = "lib" + entry.name.removeprefix(root.PACKAGES)
                    yield entry, content  # type: ignore[misc]


def describe_plugin(archive: Path, version: str, architecture: str) -> str:
    """The manifest for krew."""
    url = os.environ.get("RELEASE_URL", _URL).rstrip("/")
    platform = {
        "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
        "uri": f"{url}/{archive.name}",
        "sha256": _hash(archive),
        "bin": "kubectl-windlass",
    }
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "windlass"},
        "spec": {
            "version": f"v{version}",
            "homepage": url,
            "shortDescription": "Ask a node autoscaler for its state and its reasons",
            "description": dependencies.project()["description"],
            "caveats": f"Needs Python {debian.PYTHON} on the PATH.",
            "platforms": [platform],
        },
    }
    return yaml.safe_dump(manifest, sort_keys=False)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
