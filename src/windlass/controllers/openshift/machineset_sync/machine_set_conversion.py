"""MachineSet conversion between Machine API and Cluster API: labels, annotations, infrastructure, spec, status. Pure.

Infrastructure is a template reference in Cluster API and inline `providerSpec.value` in Machine API. A value stands for
a template in one of two ways:

    by reference   {apiVersion: infrastructure…/v1, kind: FooMachineTemplate, metadata: {name: workers}}
    by content     {apiVersion: infrastructure…/v1, kind: FooMachineTemplate, spec: {template: {spec: …}}}

with `userDataSecret` and `failureDomain`. A template by content is created, with a name derived from a hash of it.
Labels and annotations of a Machine and of its node are two maps in Machine API and one in Cluster API.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from windlass import errors, selectors
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machineset_sync import model, object_diff
from windlass.kube import time_formats

NODE_ROLE_PREFIX = "node-role.kubernetes.io/"

MACHINE_ROLE_LABEL = "machine.openshift.io/cluster-api-machine-role"

MACHINE_TYPE_LABEL = "machine.openshift.io/cluster-api-machine-type"

COLUMN_LABELS = frozenset(f"machine.openshift.io/{name}" for name in ("instance-type", "region", "zone"))
"""Labels that Machine API sets for kubectl's columns."""

CLUSTER_API_PREFIX = "cluster.x-k8s.io/"

Labels = Mapping[str, str]


def labels_to_cluster_api(labels: Labels) -> dict[str, str]:
    roles = {NODE_ROLE_PREFIX + labels[key]: "" for key in (MACHINE_ROLE_LABEL, MACHINE_TYPE_LABEL) if key in labels}
    return {
        key: value
        for key, value in labels.items()
        if key not in (MACHINE_ROLE_LABEL, MACHINE_TYPE_LABEL) and key not in COLUMN_LABELS
    } | roles


def labels_to_machine_api(labels: Labels) -> dict[str, str]:
    """Labels in Machine API's form. It supports one node role: the first by name."""
    found = {
        key: value
        for key, value in labels.items()
        if CLUSTER_API_PREFIX not in key and not key.startswith(NODE_ROLE_PREFIX)
    }
    if roles := list_node_roles(labels):
        found[MACHINE_ROLE_LABEL] = found[MACHINE_TYPE_LABEL] = roles[0]
    return found


def list_node_roles(labels: Labels) -> list[str]:
    return sorted(key.removeprefix(NODE_ROLE_PREFIX) for key in labels if key.startswith(NODE_ROLE_PREFIX))


def mirror_labels_to_cluster_api(labels: Labels, there: Labels) -> dict[str, str]:
    """Desired labels of a mirror in Cluster API: those of the source, and Cluster API's own."""
    kept = {key: value for key, value in there.items() if CLUSTER_API_PREFIX in key}
    return {**kept, **labels_to_cluster_api(labels)}


def mirror_labels_to_machine_api(labels: Labels, there: Labels) -> dict[str, str]:
    """Desired labels of a mirror in Machine API.

    Role and type labels that differ are kept while they match the roles.
    """
    found = {key: value for key, value in there.items() if key in COLUMN_LABELS} | labels_to_machine_api(labels)
    given = {key: there[key] for key in (MACHINE_ROLE_LABEL, MACHINE_TYPE_LABEL) if key in there}
    if given and sorted(set(given.values())) == list_node_roles(labels):
        found = {
            key: value for key, value in found.items() if key not in (MACHINE_ROLE_LABEL, MACHINE_TYPE_LABEL)
        } | given
    return found


INSTANCE_STATE_ANNOTATION = "machine.openshift.io/instance-state"

LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's record of one object does not apply to the other."""

_EQUIVALENT_KEYS = (
    (machine_apis.MACHINE_API.min_size, machine_apis.CLUSTER_API.min_size),
    (machine_apis.MACHINE_API.max_size, machine_apis.CLUSTER_API.max_size),
    (machine_apis.MACHINE_API.delete_machine, machine_apis.CLUSTER_API.delete_machine),
)

_CLUSTER_API_KEYS = dict(_EQUIVALENT_KEYS)

_MACHINE_API_KEYS = {theirs: ours for ours, theirs in _EQUIVALENT_KEYS}

