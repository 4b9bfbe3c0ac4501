"""A kubelet, played: what a pod says is run, as a process, with what a kubelet gives a pod and nothing else.

Its command and arguments, its environment, its Secrets, its ServiceAccount's token, the address of the API server.
`running` runs the working tree. Where it can be had (it takes root), the token is where pods find it and the root
filesystem is read-only; elsewhere a kubeconfig says the same. `running_image` runs the image that `make image` builds.
"""

import base64
import contextlib
import os
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from testbed import openshift
from testbed.api import Object
from testbed.bed import Bed
from tests.e2e import pod_network
from tests.install import built_image

Running = Callable[[Bed, Object, Path], contextlib.AbstractContextManager[Path]]

_RUNTIMES = {"bwrap", "unshare", "env"}
_SECRETS = "/run/secrets/kubernetes.io"
_MOUNTS = (
    f"mount -t tmpfs none /run && mkdir -p {_SECRETS} && cp -r {{files}} {_SECRETS}/serviceaccount"
    ' && mount -o remount,ro,bind / && exec "$@"'
)
_NAMESPACE = ("unshare", "--mount", "--propagation=private", "sh", "-c")
PORT = 8085
"""Of an autoscaler that is told no other."""
_GRACE_S = 30
"""Of a pod that names none."""


def _can_mount(files: Path) -> bool:
    """Can a process have a root of its own, with a token where pods have it?"""
    seen = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    command = [*_NAMESPACE, _MOUNTS.format(files=files), "sh", "cat", seen]
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


def _write_account(bed: Bed, pod: Object, directory: Path) -> tuple[Path, dict[str, str], str]:
    """The files of the pod's account, the address of the API server, and the account's token."""
    namespace, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
    token = openshift.token(bed.api, namespace, account)
    files = directory / "serviceaccount"
    files.mkdir(parents=True)
    for name, text in (("token", token), ("namespace", namespace), ("ca.crt", bed.site.files.ca.read_text())):
        (files / name).write_text(text)
    server = urllib.parse.urlsplit(bed.site.server)
    told = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    return files, told, token


def _admit(bed: Bed, pod: Object, directory: Path) -> tuple[list[str], dict[str, str]]:
    """What comes before the command, and the environment: the way to the API server, as this pod's account."""
    files, told, token = _write_account(bed, pod, directory)
    if _can_mount(files):
        return [*_NAMESPACE, _MOUNTS.format(files=files), "sh"], told
    kubeconfig = openshift.write_kubeconfig(directory / "kubeconfig", bed.kubeconfig, token)
    return [], {"KUBECONFIG": str(kubeconfig)}


def _read_environment(pod: Object, container: Object) -> dict[str, str]:
    """Values, and fields of the pod."""
    found = {}
    for item in container.get("env", ()):
        if "value" in item:
            found[item["name"]] = item["value"]
        else:
            part, field = item["valueFrom"]["fieldRef"]["fieldPath"].split(".")
            found[item["name"]] = pod[part][field]
    return found


def _write_secrets(bed: Bed, pod: Object, container: Object, directory: Path) -> Iterator[tuple[Path, str]]:
    """What the container mounts, and where."""
    volumes = {volume["name"]: volume["secret"] for volume in pod["spec"].get("volumes", ()) if "secret" in volume}
    for mount in container.get("volumeMounts", ()):
        if mount["name"] not in volumes:
            continue  # the account's token, which is mounted anyway
        told = volumes[mount["name"]]
        secret = bed.api.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets/{told['secretName']}")
        names = {item["key"]: item["path"] for item in told.get("items", ())} or {key: key for key in secret["data"]}
        files = directory / "volumes" / mount["name"]
        files.mkdir(parents=True)
        for key, name in names.items():
            (files / name).write_bytes(base64.b64decode(secret["data"][key]))
        yield files, mount["mountPath"]


@contextlib.contextmanager
def running(bed: Bed, pod: Object, directory: Path) -> Iterator[Path]:
    """The pod's only container as a process, and its log. It ends as a kubelet asks it to, without a complaint."""
    (container,) = pod["spec"]["containers"]
    prefix, environment = _admit(bed, pod, directory)
    environment |= _read_environment(pod, container)
    # The image's: where its programs are, and no home.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    environment |= {"PATH": path, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*prefix, *container["command"], *container["args"]]
    with _process(pod, command, directory, environment) as log:
        yield log


@contextlib.contextmanager
def running_image(bed: Bed, pod: Object, directory: Path) -> Iterator[Path]:
    """The same, in the image: a read-only root, no capability, the user that the pod names or that of the image.

    Skips the test where the image cannot be built or run.
    """
    (container,) = pod["spec"]["containers"]
    files, environment, _ = _write_account(bed, pod, directory)
    mounts = [(files, f"{_SECRETS}/serviceaccount"), *_write_secrets(bed, pod, container, directory)]
    environment |= _read_environment(pod, container)
    words = [*(container.get("command") or built_image.entry_point()), *container.get("args", ())]
    user = pod["spec"].get("securityContext", {}).get("runAsUser", built_image.USER)
    command = built_image.sandbox(words, user=user, environment=environment, mounts=mounts)
    if not pod_network.can_be_made():
        pytest.skip("NOT RUN: network namespaces may not be made here")
    api_port = int(environment["KUBERNETES_SERVICE_PORT"])
    with pod_network.outside(directory, api_port, PORT) as prefix, _process(pod, [*prefix, *command], directory) as log:
        yield log


@contextlib.contextmanager
def _process(
    pod: Object, command: list[str], directory: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Path]:
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd="/", env=environment, stdout=output, stderr=output)
    try:
        yield log
    finally:
        os.kill(_find_program(process.pid), signal.SIGTERM)
        code = process.wait(pod["spec"].get("terminationGracePeriodSeconds", _GRACE_S))
        print(log.read_text()[-6000:])
    assert code == 0


def _find_program(pid: int) -> int:
    """Whom a kubelet signals: the first process of the container, and not the runtime that waits for it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    is_runtime = Path(f"/proc/{pid}/comm").read_text().strip() in _RUNTIMES or _is_network(pid)
    return _find_program(int(children[0])) if is_runtime and children else pid


def _is_network(pid: int) -> bool:
    return b"tests.e2e.pod_network" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
