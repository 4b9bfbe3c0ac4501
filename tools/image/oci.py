"""OCI: layers from directories, and a layout of them in one archive, which podman, docker and skopeo read.

No owner, time or order of the machine is in it. The bill of materials is a manifest of its own that refers to the image
(`subject`): it can be read without pulling a layer, and the image's digest does not depend on it.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_EMPTY = "application/vnd.oci.empty.v1+json"
CYCLONEDX = "application/vnd.cyclonedx+json"
_REFERENCE = "org.opencontainers.image.ref.name"
_GZIP_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Blob:
    """Content that is addressed by its hash."""

    media_type: str
    data: bytes

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.data).hexdigest()}"

    @property
    def path(self) -> str:
        return f"blobs/{self.digest.replace(':', '/')}"

    def describe(self, **more: Any) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.data), **more}


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of the root filesystem, compressed."""

    blob: Blob
    diff_id: str
    """The hash of the archive before it was compressed."""
    created_by: str


def pack(directory: Path, epoch_s: int, prefix: str = "") -> bytes:
    """A tar archive of all below a directory: sorted, owned by root, of one time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in _walk(directory):
            entry = archive.gettarinfo(path, prefix + path.relative_to(directory).as_posix())
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch_s
            if entry.islnk():  # a second name of one file, whichever came first
                entry.type, entry.size = tarfile.REGTYPE, path.stat().st_size
            entry.mode = _mode(path, entry)
            if entry.isreg():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return buffer.getvalue()


def _walk(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _mode(path: Path, entry: tarfile.TarInfo) -> int:
    """Readable by every user and writable by root alone, whatever the umask was; /tmp as it is everywhere."""
    if entry.issym():
        return 0o777
    if entry.isdir():
        return 0o1777 if path.name == "tmp" else 0o755
    return 0o755 if entry.mode & 0o100 else 0o644


def compress(data: bytes) -> bytes:
    return gzip.compress(data, _GZIP_LEVEL, mtime=0)


def make_layer(directory: Path, epoch_s: int, created_by: str) -> Layer:
    archive = pack(directory, epoch_s)
    return Layer(Blob(_LAYER, compress(archive)), f"sha256:{hashlib.sha256(archive).hexdigest()}", created_by)


def make_image(
    layers: Sequence[Layer], configuration: Mapping[str, Any], architecture: str, created: str
) -> tuple[Blob, Blob]:
    """The manifest of an image and its configuration."""
    config = _json(
        _CONFIG,
        {
            "created": created,
            "architecture": architecture,
            "os": "linux",
            "config": configuration,
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": created, "created_by": layer.created_by} for layer in layers],
        },
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": config.describe(),
        "layers": [layer.blob.describe() for layer in layers],
        "annotations": configuration["Labels"],
    }
    return _json(_MANIFEST, manifest), config


def write_archive(
    path: Path, name: str, tag: str, layers: Sequence[Layer], manifest: Blob, config: Blob, bill: str
) -> None:
    """The layout as one file. `manifest.json` is for `docker load`, which does not read an index."""
    sbom, empty = Blob(CYCLONEDX, bill.encode()), Blob(_EMPTY, b"{}")
    referrer = _json(
        _MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "artifactType": CYCLONEDX,
            "config": empty.describe(),
            "layers": [sbom.describe(annotations={"org.opencontainers.image.title": "windlass-image.cdx.json"})],
            "subject": manifest.describe(),
        },
    )
    read = json.loads(config.data)
    platform = {"architecture": read["architecture"], "os": read["os"]}
    listed = [
        manifest.describe(platform=platform, annotations={_REFERENCE: tag}),
        referrer.describe(artifactType=CYCLONEDX),
    ]
    index = _json(_INDEX, {"schemaVersion": 2, "mediaType": _INDEX, "manifests": listed})
    for_docker = [
        {"Config": config.path, "RepoTags": [f"{name}:{tag}"], "Layers": [layer.blob.path for layer in layers]}
    ]
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": index.data,
        "manifest.json": _encode(for_docker),
        **{blob.path: blob.data for blob in (manifest, config, referrer, sbom, empty, *(each.blob for each in layers))},
    }
    path.write_bytes(_archive(files))


def read_manifest(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of an archive's image: its manifest and its configuration."""
    with tarfile.open(path) as archive:
        manifest = _read_blob(archive, json.loads(_read_file(archive, "index.json"))["manifests"][0]["digest"])
        read: dict[str, Any] = json.loads(manifest)
        return read, json.loads(_read_blob(archive, read["config"]["digest"]))


def read_layers(path: Path) -> Iterator[bytes]:
    """The layers of an archive's image, as tar archives."""
    manifest, _ = read_manifest(path)
    with tarfile.open(path) as archive:
        for layer in manifest["layers"]:
            yield gzip.decompress(_read_blob(archive, layer["digest"]))


def _read_blob(archive: tarfile.TarFile, digest: str) -> bytes:
    return _read_file(archive, f"blobs/{digest.replace(':', '/')}")


def _read_file(archive: tarfile.TarFile, name: str) -> bytes:
    content = archive.extractfile(name)
    if content is None:
        raise KeyError(name)
    return content.read()


def _archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _json(media_type: str, value: Any) -> Blob:
    return Blob(media_type, _encode(value))


def _encode(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
