"""The MachinePool controller in the place of Cluster API's own, as docs/run-with-machinepools.md says.

Providers are as real ones are: kubeadm's control plane waits for workers and pools, and a network goes only when no
instance is left in it.
"""

import base64
import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from testbed import api, clusterapi, fixtures, manifests, objects, openshift, sharing
from testbed.bed import Bed
from tests.conformance import machinepool_bed
from tests.controllers.machine_pool import management_cluster
from tests.e2e import autoscaler_process, operator_process
from tests.testbed import pages
from tests.testbed.rbac import service_accounts
from windlass.controllers import rbac
from windlass.kube.rbac import ServiceAccount

_CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters"
_POOLS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinepools"
_INFRASTRUCTURE = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/default"
_CONTROL_PLANES = "controlplane.cluster.x-k8s.io"
_CONTROL_PLANE = f"/apis/{_CONTROL_PLANES}/v1beta2/namespaces/default/kubeadmcontrolplanes"
_BOOTSTRAP = "bootstrap.cluster.x-k8s.io"
_CONTRACT = {"cluster.x-k8s.io/v1beta2": "v1beta1"}
_VALIDATING = "capi-validating-webhook-configuration"
_WAITS = "example.test/waits"


def _add_cluster(bed: Bed, name: str) -> None:
    """A Cluster whose control plane and network wait for its pools and instances."""
    control_plane = objects.made(f"{_CONTROL_PLANES}/v1beta2", "KubeadmControlPlane", name, "default", {"replicas": 1})
    control_plane["metadata"]["finalizers"] = [_WAITS]
    bed.api.add(control_plane)
    initialized = {"initialization": {"controlPlaneInitialized": True}}
    bed.api.merge(f"{_CONTROL_PLANE}/{name}/status", {"status": initialized})
    for body in objects.cluster(name, bed.kubeconfig.read_bytes()):
        if body["kind"] == "FakeCluster":
            body["metadata"]["finalizers"] = [_WAITS]
        if body["kind"] == "Cluster":
            reference = {"apiGroup": _CONTROL_PLANES, "kind": "KubeadmControlPlane", "name": name}
            body["spec"]["controlPlaneRef"] = reference
        if body["kind"] in ("Secret", "FakeCluster", "Cluster"):
            bed.api.add(body)
    for number in range(2):
        for body in objects.machine_pool(f"{name}-{number}", 2, cluster=name):
            bed.api.add(body)
    api.wait_for("its pools run", lambda: _phases(bed, name), lambda phases: phases == ["Running", "Running"])


def _phases(bed: Bed, name: str) -> list[str]:
    pools = (pool for pool in bed.api.items(_POOLS) if pool["spec"]["clusterName"] == name)
    return [pool.get("status", {}).get("phase", "") for pool in pools]


def _let_go(bed: Bed, name: str) -> None:
    """What the two providers do at a look at their objects."""
    pools = [pool for pool in bed.api.items(_POOLS) if pool["spec"]["clusterName"] == name]
    instances = [
        one for one in bed.api.items(f"{_INFRASTRUCTURE}/fakemachines") if one["metadata"]["name"].startswith(name)
    ]
    for path, are_left in ((_CONTROL_PLANE, pools), (f"{_INFRASTRUCTURE}/fakeclusters", instances)):
        found = bed.api.find(f"{path}/{name}")
        if found is not None and found["metadata"].get("deletionTimestamp") and not are_left:
            finalizers = [item for item in found["metadata"].get("finalizers", ()) if item != _WAITS]
            if finalizers != found["metadata"].get("finalizers", []):
                bed.api.merge(f"{path}/{name}", {"metadata": {"finalizers": finalizers or None}})


def _delete_cluster(bed: Bed, name: str) -> float:
    """The seconds until nothing of the Cluster is left, and pools that were left behind when it went."""
    began_s = time.monotonic()
    bed.api.delete(f"{_CLUSTERS}/{name}")

    def is_gone() -> bool:
        _let_go(bed, name)
        return bed.api.find(f"{_CLUSTERS}/{name}") is None

    api.wait_for(f"Cluster {name} is gone", is_gone)
    took_s = time.monotonic() - began_s
    assert [pool["metadata"]["name"] for pool in bed.api.items(_POOLS) if pool["spec"]["clusterName"] == name] == []
    return took_s


