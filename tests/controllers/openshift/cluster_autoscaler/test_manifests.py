"""What goes with the autoscaler fits it, and each other: who scrapes it, whom it may talk to, what is alerted of it."""

from typing import Any

from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.cluster_autoscaler import manifests, model
from windlass.controllers.openshift.cluster_autoscaler.model import ClusterAutoscalerSettings

Json = dict[str, Any]

NS = "openshift-machine-api"
POD: Json = manifests.build_deployment(
    model.ClusterAutoscaler("default"), ClusterAutoscalerSettings(), machine_apis.FeatureGates()
)["spec"]["template"]
_NAMED = "cluster-autoscaler-default-"
POLICIES = {
    each["metadata"]["name"].removeprefix(_NAMED): each
    for each in manifests.build_network_policies("default", NS, 8443)
}


def ports(rules: list[Json]) -> set[tuple[str, int]]:
    return {(port["protocol"], port["port"]) for rule in rules for port in rule["ports"]}


def test_the_service_leads_to_the_port_of_the_pod_that_has_metrics() -> None:
    service = manifests.build_service("default", NS)
    assert service["spec"]["selector"].items() <= POD["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    (container,) = POD["spec"]["containers"]
    assert [(item["name"], item["containerPort"]) for item in container["ports"]] == [
        (port["targetPort"], port["port"])
    ]


def test_prometheus_scrapes_that_service() -> None:
    service, monitor = manifests.build_service("default", NS), manifests.build_service_monitor("default", NS)
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [service["metadata"]["namespace"]]}
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == service["spec"]["ports"][0]["name"]


def test_alerts_look_at_what_is_scraped_from_that_service() -> None:
    """Another autoscaler of the cluster, of a hosted one for example, is none of theirs."""
    name = manifests.build_service("default", NS)["metadata"]["name"]
    (group,) = manifests.build_prometheus_rule("default", NS)["spec"]["groups"]
    assert all(f'service="{name}"' in rule["expr"] for rule in group["rules"])


def test_policies_are_about_the_autoscalers_pods_and_no_others() -> None:
    for policy in POLICIES.values():
        assert policy["spec"]["podSelector"]["matchLabels"] == POD["metadata"]["labels"]
        assert policy["metadata"]["namespace"] == NS


def test_nothing_is_allowed_but_dns_and_the_api_server_and_being_scraped() -> None:
    denied = POLICIES["default-deny"]["spec"]
    allowed = {name: item["spec"] for name, item in POLICIES.items() if name != "default-deny"}
    assert set(denied["policyTypes"]) == {"Egress", "Ingress"}
    assert not {"egress", "ingress"} & denied.keys()
    egress = {name: ports(entry["egress"]) for name, entry in allowed.items() if "egress" in entry}
    assert egress == {
        "allow-egress-to-dns": {("TCP", 5353), ("UDP", 5353)},
        "allow-egress-to-api-server": {("TCP", 6443)},
    }
    (dns,) = allowed["allow-egress-to-dns"]["egress"]
    (peer,) = dns["to"]
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}
    ingress = {name: ports(each["ingress"]) for name, each in allowed.items() if "ingress" in each}
    assert ingress == {"allow-ingress-to-metrics": {("TCP", 8085)}, "allow-ingress-to-webhooks": {("TCP", 8443)}}
    for name, each in allowed.items():
        assert each["policyTypes"] == ["Egress" if name.startswith("allow-egress") else "Ingress"]
