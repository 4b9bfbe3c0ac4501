"""docs/migration.md, command by command, on a real API server: each route there, and back.

What a route leaves behind is what the page says: the same objects with another image, and a memory. The pod that the
changed Deployment would have is run with the image itself.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testbed import clusterapi, fixtures, objects, sharing
from testbed.api import Object
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import kubelet, official_chart
from tests.e2e.polling import wait_for
from tests.install import built_image
from tests.testbed import pages
from tests.testbed.rbac import audit_log

pytestmark = official_chart.needed

PAGE = "migration.md"
OURS = "windlass-system"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/cluster-autoscaler"
MEMORY = "/api/v1/namespaces/{}/configmaps/windlass-memory"
KINDS = "deployments,serviceaccounts,services,roles,rolebindings,poddisruptionbudgets"
CLUSTER_KINDS = "clusterroles,clusterrolebindings"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if reason := fixtures.why_not() or built_image.find_reason():
        pytest.skip(reason)
    choice = Choice(scheduler=True, kwok=True, capi=True, audited=True)
    with sharing.shared(tmp_path_factory.mktemp("migration"), choice) as found:
        found.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": official_chart.NAMESPACE}})
        clusterapi.add_cluster(found.api, found.kubeconfig, "demo")
        # A node of no group, on which the pods of the autoscalers run.
        for body in objects.machine("platform", cluster="demo", node={"capacity": {"cpu": "4", "memory": "8Gi"}}):
            found.api.add(body)
        bounds = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-{}-size"
        annotations = {bounds.format("min"): "1", bounds.format("max"): "3"}
        for body in objects.machine_deployment("workers", 1, cluster="demo", annotations=annotations):
            found.api.add(body)
        wait_for("two nodes that take pods", lambda: len(_find_nodes(found)), lambda now: now == 2)
        yield found


def _find_nodes(bed: Bed) -> list[Object]:
    return [node for node in bed.api.items("/api/v1/nodes") if not node["spec"].get("taints")]


def deployment(bed: Bed, namespace: str, name: str) -> Object:
    return bed.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")


def image(bed: Bed, namespace: str, name: str) -> str:
    (container,) = deployment(bed, namespace, name)["spec"]["template"]["spec"]["containers"]
    found: str = container["image"]
    return found


def without_image(bed: Bed, namespace: str, name: str) -> Object:
    """What the Deployment says beside its image."""
    found: Object = deployment(bed, namespace, name)["spec"]
    found["template"]["spec"]["containers"][0].pop("image")
    return found


def list_objects(bed: Bed, namespace: str, like: str) -> set[str]:
    """Names of what an installation consists of."""
    own = bed.kubectl("get", KINDS, "-n", namespace, "-o", "name").split()
    return {name for name in own + bed.kubectl("get", CLUSTER_KINDS, "-o", "name").split() if like in name}


@contextlib.contextmanager
def acting(bed: Bed, namespace: str, name: str, home: str, directory: Path) -> Iterator[Path]:
    """The pod of the Deployment, once it leads and has saved its memory twice: nothing that it asks for is refused."""
    template = deployment(bed, namespace, name)["spec"]["template"]
    pod = {"metadata": {**template["metadata"], "namespace": namespace}, "spec": template["spec"]}
    began = audit_log.find_end(bed.site.audit_log)
    before = (bed.api.find(LEASE.format(home)) or {"spec": {}})["spec"].get("holderIdentity")

    def generation() -> int:
        return int((bed.api.find(MEMORY.format(home)) or {"data": {}})["data"].get("generation", 0))

    with kubelet.running_image(bed, pod, directory) as log:
        wait_for("its memory is written again", generation, lambda now: now >= 2)
        holder = bed.api.get(LEASE.format(home))["spec"]["holderIdentity"]
        assert holder not in ("", before)
        yield log
    assert audit_log.find_refused(audit_log.read(bed.site.audit_log, began)) == []
    assert "decisions follow behavior=cluster-autoscaler" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_a_release_of_the_official_chart_gets_the_image_and_gives_it_back(bed: Bed, tmp_path: Path) -> None:
    namespace, name = official_chart.NAMESPACE, "ca-clusterapi-cluster-autoscaler"
    with pages.shell(bed, tmp_path) as run:
        official_chart.write_chart(tmp_path / "page" / "autoscaler" / "cluster-autoscaler", "default")
        run(f"helm install ca autoscaler/cluster-autoscaler --namespace {namespace}")
        before, objects_before = without_image(bed, namespace, name), list_objects(bed, namespace, "ca-clusterapi")
        assert len(objects_before) > 5
        look = pages.read(PAGE, "1. Look")
        run(*look.take(1))
        assert f"{name} " in run(*look.take(1))
        run(*look.take(1))
        assert "--node-group-auto-discovery=clusterapi:clusterName=demo" in run(*look.take(1))
        assert "3 of 3 nodes ready" in run(*look.take(1))
        assert look.left == []
        shadow(bed, run)
        switch = pages.read(PAGE, "3a. Switch: a release of the official chart")
        run(*switch.take(3))
        assert image(bed, namespace, name) == official_chart.IMAGE
        assert without_image(bed, namespace, name) == before
        assert list_objects(bed, namespace, "ca-clusterapi") == objects_before
        after = pages.read(PAGE, "After the switch")
        with acting(bed, namespace, name, namespace, tmp_path / "pod"):
            assert run(*after.take(1)).strip()
            assert run(*after.take(1)).split() == [
                "configmap/cluster-autoscaler-status", "configmap/windlass-memory"]  # fmt: skip
        run(*switch.take(2))
        assert switch.left == []
        assert image(bed, namespace, name) == official_chart.OLD_IMAGE
        assert without_image(bed, namespace, name) == before
        rules = bed.api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")["rules"]
        assert not [rule for rule in rules if "windlass-memory" in rule.get("resourceNames", ())]
        run(*after.take(1))
        assert bed.api.find(MEMORY.format(namespace)) is None
        move_to_our_chart(bed, run, namespace, name)


def shadow(bed: Bed, run: pages.Run) -> None:
    page = pages.read(PAGE, "2. Shadow")
    run(*page.take(3))
    assert image(bed, OURS, "windlass-shadow-autoscaler") == official_chart.IMAGE
    (container,) = deployment(bed, OURS, "windlass-shadow-autoscaler")["spec"]["template"]["spec"]["containers"]
    assert {"--shadow", "--behavior=cluster-autoscaler", "--expander=least-waste"} <= set(container["args"])
    run(*page.take(1))
    assert page.left == []
    assert list_objects(bed, OURS, "windlass-shadow") == set()


def move_to_our_chart(bed: Bed, run: pages.Run, namespace: str, name: str) -> None:
    page = pages.read(PAGE, "5. Move to the chart of windlass")
    run(*page.take(4))
    assert deployment(bed, namespace, name)["spec"]["replicas"] == 0
    assert image(bed, OURS, "windlass-autoscaler") == official_chart.IMAGE
    run(*page.take(1))
    assert page.left == []
    assert list_objects(bed, namespace, "ca-clusterapi") == set()
    run("helm uninstall windlass --namespace windlass-system")


def test_plain_manifests_get_the_image_and_give_it_back(bed: Bed, tmp_path: Path) -> None:
    namespace, name = "kube-system", "cluster-autoscaler"
    bed.kubectl("apply", "-f-", stdin=official_chart.plain_manifests())
    with pages.shell(bed, tmp_path, helm=False) as run:
        before, objects_before = without_image(bed, namespace, name), list_objects(bed, namespace, name)
        page = pages.read(PAGE, "3b. Switch: plain manifests")
        run(*page.take(7))
        assert image(bed, namespace, name) == official_chart.IMAGE
        assert without_image(bed, namespace, name) == before
        rights = {f"clusterrole{end}.rbac.authorization.k8s.io/cluster-autoscaler-windlass" for end in ("", "binding")}
        assert list_objects(bed, namespace, name) == objects_before | rights
        with acting(bed, namespace, name, namespace, tmp_path / "pod"):
            pass
        run(*page.take(3))
        assert page.left == []
    assert image(bed, namespace, name) == official_chart.OLD_IMAGE
    assert without_image(bed, namespace, name) == before
    assert list_objects(bed, namespace, name) == objects_before
    bed.kubectl("delete", "-f-", stdin=official_chart.plain_manifests())
    bed.api.delete(MEMORY.format(namespace))


def test_a_repository_gets_the_image_and_gives_it_back(bed: Bed, tmp_path: Path) -> None:
    """As Argo CD and Flux do: what is committed is applied, and what is no longer there is pruned."""
    namespace, name = "kube-system", "cluster-autoscaler"
    with pages.shell(bed, tmp_path, helm=False) as run:
        home = tmp_path / "page"
        (home / "cluster-autoscaler.yaml").write_text(official_chart.plain_manifests())
        (home / "kustomization.yaml").write_text("resources: [cluster-autoscaler.yaml]\n")
        (home / ".gitignore").write_text("deploy\n")
        run("git init --quiet", "git config user.name t && git config user.email t@example.com")
        run("git add --all", "git commit --quiet --message before", "kubectl apply --kustomize .")
        before, objects_before = without_image(bed, namespace, name), list_objects(bed, namespace, name)
        (rights,) = [command for command in pages.read(PAGE, "3b. Switch: plain manifests").left if "<<" in command]
        run(rights)
        page = pages.read(PAGE, "3c. Switch: with GitOps")
        changed = run(*page.take(3))
        assert official_chart.IMAGE in changed
        run(*page.take(2))
        run("kubectl apply --kustomize .")
        assert image(bed, namespace, name) == official_chart.IMAGE
        assert without_image(bed, namespace, name) == before
        with acting(bed, namespace, name, namespace, tmp_path / "pod"):
            pass
        run(*page.take(1), "kubectl apply --kustomize .")
        assert page.left == []
    assert image(bed, namespace, name) == official_chart.OLD_IMAGE
    assert without_image(bed, namespace, name) == before
    bed.kubectl("delete", CLUSTER_KINDS, "cluster-autoscaler-windlass")  # as pruning does
    assert list_objects(bed, namespace, name) == objects_before


def test_the_rights_are_the_same_in_all_routes(tmp_path: Path) -> None:
    (values,) = [text for text in pages.read(PAGE, "3a. Switch: a release of the official chart").left if "<<" in text]
    (role,) = [text for text in pages.read(PAGE, "3b. Switch: plain manifests").left if "<<" in text]
    chart, plain = (yaml.safe_load(text.split("\n", 1)[1].rpartition("\n")[0]) for text in (values, role))
    assert chart["rbac"]["additionalRules"] == plain["rules"]
