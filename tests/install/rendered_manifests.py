"""Rendering: what Helm makes of the chart, and kustomize of an overlay, and how what they run is read."""

import functools
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed import cache, components
from tests.install.containerfile import ROOT
from windlass import cli
from windlass.autoscaler.options import command_line

Object = dict[str, Any]

CHART = ROOT / "deploy" / "helm" / "windlass"
KUSTOMIZE = ROOT / "deploy" / "kustomize"
OVERLAYS = ("cluster-api", "eks-anywhere", "lattice", "openshift")
NAMESPACE = "windlass-system"
OPENSHIFT = ("openshift-machine-api", "openshift-cluster-api")

VALUES: dict[str, tuple[str, ...]] = {
    "the defaults": (),
    "shadow": ("autoscaler.mode=shadow", "podDisruptionBudget.enabled=false"),
    "dry run": ("autoscaler.mode=dry-run",),
    "everything for the autoscaler": (
        "autoscaler.provisioningRequests=true",
        "autoscaler.capacityBuffers=true",
        "autoscaler.capacityQuotas=true",
        "autoscaler.annotationPolicy=true",
        "autoscaler.priorities.50={.*-spot-.*}",
        "autoscaler.replicas=2",
        "autoscaler.flags.max-nodes-total=1000000",
        "autoscaler.flags.balancing-ignore-label={zone,disk}",
        "autoscaler.discovery={clusterapi:namespace=default}",
        "autoscaler.kubeconfigs.management.secret=management",
        "networkPolicy.egress.enabled=true",
        "monitoring.serviceMonitor.enabled=true",
        "monitoring.prometheusRule.enabled=true",
        "monitoring.dashboards.enabled=true",
        "image.digest=sha256:" + 64 * "a",
        "imagePullSecrets={mine}",
    ),
    "what users of other charts set": (
        "autoscaler.extraArgs.balancing-ignore-label_1=zone",
        "autoscaler.customArgs={--v=4}",
        "autoscaler.extraEnv.HTTPS_PROXY=http://proxy.example:3128",
        "autoscaler.extraEnv.TOKEN.secretKeyRef.name=expander",
        "autoscaler.extraEnv.TOKEN.secretKeyRef.key=token",
        "autoscaler.envFrom[0].configMapRef.name=proxy",
        "autoscaler.dnsPolicy=Default",
        "autoscaler.dnsConfig.nameservers={192.0.2.1}",
        "autoscaler.updateStrategy.type=Recreate",
        "autoscaler.revisionHistoryLimit=3",
        "autoscaler.deploymentAnnotations.owner=team",
        "autoscaler.securityContext.runAsUser=1000",
        "autoscaler.startupProbe.failureThreshold=30",
        "autoscaler.service.type=NodePort",
        "autoscaler.service.annotations.owner=team",
        "rbac.additionalRules[0].apiGroups={example.com}",
        "rbac.additionalRules[0].resources={templates}",
        "rbac.additionalRules[0].verbs={get}",
        "rbac.annotations.owner=team",
        "monitoring.serviceMonitor.enabled=true",
        "monitoring.serviceMonitor.scrapeTimeout=5s",
        "monitoring.serviceMonitor.relabelings[0].targetLabel=cluster",
        "monitoring.serviceMonitor.relabelings[0].replacement=work",
        "monitoring.prometheusRule.enabled=true",
        "monitoring.prometheusRule.interval=1m",
        "monitoring.prometheusRule.additionalRules[0].alert=Mine",
        "monitoring.prometheusRule.additionalRules[0].expr=up",
        "podDisruptionBudget.minAvailable=1",
        "podDisruptionBudget.unhealthyPodEvictionPolicy=AlwaysAllow",
    ),
    "pods elsewhere": ("autoscaler.kubeconfigs.workload.secret=work-kubeconfig",),
    "MachinePools": ("operator.controllers={machine_pool}",),
    "MachinePools of one namespace": ("operator.controllers={machine_pool}", "operator.namespace=machine-pools"),
    "EKS Anywhere": ("operator.controllers={eks_anywhere}", "autoscaler.discovery={clusterapi:namespace=eksa-system}"),
    "Lattice": ("operator.controllers={lattice}", "autoscaler.enabled=false"),
    "Lattice without an autoscaler": ("operator.controllers={lattice}", "lattice.deployAutoscaler=false"),
    "OpenShift": (
        "operator.controllers={cluster_autoscaler,machine_autoscaler,machineset_sync}",
        "autoscaler.enabled=false",
        "openshift.releaseVersion=4.21.0",
        "networkPolicy.egress.enabled=true",
    ),
    "MachineAutoscalers alone": ("operator.controllers={machine_autoscaler}", "autoscaler.enabled=false"),
    "nothing": ("autoscaler.enabled=false",),
}
"""Choices that someone might make, as `helm --set` takes them."""


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    if cache.missing([components.HELM]):
        pytest.skip("NOT RENDERED: Helm is not built; `make testbed` builds it (needs Go)")
    command = [cache.binary(components.HELM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@functools.cache
def render(values: tuple[str, ...], release: str = "windlass", namespace: str = NAMESPACE) -> str:
    chosen = [word for value in values for word in ("--set", value)]
    made = helm("template", release, str(CHART), "--skip-tests", "--namespace", namespace, *chosen)
    assert made.returncode == 0, made.stderr
    return made.stdout


def chart(values: tuple[str, ...], release: str = "windlass") -> list[Object]:
    """The objects of a release."""
    return read(render(values, release))


def render_values(values: Object, *options: str, namespace: str = NAMESPACE) -> subprocess.CompletedProcess[str]:
    """What Helm says to a file of values."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(json.dumps(values))
        file.flush()
        command = ("template", "windlass", str(CHART), "--namespace", namespace, "--values", file.name)
        return helm(*command, *options)


def chart_of(values: Object) -> list[Object]:
    """The objects of a release with these values."""
    made = render_values(values)
    assert made.returncode == 0, made.stderr
    return read(made.stdout)


@functools.cache
def overlay(name: str) -> str:
    if cache.missing([components.KUBECTL]):
        pytest.skip("NOT RENDERED: kubectl is not built; `make testbed` builds it (needs Go)")
    command = [cache.binary(components.KUBECTL), "kustomize", str(KUSTOMIZE / name)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, where there is one: definitions are long."""


def read(text: str) -> list[Object]:
    return [body for body in yaml.load_all(text, _LOADER) if body]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [body for body in objects if body["kind"] == kind]


def containers(objects: list[Object]) -> Iterator[Object]:
    for deployment in of_kind(objects, "Deployment"):
        yield from deployment["spec"]["template"]["spec"]["containers"]


def accept(container: Object) -> None:
    """The program that is run has to understand every word."""
    program, command = container["command"]
    assert program == "windlass"
    if command == "autoscaler":
        read_words = command_line.parse_command_line(command_line.split_arguments(container["args"]))
        assert read_words.warnings == ()
    else:
        cli.app.parse_args([command, *container["args"]], exit_on_error=False, print_error=False)


def options(objects: list[Object]) -> dict[str, dict[str, object]]:
    """What each process makes of its words, defaults included, by the name of its Deployment."""
    found: dict[str, dict[str, object]] = {}
    for deployment in of_kind(objects, "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        name, command = deployment["metadata"]["name"], container["command"][1]
        if command == "autoscaler":
            parsed = command_line.parse_command_line(command_line.split_arguments(container["args"]))
            found[name] = {"settings": parsed.settings, "options": parsed.options}
        else:
            words = [command, *container["args"]]
            _, bound, _ = cli.app.parse_args(words, exit_on_error=False, print_error=False)
            bound.apply_defaults()
            found[name] = dict(bound.arguments)
        found[name]["env"] = container.get("env", [])
    return found


def rules(objects: list[Object]) -> dict[tuple[str, str], set[str]]:
    """Who may do what: rules as JSON, by account and namespace of the binding; without one, in the whole cluster."""
    roles = {
        (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]): (
            body.get("rules") or [body["aggregationRule"]]
        )
        for body in objects
        if body["kind"] in {"Role", "ClusterRole"}
    }
    found: dict[tuple[str, str], set[str]] = {}
    for body in objects:
        if body["kind"] in {"RoleBinding", "ClusterRoleBinding"}:
            where = body["metadata"].get("namespace", "")
            reference, (subject,) = body["roleRef"], body["subjects"]
            home = "" if reference["kind"] == "ClusterRole" else where
            granted = roles[reference["kind"], home, reference["name"]]
            spelled = {json.dumps(rule, sort_keys=True) for rule in granted}
            found.setdefault((f"{subject['namespace']}/{subject['name']}", where), set()).update(spelled)
    return found


def shipped(*names: str) -> list[Object]:
    """The objects of files of deploy/rbac."""
    return [body for name in names for body in read((ROOT / "deploy" / "rbac" / f"{name}.yaml").read_text())]


def path_of(name: str) -> Path:
    return ROOT / "deploy" / name
