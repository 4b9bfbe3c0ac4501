"""Cluster Autoscaler as users have it: what its own chart renders, and manifests without a chart.

../shared/upstream has the renderings. The chart's templates are not there: a chart of one template stands for them,
whose values are the chart's own for image and rules.
"""

import base64
from pathlib import Path

import pytest
import yaml

from testbed.api import Object
from testbed.bed import Bed
from tests.e2e import rbac
from tests.install.containerfile import ROOT

UPSTREAM = ROOT.parent / "shared" / "upstream" / "cluster-autoscaler-chart"
NAMESPACE = "autoscaling"
IMAGE = "registry.example/windlass:0.1.0"
OLD_IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0"
needed = pytest.mark.skipif(
    not UPSTREAM.is_dir(), reason="NOT JUDGED: Cluster Autoscaler's chart is not at ../shared/upstream"
)
_RBAC = "rbac.authorization.k8s.io/v1"
_UNSERVED = {"ServiceMonitor", "PrometheusRule", "VerticalPodAutoscaler"}
"""Kinds of other projects, which nobody has installed here."""


def render(name: str) -> list[Object]:
    """The objects of a release, with the image exchanged and nothing else."""
    text = (UPSTREAM / "rendered" / f"{name}.yaml").read_text()
    bodies = [body for body in yaml.safe_load_all(text) if body and body["kind"] not in _UNSERVED]
    for body in bodies:
        if body["kind"] == "Deployment":
            (container,) = body["spec"]["template"]["spec"]["containers"]
            container["image"] = IMAGE
    return bodies


def find_pod(bodies: list[Object]) -> Object:
    """The pod of the Deployment, as the API server makes it."""
    (deployment,) = (body for body in bodies if body["kind"] == "Deployment")
    metadata = {**deployment["spec"]["template"]["metadata"], "namespace": deployment["metadata"]["namespace"]}
    return {"metadata": metadata, "spec": deployment["spec"]["template"]["spec"]}


def apply(bed: Bed, bodies: list[Object]) -> None:
    bed.kubectl("apply", "--server-side", "-f-", stdin=yaml.safe_dump_all(bodies))


def add_kubeconfig(bed: Bed, name: str) -> None:
    """A Secret of the user's, or Cluster API's, with a kubeconfig of this very cluster."""
    data = {"value": base64.b64encode(Path(bed.kubeconfig).read_bytes()).decode()}
    metadata = {"name": name, "namespace": NAMESPACE}
    bed.api.add({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def write_chart(directory: Path, name: str) -> None:
    """A chart that renders what the official one renders, and takes the same values for image and additional rules."""
    bodies = render(name)
    for body in bodies:
        body["metadata"].pop("namespace", None)
        if body["kind"] == "ClusterRole":
            body["rules"].append("ADDITIONAL")
        if body["kind"] == "Deployment":
            (container,) = body["spec"]["template"]["spec"]["containers"]
            container["image"] = "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
    text = yaml.safe_dump_all(bodies)
    text = text.replace("- ADDITIONAL\n", "{{- with .Values.rbac.additionalRules }}\n{{ toYaml . }}\n{{- end }}\n")
    repository, _, tag = OLD_IMAGE.rpartition(":")
    values = {"image": {"repository": repository, "tag": tag}, "rbac": {"additionalRules": []}}
    (directory / "templates").mkdir(parents=True)
    (directory / "templates" / "all.yaml").write_text(text)
    (directory / "values.yaml").write_text(yaml.safe_dump(values))
    (directory / "Chart.yaml").write_text((UPSTREAM / "Chart.yaml").read_text())


def plain_manifests() -> str:
    """A Deployment in kube-system with roles of its own, in the form of Cluster API's documents."""
    name, namespace = "cluster-autoscaler", "kube-system"
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    bodies: list[Object] = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}]
    for part, rules in (("workload", rbac.WORKLOAD + rbac.OWN), ("management", rbac.MANAGEMENT)):
        metadata = {"name": f"{name}-{part}"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **metadata}
        head = {"apiVersion": _RBAC, "metadata": metadata}
        bodies.append({**head, "kind": "ClusterRole", "rules": rules})
        bodies.append({**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [account]})
    container = {"name": name, "image": OLD_IMAGE, "command": ["/cluster-autoscaler"]}
    container["args"] = ["--cloud-provider=clusterapi"]
    pod = {"serviceAccountName": name, "terminationGracePeriodSeconds": 10, "containers": [container]}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    bodies.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
    for body in bodies:
        if not body["kind"].startswith("Cluster"):
            body["metadata"] = {**body["metadata"], "namespace": namespace}
    return yaml.safe_dump_all(bodies)
