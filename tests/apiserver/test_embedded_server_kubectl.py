"""kubectl against the embedded server, over HTTP."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from testbed import cache, components
from windlass import clock
from windlass.apiserver import embedded_server, server

_MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1"}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node-role.kubernetes.io/worker: ""}}
---
apiVersion: v1
kind: Pod
metadata: {name: p1}
spec: {containers: [{name: c, image: "nginx:1"}]}
"""
_MACHINES = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machines.cluster.x-k8s.io}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {plural: machines, kind: Machine, shortNames: [ma]}
  versions:
  - name: v1beta2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns:
    - {name: Phase, type: string, jsonPath: .status.phase}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m1}
status: {phase: Running}
"""


def _find() -> str:
    """The test bed's kubectl, or else the machine's."""
    built = cache.binary(components.KUBECTL)
    found = built if Path(built).exists() else shutil.which("kubectl")
    if not found:
        pytest.skip("no kubectl: `make testbed` builds one")
    return found


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl, told where the server is."""

    program: str
    url: str
    home: Path

    async def start(self, *arguments: str, pipe_in: bool = False) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            self.program,
            f"--server={self.url}",
            *arguments,
            stdin=asyncio.subprocess.PIPE if pipe_in else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": os.devnull},
        )

    async def run(self, *arguments: str, given: str = "", code: int = 0) -> str:
        """What it prints, error messages included."""
        process = await self.start(*arguments, pipe_in=True)
        out, err = await asyncio.wait_for(process.communicate(given.encode()), 60)
        assert process.returncode == code, (out, err)
        return out.decode() + err.decode()


@pytest_asyncio.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    program = _find()
    real = clock.RealClock()
    async with embedded_server.HttpServer(server.Server(real), real) as served:
        yield Kubectl(program, served.url, tmp_path)


async def test_apply_get_scale_and_delete(kubectl: Kubectl) -> None:
    said = await kubectl.run("apply", "--server-side", "-f", "-", given=_MANIFEST)
    assert said.splitlines() == [
        "deployment.apps/web serverside-applied",
        "node/n1 serverside-applied",
        "pod/p1 serverside-applied",
    ]
    await kubectl.run("apply", "--server-side", "-f", "-", given=_MANIFEST)
    assert "deployment.apps/web scaled" in await kubectl.run("scale", "deploy/web", "--replicas=5")
    assert (await kubectl.run("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}")) == "5"
    conflict = await kubectl.run("apply", "--server-side", "-f", "-", given=_MANIFEST, code=1)
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in conflict
    assert 'deployment.apps "web" deleted' in await kubectl.run("delete", "deploy", "web")
    assert "No resources found" in await kubectl.run("get", "deploy")


async def test_get_prints_useful_columns(kubectl: Kubectl) -> None:
    await kubectl.run("apply", "--server-side", "-f", "-", given=_MANIFEST)
    await kubectl.run("apply", "--server-side", "-f", "-", given=_MACHINES.split("---")[0])
    await kubectl.run("apply", "--server-side", "-f", "-", given=_MACHINES.split("---")[1])
    said = await kubectl.run("get", "nodes,pods,machines")
    rows = [line.split() for line in said.splitlines() if line]
    assert rows[0] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert rows[1][:3] == ["node/n1", "Unknown", "worker"]
    assert rows[2] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert rows[3][:4] == ["pod/p1", "0/1", "Pending", "0"]
    assert rows[4] == ["NAME", "PHASE", "AGE"]
    assert rows[5][:2] == ["machine.cluster.x-k8s.io/m1", "Running"]


async def test_get_watches(kubectl: Kubectl) -> None:
    await kubectl.run("apply", "--server-side", "-f", "-", given=_MANIFEST)
    process = await kubectl.start("get", "pods", "-w", "-o", "name")
    assert process.stdout is not None
    assert (await asyncio.wait_for(process.stdout.readline(), 60)).strip() == b"pod/p1"
    await kubectl.run("label", "pod", "p1", "a=b")
    assert (await asyncio.wait_for(process.stdout.readline(), 60)).strip() == b"pod/p1"
    await kubectl.run("delete", "pod", "p1")
    assert (await asyncio.wait_for(process.stdout.readline(), 60)).strip() == b"pod/p1"
    process.terminate()
    await process.wait()


async def test_a_typing_error_is_refused(kubectl: Kubectl) -> None:
    wrong = _MANIFEST.split("---")[2].replace("containers", "contaners")
    said = await kubectl.run("create", "-f", "-", given=wrong, code=1)
    assert 'unknown field "spec.contaners"' in said


async def test_kinds_and_version_are_known(kubectl: Kubectl) -> None:
    said = await kubectl.run("api-resources", "-o", "name")
    assert {"pods", "nodes", "deployments.apps", "poddisruptionbudgets.policy"} <= set(said.split())
    assert "Server Version: v1.36.3" in await kubectl.run("version")


async def test_a_node_is_tainted_cordoned_and_described(kubectl: Kubectl) -> None:
    await kubectl.run("apply", "--server-side", "-f", "-", given=_MANIFEST)
    assert "tainted" in await kubectl.run("taint", "node", "n1", "k=v:NoSchedule")
    assert "cordoned" in await kubectl.run("cordon", "n1")
    said = await kubectl.run("describe", "node", "n1")
    assert "k=v:NoSchedule" in said
    assert "Unschedulable:      true" in said
    assert "untainted" in await kubectl.run("taint", "node", "n1", "k-")


async def test_a_manifest_is_applied_twice_from_the_client(kubectl: Kubectl) -> None:
    await kubectl.run("apply", "-f", "-", given=_MANIFEST)
    changed = _MANIFEST.replace("nginx:1", "nginx:2").replace("replicas: 2", "replicas: 4")
    assert "deployment.apps/web configured" in await kubectl.run("apply", "-f", "-", given=changed)
    assert (await kubectl.run("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}")) == "4"
    assert "deployment.apps/web unchanged" in await kubectl.run("apply", "-f", "-", given=changed)


async def test_fields_are_explained(kubectl: Kubectl) -> None:
    assert "terminationGracePeriodSeconds\t<integer>" in await kubectl.run("explain", "pod.spec")
    assert "FIELD: image <string>" in await kubectl.run("explain", "deployment.spec.template.spec.containers.image")
    await kubectl.run("apply", "--server-side", "-f", "-", given=_MACHINES.split("---")[0])
    assert "KIND:       Machine" in await kubectl.run("explain", "machines")


async def test_what_is_left_to_the_real_server_says_so(kubectl: Kubectl) -> None:
    said = await kubectl.run("create", "namespace", "x", code=1)
    assert "protobuf is left to a real kube-apiserver" in said