@contextmanager
def _bed(*, ours: bool) -> Iterator[Bed]:
    if reason := fixtures.why_not():
        pytest.skip(reason)
    choice = dataclasses.replace(machinepool_bed.choose(ours=ours), capi_rate_limiting=True)  # as in production
    with sharing.alone(choice) as found:
        contract = {"cluster.x-k8s.io/v1beta2": "v1beta2"}
        openshift.define(
            found.api, management_cluster.definition(_CONTROL_PLANES, "KubeadmControlPlane", "v1beta2", contract)
        )
        yield found


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """Cluster API with its gate MachinePool off."""
    with _bed(ours=True) as found:
        yield found


@pytest.fixture(scope="module")
def account(bed: Bed) -> ServiceAccount:
    """Whom the operator runs as: with what deploy/rbac gives it."""
    user = ServiceAccount("windlass-operator", "takeover")
    names = ("machine-pool", "machine-pool-providers")
    profiles = [profile for profile in rbac.MACHINE_POOL if profile.name in names]
    service_accounts.give(bed, *(service_accounts.move(profile, user) for profile in (rbac.OPERATOR, *profiles)))
    return user


def _delete_two(bed: Bed) -> float:
    """The faster of two deletions: other work on the machine slows single ones down."""
    for name in ("one", "two"):
        _add_cluster(bed, name)
    return min(_delete_cluster(bed, name) for name in ("one", "two"))


def test_a_cluster_with_pools_is_deleted_to_the_end_and_the_times_of_both_are_printed(
    bed: Bed, account: ServiceAccount, tmp_path: Path
) -> None:
    with _bed(ours=False) as theirs:
        their_s = _delete_two(theirs)
    with service_accounts.operating(bed, tmp_path, "machine_pool", account):
        our_s = _delete_two(bed)
    print(f"deleted in {our_s:.1f} s, by Cluster API's own controller in {their_s:.1f} s")


def test_cluster_api_takes_away_what_another_counts_among_its_workers(
    bed: Bed, account: ServiceAccount, tmp_path: Path
) -> None:
    """Why nobody counts pools in `status.workers` while the gate is off: it would be written for ever."""
    with service_accounts.operating(bed, tmp_path, "machine_pool", account):
        _add_cluster(bed, "counted")
        path = f"{_CLUSTERS}/counted"
        bed.api.merge(f"{path}/status", {"status": {"workers": {"replicas": 4}}})
        api.wait_for(
            "the count is gone",
            lambda: bed.api.get(path)["status"].get("workers", {}),
            lambda workers: "replicas" not in workers,
        )
        _delete_cluster(bed, "counted")


def test_a_provider_of_another_api_group_is_reached_by_the_role_that_it_ships(
    bed: Bed, account: ServiceAccount, tmp_path: Path
) -> None:
    group = "infrastructure.foo.test"
    openshift.define(
        bed.api, management_cluster.definition(group, "NewPool", "v1beta1", {"cluster.x-k8s.io/v1beta2": "v1beta1"})
    )
    clusterapi.add_cluster(bed.api, bed.kubeconfig, "foo")
    infrastructure = objects.made(f"{group}/v1beta1", "NewPool", "foo", "default", {"providerIDList": []})
    bed.api.add(infrastructure)
    bed.api.merge(f"{api.path_of(infrastructure)}/foo/status", {"status": {"ready": True, "replicas": 0}})
    reference = {"apiGroup": group, "kind": "NewPool", "name": "foo"}
    machine = {"clusterName": "foo", "bootstrap": {"dataSecretName": "own"}, "infrastructureRef": reference}
    spec = {"clusterName": "foo", "replicas": 0, "template": {"spec": machine}}
    with service_accounts.operating(bed, tmp_path, "machine_pool", account):
        bed.api.add(objects.made("cluster.x-k8s.io/v1beta2", "MachinePool", "foo", "default", spec))
        log = tmp_path / "machine_pool.log"
        api.wait_for("it may not look at the kind", lambda: "newpools" in log.read_text() and "403" in log.read_text())
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
        rules = [{"apiGroups": [group], "resources": ["*"], "verbs": ["get", "list", "watch", "patch", "delete"]}]
        labels = {"cluster.x-k8s.io/aggregate-to-manager": "true", "cluster.x-k8s.io/provider": "infrastructure-foo"}
        bed.api.add({**role, "metadata": {"name": "foo-provider", "labels": labels}, "rules": rules})
        api.wait_for("the pool runs", lambda: _phases(bed, "foo"), lambda phases: phases == ["Running"])
        bed.api.delete(f"{_CLUSTERS}/foo")
        api.wait_for("its Cluster is gone", lambda: bed.api.find(f"{_CLUSTERS}/foo") is None)


