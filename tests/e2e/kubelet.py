"""A kubelet, played: what a pod says is run, as a process, with what a kubelet gives a pod and nothing else.

Its command and arguments, its environment, its ServiceAccount's token, the address of the API server. Where it can be
had (it takes root), the token is where pods find it and the root filesystem is read-only; elsewhere a kubeconfig says
the same.
"""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from testbed import openshift
from testbed.api import Object
from testbed.bed import Bed

_SECRETS = "/run/secrets/kubernetes.io"
_MOUNTS = (
    f"mount -t tmpfs none /run && mkdir -p {_SECRETS} && cp -r {{files}} {_SECRETS}/serviceaccount"
    ' && mount -o remount,ro,bind / && exec "$@"'
)
_NAMESPACE = ("unshare", "--mount", "--propagation=private", "sh", "-c")


def _can_mount(files: Path) -> bool:
    """Can a process have a root of its own, with a token where pods have it?"""
    seen = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    command = [*_NAMESPACE, _MOUNTS.format(files=files), "sh", "cat", seen]
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


def _admit(bed: Bed, pod: Object, directory: Path) -> tuple[list[str], dict[str, str]]:
    """What comes before the command, and the environment: the way to the API server, as this pod's account."""
    namespace, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
    token = openshift.token(bed.api, namespace, account)
    files = directory / "serviceaccount"
    files.mkdir()
    for name, text in (("token", token), ("namespace", namespace), ("ca.crt", bed.site.files.ca.read_text())):
        (files / name).write_text(text)
    server = urllib.parse.urlsplit(bed.site.server)
    told = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    if _can_mount(files):
        return [*_NAMESPACE, _MOUNTS.format(files=files), "sh"], told
    kubeconfig = openshift.write_kubeconfig(directory / "kubeconfig", bed.kubeconfig, token)
    return [], {"KUBECONFIG": str(kubeconfig)}


def _value(variable: Object, pod: Object) -> str:
    """The value of a variable: given, or a field of the pod's metadata."""
    if "valueFrom" not in variable:
        return str(variable["value"])
    path = variable["valueFrom"]["fieldRef"]["fieldPath"]
    return str(pod["metadata"][path.removeprefix("metadata.")])


@contextlib.contextmanager
def running(bed: Bed, pod: Object, directory: Path) -> Iterator[Path]:
    """The pod's only container as a process, and its log. It ends as a kubelet asks it to, without a complaint."""
    (container,) = pod["spec"]["containers"]
    prefix, environment = _admit(bed, pod, directory)
    environment |= {item["name"]: _value(item, pod) for item in container.get("env", ())}
    # The image's: where its programs are, and no home.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    environment |= {"PATH": path, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    log = directory / "log"
    command = [*prefix, *container["command"], *container["args"]]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd="/", env=environment, stdout=output, stderr=output)
    try:
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(pod["spec"]["terminationGracePeriodSeconds"])
        print(log.read_text()[-6000:])
    assert code == 0