_BOUNDS_ANNOTATIONS = (machine_apis.MACHINE_API.min_size, machine_apis.MACHINE_API.max_size)

Annotations = Mapping[str, str]


def annotations_to_cluster_api(annotations: Annotations) -> dict[str, str]:
    """Annotations in Cluster API's form, without the paused annotation. Invalid capacities are not translated."""
    found = {}
    for key, value in annotations.items():
        if key in (INSTANCE_STATE_ANNOTATION, LAST_APPLIED_ANNOTATION, machine_apis.PAUSED_ANNOTATION):
            continue
        if key in _BOUNDS_ANNOTATIONS:
            found[key] = value
        found[annotation_key(key, machine_apis.CLUSTER_API)] = value
    return found | _translate_valid_capacity(annotations)


def annotations_to_machine_api(annotations: Annotations) -> dict[str, str]:
    found = {}
    for key, value in annotations.items():
        if key in _MACHINE_API_KEYS:
            found[_MACHINE_API_KEYS[key]] = value
        elif CLUSTER_API_PREFIX not in key and key not in (*_BOUNDS_ANNOTATIONS, LAST_APPLIED_ANNOTATION):
            found[key] = value
    return found


def annotation_key(key: str, api: machine_apis.MachineApi) -> str:
    """The key of an annotation in another API."""
    spelled = _CLUSTER_API_KEYS if api is machine_apis.CLUSTER_API else _MACHINE_API_KEYS
    return spelled.get(key, key)


def is_api_specific(key: str, api: machine_apis.MachineApi) -> bool:
    """True if an annotation concerns one API alone and is not mirrored."""
    if key == LAST_APPLIED_ANNOTATION:
        return True
    if api is machine_apis.CLUSTER_API:
        return CLUSTER_API_PREFIX in key and key not in _MACHINE_API_KEYS and key != machine_apis.PAUSED_ANNOTATION
    return key == INSTANCE_STATE_ANNOTATION


def is_scaling_annotation(key: str) -> bool:
    """True for annotations that the autoscaler reads, in either API's keys: bounds, owner, capacities."""
    return (
        annotation_key(key, machine_apis.MACHINE_API) in (*_BOUNDS_ANNOTATIONS, machine_apis.OWNER_ANNOTATION)
        or key in machine_apis.OPENSHIFT_CAPACITY_ANNOTATIONS
        or key.startswith(machine_apis.CAPACITY_PREFIX)
    )


def list_invalid_capacity(annotations: Annotations) -> list[str]:
    """Errors of capacity annotations that cannot be translated."""
    return [
        complaint
        for key in machine_apis.OPENSHIFT_CAPACITY_ANNOTATIONS
        if (complaint := _capacity_error(annotations, key))
    ]


def _translate_valid_capacity(annotations: Annotations) -> dict[str, str]:
    readable = {key: value for key, value in annotations.items() if not _capacity_error(annotations, key)}
    return machine_apis.translate_capacity(readable)


def _capacity_error(annotations: Annotations, key: str) -> str:
    """The error in one of OpenShift's capacity annotations; empty if it is valid or not needed."""
    if key not in machine_apis.OPENSHIFT_CAPACITY_ANNOTATIONS or key not in annotations:
        return ""
    others = {
        name: value for name, value in annotations.items() if name not in machine_apis.OPENSHIFT_CAPACITY_ANNOTATIONS
    }
    try:
        machine_apis.translate_capacity({**others, key: annotations[key]})
    except machine_apis.InvalidCapacityAnnotation as error:
        return str(error)
    return ""


_TEMPLATE_HASH_CHARS = 10

_MAX_NAME_CHARS = 253

_TEMPLATE_SUFFIX = "Template"


class ConversionError(errors.WindlassError):
    """An object cannot be expressed in the other API."""


def is_foreign_provider_spec(value: model.Json | None) -> bool:
    """True for a provider spec of a cloud provider, which has no template form."""
    return bool(value) and not str((value or {}).get("kind") or "").endswith(_TEMPLATE_SUFFIX)


