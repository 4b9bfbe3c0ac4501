"""Data that comes with the modules: KWOK's stages, Cluster API's CRDs and webhook configurations.

Saved beside the binaries when those are built, so that running needs neither Go nor its module cache.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from testbed import cache, components

Object = dict[str, Any]

SILENT = "fake.infrastructure/silent"
_STAGES = "stages.yaml"
_DEFINITIONS = "definitions.json"
_WEBHOOKS = "webhooks.json"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_AT_ONCE: Object = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "options": {"podPlayStageParallelism": 8, "nodePlayStageParallelism": 16, "nodeLeaseParallelism": 4},
}
"""Kubelets do not wait for each other; KWOK's four workers would. But with sixteen it plays pods twice when it has to
list them anew, because those that are being played are not in its queue any more."""


_AUDIT: Object = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
"""Who is tested runs as a ServiceAccount; so do Kubernetes' own controllers, in kube-system."""


def write_audit_policy(path: Path) -> None:
    path.write_text(json.dumps(_AUDIT))


def save_stages(source: Path, place: Path) -> None:
    """What a KWOK node and its pods go through: everything becomes ready, and completes, at once."""
    kept = ("node/fast/node-*.yaml", "node/heartbeat-with-lease/node-*.yaml", "pod/fast/pod-*.yaml")
    stages = [path.read_text() for pattern in kept for path in sorted((source / "kustomize/stage").glob(pattern))]
    (place / _STAGES).write_text("\n---\n".join(stages))


def save_cluster_api(source: Path, place: Path) -> None:
    """As JSON: reading the YAML takes a second of every start."""
    config = source / "core/config"
    definitions = [found for path in sorted((config / "crd/bases").glob("*.yaml")) for found in _documents(path)]
    (place / _DEFINITIONS).write_text(json.dumps(definitions))
    (place / _WEBHOOKS).write_text(json.dumps(list(_documents(config / "webhook/manifests.yaml"))))


def write_stages(path: Path) -> None:
    """KWOK's stages, except for nodes that carry the annotation SILENT: those it leaves as they are.

    Taking away the annotation that makes KWOK manage a node is no way to say that: it takes over no node that did
    not have it from the beginning.
    """
    stages = list(_documents(cache.place(components.KWOK) / _STAGES))
    for stage in stages:
        if stage["spec"]["resourceRef"]["kind"] == "Node":
            heard = {"key": f'.metadata.annotations["{SILENT}"]', "operator": "DoesNotExist"}
            stage["spec"]["selector"]["matchExpressions"].append(heard)
    path.write_text(yaml.safe_dump_all([*stages, _AT_ONCE]))


_REFUSING = "validation.machinepool.cluster.x-k8s.io"


def definitions(url: str, ca_bundle: str, *, v1beta1: bool = True) -> list[Object]:
    """Cluster API's CRDs, converting through the manager at `url`: v1beta2 is served, v1beta1 only if wanted."""
    found: list[Object] = json.loads((cache.place(components.CLUSTER_API) / _DEFINITIONS).read_text())
    client = {"url": f"{url}/convert", "caBundle": ca_bundle}
    for definition in found:
        definition["metadata"].setdefault("labels", {})["cluster.x-k8s.io/provider"] = "cluster-api"
        definition["spec"]["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
        }
        for version in definition["spec"]["versions"]:
            version["served"] = version["storage"] or (version["served"] and v1beta1)
    return found


def webhooks(url: str, ca_bundle: str, *, machine_pools: bool = True) -> list[Object]:
    """Cluster API's webhook configurations, made for a Service and cert-manager, pointed at the manager at `url`.

    A manager that does not look after MachinePools refuses every one: then it is not asked.
    """
    found: list[Object] = json.loads((cache.place(components.CLUSTER_API) / _WEBHOOKS).read_text())
    for configuration in found:
        configuration["metadata"]["name"] = "capi-" + configuration["metadata"]["name"]
        if not machine_pools:
            asked = [webhook for webhook in configuration["webhooks"] if webhook["name"] != _REFUSING]
            configuration["webhooks"] = asked
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": url + path, "caBundle": ca_bundle}
    return found


def _documents(path: Path) -> Iterator[Object]:
    return (document for document in yaml.load_all(path.read_text(), Loader=_LOADER) if document)
