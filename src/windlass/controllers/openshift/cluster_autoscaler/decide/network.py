"""Network policies: the autoscaler reaches DNS and the API server, and is reached where it is to be; nothing else."""

from typing import Any

from windlass.controllers.openshift.cluster_autoscaler import names
from windlass.controllers.openshift.cluster_autoscaler.decide import deployment

Json = dict[str, Any]

_DNS_PORT, _API_PORT = 5353, 6443
_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}},
    "podSelector": {"matchLabels": {"dns.operator.openshift.io/daemonset-dns": "default"}},
}


def spell(name: str, namespace: str, webhooks_port: int) -> list[Json]:
    to_dns = {"to": [_DNS], "ports": [_port(_DNS_PORT), _port(_DNS_PORT, "UDP")]}
    rules: list[tuple[str, Json]] = [
        ("default-deny", {"policyTypes": ["Egress", "Ingress"]}),
        ("allow-egress-to-dns", {"egress": [to_dns], "policyTypes": ["Egress"]}),
        ("allow-egress-to-api-server", {"egress": [{"ports": [_port(_API_PORT)]}], "policyTypes": ["Egress"]}),
        ("allow-ingress-to-webhooks", {"ingress": [{"ports": [_port(webhooks_port)]}], "policyTypes": ["Ingress"]}),
        (
            "allow-ingress-to-metrics",
            {"ingress": [{"ports": [_port(deployment.METRICS_PORT)]}], "policyTypes": ["Ingress"]},
        ),
    ]
    selected = {"podSelector": {"matchLabels": deployment.labels(name)}}
    return [
        {
            "metadata": {"name": f"{names.deployment(name)}-{suffix}", "namespace": namespace},
            "spec": {**selected, **rule},
        }
        for suffix, rule in rules
    ]


def _port(port: int, protocol: str = "TCP") -> Json:
    return {"protocol": protocol, "port": port}