def test_a_role_of_cluster_apis_own_manager_is_not_handed_on(bed: Bed, account: ServiceAccount) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    for provider in ("cluster-api", "infrastructure-bar"):
        labels = {"cluster.x-k8s.io/aggregate-to-manager": "true", "cluster.x-k8s.io/provider": provider}
        rules = [{"apiGroups": [f"{provider}.test"], "resources": ["*"], "verbs": ["get"]}]
        bed.api.add({**role, "metadata": {"name": f"role-of-{provider}", "labels": labels}, "rules": rules})
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/windlass-machine-pool-providers-{account.name}"

    def groups() -> set[str]:
        return {group for rule in bed.api.get(path).get("rules") or () for group in rule["apiGroups"]}

    api.wait_for("the other provider's rights are there", groups, lambda found: "infrastructure-bar.test" in found)
    assert "cluster-api.test" not in groups()


def test_a_secret_that_another_operator_called_manager_names_needs_no_config(
    bed: Bed, account: ServiceAccount, tmp_path: Path
) -> None:
    clusterapi.add_cluster(bed.api, bed.kubeconfig, "named")
    openshift.define(bed.api, management_cluster.definition(_BOOTSTRAP, "Config", "v1beta1", _CONTRACT))
    bed.api.add(objects.made(f"{_BOOTSTRAP}/v1beta1", "Config", "named", "default", {}))  # never ready
    infrastructure, pool = objects.machine_pool("named", 1, cluster="named")
    config = {"apiGroup": _BOOTSTRAP, "kind": "Config", "name": "named"}
    pool["spec"]["template"]["spec"]["bootstrap"] = {"configRef": config}
    with service_accounts.operating(bed, tmp_path, "machine_pool", account):
        bed.api.add(infrastructure)
        bed.api.add(pool)
        path = f"{_POOLS}/named"
        api.wait_for("it is looked after", lambda: bed.api.get(path).get("status", {}).get("phase"))
        body = {"spec": {"template": {"spec": {"bootstrap": {"dataSecretName": "outside"}}}}}
        bed.api.merge(f"{path}?fieldManager=manager", body)

        def created() -> object:
            return bed.api.get(path)["status"].get("initialization", {}).get("bootstrapDataSecretCreated")

        api.wait_for("its bootstrap data is ready", created)
        bed.api.delete(f"{_CLUSTERS}/named")
        api.wait_for("its Cluster is gone", lambda: bed.api.find(f"{_CLUSTERS}/named") is None)


# The document, command by command


