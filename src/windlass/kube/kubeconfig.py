"""kubeconfig files, and what several of them come to.

Merged as kubectl merges them: of each name, and of the current context, the first file that has one counts, whole; the
same name in a later file adds nothing. Paths in a file are relative to that file. Files that do not exist are passed
over, unless one was asked for by name.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from windlass import errors, input_files
from windlass.kube import yaml_documents


class _Part(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of kubeconfig parts; unknown fields are ignored."""


class Cluster(_Part, frozen=True):
    """A cluster: server and TLS."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes | None = None
    proxy_url: str = ""


class EnvVar(_Part, frozen=True):
    """An environment variable of an exec plugin."""

    name: str
    value: str = ""


class Exec(_Part, frozen=True, rename="camel"):
    """An exec plugin."""

    command: str = ""
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class User(_Part, frozen=True):
    """A user: credentials."""

    client_certificate: str = ""
    client_certificate_data: bytes | None = None
    client_key: str = ""
    client_key_data: bytes | None = None
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    auth_provider: dict[str, Any] | None = None
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class Context(_Part, frozen=True):
    """A context: cluster, user, namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Part, frozen=True):
    name: str = ""
    cluster: Cluster | None = None


class _NamedUser(_Part, frozen=True):
    name: str = ""
    user: User | None = None


class _NamedContext(_Part, frozen=True):
    name: str = ""
    context: Context | None = None


class _File(_Part, frozen=True):
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileEntry(Generic[T]):
    """An entry, with the file that it comes from."""

    entry: T
    file: Path

    def resolve(self, path: str) -> Path:
        return self.file.parent / path


@dataclass(slots=True)
class Kubeconfig:
    """The merged kubeconfig."""

    files: list[Path] = field(default_factory=list)
    current_context: str = ""
    clusters: dict[str, FileEntry[Cluster]] = field(default_factory=dict)
    users: dict[str, FileEntry[User]] = field(default_factory=dict)
    contexts: dict[str, FileEntry[Context]] = field(default_factory=dict)


def find_files(explicit: str, environment: Mapping[str, str], home: Path) -> list[Path]:
    """The files to read: the given one, those of KUBECONFIG, or `~/.kube/config`."""
    if explicit:
        if not Path(explicit).exists():
            raise errors.InvalidInput(f"kubeconfig {explicit}: no such file")
        return [Path(explicit)]
    listed = environment.get("KUBECONFIG", "")
    paths = [Path(part) for part in listed.split(os.pathsep) if part] if listed else [home / ".kube" / "config"]
    return [path for path in dict.fromkeys(paths) if path.exists()]


def load(files: Iterable[Path]) -> Kubeconfig:
    """Read and merge files. InvalidInput if one cannot be read."""
    merged = Kubeconfig()
    for path in files:
        file = _read(path)
        merged.files.append(path)
        merged.current_context = merged.current_context or file.current_context
        _merge(
            merged.clusters,
            ((named_cluster.name, named_cluster.cluster or Cluster()) for named_cluster in file.clusters or ()),
            path,
        )
        _merge(merged.users, ((named_user.name, named_user.user or User()) for named_user in file.users or ()), path)
        _merge(
            merged.contexts,
            ((named_context.name, named_context.context or Context()) for named_context in file.contexts or ()),
            path,
        )
    return merged


def parse(text: bytes, name: str) -> Kubeconfig:
    """Parse a kubeconfig that is not a file, such as a Secret's; `name` is used in errors.

    InvalidInput if it is malformed, or if it refers to files or commands: permission to write a Secret must not give
    access to them.
    """
    where = Path(name)
    file = _decode(text, f"kubeconfig {name}")
    config = Kubeconfig([where], file.current_context)
    _merge(
        config.clusters,
        ((named_cluster.name, named_cluster.cluster or Cluster()) for named_cluster in file.clusters or ()),
        where,
    )
    _merge(config.users, ((named_user.name, named_user.user or User()) for named_user in file.users or ()), where)
    _merge(
        config.contexts,
        ((named_context.name, named_context.context or Context()) for named_context in file.contexts or ()),
        where,
    )
    for user in (file_entry.entry for file_entry in config.users.values()):
        if user.exec or user.token_file or user.client_certificate or user.client_key:
            raise errors.InvalidInput(f"kubeconfig {name}: users: files and exec plugins are not allowed here")
    if any(cluster.entry.certificate_authority for cluster in config.clusters.values()):
        raise errors.InvalidInput(f"kubeconfig {name}: clusters: certificate-authority: files are not allowed here")
    return config


def _merge(into: dict[str, FileEntry[T]], entries: Iterable[tuple[str, T]], path: Path) -> None:
    before = set(into)
    own: set[str] = set()
    for name, section in entries:
        if name in own:
            raise errors.InvalidInput(f"kubeconfig {path}: {name!r} is there twice")
        own.add(name)
        if name not in before:
            into[name] = FileEntry(section, path)


def _read(path: Path) -> _File:
    where = f"kubeconfig {path}"
    try:
        text = input_files.read_bytes(path)
    except OSError as error:
        raise errors.InvalidInput(f"{where}: {error.strerror}") from error
    return _decode(text, where)


def _decode(text: bytes, where: str) -> _File:
    try:
        if (file := _decode_json(text)) is not None:
            return file
        documents = list(yaml_documents.read_documents(text, where))
        return msgspec.convert(documents[0], _File) if documents else _File()
    except msgspec.ValidationError as error:
        raise errors.InvalidInput(f"{where}: {error}") from error


def _decode_json(text: bytes) -> _File | None:
    """Decode JSON; None if it is not JSON or nested too deep, so that the YAML parser checks it."""
    try:
        return msgspec.json.decode(text, type=_File)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        return None
