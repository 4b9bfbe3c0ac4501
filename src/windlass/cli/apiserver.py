"""`windlass apiserver`: the embedded API server over HTTP, for kubectl and other clients without a cluster."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from windlass import errors, input_files

if TYPE_CHECKING:
    from windlass.apiserver import server

_RepeatedOption = Parameter(negative=(), consume_multiple=(1, sys.maxsize))
_SUFFIXES = (".yaml", ".yml", ".json")
_NAME = "windlass-apiserver"
"""Cluster, user and context of the kubeconfig."""


def apiserver(
    *,
    port: int = 0,
    address: str = "127.0.0.1",
    kubeconfig: Path | None = None,
    crds: Annotated[list[Path] | None, _RepeatedOption] = None,
    default_crds: bool = True,
    objects: Annotated[list[str] | None, _RepeatedOption] = None,
) -> int:
    """Serve a Kubernetes API from memory, to try things with kubectl without a cluster.

    windlass apiserver --kubeconfig try.kubeconfig --objects examples/cluster-api.yaml

    It stores objects, serves watches and server-side apply, and runs the controllers for disruption budgets,
    namespaces and garbage collection. No other controller acts on the objects: no scheduler, no kubelet, no Cluster
    API. It requires no credentials and serves plain HTTP. All objects are lost when it ends, on SIGTERM or Ctrl-C.

    Exit code: 0, or 2 if a file cannot be used or the address is taken.

    Parameters
    ----------
    port
        Port to listen on; 0 takes a free port and prints it.
    address
        Host or IP address to listen on. Every client that can reach it may read and write everything.
    kubeconfig
        Write a kubeconfig to this file, readable by its owner only. An existing file is replaced only if this command
        wrote it.
    crds
        Files, or folders of files, with CustomResourceDefinitions to install. Of several versions the stored one is
        served; CEL rules and conversion are left out.
    default_crds
        Install the kinds that windlass watches: Cluster API's, ProvisioningRequest, CapacityBuffer and CapacityQuota,
        without their schemas. A definition in --crds takes precedence.
    objects
        Files with objects to create at the start, JSON or YAML, lists such as `kubectl get -o json` prints included.
        Status, uid and creationTimestamp are kept. `-` is standard input.
    """
    import asyncio

    from windlass.runtime import shutdown

    if kubeconfig is not None:
        _check_replaceable(kubeconfig)
    served = _make_server()
    for note in _install(served, crds or [], with_defaults=default_crds):
        print(note, file=sys.stderr)
    count = _restore(served, objects or [])
    asyncio.run(shutdown.run(_serve(served, address, port, kubeconfig, count)))
    return 0


def _make_server() -> "server.Server":
    from windlass import clock
    from windlass.apiserver import registry, server

    # Admission taints new nodes as not ready, and there is no node controller here that removes the taint.
    settings = registry.ServerSettings(disabled_admission=frozenset({"TaintNodesByCondition"}))
    return server.Server(clock.RealClock(), settings)


async def _serve(served: "server.Server", address: str, port: int, kubeconfig: Path | None, count: int) -> None:
    import asyncio

    from windlass import clock
    from windlass.apiserver import embedded_server

    serving = embedded_server.HttpServer(served, clock.RealClock(), address, port)
    try:
        await serving.start()
    except (OSError, OverflowError) as error:
        await serving.close()
        raise errors.InvalidInput(f"{address}:{port}: {getattr(error, 'strerror', None) or error}") from None
    try:
        print(f"serving Kubernetes {served.settings.version} at {serving.url}, {count} objects", flush=True)
        if not _is_loopback(address):
            print(
                f"{address}: every client that can reach it may read and write everything", file=sys.stderr, flush=True
            )
        if kubeconfig is not None:
            _write_kubeconfig(kubeconfig, serving.url)
            print(f"kubeconfig: {kubeconfig}", flush=True)
        await asyncio.Event().wait()
    finally:
        await serving.close()


def _is_loopback(address: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


# Objects


def _install(served: "server.Server", paths: list[Path], *, with_defaults: bool) -> list[str]:
    """Install definitions, and return warnings about what is not served."""
    from windlass.apiserver import crd_strategy, embedded_server
    from windlass.simulator.cluster import api_client

    notes: list[str] = []
    given: dict[str, Any] = {}
    for file in _find_files(paths):
        for obj in _read(str(file)):
            if isinstance(obj, dict) and obj.get("kind") == "CustomResourceDefinition":
                try:
                    narrowed = crd_strategy.narrow_crd(obj)
                    left_out = [item["name"] for item in obj["spec"]["versions"] if item.get("served")]
                except (KeyError, TypeError, AttributeError, StopIteration) as error:
                    raise errors.InvalidInput(f"{file}: not a CustomResourceDefinition: {error!r}") from None
                name, version = narrowed["metadata"]["name"], narrowed["spec"]["versions"][0]["name"]
                given[name] = narrowed
                if others := [entry for entry in left_out if entry != version]:
                    notes.append(f"{name}: serving {version} only, not {', '.join(others)}")
    if paths and not given:
        raise errors.InvalidInput(f"--crds {paths[0]}: found no CustomResourceDefinition, expected one or more")
    defaults = api_client.list_crds() if with_defaults else []
    wanted = [*given.values(), *(each for each in defaults if each["metadata"]["name"] not in given)]
    try:
        embedded_server.restore_objects(served, wanted)
    except embedded_server.UnusableObject as error:
        raise errors.InvalidInput(f"--crds: {error}") from None
    return notes


def _find_files(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(item for item in path.rglob("*") if item.suffix in _SUFFIXES and item.is_file())
        elif path.exists():
            found.append(path)
        else:
            raise errors.InvalidInput(f"--crds {path}: no such file or folder")
    return found


def _restore(served: "server.Server", sources: list[str]) -> int:
    from windlass.apiserver import embedded_server

    try:
        return embedded_server.restore_objects(served, [obj for source in sources for obj in _read(source)])
    except embedded_server.UnusableObject as error:
        raise errors.InvalidInput(f"--objects: {error}") from None


def _read(source: str) -> list[Any]:
    import msgspec

    from windlass.cli import manifest_input

    try:
        return [
            msgspec.json.decode(item) if isinstance(item, bytes | str) else item
            for item in manifest_input.read_documents([source])
        ]
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.InvalidInput(f"{source}: {error}") from None


# The kubeconfig


def _check_replaceable(path: Path) -> None:
    """InvalidInput if the file exists and this command did not write it: a user's kubeconfig must not be lost."""
    import contextlib

    import msgspec

    with contextlib.suppress(FileNotFoundError):
        try:
            text = input_files.read_bytes(path)
            found = msgspec.json.decode(text) if text.strip() else {"current-context": _NAME}
            if found["current-context"] == _NAME and len(found.get("clusters", ())) <= 1:
                return
        except FileNotFoundError:
            raise
        except (OSError, msgspec.DecodeError, KeyError, TypeError):
            pass
        raise errors.InvalidInput(
            f"--kubeconfig {path}: it exists and was not written by this command; expected another file"
        )


def _write_kubeconfig(path: Path, url: str) -> None:
    import contextlib
    import os
    import tempfile

    import msgspec

    server_url = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": {"server": server_url}}],
        "users": [{"name": _NAME, "user": {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise errors.InvalidInput(f"--kubeconfig {path}: {(error.strerror or str(error)).lower()}") from None