def _prepare(bed: Bed) -> None:
    """What a management cluster has that the bed has not: the manager's Deployment, its webhook, cert-manager."""
    service_accounts.add_namespace(bed, "capi-system")
    gates = "--feature-gates=MachinePool=true,ClusterTopology=true"
    container = {"name": "manager", "image": "manager", "args": ["--leader-elect", gates]}
    labels = {"control-plane": "controller-manager"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    bed.api.add(objects.made("apps/v1", "Deployment", "capi-controller-manager", "capi-system", spec))
    for kind in ("Issuer", "Certificate"):
        openshift.define(bed.api, management_cluster.definition("cert-manager.io", kind, "v1"))
    asked = manifests.webhooks(bed.site.webhooks, bed.site.files.ca_bundle)
    (validating,) = [item for item in asked if item["metadata"]["name"] == _VALIDATING]
    path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{_VALIDATING}"
    bed.api.merge(path, {"webhooks": validating["webhooks"]})


def _serve_webhooks(bed: Bed, directory: Path, port: int) -> None:
    """As cert-manager and the Service do."""
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    (directory / "tls.crt").write_bytes(made.cert_chain_pems[0].bytes())
    (directory / "tls.key").write_bytes(made.private_key_pem.bytes())
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/windlass-machine-pools"
    webhooks = bed.api.get(path)["webhooks"]
    for webhook in webhooks:
        url = f"https://127.0.0.1:{port}{webhook['clientConfig']['service']['path']}"
        bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        webhook["clientConfig"] = {"url": url, "caBundle": bundle}
    bed.api.merge(path, {"webhooks": webhooks})


def _words(bed: Bed, directory: Path, port: int) -> list[str]:
    """What the pod's container is run with, where the test bed allows it."""
    deployment = bed.api.get("/apis/apps/v1/namespaces/windlass-system/deployments/windlass-operator")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    here = {
        "--webhook-address=:8443": f"--webhook-address=127.0.0.1:{port}",
        "--webhook-cert-dir=/etc/windlass/webhooks": f"--webhook-cert-dir={directory}",
    }
    assert set(here) <= set(container["args"])
    words = [here.get(word, word) for word in container["args"]]
    return [word for word in words if not word.startswith(("--metrics-address", "--controllers"))]


def _gate(bed: Bed) -> str:
    found = bed.api.get("/apis/apps/v1/namespaces/capi-system/deployments/capi-controller-manager")
    args = found["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[0] == "--leader-elect"
    return str(args[1])


def test_the_page_takes_over_and_gives_back(bed: Bed, tmp_path: Path) -> None:
    _prepare(bed)
    commands = pages.read("run-with-machinepools.md")
    with pages.shell(bed, tmp_path) as run:
        with pytest.raises(api.Refused, match="feature flag is enabled"):
            bed.api.add(objects.machine_pool("early", 1)[1])
        run(*commands.take(2))
        assert _gate(bed) == "--feature-gates=MachinePool=false,ClusterTopology=true"
        run(*commands.take(3))
        port = autoscaler_process.free_port()
        _serve_webhooks(bed, tmp_path, port)
        words = _words(bed, tmp_path, port)
        user = ServiceAccount("windlass-operator", "windlass-system")
        kubeconfig = service_accounts.enter(bed, tmp_path, user)
        with operator_process.run(kubeconfig, tmp_path / "log", "machine_pool", *words):
            clusterapi.add_cluster(bed.api, bed.kubeconfig, "paged")
            for body in objects.machine_pool("workers", 1, cluster="paged"):
                bed.api.add(body)
            api.wait_for("the pool runs", lambda: _phases(bed, "paged"), lambda phases: phases == ["Running"])
            with pytest.raises(api.Refused, match="must be set to the same value"):
                bed.api.merge(f"{_POOLS}/workers", {"spec": {"template": {"spec": {"clusterName": "other"}}}})
            events, *_ = commands.take(1)
            api.wait_for("the event is there", lambda: run(events), lambda text: "machine_pool is ready" in text)
            pools, clusters = commands.take(2)
            assert "workers" in run(pools)
            assert "windlass.internal/machine-pools" in run(clusters)
            run(*commands.take(1))
            annotations = bed.api.get(f"{_POOLS}/workers")["metadata"]["annotations"]
            assert len([key for key in annotations if "node-group" in key]) == 2
        run(*commands.take(4))
        assert _gate(bed) == "--feature-gates=MachinePool=true,ClusterTopology=true"
        finalizers = bed.api.get(f"{_CLUSTERS}/paged")["metadata"]["finalizers"]
        assert finalizers == ["cluster.cluster.x-k8s.io"]
        assert commands.left == []
