"""Specs: replicas, deletion order, seconds until available, selector and template.

A Machine's own labels and annotations and those of its node are two maps in Machine API and one in Cluster API.
"""

from collections.abc import Mapping
from typing import Any

from windlass.controllers.openshift.machineset_sync.conversion import annotations, infrastructure, labels

Json = Mapping[str, Any]

_UNSUPPORTED = ("name", "generateName", "namespace")
RANDOM = "Random"
_MAPS = ("labels", "annotations")


def check(machine_set: Json) -> list[str]:
    """What a MachineSet of Machine API says that Cluster API has no words for."""
    template = (machine_set.get("spec") or {}).get("template") or {}
    machine = template.get("spec") or {}
    found = [*_check_metadata("spec.metadata", machine), *_check_metadata("spec.template.metadata", template)]
    if machine.get("taints"):
        found.append(f"spec.taints: Invalid value: {machine['taints']}: taints are not currently supported")
    return found


def _check_metadata(at: str, owner: Json) -> list[str]:
    metadata = owner.get("metadata") or {}
    given = [name for name in _UNSUPPORTED if metadata.get(name)]
    return [f'{at}.{name}: Invalid value: "{metadata[name]}": {name} is not supported' for name in given]


def to_cluster_api(spec: Json) -> dict[str, Any]:
    """All but what Machines are made of, and the cluster."""
    template = spec.get("template") or {}
    machine = template.get("spec") or {}
    found: dict[str, Any] = {
        "selector": select_in_cluster_api(spec.get("selector") or {}),
        "deletion": {"order": spec.get("deletePolicy") or RANDOM},
        "template": {
            "metadata": {
                "labels": labels.to_cluster_api(_map(template, "labels")) | _map(machine, "labels"),
                "annotations": annotations.to_cluster_api(_map(template, "annotations")) | _map(machine, "annotations"),
            },
            "spec": {"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {},
        },
    }
    return found | ({} if spec.get("replicas") is None else {"replicas": spec["replicas"]})


def to_machine_api(spec: Json) -> dict[str, Any]:
    template = spec.get("template") or {}
    found: dict[str, Any] = {
        "selector": select_in_machine_api(spec.get("selector") or {}),
        "deletePolicy": (spec.get("deletion") or {}).get("order") or "",
        "minReadySeconds": (template.get("spec") or {}).get("minReadySeconds") or 0,
        "template": {
            "metadata": {
                "labels": labels.to_machine_api(_map(template, "labels")),
                "annotations": annotations.to_machine_api(_map(template, "annotations")),
            }
        },
    }
    return found | ({} if spec.get("replicas") is None else {"replicas": spec["replicas"]})


def select_in_cluster_api(selector: Json) -> dict[str, Any]:
    return {**selector, "matchLabels": labels.to_cluster_api(selector.get("matchLabels") or {})}


def select_in_machine_api(selector: Json) -> dict[str, Any]:
    return {**selector, "matchLabels": labels.to_machine_api(selector.get("matchLabels") or {})}


def mirror_to_cluster_api(
    spec: Json, made_of: infrastructure.Infrastructure, cluster: str, there: Json | None
) -> dict[str, Any]:
    """What the spec of the mirror should be, but for replicas. A selector that is there stays: it cannot be changed."""
    found = to_cluster_api(spec)
    found.pop("replicas", None)
    template, before = found["template"], (there or {}).get("template") or {}
    own = {key: value for key, value in _map(before, "labels").items() if labels.CLUSTER_API in key}
    if there is not None:
        found["selector"] = there.get("selector") or {}
        own |= found["selector"].get("matchLabels") or {}
    template["metadata"]["labels"] = own | template["metadata"]["labels"]
    template["spec"] |= {"clusterName": cluster, **infrastructure.to_machine_spec(made_of)}
    return {**found, "clusterName": cluster}


def mirror_to_machine_api(spec: Json, template: infrastructure.Template, there: Json) -> dict[str, Any]:
    """What the spec of the mirror should be, but for replicas. Selector and authority are its own, and labels of
    Machines and nodes that are there stay. What is said of nodes there is said of nodes, as the holder says it.
    """
    found = to_machine_api(spec)
    for name in ("replicas", "selector"):
        found.pop(name, None)
    before = there.get("template") or {}
    machine_before = before.get("spec") or {}
    machine = (spec.get("template") or {}).get("spec") or {}
    metadata = found["template"]["metadata"]
    on_nodes = {name: _follow(_map(machine_before, name), _map(spec.get("template") or {}, name)) for name in _MAPS}
    for name in _MAPS:
        own = {key: value for key, value in _map(before, name).items() if name == "labels" or key in on_nodes[name]}
        carried = {key: value for key, value in metadata[name].items() if key not in on_nodes[name]}
        metadata[name] = own | carried
    metadata["labels"] |= (there.get("selector") or {}).get("matchLabels") or {}
    value = (machine_before.get("providerSpec") or {}).get("value")
    made_of = infrastructure.to_provider_spec(machine, template, value)
    found["template"]["spec"] = {"providerSpec": {"value": made_of}, "metadata": on_nodes}
    if not found["deletePolicy"]:
        found.pop("deletePolicy")
    return found


def _follow(there: dict[str, str], said: dict[str, str]) -> dict[str, str]:
    """What is there, with other values where others are said."""
    return {key: said.get(key, value) for key, value in there.items()}


def _map(owner: Json, name: str) -> dict[str, str]:
    return dict((owner.get("metadata") or {}).get(name) or {})
