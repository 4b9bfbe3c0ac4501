"""The chart: what is chosen is what is run, with the rights of that and no others, and nonsense is refused in words."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.install import rendered_manifests
from tests.install.rendered_manifests import (
    CHART,
    NAMESPACE,
    OPENSHIFT,
    VALUES,
    chart,
    of_kind,
    path_of,
    read,
    rules,
    shipped,
)
from tools import chart_schema

CHOICES = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())


def test_it_is_well_formed() -> None:
    answer = rendered_manifests.helm("lint", "--strict", str(CHART))
    assert answer.returncode == 0, answer.stdout + answer.stderr


@CHOICES
def test_every_process_understands_its_words_and_is_confined(values: tuple[str, ...]) -> None:
    objects = chart(values)
    for container in rendered_manifests.containers(objects):
        rendered_manifests.accept(container)
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    names = [(body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"]) for body in objects]
    assert len(set(names)) == len(names), "each object once"
    assert all("windlass" in body["metadata"]["labels"]["app.kubernetes.io/name"] for body in objects)


@CHOICES
def test_what_goes_with_a_process_selects_its_pods_and_nobody_runs_without_an_account(values: tuple[str, ...]) -> None:
    objects = chart(values)
    accounts = {
        (body["metadata"]["namespace"], body["metadata"]["name"]) for body in of_kind(objects, "ServiceAccount")
    }
    for deployment in of_kind(objects, "Deployment"):
        name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert (namespace, deployment["spec"]["template"]["spec"]["serviceAccountName"]) in accounts
        (service,) = [item for item in of_kind(objects, "Service") if item["metadata"]["name"] == name]
        assert service["spec"]["selector"].items() <= labels.items()
        (policy,) = [entry for entry in of_kind(objects, "NetworkPolicy") if entry["metadata"]["name"] == name]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


RIGHTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "the defaults": (("autoscaler", "autoscaler-clusterapi"),),
    "shadow": (("shadow",),),
    "everything for the autoscaler": (
        (
            "autoscaler",
            "autoscaler-provisioning-requests",
            "autoscaler-capacity-buffers",
            "autoscaler-capacity-quotas",
            "autoscaler-priority-expander",
        ),
    ),
    "pods elsewhere": (("autoscaler-clusterapi",),),
    "MachinePools": (("autoscaler", "autoscaler-clusterapi"), ("operator", "machine-pool", "machine-pool-providers")),
    "MachinePools of one namespace": (
        ("autoscaler", "autoscaler-clusterapi"),
        ("operator", "machine-pool-namespaced", "machine-pool-providers-namespaced"),
    ),
    "EKS Anywhere": (("autoscaler", "autoscaler-clusterapi"), ("operator", "eks-anywhere")),
    "Lattice": (("operator", "lattice", "lattice-deploy-autoscaler"),),
    "Lattice without an autoscaler": (("autoscaler", "autoscaler-clusterapi"), ("operator", "lattice")),
    "MachineAutoscalers alone": (("machine-autoscaler",),),
    "nothing": (),
}


@pytest.mark.parametrize("choice", RIGHTS)
def test_rights_are_those_that_the_code_declares(choice: str) -> None:
    wanted: dict[tuple[str, str], set[str]] = {}
    for files in RIGHTS[choice]:
        for (account, where), granted in rules(shipped(*files)).items():
            account = account.replace("/windlass-shadow", "/windlass-autoscaler")
            wanted.setdefault((account, where), set()).update(granted)
    assert rules(chart(VALUES[choice])) == wanted


def test_on_openshift_one_process_has_the_rights_of_both_its_controllers() -> None:
    given = rules(chart(VALUES["OpenShift"]))
    machine_api, cluster_api = OPENSHIFT
    operator, sync = f"{machine_api}/cluster-autoscaler-operator", f"{cluster_api}/capi-controllers"
    assert {account for account, _ in given} == {operator, sync, f"{machine_api}/cluster-autoscaler"}
    both = rules(shipped("cluster-autoscaler-operator", "machine-autoscaler"))
    for where in ("", *OPENSHIFT):
        wanted = [found for (_, there), found in both.items() if there == where]
        assert given[operator, where] == set().union(*wanted), where
    assert given[sync, cluster_api] == rules(shipped("machineset-sync"))[sync, cluster_api]


def test_names_of_the_autoscalers_own_objects_follow_its_flags() -> None:
    flags = ("autoscaler.flags.leader-elect-resource-name=mine", "autoscaler.flags.memory-config-map=kept")
    text = "".join(rules(chart(flags))[f"{NAMESPACE}/windlass-autoscaler", NAMESPACE])
    assert '"mine"' in text
    assert '"kept"' in text
    assert '"kept-6"' in text
    assert '"cluster-autoscaler-status"' in text
    assert '"windlass-memory' not in text


def test_a_release_of_another_name_does_not_touch_the_first() -> None:
    def names(release: str) -> set[tuple[str, str]]:
        return {(body["kind"], body["metadata"]["name"]) for body in chart(VALUES["MachinePools"], release)}

    assert names("windlass") & names("other") == set()
    assert ("Deployment", "other-windlass-autoscaler") in names("other")


def test_flags_are_spelled_as_they_are_read() -> None:
    (container,) = rendered_manifests.containers(chart(VALUES["everything for the autoscaler"]))
    assert {"--max-nodes-total=1000000", "--expander=priority"} <= set(container["args"])
    assert [word for word in container["args"] if "balancing" in word] == [
        "--balancing-ignore-label=zone",
        "--balancing-ignore-label=disk",
    ]
    assert container["image"] == "windlass@sha256:" + 64 * "a"
    assert "--cloud-config=/etc/windlass/management/value" in container["args"]
    (elsewhere,) = rendered_manifests.containers(chart(VALUES["pods elsewhere"]))
    assert "--clusterapi-cloud-config-authoritative=true" in elsewhere["args"]


def test_alerts_and_dashboards_are_those_of_deploy() -> None:
    objects = chart(VALUES["everything for the autoscaler"])
    (rule,) = of_kind(objects, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(path_of("monitoring/alerts.yaml").read_text())["spec"]
    assert rule["metadata"]["namespace"] == NAMESPACE
    (dashboards,) = [item for item in of_kind(objects, "ConfigMap") if "dashboards" in item["metadata"]["name"]]
    assert dashboards["data"] == {"windlass.json": path_of("monitoring/grafana/windlass.json").read_text()}
    assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_definitions_are_those_that_what_is_chosen_needs() -> None:
    def kinds(choice: str) -> list[str]:
        return sorted(
            item["spec"]["names"]["kind"] for item in of_kind(chart(VALUES[choice]), "CustomResourceDefinition")
        )

    assert kinds("the defaults") == []
    assert kinds("everything for the autoscaler") == ["CapacityBuffer", "CapacityQuota", "ProvisioningRequest"]
    assert kinds("EKS Anywhere") == [], "the product's own would be replaced"
    assert kinds("Lattice") == []
    assert kinds("OpenShift") == ["ClusterAutoscaler", "MachineAutoscaler", "ProvisioningRequest"]
    pools = chart(("operator.controllers={eks_anywhere,lattice}", "crds.workerPools=true"))
    _, definition = of_kind(pools, "CustomResourceDefinition")
    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert definition["spec"] == yaml.safe_load(path_of("crds/lattice.io_latticeclusters.yaml").read_text())["spec"]


def test_openshift_gets_its_policies_and_webhooks() -> None:
    objects = chart(VALUES["OpenShift"])
    policies = [body for path in sorted(path_of("policies").glob("*.yaml")) for body in read(path.read_text())]
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        wanted = {item["metadata"]["name"]: item["spec"] for item in of_kind(policies, kind)}
        assert {entry["metadata"]["name"]: entry["spec"] for entry in of_kind(objects, kind)} == wanted
    (webhooks,) = of_kind(objects, "ValidatingWebhookConfiguration")
    assert len(webhooks["webhooks"]) == 2
    assert webhooks["metadata"]["annotations"] == {"service.beta.openshift.io/inject-cabundle": "true"}
    (alone,) = of_kind(chart(VALUES["MachineAutoscalers alone"]), "ValidatingWebhookConfiguration")
    assert [each["clientConfig"]["service"]["name"] for each in alone["webhooks"]] == ["machine-autoscaler"]


REFUSED = {
    "operator.controllers={machine_pol}": r"/operator/controllers/0.*'machine_pool', 'eks_anywhere', 'lattice'",
    "autoscaler.mode=go": r"/autoscaler/mode.*'act', 'dry-run', 'shadow'",
    "autoscaler.replicas=-1": r"/autoscaler/replicas.*got -1, want 0",
    "autoscaler.flag.expander=random": r"/autoscaler'.*'flag' not allowed",
    "autoscaler.flags.--expander=random": r"--expander",
    "autoscaler.flags.expandr=random": r"flags\.expandr: there is no flag --expandr; did you mean expander\?",
    "autoscaler.flags.Expander=random": r"flags\.Expander: there is no flag --Expander; did you mean expander\?",
    "autoscaler.extraArgs.scale-down-uneeded-time=2m": r"extraArgs\.scale.*mean scale-down-unneeded-time\?",
    "autoscaler.customArgs={--v=4,--skip-node-with-local-storage}": r"s\[1\].*mean skip-nodes-with-local-storage\?",
    "autoscaler.flags.nothing-at-all-like-it=1": r"there is no flag --nothing-at-all-like-it\n",
    "operator.flags.concurency=2,operator.controllers={machine_pool}": r"operator\.flags.*did you mean concurrency\?",
    "operator.controllers={lattice},operator.flags.context=a,operator.extraArgs.context=b": r"expected it once",
    "autoscaler.flags.scale-down-enabled=perhaps": r"/autoscaler/flags/scale-down-enabled.*'perhaps' does not match",
    "autoscaler.flags.scale-down-unneeded-time=10m0": r"/autoscaler/flags/scale-down-unneeded-time.*does not match",
    "autoscaler.flags.max-nodes-total={1,2}": r"/autoscaler/flags/max-nodes-total.*got array",
    "autoscaler.service.type=External": r"/autoscaler/service/type.*'LoadBalancer'",
    "autoscaler.dnsPolicy=Cluster": r"/autoscaler/dnsPolicy.*'ClusterFirstWithHostNet'",
    "autoscaler.discovery={aws:tag=x}": r"/autoscaler/discovery/0.*clusterapi",
    "image.digest=latest": r"/image/digest.*sha256",
    "networkPolicy.egress.apiServerPorts={70000}": r"/networkPolicy/egress/apiServerPorts/0.*65,?535",
    "monitoring.serviceMonitor.interval=often": r"/monitoring/serviceMonitor/interval.*often",
    "rbac.create=perhaps": r"/rbac/create.*got string, want boolean",
}


@pytest.mark.parametrize("value", REFUSED)
def test_what_cannot_be_meant_is_refused_with_its_place_and_what_is_accepted(value: str) -> None:
    answer = rendered_manifests.helm("template", "windlass", str(CHART), "--set", value)
    assert answer.returncode != 0
    assert re.search(REFUSED[value], answer.stderr), answer.stderr


def test_every_value_is_documented_and_in_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(found: object, told: Any, path: str) -> list[str]:
        if not isinstance(found, dict) or not found or "properties" not in told:
            return []
        differing = [f"{path}.{key}" for key in found.keys() ^ (told["properties"].keys() - {"global"})]
        below = (
            compare(found[key], told["properties"][key], f"{path}.{key}") for key in found if key in told["properties"]
        )
        return differing + [entry for item in below for entry in item]

    incomplete = {f".{part}.resources.claims" for part in ("autoscaler", "operator", "tests")}
    assert set(compare(values, schema, "")) <= incomplete
    assert [str(value) for value in chart_schema.find_values() if not value.told.endswith((".", ":"))] == []


def test_versions_are_those_of_the_package() -> None:
    from tests.install.test_packages import PROJECT

    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["appVersion"] == about["version"] == PROJECT["version"]


def test_of_a_kubeconfig_secret_the_process_sees_one_key_that_nobody_else_may_read() -> None:
    (deployment,) = of_kind(chart(VALUES["pods elsewhere"]), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]
    (volume,) = pod["volumes"]
    items = [{"key": "value", "path": "value"}]
    assert volume["secret"] == {"secretName": "work-kubeconfig", "defaultMode": 0o400, "items": items}


@pytest.mark.parametrize("controllers", ["eks_anywhere", "machine_pool,lattice"])
def test_one_namespace_is_for_machine_pools_alone(controllers: str) -> None:
    chosen = ("--set", f"operator.controllers={{{controllers}}}", "--set", "operator.namespace=pools")
    made = rendered_manifests.helm("template", "windlass", str(CHART), *chosen)
    assert (made.returncode != 0, "operator.namespace: found" in made.stderr) == (True, True)