def parse_infrastructure(machine_set: str, value: model.Json | None) -> model.MachineInfrastructure:
    """Parse `providerSpec.value`. ConversionError if it stands for no template."""
    at = "spec.template.spec.providerSpec.value"
    if not value:
        raise ConversionError(f"{at}: Required value")
    kind, version = value.get("kind") or "", value.get("apiVersion") or ""
    if is_foreign_provider_spec(value) or "/" not in version:
        raise ConversionError(
            f'{at}: Invalid value: "{version} {kind}": expected the kind of a template of Cluster API'
        )
    name, spec = (value.get("metadata") or {}).get("name") or "", value.get("spec")
    if bool(name) == bool(spec):
        raise ConversionError(f"{at}: Invalid value: expected one of metadata.name and spec")
    return model.MachineInfrastructure(
        version,
        kind,
        name or template_name(machine_set, spec or {}),
        None if name else spec,
        (value.get("userDataSecret") or {}).get("name") or "",
        value.get("failureDomain") or "",
    )


def template_name(machine_set: str, spec: model.Json) -> str:
    """The name of a template, derived from its content."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_TEMPLATE_HASH_CHARS]
    return f"{machine_set[: _MAX_NAME_CHARS - _TEMPLATE_HASH_CHARS - 1]}-{digest}"


def build_template(
    machine_set: str, machine_infrastructure: model.MachineInfrastructure, namespace: str, owner: model.Json
) -> dict[str, Any]:
    """The template of a MachineSet."""
    labels = {model.SET_LABEL: machine_set}
    metadata = {
        "name": machine_infrastructure.name,
        "namespace": namespace,
        "labels": labels,
        "ownerReferences": [dict(owner)],
    }
    return {
        "apiVersion": machine_infrastructure.api_version,
        "kind": machine_infrastructure.kind,
        "metadata": metadata,
        "spec": dict(machine_infrastructure.spec or {}),
    }


def infrastructure_to_machine_spec(machine_infrastructure: model.MachineInfrastructure) -> dict[str, Any]:
    """Infrastructure fields of a Machine's spec in Cluster API; empty if unknown."""
    spec: dict[str, Any] = {
        "infrastructureRef": {
            "apiGroup": machine_infrastructure.group,
            "kind": machine_infrastructure.kind,
            "name": machine_infrastructure.name,
        }
    }
    spec |= (
        {"bootstrap": {"dataSecretName": machine_infrastructure.user_data_secret}}
        if machine_infrastructure.user_data_secret
        else {}
    )
    return spec | (
        {"failureDomain": machine_infrastructure.failure_domain} if machine_infrastructure.failure_domain else {}
    )


def template_to_provider_spec(
    machine: model.Json, template: model.InfrastructureTemplate, before: model.Json | None
) -> dict[str, Any]:
    """`providerSpec.value` of a Machine of Cluster API, by content or by reference as before.

    A cloud provider's spec is kept unchanged.
    """
    if before and is_foreign_provider_spec(before):
        return dict(before)
    value: dict[str, Any] = {"apiVersion": template.api_version, "kind": template.kind}
    if before and "spec" in before:
        value["spec"] = dict(template.spec)
    else:
        value["metadata"] = {"name": template.name}
    secret = (machine.get("bootstrap") or {}).get("dataSecretName") or ""
    domain = machine.get("failureDomain") or ""
    value |= {"userDataSecret": {"name": secret}} if secret else {}
    return value | ({"failureDomain": domain} if domain else {})


Json = Mapping[str, Any]

_UNSUPPORTED_METADATA = ("name", "generateName", "namespace")

RANDOM_DELETE_POLICY = "Random"

_METADATA_MAPS = ("labels", "annotations")


def list_unsupported_fields(machine_set: Json) -> list[str]:
    """Fields of a MachineSet of Machine API that Cluster API lacks."""
    template = (machine_set.get("spec") or {}).get("template") or {}
    machine = template.get("spec") or {}
    found = [
        *_list_unsupported_metadata("spec.metadata", machine),
        *_list_unsupported_metadata("spec.template.metadata", template),
    ]
    if machine.get("taints"):
        found.append(f"spec.taints: Invalid value: {machine['taints']}: taints are not currently supported")
    return found


def _list_unsupported_metadata(at: str, owner: Json) -> list[str]:
    metadata = owner.get("metadata") or {}
    given = [name for name in _UNSUPPORTED_METADATA if metadata.get(name)]
    return [f'{at}.{name}: Invalid value: "{metadata[name]}": {name} is not supported' for name in given]


