"""Drop-in: what Cluster Autoscaler's chart renders runs with the image of windlass, and nothing else is exchanged.

The command, the environment, the Secrets, the user and the rights are those of the chart. What these rights lack is
what docs/migration.md lists, and costs what it says there.
"""

import contextlib
import http.client
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testbed import clusterapi, fixtures, objects, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import kubelet, official_chart, pod_network
from tests.e2e.node_groups import add_deployment
from tests.e2e.polling import wait_for
from tests.install import built_image
from tests.testbed import pages
from tests.testbed.rbac import audit_log

pytestmark = official_chart.needed

REFUSED = (
    'cannot watch resource "machinedeployments" in API group "cluster.x-k8s.io" in the namespace "clusters-team-a"'
)
SIZE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
"""Of a node: one pod of the Deployment."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The cluster that somebody has who renders this."""

    cluster: str
    namespace: str
    labels: dict[str, str] = field(default_factory=dict)
    secret: str = ""
    """With a kubeconfig, which the pod mounts."""
    refused: frozenset[str] = frozenset()
    """Resources that the chart's rights lack; docs/migration.md has a row for each."""


MEMORY, TEMPLATES = "configmaps windlass-memory", "infrastructure.cluster.x-k8s.io"
GROUPS = frozenset({"machinedeployments", "machinesets", "machinepools", "machines"})
SETTINGS = {
    "default": Setting("demo", "demo", refused=frozenset({MEMORY, TEMPLATES})),
    "self-managed": Setting("home", "default", refused=frozenset({MEMORY, TEMPLATES})),
    "workload-from-management": Setting(
        "team-a", "clusters-team-a", {"tier": "general", "team": "a"}, "team-a-kubeconfig", GROUPS
    ),
    "incluster-kubeconfig": Setting("team-b", "clusters-team-b", {}, "mgmt-kubeconfig", frozenset({MEMORY})),
}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if reason := fixtures.why_not() or built_image.find_reason():
        pytest.skip(reason)
    choice = Choice(scheduler=True, kwok=True, capi=True, audited=True)
    with sharing.shared(tmp_path_factory.mktemp("renderings"), choice) as found:
        for name in (official_chart.NAMESPACE, *(each.namespace for each in SETTINGS.values())):
            if name != "default":
                found.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield found


def add_group(bed: Bed, name: str, setting: Setting) -> str:
    """Two nodes, of which one may go at once, and three at most."""
    clusterapi.add_cluster(bed.api, bed.kubeconfig, setting.cluster, setting.namespace)
    bounds = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-{}-size"
    annotations = {bounds.format("min"): "1", bounds.format("max"): "3"}
    annotations["cluster.x-k8s.io/autoscaling-options-scaledownunneededtime"] = "1s"
    where = {"cluster": setting.cluster, "namespace": setting.namespace}
    template, group = objects.machine_deployment(name, 2, node={"capacity": SIZE}, annotations=annotations, **where)
    group["metadata"]["labels"] = setting.labels
    bed.api.add(template)
    bed.api.add(group)
    return f"/apis/{objects.CLUSTER_API}/namespaces/{setting.namespace}/machinedeployments/{name}"


def is_alive(container: Object, directory: Path) -> bool:
    """As the kubelet asks."""
    asked = container["livenessProbe"]["httpGet"]
    assert asked["port"] == kubelet.PORT
    with contextlib.suppress(OSError, http.client.HTTPException):
        return pod_network.get(directory, asked["path"]) == 200
    return False


def name_right(asked: audit_log.Asked) -> str:
    """As the document's table has it."""
    if asked.group == TEMPLATES:
        return TEMPLATES
    return f"{asked.resource} {asked.name}".rstrip()


@pytest.mark.parametrize("name", SETTINGS)
def test_the_image_scales_with_what_the_chart_gave_cluster_autoscaler(bed: Bed, name: str, tmp_path: Path) -> None:
    setting = SETTINGS[name]
    group = add_group(bed, name, setting)
    if setting.secret:
        official_chart.add_kubeconfig(bed, setting.secret)
    rendered = official_chart.render(name)
    official_chart.apply(bed, [body for body in rendered if body["kind"] != "Deployment"])
    pod = official_chart.find_pod(rendered)
    (container,) = pod["spec"]["containers"]

    def nodes() -> int:
        return len(bed.api.items("/api/v1/nodes", labelSelector=f"node.cluster.x-k8s.io/group={name}"))

    def available() -> int:
        return int(bed.api.get(web).get("status", {}).get("availableReplicas", 0))

    wait_for("two nodes", nodes, lambda now: now == 2)
    began = audit_log.find_end(bed.site.audit_log)
    with kubelet.running_image(bed, pod, tmp_path) as log:
        wait_for("it is alive", lambda: is_alive(container, tmp_path))
        if name == "workload-from-management":
            wait_for("it says what it lacks", lambda: REFUSED in log.read_text())
            with pages.shell(bed, tmp_path, helm=False) as run:
                run(*pages.read("migration.md", "Permissions").left)
        wait_for("the empty node goes", nodes, lambda now: now == 1)
        web = add_deployment(bed, name)
        wait_for("a node for each replica", available, lambda now: now == 3)
        assert bed.api.get(group)["spec"]["replicas"] == 3
    text = log.read_text()
    asked = audit_log.read(bed.site.audit_log, began)
    assert {name_right(one) for one in asked if one.is_refused} == setting.refused
    assert "Traceback" not in text
    assert "decisions follow behavior=cluster-autoscaler" in text
    if MEMORY in setting.refused:
        assert "timers and backoffs are lost at a restart" in text