def spec_to_cluster_api(spec: Json) -> dict[str, Any]:
    """The spec in Cluster API's form, without infrastructure and cluster name."""
    template = spec.get("template") or {}
    machine = template.get("spec") or {}
    found: dict[str, Any] = {
        "selector": selector_to_cluster_api(spec.get("selector") or {}),
        "deletion": {"order": spec.get("deletePolicy") or RANDOM_DELETE_POLICY},
        "template": {
            "metadata": {
                "labels": labels_to_cluster_api(_metadata_map(template, "labels")) | _metadata_map(machine, "labels"),
                "annotations": annotations_to_cluster_api(_metadata_map(template, "annotations"))
                | _metadata_map(machine, "annotations"),
            },
            "spec": {"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {},
        },
    }
    return found | ({} if spec.get("replicas") is None else {"replicas": spec["replicas"]})


def spec_to_machine_api(spec: Json) -> dict[str, Any]:
    template = spec.get("template") or {}
    found: dict[str, Any] = {
        "selector": selector_to_machine_api(spec.get("selector") or {}),
        "deletePolicy": (spec.get("deletion") or {}).get("order") or "",
        "minReadySeconds": (template.get("spec") or {}).get("minReadySeconds") or 0,
        "template": {
            "metadata": {
                "labels": labels_to_machine_api(_metadata_map(template, "labels")),
                "annotations": annotations_to_machine_api(_metadata_map(template, "annotations")),
            }
        },
    }
    return found | ({} if spec.get("replicas") is None else {"replicas": spec["replicas"]})


def selector_to_cluster_api(selector: Json) -> dict[str, Any]:
    return {**selector, "matchLabels": labels_to_cluster_api(selector.get("matchLabels") or {})}


def selector_to_machine_api(selector: Json) -> dict[str, Any]:
    return {**selector, "matchLabels": labels_to_machine_api(selector.get("matchLabels") or {})}


def mirror_spec_to_cluster_api(
    spec: Json, made_of: model.MachineInfrastructure, cluster: str, there: Json | None
) -> dict[str, Any]:
    """Desired spec of a mirror in Cluster API, without replicas.

    An existing selector is kept, since it is immutable.
    """
    found = spec_to_cluster_api(spec)
    found.pop("replicas", None)
    template, before = found["template"], (there or {}).get("template") or {}
    own = {key: value for key, value in _metadata_map(before, "labels").items() if CLUSTER_API_PREFIX in key}
    if there is not None:
        found["selector"] = there.get("selector") or {}
    # Labels of nodes may have the keys of Machines'. Cluster API refuses a template that its selector does not match.
    selected = found["selector"].get("matchLabels") or {}
    template["metadata"]["labels"] = own | template["metadata"]["labels"] | selected
    template["spec"] |= {"clusterName": cluster, **infrastructure_to_machine_spec(made_of)}
    return {**found, "clusterName": cluster}


def mirror_spec_to_machine_api(spec: Json, template: model.InfrastructureTemplate, there: Json) -> dict[str, Any]:
    """Desired spec of a mirror in Machine API, without replicas.

    Selector, authority, and existing labels of Machines and Nodes are kept.
    """
    found = spec_to_machine_api(spec)
    for name in ("replicas", "selector"):
        found.pop(name, None)
    before = there.get("template") or {}
    machine_before = before.get("spec") or {}
    machine = (spec.get("template") or {}).get("spec") or {}
    metadata = found["template"]["metadata"]
    on_nodes = {
        name: _override_values(_metadata_map(machine_before, name), _metadata_map(spec.get("template") or {}, name))
        for name in _METADATA_MAPS
    }
    for name in _METADATA_MAPS:
        own = {
            key: value
            for key, value in _metadata_map(before, name).items()
            if name == "labels" or key in on_nodes[name]
        }
        carried = {key: value for key, value in metadata[name].items() if key not in on_nodes[name]}
        metadata[name] = own | carried
    metadata["labels"] |= (there.get("selector") or {}).get("matchLabels") or {}
    value = (machine_before.get("providerSpec") or {}).get("value")
    made_of = template_to_provider_spec(machine, template, value)
    found["template"]["spec"] = {"providerSpec": {"value": made_of}, "metadata": on_nodes}
    if not found["deletePolicy"]:
        found.pop("deletePolicy")
    return found


def _override_values(there: dict[str, str], values: dict[str, str]) -> dict[str, str]:
    """The live values, overridden by desired ones."""
    return {key: values.get(key, value) for key, value in there.items()}


def _metadata_map(owner: Json, name: str) -> dict[str, str]:
    return dict((owner.get("metadata") or {}).get(name) or {})


def status_to_cluster_api(machine_set: Json, selector: Json) -> dict[str, Any]:
    """Status in Cluster API's form, without observedGeneration and transition times."""
    status = machine_set.get("status") or {}
    desired = (machine_set.get("spec") or {}).get("replicas")
    desired = 1 if desired is None else desired
    made, ready = status.get("replicas") or 0, status.get("readyReplicas") or 0
    labelled, available = status.get("fullyLabeledReplicas") or 0, status.get("availableReplicas") or 0
    old = {
        "fullyLabeledReplicas": labelled,
        "readyReplicas": ready,
        "availableReplicas": available,
        "conditions": _v1beta1_conditions(made == desired, ready == desired),
        "failureReason": status.get("errorReason"),
        "failureMessage": status.get("errorMessage"),
    }
    found: dict[str, Any] = {
        "replicas": made,
        "readyReplicas": ready or None,
        "availableReplicas": available or None,
        "upToDateReplicas": 0,
        "selector": format_selector(selector),
        "deprecated": {"v1beta1": _without_none(old)},
        "conditions": [
            _v1beta2_condition("Deleting", bool((machine_set.get("metadata") or {}).get("deletionTimestamp"))),
            _v1beta2_condition("MachinesReady", ready == desired, "Ready", "NotReady"),
            _v1beta2_condition("MachinesUpToDate", labelled == desired, "UpToDate", "NotUpToDate"),
            _v1beta2_condition("ScalingDown", desired < made),
            _v1beta2_condition("ScalingUp", desired > made),
        ],
    }
    return _without_none(found)


def status_to_machine_api(status: Json) -> dict[str, Any]:
    """Status in Machine API's form, without observedGeneration; conditions are Machine API's own."""
    old = (status.get("deprecated") or {}).get("v1beta1") or {}
    return {
        "replicas": status.get("replicas") or 0,
        "fullyLabeledReplicas": old.get("fullyLabeledReplicas") or 0,
        "readyReplicas": old.get("readyReplicas") or 0,
        "availableReplicas": old.get("availableReplicas") or 0,
        "errorReason": old.get("failureReason"),
        "errorMessage": old.get("failureMessage"),
    }


def format_selector(selector: Json) -> str:
    """The selector as a string, sorted by key; empty if it selects everything."""
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [(item["key"], _format_expression(item)) for item in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(parts))


def _format_expression(expression: Json) -> str:
    key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
    match expression["operator"]:
        case selectors.Operator.EXISTS:
            return str(key)
        case selectors.Operator.DOES_NOT_EXIST:
            return f"!{key}"
        case selectors.Operator.NOT_IN:
            return f"{key} notin ({values})"
    return f"{key} in ({values})"


def set_transition_times(desired: Iterable[Json], there: Iterable[Json], now_s: float) -> list[dict[str, Any]]:
    """Set transition times; conditions of the mirror's own controllers are kept."""
    before = {item.get("type"): item for item in there}
    found = []
    for entry in desired:
        old = before.pop(entry["type"], {})
        since = old.get("lastTransitionTime") if old.get("status") == entry["status"] else None
        found.append({**entry, "lastTransitionTime": since or time_formats.format_time(now_s)})
    kept = [dict(each) for each in before.values() if each.get("type") in object_diff.CLUSTER_API_OWN_CONDITIONS]
    return sorted([*found, *kept], key=lambda each: str(each["type"]))


def _v1beta1_conditions(is_made: bool, is_ready: bool) -> list[dict[str, Any]]:
    held = {"MachinesCreated": is_made, "MachinesReady": is_ready, "Ready": is_made and is_ready, "Resized": is_made}
    return [{"type": kind, "status": str(holds)} for kind, holds in held.items()]


def _v1beta2_condition(kind: str, holds: bool, reason: str = "", otherwise: str = "") -> dict[str, Any]:
    text = (reason or kind) if holds else (otherwise or f"Not{kind}")
    return {"type": kind, "status": str(holds), "reason": text, "message": ""}


def _without_none(fields: Json) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
